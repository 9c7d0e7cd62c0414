import { InvalidArgument } from './errors.ts';
import { limits } from './limits.ts';
import {
  type AbnormalMove,
  type Accepted,
  type Completed,
  type CompletedDelivered,
  type CompletedUndelivered,
  type DoneStep,
  type Due,
  type Effects,
  type EpochMs,
  type EpochSeconds,
  type FailedRetryable,
  type InProgress,
  type LedgerRecord,
  type Open,
  type Outbox,
  type OutboxEvent,
  openStep,
  type Step,
  type StoredResponse,
  type Unknown,
} from './record.ts';
import type { Move } from './transitions.ts';

/*
 * What each move makes of a record, and nothing about whether it may happen: that is the condition of the write,
 * which each ledger states in its own terms.
 */

export interface Attempt {
  readonly owner: string;
  readonly effects: Effects;
  readonly now: EpochMs;
  readonly leaseUntil: EpochMs;
}

export interface Claim extends Attempt {
  readonly pk: string;
  readonly tenant: string;
  readonly operation: string;
  readonly fingerprint: string;
  readonly operationId: string;
}

export interface Expiry {
  readonly expiresAt: EpochMs;
  readonly ttl: EpochSeconds;
}

export interface Failure extends Expiry {
  readonly now: EpochMs;
  readonly errorCode: string;
}

export interface Uncertainty {
  readonly now: EpochMs;
  readonly errorCode: string;
  readonly due: Due;
}

export interface Outcome extends Expiry {
  readonly now: EpochMs;
  readonly response: StoredResponse;
  readonly outbox: readonly OutboxEvent[];
}

export interface Deferral {
  readonly now: EpochMs;
  readonly response: StoredResponse;
  readonly outbox: readonly OutboxEvent[];
}

/** Back to work under a new fence, so that whoever acted on the old one is refused. */
export interface Reentry {
  readonly now: EpochMs;
  readonly owner: string;
  readonly due: Due;
}

/** What a verdict makes of an open effect: it happened, with this result, or it did not. */
export interface StepChange {
  readonly name: string;
  readonly step: DoneStep | undefined;
}

export function reserved(claim: Claim): InProgress {
  const { now, ...rest } = claim;
  return {
    ...rest,
    status: 'in_progress',
    attempt: 1,
    createdAt: now,
    lastRunAt: now,
    dedupeSince: now,
    takenOver: false,
    steps: new Map(),
    moves: [],
  };
}

export function retaken(from: FailedRetryable, by: Attempt): InProgress {
  // Nothing ran, so no provider has seen our downstream keys yet: their memory counts from here.
  const fresh = { dedupeSince: by.now, leaseUntil: by.leaseUntil } as const;
  return { ...common(from), ...nextAttempt(from, by), status: 'in_progress', ...fresh };
}

export function takenOver(from: InProgress, by: Attempt): InProgress {
  return {
    ...common(from, 'takeOver', by.now),
    ...nextAttempt(from, by),
    status: 'in_progress',
    leaseUntil: by.leaseUntil,
    takenOver: true,
    ...(from.due && { due: from.due }), // It stays where the sweep looks: this attempt may die like the last one.
  };
}

function nextAttempt(from: LedgerRecord, by: Attempt) {
  return { owner: by.owner, attempt: from.attempt + 1, effects: by.effects, lastRunAt: by.now };
}

export function completed(from: InProgress | Accepted | Unknown, outcome: Outcome, move: Move): Completed {
  const { now, response, outbox, expiresAt, ttl } = outcome;
  const base = {
    ...common(from, move === 'complete' || move === 'settleAccepted' ? undefined : move, now),
    status: 'completed',
    response,
    completedAt: now,
    expiresAt,
  } as const;
  const acceptedAt = from.status === 'in_progress' ? undefined : from.accepted?.at;
  const result = acceptedAt === undefined ? base : { ...base, acceptedAt };
  return isOutbox(outbox) ? { ...result, outbox } : { ...result, ttl };
}

/** The last event is delivered: now the record may end like any other. */
export function delivered(from: CompletedUndelivered, ttl: EpochSeconds): CompletedDelivered {
  const { outbox: _, due: __, ...rest } = from;
  return { ...rest, ttl } as CompletedDelivered;
}

function isOutbox(events: readonly OutboxEvent[]): events is Outbox {
  return events.length > 0;
}

export function accepted(from: InProgress, deferral: Deferral): Accepted {
  const { now, response, outbox } = deferral;
  if (!isOutbox(outbox)) {
    throw new InvalidArgument(
      `Record ${from.pk} cannot be accepted without an event: nothing would ever complete it.`,
    );
  }
  return { ...common(from), status: 'accepted', accepted: { at: now, response, outbox } };
}

export function failed(
  from: InProgress | Completed | Unknown,
  failure: Failure,
  move: Move,
): FailedRetryable {
  const { now, errorCode, expiresAt, ttl } = failure;
  return {
    ...common(from, move === 'release' ? undefined : move, now),
    status: 'failed_retryable',
    errorCode,
    completedAt: now,
    expiresAt,
    ttl,
  };
}

export function uncertain(from: InProgress | Accepted, doubt: Uncertainty, move: Move): Unknown {
  const { now, errorCode, due } = doubt;
  const base = { ...common(from, move, now), status: 'unknown', errorCode, due } as const;
  return from.status === 'accepted'
    ? { ...base, leaseUntil: now, accepted: from.accepted }
    : { ...base, leaseUntil: from.leaseUntil };
}

export function handedBack(from: InProgress, now: EpochMs, due: Due): InProgress {
  return { ...common(from, 'handBack', now), status: 'in_progress', leaseUntil: now, due };
}

export function reaccepted(from: Unknown, by: Reentry): Accepted {
  if (!from.accepted) {
    throw new InvalidArgument(
      `Record ${from.pk} was never accepted, so it cannot be accepted again: settle it as failed_retryable.`,
    );
  }
  return { ...reentered(from, by), status: 'accepted', accepted: from.accepted, due: by.due };
}

export function resumed(from: Unknown, by: Reentry, change: StepChange | undefined): InProgress {
  if (from.accepted) {
    throw new InvalidArgument(
      `Record ${from.pk} was accepted, so it does not run again: settle it as accepted.`,
    );
  }
  const open = openStep(from);
  if (open !== undefined && open !== change?.name) {
    throw new InvalidArgument(`The step ${open} of record ${from.pk} is open: say what became of it.`);
  }
  const steps = new Map(from.steps);
  if (change?.step) steps.set(change.name, change.step);
  else if (change) steps.delete(change.name);
  const base = reentered(from, by);
  return { ...base, status: 'in_progress', leaseUntil: by.now, takenOver: true, steps, due: by.due };
}

/** A verdict is as good as a fresh look at the provider: what it may have forgotten counts from here. */
function reentered(from: Unknown, by: Reentry) {
  const base = common(from, 'settle', by.now);
  return { ...base, owner: by.owner, attempt: from.attempt + 1, dedupeSince: by.now };
}

export function watched<R extends Open>(from: R, due: Due): R {
  return { ...from, due };
}

export function withStep(from: InProgress, name: string, step: Step): InProgress {
  checkStepName(name);
  if (step.state === 'done' && step.result.length > limits.stepResultMaxLength) {
    throw new InvalidArgument(
      `The result of step ${name} has ${step.result.length} characters; at most ${limits.stepResultMaxLength} fit on the record.`,
    );
  }
  return { ...from, steps: new Map(from.steps).set(name, step) };
}

const STEP_NAME = /^[A-Za-z][A-Za-z0-9_.-]{0,63}$/;

/** A step's name is an attribute name in the record's map and part of a downstream key: plain, short, no `__proto__`. */
function checkStepName(name: string): void {
  if (STEP_NAME.test(name)) return;
  throw new InvalidArgument(
    `A step cannot be named ${JSON.stringify(name)}: write a letter, then up to 63 letters, digits, '_', '.' or '-'.`,
  );
}

/** The fields every state has, named one by one: a spread would carry a lease or a TTL into a state without one. */
function common(from: LedgerRecord, abnormal?: Move, at?: EpochMs) {
  const { pk, tenant, operation, fingerprint, effects, operationId, owner, attempt } = from;
  const { createdAt, lastRunAt, dedupeSince, takenOver, steps } = from;
  return {
    ...{ pk, tenant, operation, fingerprint, effects, operationId, owner, attempt },
    ...{ createdAt, lastRunAt, dedupeSince, takenOver, steps },
    moves: abnormal === undefined || at === undefined ? from.moves : remembered(from, { move: abnormal, at }),
  };
}

function remembered(from: LedgerRecord, entry: Omit<AbnormalMove, 'attempt'>): readonly AbnormalMove[] {
  return [...from.moves, { ...entry, attempt: from.attempt }].slice(-limits.movesKept);
}
