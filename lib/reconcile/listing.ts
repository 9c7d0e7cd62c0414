import { eachOf } from '../core/each-of.ts';
import { RecordUnreadable } from '../core/errors.ts';
import { type EpochMs, isOpen, type LedgerRecord, type Status } from '../core/record.ts';
import { requireBoolean, requireKnown, requireOneOf, requireWhole } from '../effects/option-checks.ts';
import type { DuePage, Ledger } from '../ledger/ledger.ts';
import { dueShards } from '../ledger/schema.ts';

export interface Listing {
  readonly status?: Status;
  /** Only those that wait for a person. */
  readonly parked?: boolean;
  /** Only those that were reserved so long ago. */
  readonly olderThanMs?: number;
  readonly limit?: number;
}

/** There is one, and this release cannot read it. What it is, and how old, nobody can tell: no filter leaves it out. */
export interface UnreadableRecord {
  readonly pk: string;
  readonly status: 'unreadable';
  readonly reason: string;
}

export type Listed = LedgerRecord | UnreadableRecord;

const LISTING = ['status', 'parked', 'olderThanMs', 'limit'] as const satisfies readonly (keyof Listing)[];
const STATUSES: readonly Status[] = ['in_progress', 'accepted', 'completed', 'failed_retryable', 'unknown'];

const LIST_LIMIT = 100;
/** Of one shard at a time, and of records. A person waits for it, so it may ask for several at once. */
const PAGE = 50;
const CONCURRENCY = 8;

/** What is open and watched, oldest due first, however much of it there is. */
export async function listOpen(
  ledger: Pick<Ledger<unknown>, 'due' | 'read'>,
  now: EpochMs,
  what: Listing = {},
): Promise<readonly Listed[]> {
  requireKnown(what, LISTING, 'list()');
  requireOneOf(what, 'status', STATUSES);
  requireBoolean(what, 'parked');
  requireWhole(what, 'olderThanMs', 0);
  requireWhole(what, 'limit', 1);
  const { status, parked, olderThanMs = 0, limit = LIST_LIMIT } = what;
  const wanted = (record: Listed) =>
    record.status === 'unreadable' ||
    (isOpen(record) &&
      (status === undefined || record.status === status) &&
      now - record.createdAt >= olderThanMs);
  const next = await inOrder(ledger, [...(parked ? [] : dueShards()), ...dueShards('parked')]);
  const seen = new Set<string>(); // The index lags: one that was just parked may still be in both places.
  const found: Listed[] = [];
  while (found.length < limit) {
    const batch = await next(PAGE);
    if (batch.length === 0) break;
    const fresh = batch.filter((pk) => !seen.has(pk) && seen.add(pk));
    const read = new Map<string, Listed | undefined>();
    await eachOf(fresh, CONCURRENCY, async (pk) => {
      read.set(pk, await listed(ledger, pk));
    });
    found.push(...fresh.flatMap((pk) => read.get(pk) ?? []).filter(wanted));
  }
  return found.slice(0, limit);
}

/** One that cannot be read is shown as that: it must not hide the others, and somebody has to look at it. */
export async function listed(ledger: Pick<Ledger<unknown>, 'read'>, pk: string): Promise<Listed | undefined> {
  try {
    return await ledger.read(pk);
  } catch (error) {
    if (!(error instanceof RecordUnreadable)) throw error;
    return { pk, status: 'unreadable', reason: error.message };
  }
}

interface Shard {
  readonly name: string;
  entries: DuePage['entries'][number][];
  next: string | undefined;
}

/** The entries of all shards in one order. Each has its own, so only their first ones need to be compared. */
async function inOrder(ledger: Pick<Ledger<unknown>, 'due'>, names: readonly string[]) {
  const turn = async (shard: Shard) => {
    do {
      const page = await ledger.due(shard.name, Number.MAX_SAFE_INTEGER, PAGE, shard.next);
      Object.assign(shard, { entries: [...page.entries], next: page.next });
    } while (shard.entries.length === 0 && shard.next !== undefined);
  };
  const shards: Shard[] = names.map((name) => ({ name, entries: [], next: undefined }));
  await eachOf(shards, CONCURRENCY, turn);

  return async function take(count: number): Promise<readonly string[]> {
    const taken: string[] = [];
    while (taken.length < count) {
      const [oldest] = shards
        .filter(({ entries }) => entries.length > 0)
        .sort((left, right) => (left.entries[0]?.at ?? 0) - (right.entries[0]?.at ?? 0));
      const entry = oldest?.entries.shift();
      if (!oldest || !entry) break;
      taken.push(entry.pk);
      if (oldest.entries.length === 0 && oldest.next !== undefined) await turn(oldest);
    }
    return taken;
  };
}
