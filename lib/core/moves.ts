import { InvalidArgument } from './errors.ts';
import { limits } from './limits.ts';
import {
  type AbnormalMove,
  type Accepted,
  type Completed,
  type CompletedDelivered,
  type CompletedUndelivered,
  type Delivery,
  type DoneDelivery,
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
  outboxOf,
  referencesOf,
  type Step,
  type StoredRequest,
  type StoredResponse,
  type Undelivered,
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

/** What a verdict makes of a delivery in doubt: it has happened. If it has not, there is nothing to note. */
export interface DeliveryChange {
  readonly index: number;
  readonly delivery: DoneDelivery;
}

/** What is left of an answer whose body is taken out: its status, and the headers that say nothing about the body. */
export interface Erasure {
  readonly now: EpochMs;
  readonly headers: StoredResponse['headers'];
}

export function reserved(claim: Claim, request?: StoredRequest): InProgress {
  const { pk, tenant, operation, fingerprint, effects, operationId, owner, now, leaseUntil } = claim;
  return {
    ...{ pk, tenant, operation, fingerprint, effects, operationId, owner, leaseUntil },
    status: 'in_progress',
    attempt: 1,
    createdAt: now,
    lastRunAt: now,
    dedupeSince: now,
    takenOver: false,
    steps: new Map(),
    moves: [],
    ...(request && { request }),
  };
}

export function retaken(from: FailedRetryable, by: Attempt, request?: StoredRequest): InProgress {
  return {
    ...common(from),
    ...nextAttempt(from, by),
    status: 'in_progress',
    dedupeSince: by.now, // Nothing ran, so no provider has seen our downstream keys yet: their memory counts from here.
    leaseUntil: by.leaseUntil,
    ...(request && { request }),
  };
}

export function takenOver(from: InProgress, by: Attempt): InProgress {
  return {
    ...common(from, 'takeOver', by.now),
    ...nextAttempt(from, by),
    status: 'in_progress',
    leaseUntil: by.leaseUntil,
    takenOver: true,
    ...requestOf(from),
    ...(from.due && { due: from.due }), // It stays where the sweep looks: this attempt may die like the last one.
  };
}

function requestOf({ request }: { readonly request?: StoredRequest }) {
  return request && { request };
}

function nextAttempt(from: LedgerRecord, by: Attempt) {
  return { owner: by.owner, attempt: from.attempt + 1, effects: by.effects, lastRunAt: by.now };
}

export function completed(
  from: InProgress | Accepted | Unknown | FailedRetryable,
  outcome: Outcome,
  move: Move,
): Completed {
  const { now, response, outbox, expiresAt, ttl } = outcome;
  const base = {
    ...common(from, move === 'complete' || move === 'settleAccepted' ? undefined : move, now),
    status: 'completed',
    response,
    completedAt: now,
    expiresAt,
  } as const;
  const acceptance = 'accepted' in from ? from.accepted : undefined;
  if (move === 'settle' && acceptance) requireNothingAfter(from.pk, acceptance.outbox);
  const result = acceptance ? { ...base, acceptedAt: acceptance.at, ...referred(acceptance.outbox) } : base;
  return isOutbox(outbox) ? { ...result, outbox } : { ...result, ttl };
}

/** The last event is delivered: now the record may end like any other. */
export function delivered(from: CompletedUndelivered, ttl: EpochSeconds): CompletedDelivered {
  const { outbox, due: _, ...rest } = from;
  return { ...rest, ...referred(outbox), ttl } as CompletedDelivered;
}

/**
 * The one change of a finished result, and no attempt's: a person asked for it, who may be obliged to. Whether the operation
 * ran, under which fingerprint and until when its key is taken are what protects it, so those stay; a body that was never
 * there is what an older release reads. Of the body even its length and checksum would tell something.
 */
export function erased(from: CompletedDelivered, { now, headers }: Erasure): CompletedDelivered {
  const { schemaVersion, status } = from.response;
  const nothing = { encoding: 'identity', length: 0, crc: 0, body: { inline: new Uint8Array() } } as const;
  const steps = [...from.steps].map(
    ([name, step]) => [name, step.state === 'done' ? { ...step, result: '' } : step] as const,
  );
  return {
    ...from,
    ...common(from, 'erase', now),
    steps: new Map(steps),
    response: { schemaVersion, status, headers, base64: false, ...nothing, erasedAt: now },
  };
}

/** A verdict is about one event. Those after it would be lost with the outbox. */
function requireNothingAfter(pk: string, outbox: Outbox): void {
  const open = outbox.filter(({ delivery }) => !delivery || delivery.state === 'claimed');
  if (open.length <= 1) return;
  throw new InvalidArgument(
    `Record ${pk} has ${open.length} events that are not delivered: settle it as accepted, with the one that was.`,
  );
}

function referred(outbox: Outbox) {
  const references = referencesOf(outbox);
  return references.length > 0 ? { references } : {};
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
    : { ...base, leaseUntil: from.leaseUntil, ...requestOf(from) };
}

/** What the completer has counted so far stays, and so does its pause: a function that always fails is not tried for ever. */
export function handedBack(from: InProgress, now: EpochMs, place: Due): InProgress {
  const counted = from.due && from.due.parkedAt === undefined ? from.due : undefined;
  const due = counted ? { ...counted, at: Math.max(counted.at, place.at) } : place;
  return {
    ...common(from, 'handBack', now),
    status: 'in_progress',
    leaseUntil: now,
    ...requestOf(from),
    due,
  };
}

export function reaccepted(from: Unknown, by: Reentry, change?: DeliveryChange): Accepted {
  if (!from.accepted) {
    throw new InvalidArgument(
      `Record ${from.pk} was never accepted, so it cannot be accepted again: settle it as failed_retryable.`,
    );
  }
  const [first, ...others] = from.accepted.outbox;
  const outbox: Outbox = [unclaimed(first), ...others.map(unclaimed)];
  const accepted = { ...from.accepted, outbox };
  const to: Accepted = { ...reentered(from, by), status: 'accepted', accepted, due: by.due };
  return change ? withDelivery(to, change.index, change.delivery) : to;
}

/** The verdict was that nobody delivered it, so whoever claimed to is out of the way. */
function unclaimed(event: OutboxEvent): OutboxEvent {
  const { delivery, ...rest } = event;
  return delivery?.state === 'claimed' ? rest : event;
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
  return {
    ...base,
    status: 'in_progress',
    leaseUntil: by.now,
    takenOver: true,
    steps,
    ...requestOf(from),
    due: by.due,
  };
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
  if (!from.steps.has(name) && from.steps.size >= limits.stepsMax) {
    throw new InvalidArgument(
      `Record ${from.pk} has ${from.steps.size} steps; at most ${limits.stepsMax} fit on it.`,
    );
  }
  return { ...from, steps: new Map(from.steps).set(name, step) };
}

/** What is known of one event's delivery; nothing, once it is known that nobody delivered it. */
export function withDelivery<R extends Undelivered>(
  from: R,
  index: number,
  delivery: Delivery | undefined,
): R {
  const events = outboxOf(from);
  const event = events[index];
  if (!event) {
    throw new InvalidArgument(`Record ${from.pk} has ${events.length} events, and none with index ${index}.`);
  }
  const { delivery: _, ...rest } = event;
  const outbox = events.with(index, delivery ? { ...rest, delivery } : rest);
  const to = delivery && delivery.state !== 'claimed' ? uncounted(from) : from;
  return to.status === 'accepted' ? { ...to, accepted: { ...to.accepted, outbox } } : { ...to, outbox };
}

/** What was tried in vain was this event; the next one starts anew. */
function uncounted<R extends Undelivered>(record: R): R {
  if (!record.due) return record;
  const { tries: _, error: __, ...due } = record.due;
  return { ...record, due };
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
