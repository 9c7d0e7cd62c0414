import { randomUUID } from 'node:crypto';
import { InvalidArgument, OncekeyError } from '../core/errors.ts';
import { expiryAfter } from '../core/policy.ts';
import { type EpochMs, isOpen, type LedgerRecord, type Status } from '../core/record.ts';
import {
  expiryOf,
  OPERATION_OPTIONS,
  type OperationOptions,
  reconciledPolicies,
} from '../effects/operations.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { erasedHeaders } from '../http/erased.ts';
import type { AuditEntry, Audited, Ledger, Moved } from '../ledger/ledger.ts';
import { dueShard, dueShards } from '../ledger/schema.ts';
import { openDelivery, storableReply, verdicts } from './verdicts.ts';

export interface OperatorOptions<W = unknown> extends OperationOptions {
  readonly ledger: Ledger<W>;
  /** The same that the functions are given. */
  readonly operations?: Readonly<Record<string, OperationOptions>>;
  readonly clock?: () => EpochMs;
  readonly newId?: () => string;
}

/** Who moves a record by hand, and on what evidence. Both are kept for 400 days. */
export interface Signature {
  readonly who: string;
  readonly why: string;
}

export interface Listing {
  readonly status?: Status;
  /** Only those that wait for a person. */
  readonly parked?: boolean;
  /** Only those that were reserved so long ago. */
  readonly olderThanMs?: number;
  readonly limit?: number;
}

export interface Inspection {
  readonly record: LedgerRecord | undefined;
  readonly audits: readonly AuditEntry[];
}

export interface Operator {
  /** A record with what was done to it by hand, which may be all that is left. */
  inspect(operationRef: string): Promise<Inspection>;
  /** What is open and watched, oldest due first. A request that is just running is not among it. */
  list(what?: Listing): Promise<readonly LedgerRecord[]>;
  /** It happened: with the response of the operation, or with the result of its open effect, or of the step that is named. */
  settleExecuted(operationRef: string, by: Signature, result?: unknown, step?: string): Promise<LedgerRecord>;
  /** It did not happen, which can be known only once nothing can be on its way any more. */
  settleNotExecuted(operationRef: string, by: Signature): Promise<LedgerRecord>;
  /** A stored failure is no longer replayed: the next request with its key runs. Never of what was successful. */
  release(operationRef: string, by: Signature): Promise<LedgerRecord>;
  /** Back where the sweep looks, with all its tries: an outbox to be delivered, steps to be resumed, a resolver to be asked. */
  redrive(operationRef: string, by: Signature): Promise<LedgerRecord>;
  /**
   * Takes out the stored body of what is finished, and what its steps returned. Its key stays as protected as before: a
   * replay has the stored status, no body, and `Idempotency-Erased`. Again is fine, and finishes what a crash left.
   */
  erase(operationRef: string, by: Signature): Promise<LedgerRecord>;
}

/** The move is not legal for the record as it is. The message says why, and what is. */
export class IllegalMove extends OncekeyError {
  override readonly remedy = 'inspect-record';
}

const OPTIONS = [
  ...OPERATION_OPTIONS,
  'ledger',
  'operations',
  'clock',
  'newId',
] as const satisfies readonly (keyof OperatorOptions)[];

const LIST_LIMIT = 100;
const PAGE = 50;

/** What a person may do with a record. Each move is fenced, signed, and refused with the reason where it is not legal. */
export function operator<W>(options: OperatorOptions<W>): Operator {
  requireOptions(options, 'operator()');
  requireKnown(options, OPTIONS, 'operator()');
  requireLedger(options.ledger, 'operator()', ['read', 'settle', 'audits', 'due']);
  requireFunctions(options, ['clock', 'newId']);
  const { ledger, operations, clock = Date.now, newId = randomUUID } = options;
  const policyOf = reconciledPolicies('operator()', options, operations);
  const { settlesAt, executedTo, notExecutedTo } = verdicts({ policyOf, clock, newId });

  return {
    async inspect(pk) {
      const [record, audits] = [await ledger.read(pk), await ledger.audits(pk)];
      return { record, audits };
    },

    list,

    async settleExecuted(pk, by, result, step) {
      const signed = signature(by, 'settle as executed');
      const record = await existing(pk);
      if (record.status === 'accepted') {
        const open = openDelivery({ accepted: record.accepted });
        if (open && open.index < open.last) {
          throw illegal(record, 'it has more events to deliver after the one in doubt, which would be lost');
        }
        const reply = storableReply(result);
        const now = clock();
        const expiry = expiryOf(policyOf(record.operation), reply, now);
        return made(
          record,
          await ledger.settleAccepted(record, { to: 'completed', now, reply, ...expiry }, signed),
        );
      }
      if (record.status !== 'unknown')
        throw illegal(record, 'only what is unknown or accepted can be settled');
      const target = executedTo(record, result, step);
      if (!target) throw illegal(record, 'none of its effects is open; name the step that has happened');
      return made(record, await ledger.settle(record, target, signed));
    },

    async settleNotExecuted(pk, by) {
      const signed = signature(by, 'settle as not executed');
      const record = await existing(pk);
      if (record.status !== 'unknown') throw illegal(record, 'only what is unknown can be settled');
      const settledAt = settlesAt(record);
      if (clock() < settledAt) {
        const when = new Date(settledAt).toISOString();
        throw illegal(
          record,
          `a request of its last attempt may still be on its way until ${when}; come back then`,
        );
      }
      return made(record, await ledger.settle(record, notExecutedTo(record), signed));
    },

    async release(pk, by) {
      const signed = signature(by, 'release a stored failure');
      const record = await existing(pk);
      if (record.status !== 'completed' || record.outbox)
        throw illegal(record, 'only a completed one can be released');
      const { status } = record.response;
      if (status >= 200 && status < 300)
        throw illegal(record, `it was successful (${status}), so it would happen twice`);
      const now = clock();
      const failure = { now, errorCode: 'released', ...expiryAfter(policyOf(record.operation).policy, now) };
      return made(record, await ledger.reopen(record, failure, signed));
    },

    async redrive(pk, by) {
      const signed = signature(by, 'redrive');
      const record = await existing(pk);
      if (!isOpen(record)) throw illegal(record, 'nothing of it is open');
      return made(record, await ledger.watch(record, { shard: dueShard(pk), at: clock() }, signed));
    },

    async erase(pk, by) {
      const signed = signature(by, 'erase the stored body');
      const record = await existing(pk);
      if (record.status === 'failed_retryable') throw illegal(record, 'it has no answer that is stored');
      if (record.status !== 'completed')
        throw illegal(record, 'what is stored of it is evidence of an open outcome; settle it first');
      if (record.outbox) throw illegal(record, 'its events are not all delivered; deliver them first');
      const now = clock();
      const erasure = { now, headers: erasedHeaders(record.response.headers, now) };
      return made(record, await ledger.erase(record, erasure, signed));
    },
  };

  async function list({ status, parked, olderThanMs = 0, limit = LIST_LIMIT }: Listing = {}) {
    const now = clock();
    const shards = [...(parked ? [] : dueShards()), ...dueShards('parked')];
    const found: LedgerRecord[] = [];
    for (const shard of shards) {
      let next: string | undefined;
      do {
        const page = await ledger.due(shard, Number.MAX_SAFE_INTEGER, PAGE, next);
        for (const { pk } of page.entries) {
          const record = await ledger.read(pk);
          const wanted = record && (status === undefined || record.status === status);
          if (wanted && now - record.createdAt >= olderThanMs) found.push(record);
        }
        next = page.next;
      } while (next !== undefined && found.length < limit);
    }
    return found.toSorted((left, right) => dueAt(left) - dueAt(right)).slice(0, limit);
  }

  async function existing(pk: string): Promise<LedgerRecord> {
    const record = await ledger.read(pk);
    if (record) return record;
    throw new IllegalMove(
      `There is no record ${pk}. It may have expired; its audit entries may still be there.`,
    );
  }

  function signature({ who, why }: Signature, move: string): Audited {
    for (const [name, text] of Object.entries({ who, why })) {
      if (typeof text === 'string' && text.trim() !== '') continue;
      throw new InvalidArgument(
        `To ${move} needs ${name}: it is kept with the record, for whoever asks later.`,
      );
    }
    return { audit: { at: clock(), id: newId(), who, why, move } };
  }
}

/** The ledger has the last word: its conditions may know more than what was read. */
function made(from: LedgerRecord, result: Moved<LedgerRecord>): LedgerRecord {
  if (result.kind === 'moved') return result.record;
  const now = result.record?.status ?? 'gone';
  throw new IllegalMove(
    `The record ${from.pk} did not allow it: it is ${now} now. Somebody may have changed it since it was read, or the move is not legal for it; inspect it again. Nothing was changed.`,
  );
}

function illegal(record: LedgerRecord, why: string): IllegalMove {
  return new IllegalMove(`The record ${record.pk} is ${record.status}: ${why}. Nothing was changed.`);
}

function dueAt(record: LedgerRecord): EpochMs {
  return 'due' in record && record.due ? record.due.at : 0;
}
