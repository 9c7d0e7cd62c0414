import type { Outcome } from './answer.ts';
import type { StreamRecord } from './record.ts';

/** Lambda's names for it, in what it writes to the destination. */
type GivenUp = 'RetryAttemptsExhausted' | 'RecordAgeExceeded';

/** Records that are sent together, or given up together. */
export interface Batch {
  readonly lane: number;
  readonly records: readonly StreamRecord[];
  /** How often a function was invoked with these records, and maybe more beside them. */
  readonly invocations: number;
  /** What of that counts against the retries. */
  readonly failures: number;
  /** Tries that ended badly, since the last that did not: each doubles the pause. */
  readonly setbacks: number;
  readonly notBefore: number;
  readonly functionError?: 'Unhandled';
  /** Not sent again, but kept for somebody to look at. */
  readonly givenUp?: GivenUp;
}

export interface RetryRules {
  readonly bisects: boolean;
  readonly retries: number;
  readonly maxAgeMs: number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

export function firstTry(lane: number, records: readonly StreamRecord[]): Batch {
  return { lane, records, invocations: 0, failures: 0, setbacks: 0, notBefore: 0 };
}

/** What is left of a batch after a try, in the order in which it is to be done. */
export function leftOf(batch: Batch, outcome: Outcome, rules: RetryRules, now: number): readonly Batch[] {
  if (outcome.kind === 'done') return [];
  if (outcome.kind === 'notInvoked') return [later(batch, rules, now)];
  const { functionError, ...before } = batch;
  const tried: Batch = { ...before, invocations: batch.invocations + 1 };
  if (outcome.kind === 'doneBefore') return leftFrom(outcome.from, tried, rules, now);
  const failed: Batch = { ...tried, ...(outcome.functionError && { functionError: outcome.functionError }) };
  return rules.bisects && batch.records.length > 1 ? halves(failed, rules, now) : again(failed, rules, now);
}

/** Splitting a batch costs no retry, says Lambda, and so also not the split at the place that the function reports. */
function leftFrom(from: number, tried: Batch, rules: RetryRules, now: number): readonly Batch[] {
  const left: Batch = { ...tried, records: tried.records.slice(from) };
  const isSplit = rules.bisects && from > 0;
  return isSplit ? [later({ ...left, setbacks: 0 }, rules, now)] : again(left, rules, now);
}

function halves(failed: Batch, rules: RetryRules, now: number): readonly Batch[] {
  const middle = Math.ceil(failed.records.length / 2);
  const half = later({ ...failed, setbacks: 0 }, rules, now);
  return [
    { ...half, records: failed.records.slice(0, middle) },
    { ...half, records: failed.records.slice(middle) },
  ];
}

function again(failed: Batch, rules: RetryRules, now: number): readonly Batch[] {
  const counted: Batch = { ...failed, failures: failed.failures + 1 };
  return counted.failures > rules.retries
    ? [givenUp(counted, 'RetryAttemptsExhausted')]
    : [later(counted, rules, now)];
}

/** The same, after a pause. */
export function later(batch: Batch, { firstPauseMs, longestPauseMs }: RetryRules, now: number): Batch {
  const pauseMs = Math.min(longestPauseMs, firstPauseMs * 2 ** batch.setbacks);
  return { ...batch, setbacks: batch.setbacks + 1, notBefore: now + pauseMs };
}

/** Takes out what is too old to be sent, whether it was tried or not. */
export function withoutAged(batch: Batch, { maxAgeMs }: RetryRules, now: number): readonly Batch[] {
  if (batch.givenUp) return [batch];
  const isAged = ({ arrivedAt }: StreamRecord) => now - arrivedAt > maxAgeMs;
  const aged = batch.records.filter(isAged);
  if (aged.length === 0) return [batch];
  const fresh: Batch = { ...batch, records: batch.records.filter((record) => !isAged(record)) };
  const old = givenUp({ ...batch, records: aged }, 'RecordAgeExceeded');
  return fresh.records.length === 0 ? [old] : [old, fresh];
}

function givenUp(batch: Batch, why: GivenUp): Batch {
  return { ...batch, givenUp: why, setbacks: 0, notBefore: 0 };
}
