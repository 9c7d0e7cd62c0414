import type { Fingerprint } from '../core/fingerprint.ts';
import type { Policy } from '../core/policy.ts';
import type { Accepted, Completed, EpochMs, Reply } from '../core/record.ts';
import type { Retention } from '../effects/operations.ts';
import type { RequestToKeep, WriteRefusal } from '../ledger/ledger.ts';

/** Under this nothing useful can be started, finished and written down. */
export const START_MIN_MS = 1_000;

/** Where nobody says how long a request may take: as long as API Gateway waits for one. */
export const UNKNOWN_REMAINING_MS = 29_000;

/** A request as the engine sees it: which record, whose, and until when. Taken once, before the handler. */
export interface Operation {
  readonly pk: string;
  readonly tenant: string;
  readonly name: string;
  /** What its metrics are counted under: never what a caller can choose, such as a concrete path. */
  readonly label: string;
  readonly fingerprint: Fingerprint;
  readonly policy: Policy;
  /** When the caller must have its answer. */
  readonly deadline: EpochMs;
  readonly retentionSeconds: Retention;
  /** The request is older than any record is kept: it may be answered from one, but must not start anything. */
  readonly onlyKnown: boolean;
  /** What is kept of it, so that it can be finished without its client. */
  readonly request?: RequestToKeep;
}

/** What a caller gets when the handler is not run for it, or its answer does not count. */
export type Answer =
  | { readonly kind: 'replay'; readonly record: Completed; readonly reply: Reply }
  | { readonly kind: 'pending'; readonly record: Accepted; readonly reply: Reply }
  | { readonly kind: 'in_progress'; readonly accept: boolean; readonly retryAfterMs: number }
  | { readonly kind: 'unknown'; readonly parked: boolean; readonly retryAfterMs: number }
  | { readonly kind: 'misuse' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'too_old' }
  /** The tenant takes too many keys, and this one is new. */
  | { readonly kind: 'over_quota'; readonly retryAfterMs: number }
  | {
      readonly kind: 'unavailable';
      readonly retryAfterMs: number;
      readonly cause?: unknown;
      /** Not for the store's sake: too little time was left to start. */
      readonly tooLate?: true;
    };

/** Nothing useful could have been started, finished and written down. */
export const tooLate: Answer = { kind: 'unavailable', retryAfterMs: START_MIN_MS, tooLate: true };

export type Finished<W> =
  /** The handler's own answer, stored. */
  | { readonly kind: 'stored'; readonly record: Completed | Accepted }
  /** Nothing is stored: the handler's failure is the answer, and the key may be retried or is unknown now. */
  | { readonly kind: 'failed'; readonly status: 'failed_retryable' | 'unknown' | 'handed_back' | 'open' }
  | { readonly kind: 'refused'; readonly reasons: readonly WriteRefusal<W>[] }
  /** The record says otherwise, or cannot be reached. */
  | { readonly kind: 'answer'; readonly answer: Answer; readonly fenced: boolean };
