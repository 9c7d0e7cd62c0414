import type { Doubt } from '../core/decide.ts';
import type {
  Attempt,
  Claim,
  Deferral,
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
  Completed,
  CompletedDelivered,
  CompletedUndelivered,
  Due,
  EpochMs,
  EpochSeconds,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Open,
  Reply,
  StoredResponse,
  Unknown,
} from '../core/record.ts';

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
  | ({ readonly to: 'accepted' } & Reentry)
  | ({ readonly to: 'in_progress'; readonly step: StepChange | undefined } & Reentry);

export type SettleAcceptedTo =
  | ({ readonly to: 'completed'; readonly reply: Reply } & Expiry & { readonly now: EpochMs })
  | ({ readonly to: 'unknown' } & Uncertainty);

export interface DuePage {
  readonly entries: readonly { readonly pk: string; readonly at: EpochMs }[];
  readonly next: string | undefined;
}

/** When to stop trying. A move that has not been answered by then ends in `StoreUnavailable`. */
export interface Until {
  readonly until?: EpochMs;
}

/**
 * The durable record of every operation. Each method is one move of `core/transitions.ts` under its condition, or
 * a strongly consistent read. `W` is what the store takes as a write of the caller's own.
 */
export interface Ledger<W = never> {
  reserve(claim: Claim, reuse: Reuse, call?: Until): Promise<Reserved>;
  retake(from: FailedRetryable, by: Attempt, call?: Until): Promise<Taken>;
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
    call?: Until,
  ): Promise<Moved<Completed | FailedRetryable | Accepted | InProgress>>;
  settleAccepted(from: Accepted, move: SettleAcceptedTo, call?: Until): Promise<Moved<Completed | Unknown>>;
  reopen(from: CompletedDelivered, failure: Failure, call?: Until): Promise<Moved<FailedRetryable>>;
  /** All of the outbox is delivered: from here the record ends like any other. */
  deliver(from: CompletedUndelivered, ttl: EpochSeconds, call?: Until): Promise<Moved<CompletedDelivered>>;
  /** Puts an open record where the sweep looks, if it is still where it was read. Never creates one. */
  watch<R extends Open>(from: R, due: Due, call?: Until): Promise<Moved<R>>;

  read(pk: string, call?: Until): Promise<LedgerRecord | undefined>;
  /** The stored reply, its body fetched and checked. */
  reply(pk: string, response: StoredResponse, call?: Until): Promise<Reply>;
  due(shard: string, before: EpochMs, limit: number, from?: string, call?: Until): Promise<DuePage>;
}
