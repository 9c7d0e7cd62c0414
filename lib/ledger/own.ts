import { isDeepStrictEqual } from 'node:util';
import type {
  Accepted,
  Completed,
  CompletedDelivered,
  Delivery,
  EpochMs,
  Fence,
  InProgress,
  LedgerRecord,
  Status,
  Step,
  Undelivered,
} from '../core/record.ts';
import { isErased, isUndelivered, outboxOf, sameAttempt } from '../core/record.ts';

/*
 * A response that got lost makes the next try fail its own condition. These tell our own success from another's. They
 * look at what the failed write returned; the condition itself never says "or owner = me", because a delayed duplicate
 * of it could then overwrite a completed record.
 */

/**
 * For claims: ours if it carries our fence, is still in progress, and its lease is live. Without the last, someone may
 * be about to take it over.
 */
export function ownedAfterAll(
  found: LedgerRecord | undefined,
  mine: Fence,
  now: EpochMs,
): { kind: 'owned'; record: InProgress } | undefined {
  return found && inProgressOf(mine)(found) && now <= found.leaseUntil
    ? { kind: 'owned', record: found }
    : undefined;
}

/** For moves: finding our own target state means that an earlier try of ours did it. */
export function concluded<R extends LedgerRecord, C extends { readonly kind: string }>(
  result: C | { readonly kind: 'fenced'; readonly record: LedgerRecord | undefined },
  mine: (found: LedgerRecord) => found is R,
): C | { kind: 'moved'; record: R } {
  if (result.kind !== 'fenced') return result as C;
  const { record } = result as { record: LedgerRecord | undefined };
  return record && mine(record) ? { kind: 'moved', record } : (result as C);
}

/** Found exactly as we would have made it: our own lost try, or one that nobody can tell from it. */
export function isSame(found: LedgerRecord | undefined, to: LedgerRecord): boolean {
  return found !== undefined && isDeepStrictEqual(found, to);
}

export function reached<S extends Status>(mine: Fence, status: S) {
  return (found: LedgerRecord): found is Extract<LedgerRecord, { status: S }> =>
    found.status === status && sameAttempt(found, mine);
}

/**
 * For answers: what a resolver or an operator has settled meanwhile is under our fence too, and says something else.
 */
export function answeredAs<R extends Completed | Accepted>(to: R) {
  return (found: LedgerRecord): found is R =>
    found.status === to.status && sameAttempt(found, to) && isDeepStrictEqual(answerOf(found), answerOf(to));
}

/** Erased twice is erased: it does not matter by whom, as long as it is this result. */
export function erasedAs(from: CompletedDelivered) {
  return (found: LedgerRecord): found is CompletedDelivered =>
    isErased(found) && found.operationId === from.operationId && found.attempt === from.attempt;
}

function answerOf(record: Completed | Accepted): unknown {
  return record.status === 'completed'
    ? [record.completedAt, record.response]
    : [record.accepted.at, record.accepted.response];
}

export function inProgressOf(mine: Fence) {
  return reached(mine, 'in_progress');
}

export function holdsStep(mine: Fence, name: string, step: Step) {
  return (found: LedgerRecord): found is InProgress =>
    inProgressOf(mine)(found) && isDeepStrictEqual(found.steps.get(name), step);
}

export function holdsDelivery<R extends Undelivered>(from: R, index: number, delivery: Delivery | undefined) {
  return (found: LedgerRecord): found is R =>
    reached(from, from.status)(found) &&
    isUndelivered(found) &&
    isDeepStrictEqual(outboxOf(found)[index]?.delivery, delivery);
}
