import { createHash, randomUUID } from 'node:crypto';
import type { Attempt, Claim, Failure, Uncertainty } from '../../core/moves.ts';
import { defaultPolicy, expiryAfter } from '../../core/policy.ts';
import type {
  Accepted,
  Completed,
  Due,
  Effects,
  EpochMs,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Reply,
  Unknown,
} from '../../core/record.ts';
import type { Ledger, ReplyDeferral, ReplyOutcome, Reuse } from '../../ledger/ledger.ts';
import { dueShard } from '../../ledger/schema.ts';

/** What the suite needs to try a ledger: a fresh one, or one on a table that others use too. */
export type LedgerFactory = (clock: () => EpochMs) => Ledger<unknown> | Promise<Ledger<unknown>>;

export interface ContractCase {
  /** A promise, in words. */
  readonly name: string;
  run(create: LedgerFactory): Promise<void>;
}

/** An arbitrary afternoon; every time of a case is relative to it, and nothing waits. */
export const START: EpochMs = Date.UTC(2030, 0, 15, 12);
export const SECOND = 1_000;
export const SKEW_MS = defaultPolicy.skewMs;
export const LEASE_MS = 30 * SECOND;

export const execute: Reuse = { afterExpiry: 'execute', skewMs: SKEW_MS };
export const gone: Reuse = { afterExpiry: 'gone', skewMs: SKEW_MS };

export interface Stage {
  readonly ledger: Ledger<unknown>;
  /** Moves the clock that the ledger looks at. */
  setNow(now: EpochMs): void;
}

export function contractCase(name: string, run: (stage: Stage) => Promise<void>): ContractCase {
  return {
    name,
    async run(create) {
      let now = START;
      const ledger = await create(() => now);
      await run({
        ledger,
        setNow(next) {
          now = next;
        },
      });
    },
  };
}

export function claimOf(overrides: Partial<Claim> = {}): Claim {
  return {
    pk: `pk-${randomUUID()}`,
    tenant: 'tenant-1',
    operation: 'POST /payments',
    fingerprint: 'v1:fingerprint',
    effects: 'transactional',
    operationId: randomUUID(),
    owner: randomUUID(),
    now: START,
    leaseUntil: START + LEASE_MS,
    ...overrides,
  };
}

export function attemptAt(now: EpochMs, effects: Effects = 'transactional'): Attempt {
  return { owner: randomUUID(), effects, now, leaseUntil: now + LEASE_MS };
}

export function replyOf(text: string, status = 201): Reply {
  const headers = [
    ['content-type', 'application/json'],
    ['location', '/payments/1'],
  ] as const;
  return { status, headers, body: new TextEncoder().encode(text), base64: false };
}

/** Bytes that do not compress, the same on every run. */
export function noise(length: number): Uint8Array {
  return new Uint8Array(createHash('shake256', { outputLength: length }).digest());
}

export function outcomeAt(now: EpochMs, text = '{"paid":true}', status = 201): ReplyOutcome {
  return { now, reply: replyOf(text, status), outbox: [], ...expiryAfter(defaultPolicy, now) };
}

export function deferralAt(now: EpochMs): ReplyDeferral {
  return {
    now,
    reply: replyOf('{"pending":true}', 202),
    outbox: [{ type: 'charge', payload: '{"amount":1}' }],
  };
}

export function failureAt(now: EpochMs): Failure {
  return { now, errorCode: 'handler_threw', ...expiryAfter(defaultPolicy, now) };
}

export function dueOf(pk: string, at: EpochMs): Due {
  return { shard: dueShard(pk), at };
}

export function doubtAt(pk: string, now: EpochMs): Uncertainty {
  return { now, errorCode: 'handler_threw', due: dueOf(pk, now + 30 * SECOND) };
}

/** After the first lease of a claim made at START, skew included. */
export const LAPSED: EpochMs = START + LEASE_MS + SKEW_MS + 1;

export async function inProgress(
  ledger: Ledger<unknown>,
  overrides: Partial<Claim> = {},
): Promise<InProgress> {
  const reserved = await ledger.reserve(claimOf(overrides), execute);
  if (reserved.kind !== 'owned') throw new Error(`a new key was ${reserved.kind}`);
  return reserved.record;
}

/** The record that a move produced; a move that was fenced out fails the case. */
export function movedRecord<R extends LedgerRecord>(result: {
  readonly kind: string;
  readonly record?: LedgerRecord | undefined;
}): R {
  if (result.kind !== 'moved' && result.kind !== 'owned') {
    throw new Error(`expected the move to happen, but it was ${result.kind} by ${result.record?.status}`);
  }
  return result.record as R;
}

export async function completedBy(
  ledger: Ledger<unknown>,
  mine: InProgress,
  outcome = outcomeAt(mine.lastRunAt),
): Promise<Completed> {
  return movedRecord(await ledger.complete(mine, outcome));
}

export async function acceptedBy(ledger: Ledger<unknown>, mine: InProgress): Promise<Accepted> {
  return movedRecord(await ledger.accept(mine, deferralAt(mine.lastRunAt)));
}

export async function failedBy(ledger: Ledger<unknown>, mine: InProgress): Promise<FailedRetryable> {
  return movedRecord(await ledger.release(mine, failureAt(mine.lastRunAt)));
}

export async function unknownBy(ledger: Ledger<unknown>, mine: InProgress): Promise<Unknown> {
  return movedRecord(await ledger.markUnknown(mine, doubtAt(mine.pk, mine.lastRunAt)));
}

export async function unknownAfterAccept(ledger: Ledger<unknown>, accepted: Accepted): Promise<Unknown> {
  const target = { to: 'unknown', ...doubtAt(accepted.pk, START + SECOND) } as const;
  return movedRecord(await ledger.settleAccepted(accepted, target));
}
