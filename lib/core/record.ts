/** Milliseconds since 1970; every time in a record but `ttl`, which DynamoDB wants in seconds. */
export type EpochMs = number;
export type EpochSeconds = number;

/** Where the handler's effects are, and so what is safe after a crash. */
export type Effects = 'transactional' | 'steps' | 'opaque';

/** What a handler answered, free of any event format. */
export interface Reply {
  readonly status: number;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** The body was returned as base64 and has to be returned so again. */
  readonly base64: boolean;
}

/** Bytes as the table holds them: on the record, or in a set of chunks beside it. */
export interface StoredBody {
  readonly encoding: 'identity' | 'zstd';
  /** Only the caller's own `open` can read it. */
  readonly sealed?: true;
  readonly length: number;
  /** Of the body, or of its sealed form: what is put together wrongly is noticed instead of replayed. */
  readonly crc: number;
  readonly body: { readonly inline: Uint8Array } | { readonly set: string; readonly chunks: number };
}

/** A reply as the record holds it. */
export interface StoredResponse extends StoredBody {
  readonly schemaVersion: 1;
  readonly status: number;
  readonly headers: Reply['headers'];
  readonly base64: boolean;
  /** Its body was taken out by an operator then. The status is still true, and the key is as protected as before. */
  readonly erasedAt?: EpochMs;
}

/** What it takes to run the operation again without its client. */
export interface StoredRequest {
  /** Which function to invoke, as it was invoked. */
  readonly function: string;
  readonly event: StoredBody;
}

/** Somebody tries to deliver to a provider that does not dedupe. Nobody else may; after `until` it is in doubt. */
export interface ClaimedDelivery {
  readonly state: 'claimed';
  readonly id: string;
  readonly until: EpochMs;
}

/** The provider has it. Its reference is kept before the outbox is called delivered. */
export interface DoneDelivery {
  readonly state: 'done' | 'refused';
  readonly at: EpochMs;
  readonly reference?: string;
  /** What a deferred operation is to answer once all is delivered. */
  readonly response?: StoredResponse;
}

export type Delivery = ClaimedDelivery | DoneDelivery;

export interface OutboxEvent {
  readonly type: string;
  /** JSON text: what is delivered is what was emitted, untouched by any codec between. */
  readonly payload: string;
  readonly delivery?: Delivery;
}

/** What is to be delivered: without an event there would be nothing that ever ends the waiting. */
export type Outbox = readonly [OutboxEvent, ...OutboxEvent[]];

/** The intent to try an effect that must not be tried twice. Its id tells one try from another in the same moment. */
interface OpenStep {
  readonly state: 'open';
  readonly attempt: number;
  readonly at: EpochMs;
  readonly id: string;
}

/** A recovery point. */
export interface DoneStep {
  readonly state: 'done';
  readonly attempt: number;
  readonly at: EpochMs;
  /** JSON text, empty for a step that returned nothing; elsewhere when it is long or sealed. */
  readonly result: string | StoredBody;
}

export type Step = OpenStep | DoneStep;

/** Where the sweep finds the record, and when. A parked one waits for an operator instead. */
export interface Due {
  readonly shard: string;
  readonly at: EpochMs;
  readonly parkedAt?: EpochMs;
  /** How often it has been tried from here in vain, and what the last try ran into. */
  readonly tries?: number;
  readonly error?: string;
}

/** A move that a healthy request does not make; kept so that an operator can see how the record got here. */
export interface AbnormalMove {
  readonly move: string;
  readonly at: EpochMs;
  readonly attempt: number;
}

interface Common {
  readonly pk: string;
  readonly tenant: string;
  readonly operation: string;
  readonly fingerprint: string;
  /** As of the attempt that ran, not of the code that reads: a deployment may have changed it since. */
  readonly effects: Effects;
  /** Made at the first reserve, kept by every attempt: downstream keys are derived from it. */
  readonly operationId: string;
  /** Random per attempt; with `attempt`, the fence of every write. */
  readonly owner: string;
  readonly attempt: number;
  readonly createdAt: EpochMs;
  readonly lastRunAt: EpochMs;
  /** Since when providers may have seen our downstream keys; past their memory nothing is sent again. */
  readonly dedupeSince: EpochMs;
  /** Some attempt lost its lease and may have begun a step that left no trace. */
  readonly takenOver: boolean;
  readonly steps: ReadonlyMap<string, Step>;
  readonly moves: readonly AbnormalMove[];
}

/** The business write is committed; the final response will come from delivering its outbox. */
interface Acceptance {
  readonly at: EpochMs;
  readonly response: StoredResponse;
  readonly outbox: Outbox;
}

export interface InProgress extends Common {
  readonly status: 'in_progress';
  readonly leaseUntil: EpochMs;
  readonly request?: StoredRequest;
  readonly due?: Due;
}

export interface Accepted extends Common {
  readonly status: 'accepted';
  readonly accepted: Acceptance;
  readonly due?: Due;
}

interface CompletedBase extends Common {
  readonly status: 'completed';
  readonly response: StoredResponse;
  readonly completedAt: EpochMs;
  readonly expiresAt: EpochMs;
  /** Present if it was accepted on the way: then its business write is committed, whatever the response says. */
  readonly acceptedAt?: EpochMs;
  /** What providers call what was delivered to them, where they said so. */
  readonly references?: readonly string[];
}

export interface CompletedDelivered extends CompletedBase {
  readonly ttl: EpochSeconds;
  readonly outbox?: never;
  readonly due?: never;
}

/** Has no TTL: an event that is not delivered yet must neither be evicted nor overwritten by a reuse of the key. */
export interface CompletedUndelivered extends CompletedBase {
  readonly ttl?: never;
  readonly outbox: Outbox;
  readonly due?: Due;
}

export type Completed = CompletedDelivered | CompletedUndelivered;

export interface FailedRetryable extends Common {
  readonly status: 'failed_retryable';
  readonly errorCode: string;
  readonly completedAt: EpochMs;
  readonly expiresAt: EpochMs;
  readonly ttl: EpochSeconds;
}

export interface Unknown extends Common {
  readonly status: 'unknown';
  readonly errorCode: string;
  /** After this nobody sends a request for it any more; the settling time counts from here. */
  readonly leaseUntil: EpochMs;
  readonly request?: StoredRequest;
  /** Present if it was accepted before: then the business write is committed, whatever the provider did. */
  readonly accepted?: Acceptance;
  readonly due: Due;
}

export type LedgerRecord = InProgress | Accepted | Completed | FailedRetryable | Unknown;
export type Status = LedgerRecord['status'];

/** It has events that are not all delivered yet. */
export type Undelivered = Accepted | CompletedUndelivered;

/** Something is still to be done about it, so it may be put where the sweep looks. */
export type Open = InProgress | Accepted | CompletedUndelivered | Unknown;

export type Fence = Pick<Common, 'owner' | 'attempt'>;

export function sameAttempt(a: Fence, b: Fence): boolean {
  return a.owner === b.owner && a.attempt === b.attempt;
}

export function leasePassed(record: { readonly leaseUntil: EpochMs }, now: EpochMs, skewMs: number): boolean {
  return record.leaseUntil + skewMs < now;
}

/** The first moment at which somebody else may act on it. */
export function lapsesAt(record: { readonly leaseUntil: EpochMs }, skewMs: number): EpochMs {
  return record.leaseUntil + skewMs + 1;
}

/** An at-most-once effect whose outcome was never recorded. */
export function openStep(record: Pick<Common, 'steps'>): string | undefined {
  for (const [name, step] of record.steps) if (step.state === 'open') return name;
  return undefined;
}

export function isUndelivered(record: LedgerRecord): record is Undelivered {
  return record.status === 'accepted' || (record.status === 'completed' && record.outbox !== undefined);
}

/** Nothing of what it answered, or of what its steps returned, is on it any more. */
export function isErased(record: LedgerRecord): record is CompletedDelivered {
  return record.status === 'completed' && record.response.erasedAt !== undefined;
}

export function isOpen(record: LedgerRecord): record is Open {
  return record.status === 'in_progress' || record.status === 'unknown' || isUndelivered(record);
}

export function outboxOf(record: Undelivered): Outbox {
  return record.status === 'accepted' ? record.accepted.outbox : record.outbox;
}

/** What providers call what they have taken of an outbox. */
export function referencesOf(outbox: Outbox): readonly string[] {
  return outbox.flatMap(({ delivery }) =>
    delivery && delivery.state !== 'claimed' && delivery.reference !== undefined ? [delivery.reference] : [],
  );
}
