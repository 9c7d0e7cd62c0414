import type { AuditWindow } from '../core/audit.ts';
import type { Doubt } from '../core/decide.ts';
import type {
  Attempt,
  Claim,
  Deferral,
  Erasure,
  Expiry,
  Failure,
  Outcome,
  Reentry,
  StepChange,
  Uncertainty,
} from '../core/moves.ts';
import type { Policy } from '../core/policy.ts';
import type {
  Accepted,
  ClaimedDelivery,
  Completed,
  CompletedDelivered,
  CompletedUndelivered,
  DoneDelivery,
  DoneStep,
  Due,
  EpochMs,
  EpochSeconds,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Open,
  Reply,
  StoredResponse,
  Undelivered,
  Unknown,
} from '../core/record.ts';
import type { Quotas } from './quotas.ts';

/** A move that needs a condition either happens or finds the record as it is now: losing is a result, not an error. */
export type Moved<R extends LedgerRecord> =
  | { readonly kind: 'moved'; readonly record: R }
  | { readonly kind: 'fenced'; readonly record: LedgerRecord | undefined };

export type Reserved =
  | { readonly kind: 'owned'; readonly record: InProgress }
  | { readonly kind: 'held'; readonly record: LedgerRecord };

export type Taken =
  | { readonly kind: 'owned'; readonly record: InProgress }
  | { readonly kind: 'held'; readonly record: LedgerRecord | undefined };

/** As `Moved`, or refused by the caller's own items; then nothing was written at all. */
export type Committed<R extends LedgerRecord, W = never> =
  | Moved<R>
  | { readonly kind: 'refused'; readonly reasons: readonly WriteRefusal<W>[] };

export interface WriteRefusal<W> {
  readonly write: W;
  readonly index: number;
  /** DynamoDB's own code, such as `ConditionalCheckFailed`; `None` for writes that were not the reason. */
  readonly code: string;
  readonly message: string | undefined;
  /** The item as it was, where the write asked for it. */
  readonly item: Record<string, unknown> | undefined;
}

export interface Reuse extends Pick<Policy, 'afterExpiry' | 'skewMs'> {}

export type ReplyOutcome = Omit<Outcome, 'response'> & { readonly reply: Reply };
export type ReplyDeferral = Omit<Deferral, 'response'> & { readonly reply: Reply };

export type LapseTo =
  | ({ readonly to: 'unknown'; readonly doubt: Doubt } & Uncertainty)
  | ({ readonly to: 'failed_retryable' } & Failure);

export type SettleTo =
  | ({ readonly to: 'completed'; readonly reply: Reply } & Expiry & { readonly now: EpochMs })
  | ({ readonly to: 'failed_retryable' } & Failure)
  /** With a delivery: the one in doubt has happened, and those after it are still to be made. */
  | ({ readonly to: 'accepted'; readonly delivered?: DeliveredEvent } & Reentry)
  | ({ readonly to: 'in_progress'; readonly step: StepChange | undefined } & Reentry);

/** What a person knows to have come of an operation that the record calls open, or not executed. */
export interface Attestation extends Expiry {
  readonly now: EpochMs;
  readonly reply: Reply;
  readonly skewMs: number;
}

export interface DeliveredEvent extends Omit<DoneDelivery, 'state' | 'response'> {
  readonly index: number;
  readonly reply?: Reply;
}

export type SettleAcceptedTo =
  | ({ readonly to: 'completed'; readonly reply: Reply } & Expiry & { readonly now: EpochMs })
  /** With an event: only if its delivery is still as open as it was, since somebody else may have come through. */
  | ({ readonly to: 'unknown'; readonly event?: OpenDelivery } & Uncertainty);

/** An event that is claimed under this id or, without one, that nothing is noted of. */
interface OpenDelivery {
  readonly index: number;
  readonly id?: string;
}

/** What is learnt about the delivery of one event. */
export type DeliveryNote =
  /** About to be tried, where nothing is known of it yet. */
  | ({ readonly to: 'claimed' } & Omit<ClaimedDelivery, 'state'>)
  /** Over nothing, or over the claim of whoever delivered it. */
  | ({ readonly to: DoneDelivery['state']; readonly claim?: string; readonly reply?: Reply } & Omit<
      DoneDelivery,
      'state' | 'response'
    >)
  /** Whoever claimed it knows that nothing was delivered. */
  | { readonly to: 'none'; readonly claim: string };

/**
 * What an attempt wants to be kept of its request: the function that got it, and the event as JSON. One that is too long
 * (`limits.eventMaxBytes`, `limits.requestMaxBytes`) is not kept, and the record then has none.
 */
export interface RequestToKeep {
  readonly function: string;
  readonly event: Uint8Array;
}

interface Keeping {
  readonly request?: RequestToKeep;
}

/** One of so many parts of the table, which can be looked through at the same time. */
export interface Segment {
  readonly index: number;
  readonly of: number;
}

export interface ScanPage {
  readonly pks: readonly string[];
  readonly next: string | undefined;
}

export interface DuePage {
  readonly entries: readonly { readonly pk: string; readonly at: EpochMs }[];
  readonly next: string | undefined;
}

/** When to stop trying. A move that has not been answered by then ends in `StoreUnavailable`. */
export interface Until {
  readonly until?: EpochMs;
}

/** Who changed a record by hand, and why. It is written together with the change, and outlives the record. */
export interface AuditEntry {
  readonly at: EpochMs;
  /** Makes two entries of one moment two. */
  readonly id: string;
  readonly who: string;
  readonly why: string;
  readonly move: string;
}

/** A call that a person is behind. */
export interface Audited extends Until {
  readonly audit?: AuditEntry;
}

/**
 * The durable record of every operation. Each method is one move of `core/transitions.ts` under its condition, or
 * a strongly consistent read. `W` is what the store takes as a write of the caller's own.
 */
export interface Ledger<W = never> {
  reserve(claim: Claim & Keeping, reuse: Reuse, call?: Until): Promise<Reserved>;
  retake(from: FailedRetryable, by: Attempt & Keeping, call?: Until): Promise<Taken>;
  /** The request stays the one that was kept first. */
  takeOver(from: InProgress, by: Attempt & { readonly skewMs: number }, call?: Until): Promise<Taken>;

  complete(
    mine: InProgress,
    outcome: ReplyOutcome,
    writes?: readonly W[],
    call?: Until,
  ): Promise<Committed<Completed, W>>;
  accept(
    mine: InProgress,
    deferral: ReplyDeferral,
    writes?: readonly W[],
    call?: Until,
  ): Promise<Committed<Accepted, W>>;
  completeLate(mine: Unknown, outcome: Omit<ReplyOutcome, 'outbox'>, call?: Until): Promise<Moved<Completed>>;
  release(mine: InProgress, failure: Failure, call?: Until): Promise<Moved<FailedRetryable>>;
  markUnknown(mine: InProgress, doubt: Uncertainty, call?: Until): Promise<Moved<Unknown>>;
  handBack(mine: InProgress, now: EpochMs, due: Due, call?: Until): Promise<Moved<InProgress>>;
  /** Writes the intent of an at-most-once effect, only where there is none. */
  openStep(mine: InProgress, name: string, now: EpochMs, call?: Until): Promise<Moved<InProgress>>;
  /** Writes a recovery point: over this attempt's own intent, or where there is nothing yet. */
  saveStep(
    mine: InProgress,
    name: string,
    result: string,
    now: EpochMs,
    writes?: readonly W[],
    call?: Until,
  ): Promise<Committed<InProgress, W>>;

  lapse(
    from: InProgress,
    move: LapseTo & { readonly skewMs: number },
    call?: Until,
  ): Promise<Moved<Unknown | FailedRetryable>>;
  settle(
    from: Unknown,
    move: SettleTo,
    call?: Audited,
  ): Promise<Moved<Completed | FailedRetryable | Accepted | InProgress>>;
  settleAccepted(from: Accepted, move: SettleAcceptedTo, call?: Audited): Promise<Moved<Completed | Unknown>>;
  /** It has ended with this answer, whoever's lease has passed and whatever was thought to be proven. Only for a person. */
  attest(
    from: InProgress | FailedRetryable,
    attestation: Attestation,
    call?: Audited,
  ): Promise<Moved<Completed>>;
  reopen(from: CompletedDelivered, failure: Failure, call?: Audited): Promise<Moved<FailedRetryable>>;
  /**
   * Takes out what was answered and what steps returned: first on the record, together with the signature, then in what is
   * kept beside it. Of what is erased already it finishes the rest, if a crash left any, and signs nothing.
   */
  erase(from: CompletedDelivered, erasure: Erasure, call?: Audited): Promise<Moved<CompletedDelivered>>;
  noteDelivery<R extends Undelivered>(
    from: R,
    index: number,
    note: DeliveryNote,
    call?: Audited,
  ): Promise<Moved<R>>;
  /** All of the outbox is delivered: from here the record ends like any other. */
  deliver(from: CompletedUndelivered, ttl: EpochSeconds, call?: Until): Promise<Moved<CompletedDelivered>>;
  /** Puts an open record where the sweep looks, if it is still where it was read. Never creates one. */
  watch<R extends Open>(from: R, due: Due, call?: Audited): Promise<Moved<R>>;

  read(pk: string, call?: Until): Promise<LedgerRecord | undefined>;
  /** The stored reply, its body fetched and checked. */
  reply(pk: string, response: StoredResponse, call?: Until): Promise<Reply>;
  /** The result of a step, as the JSON text that was saved. */
  stepResult(pk: string, step: DoneStep, call?: Until): Promise<string>;
  /** What was done to a record by hand, oldest first; also when the record itself is gone. */
  audits(pk: string, call?: Until): Promise<readonly AuditEntry[]>;
  /** The request that was kept with an attempt, if it was. */
  request(record: InProgress | Unknown, call?: Until): Promise<RequestToKeep | undefined>;
  /** Open records that are not where the sweep looks: reads the whole table, so it is for a rare and slow search. */
  unwatched(segment: Segment, limit: number, from?: string, call?: Until): Promise<ScanPage>;
  /** Completed records of these operations, by the time of their completion: reads the whole table as well. */
  completedIn(
    window: AuditWindow,
    operations: readonly string[],
    limit: number,
    from?: string,
    call?: Until,
  ): Promise<ScanPage>;
  due(shard: string, before: EpochMs, limit: number, from?: string, call?: Until): Promise<DuePage>;

  /** What is counted of tenants. Only who turns a quota on needs it. */
  readonly quotas?: Quotas;
}
