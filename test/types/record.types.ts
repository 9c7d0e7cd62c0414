import type {
  Delivery,
  LedgerRecord,
  Outbox,
  Step,
  StoredBody,
  StoredRequest,
  StoredResponse,
} from '../../lib/core/record.ts';

/*
 * Which records can exist, checked by `tsc`: an impossible one that compiles is an unused `@ts-expect-error`, and
 * that is an error. Only what tells the states apart is written out; the fields that all of them share are left out.
 * Each literal is on one line, where its error is expected, and is checked by itself: in a list, TypeScript lets one
 * element stand for another that extends it.
 */

type Shared = Exclude<keyof LedgerRecord, 'status' | 'due'>;
type Own<R> = R extends LedgerRecord ? Omit<R, Shared> : never;
type State = Own<LedgerRecord>;

declare const response: StoredResponse;
declare const outbox: Outbox;
declare const request: StoredRequest;
declare const stored: StoredBody;
declare const errorCode: string;

const at = Date.UTC(2030, 0, 15);
const leaseUntil = at;
const completedAt = at;
const expiresAt = at;
const ttl = at / 1_000;
const due = { shard: 'due#1', at };
const parked = { shard: 'parked#1', at, parkedAt: at };
const accepted = { at, response, outbox };

export const possible = [
  { status: 'in_progress', leaseUntil } satisfies State,
  { status: 'in_progress', leaseUntil, due } satisfies State,
  { status: 'in_progress', leaseUntil, due: parked } satisfies State,
  { status: 'in_progress', leaseUntil, request } satisfies State,
  { status: 'unknown', errorCode, leaseUntil, due, request } satisfies State,
  { status: 'in_progress', leaseUntil, due: { ...due, tries: 1, error: 'timeout' } } satisfies State,
  { status: 'accepted', accepted } satisfies State,
  { status: 'accepted', accepted, due } satisfies State,
  { status: 'completed', response, completedAt, expiresAt, ttl } satisfies State,
  { status: 'completed', response, completedAt, expiresAt, outbox } satisfies State,
  { status: 'completed', response, completedAt, expiresAt, outbox, due } satisfies State,
  { status: 'failed_retryable', errorCode, completedAt, expiresAt, ttl } satisfies State,
  { status: 'unknown', errorCode, leaseUntil, due } satisfies State,
  { status: 'unknown', errorCode, leaseUntil, due: parked } satisfies State,
  { status: 'unknown', errorCode, leaseUntil, due, accepted } satisfies State,
];

export const impossibleInProgress = [
  // @ts-expect-error: without a lease nobody could ever tell that the attempt is dead
  { status: 'in_progress' } satisfies State,
  // @ts-expect-error: a TTL would evict the evidence of an open outcome
  { status: 'in_progress', leaseUntil, ttl } satisfies State,
  // @ts-expect-error: an open outcome does not expire
  { status: 'in_progress', leaseUntil, expiresAt } satisfies State,
  // @ts-expect-error: there is no outcome to answer with yet
  { status: 'in_progress', leaseUntil, response } satisfies State,
];

export const impossibleAccepted = [
  // @ts-expect-error: without its acceptance there is neither a 202 to answer nor anything to deliver
  { status: 'accepted' } satisfies State,
  // @ts-expect-error: without an outbox nothing would ever settle it
  { status: 'accepted', accepted: { at, response } } satisfies State,
  // @ts-expect-error: without a response a duplicate could not be answered
  { status: 'accepted', accepted: { at, outbox } } satisfies State,
  // @ts-expect-error: the attempt is over, so nobody holds a lease
  { status: 'accepted', accepted, leaseUntil } satisfies State,
  // @ts-expect-error: its handler has ended, so nobody runs it again with the request
  { status: 'accepted', accepted, request } satisfies State,
  // @ts-expect-error: a TTL would evict events that are not delivered yet
  { status: 'accepted', accepted, ttl } satisfies State,
  // @ts-expect-error: an open outcome does not expire
  { status: 'accepted', accepted, expiresAt } satisfies State,
];

export const impossibleCompleted = [
  // @ts-expect-error: without a response there is nothing to replay
  { status: 'completed', completedAt, expiresAt, ttl } satisfies State,
  // @ts-expect-error: without a response there is nothing to replay, delivered or not
  { status: 'completed', completedAt, expiresAt, outbox } satisfies State,
  // @ts-expect-error: with a TTL the undelivered events would be evicted
  { status: 'completed', response, completedAt, expiresAt, ttl, outbox } satisfies State,
  // @ts-expect-error: with nothing to deliver and no TTL it would stay for ever
  { status: 'completed', response, completedAt, expiresAt } satisfies State,
  // @ts-expect-error: once delivered there is nothing left for the sweep to find
  { status: 'completed', response, completedAt, expiresAt, ttl, due } satisfies State,
  // @ts-expect-error: a result is published with its expiry
  { status: 'completed', response, completedAt, ttl } satisfies State,
  // @ts-expect-error: retention counts from completion
  { status: 'completed', response, expiresAt, ttl } satisfies State,
  // @ts-expect-error: the attempt is over, so nobody holds a lease
  { status: 'completed', response, completedAt, expiresAt, ttl, leaseUntil } satisfies State,
  // @ts-expect-error: its handler has ended, so nobody runs it again with the request
  { status: 'completed', response, completedAt, expiresAt, ttl, request } satisfies State,
];

export const impossibleFailedRetryable = [
  // @ts-expect-error: what may run again must not have an answer already
  { status: 'failed_retryable', errorCode, completedAt, expiresAt, ttl, response } satisfies State,
  // @ts-expect-error: whoever held the lease has given it up
  { status: 'failed_retryable', errorCode, completedAt, expiresAt, ttl, leaseUntil } satisfies State,
  // @ts-expect-error: it is settled, so the sweep has no business with it
  { status: 'failed_retryable', errorCode, completedAt, expiresAt, ttl, due } satisfies State,
  // @ts-expect-error: a failure with events to deliver would have executed
  { status: 'failed_retryable', errorCode, completedAt, expiresAt, ttl, outbox } satisfies State,
  // @ts-expect-error: without a TTL it would stay for ever
  { status: 'failed_retryable', errorCode, completedAt, expiresAt } satisfies State,
  // @ts-expect-error: whoever retakes it brings a request of its own
  { status: 'failed_retryable', errorCode, completedAt, expiresAt, ttl, request } satisfies State,
];

export const impossibleUnknown = [
  // @ts-expect-error: without a due time nobody would ever reconcile it
  { status: 'unknown', errorCode, leaseUntil } satisfies State,
  // @ts-expect-error: a TTL would evict the evidence of an open outcome
  { status: 'unknown', errorCode, leaseUntil, due, ttl } satisfies State,
  // @ts-expect-error: an open outcome does not expire
  { status: 'unknown', errorCode, leaseUntil, due, expiresAt } satisfies State,
  // @ts-expect-error: if the response were known, so were the outcome
  { status: 'unknown', errorCode, leaseUntil, due, response } satisfies State,
  // @ts-expect-error: the settling time counts from the end of the lease
  { status: 'unknown', errorCode, due } satisfies State,
];

export const steps = [
  { state: 'open', attempt: 1, at, id: 'try-1' } satisfies Step,
  { state: 'done', attempt: 1, at, result: '{}' } satisfies Step,
  { state: 'done', attempt: 1, at, result: stored } satisfies Step,
  // @ts-expect-error: a recovery point without its result cannot be resumed from
  { state: 'done', attempt: 1, at } satisfies Step,
  // @ts-expect-error: an effect with a result is not open any more
  { state: 'open', attempt: 1, at, result: '{}' } satisfies Step,
  // @ts-expect-error: only the attempt that wrote an intent may close it, so an intent names its attempt
  { state: 'open', at } satisfies Step,
];

export const deliveries = [
  { state: 'claimed', id: 'me', until: at } satisfies Delivery,
  { state: 'done', at } satisfies Delivery,
  { state: 'refused', at, reference: 'ch_1', response } satisfies Delivery,
  // @ts-expect-error: only who made a claim may end it, so a claim says whose it is
  { state: 'claimed', until: at } satisfies Delivery,
  // @ts-expect-error: a claim without an end would hold its event for ever
  { state: 'claimed', id: 'me' } satisfies Delivery,
  // @ts-expect-error: while it is only claimed there is no answer yet
  { state: 'claimed', id: 'me', until: at, response } satisfies Delivery,
  // @ts-expect-error: what is done is nobody's claim any more
  { state: 'done', at, id: 'me' } satisfies Delivery,
];

// @ts-expect-error: a state that the machine does not know
export const impossibleStatus = { status: 'expired', ttl } satisfies State;
