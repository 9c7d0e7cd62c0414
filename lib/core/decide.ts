import type { Fingerprint } from './fingerprint.ts';
import type { Policy } from './policy.ts';
import {
  type Accepted,
  type Completed,
  type Effects,
  type EpochMs,
  type FailedRetryable,
  type InProgress,
  type LedgerRecord,
  lapsesAt,
  leasePassed,
  openStep,
  type Unknown,
} from './record.ts';

export interface RequestClaim {
  readonly fingerprint: Pick<Fingerprint, 'matches'>;
  /** Until when this request would own the key. */
  readonly leaseUntil: EpochMs;
}

/** Why an abandoned attempt may not be run again. The ledger repeats it in the condition of its write. */
export type Doubt =
  | { readonly kind: 'opaque' }
  | { readonly kind: 'open_effect'; readonly step: string }
  | { readonly kind: 'dedupe_window_over' }
  | { readonly kind: 'effects_changed' };

type InFlight<Kind> = Kind extends unknown
  ? { readonly kind: Kind; readonly record: InProgress; readonly retryAfterMs: number }
  : never;

export type Decision =
  | { readonly kind: 'reserve' }
  | { readonly kind: 'retake'; readonly record: FailedRetryable }
  | { readonly kind: 'takeOver'; readonly record: InProgress }
  | { readonly kind: 'lapse'; readonly record: InProgress; readonly doubt: Doubt }
  | { readonly kind: 'replay'; readonly record: Completed }
  | { readonly kind: 'pending'; readonly record: Accepted }
  | InFlight<Policy['inFlight']>
  | {
      readonly kind: 'unknown';
      readonly record: Unknown;
      readonly parked: boolean;
      readonly retryAfterMs: number;
    }
  | { readonly kind: 'misuse'; readonly record: LedgerRecord }
  | { readonly kind: 'gone'; readonly record: Completed | FailedRetryable };

/** The one place that chooses what a request gets. */
export function decide(
  record: LedgerRecord | undefined,
  request: RequestClaim,
  now: EpochMs,
  policy: Policy,
): Decision {
  if (record === undefined || isReusable(record, now, policy)) return { kind: 'reserve' };
  const expired = asExpired(record, now, policy.skewMs);
  if (expired) return { kind: 'gone', record: expired };
  if (!request.fingerprint.matches(record.fingerprint)) return { kind: 'misuse', record };

  switch (record.status) {
    case 'completed':
      return { kind: 'replay', record };
    case 'accepted':
      return { kind: 'pending', record };
    case 'failed_retryable':
      return { kind: 'retake', record };
    case 'unknown': {
      const retryAfterMs = Math.max(policy.inFlightRetryMs, record.due.at - now);
      return { kind: 'unknown', record, parked: record.due.parkedAt !== undefined, retryAfterMs };
    }
    case 'in_progress': {
      if (!leasePassed(record, now, policy.skewMs)) {
        return { kind: policy.inFlight, record, retryAfterMs: policy.inFlightRetryMs };
      }
      const doubt = doubtAbout(record, request, policy);
      return doubt ? { kind: 'lapse', record, doubt } : { kind: 'takeOver', record };
    }
    default:
      return record satisfies never;
  }
}

/** What stands against running an abandoned attempt again. It ran under the record's effects, not under today's. */
function doubtAbout(
  record: InProgress,
  request: Pick<RequestClaim, 'leaseUntil'>,
  policy: Pick<Policy, 'effects' | 'dedupeWindowMs'>,
): Doubt | undefined {
  switch (record.effects) {
    case 'transactional':
      return undefined;
    case 'opaque':
      return { kind: 'opaque' };
    case 'steps': {
      const step = openStep(record);
      if (step !== undefined) return { kind: 'open_effect', step };
      if (policy.effects !== 'steps') return { kind: 'effects_changed' };
      // The resumed attempt may call a provider up to the end of its lease; by then it must still remember our key.
      const remembered = request.leaseUntil <= record.dedupeSince + policy.dedupeWindowMs;
      return remembered ? undefined : { kind: 'dedupe_window_over' };
    }
    default:
      return record.effects satisfies never;
  }
}

export type Abandoned =
  /** Its owner may be alive until then. */
  | { readonly kind: 'wait'; readonly until: EpochMs }
  | { readonly kind: 'lapse'; readonly doubt: Doubt }
  /** Nothing happened, and whoever comes next may run it. */
  | { readonly kind: 'release' }
  /** Its function can be invoked again. */
  | { readonly kind: 'complete' }
  /** Only its client can resume it, or an operator. */
  | { readonly kind: 'park' };

/** What becomes of an attempt that nobody asks about, so that nothing stays open for want of a client. */
export function decideAbandoned(record: InProgress, now: EpochMs, policy: Policy, runMs: number): Abandoned {
  if (!leasePassed(record, now, policy.skewMs)) {
    return { kind: 'wait', until: lapsesAt(record, policy.skewMs) };
  }
  // Whether its function still has the steps is for the function to say, when it is invoked.
  const doubt = doubtAbout(record, { leaseUntil: now + runMs }, { ...policy, effects: record.effects });
  if (doubt) return { kind: 'lapse', doubt };
  if (record.effects === 'transactional') return { kind: 'release' };
  return { kind: record.request ? 'complete' : 'park' };
}

/** What a provider's event about an operation is good for. It is a hint: it moves nothing by itself. */
export type Hint =
  /** Ask the provider, and settle. */
  | { readonly kind: 'ask'; readonly record: Unknown }
  /** Somebody is at work on it, and only if they fail is there anything to ask. */
  | { readonly kind: 'wait' }
  | { readonly kind: 'ended' }
  | { readonly kind: 'missing' };

export function decideHint(record: LedgerRecord | undefined): Hint {
  switch (record?.status) {
    case undefined:
      return { kind: 'missing' };
    case 'unknown':
      return { kind: 'ask', record };
    case 'in_progress':
    case 'accepted':
      return { kind: 'wait' };
    case 'completed':
    case 'failed_retryable':
      return { kind: 'ended' };
    default:
      return record satisfies never;
  }
}

/** DynamoDB's TTL may be days late, so expiry is a comparison, never the absence of the item. */
function asExpired(record: LedgerRecord, now: EpochMs, skewMs: number) {
  if (record.status !== 'completed' && record.status !== 'failed_retryable') return undefined;
  if (record.ttl === undefined) return undefined; // An undelivered outbox: it neither expires nor frees its key.
  return record.expiresAt + skewMs < now ? record : undefined;
}

/** Whether the key may start a new operation. The condition of a reserve says the same to the store. */
export function isReusable(
  record: LedgerRecord,
  now: EpochMs,
  policy: Pick<Policy, 'afterExpiry' | 'skewMs'>,
): boolean {
  const expired = asExpired(record, now, policy.skewMs);
  if (!expired) return false;
  return policy.afterExpiry === 'execute' || expired.ttl * 1_000 + policy.skewMs < now;
}

/** How a handler ended. `deferred`: it asked to answer now and to let delivery of its outbox finish the work. */
export type Ending =
  | { readonly kind: 'replied'; readonly status: number; readonly deferred: boolean }
  | { readonly kind: 'threw'; readonly notExecuted: boolean };

export type Conclusion = 'complete' | 'accept' | 'release' | 'markUnknown' | 'handBack';

/** How far an attempt with steps got. */
export interface Progress {
  /** A step began, now or in an earlier attempt, or an attempt was lost that may have begun one. */
  readonly began: boolean;
  /** An at-most-once effect was tried, and what came of it is not recorded. */
  readonly openEffect: boolean;
}

/** Returning one of these asserts that nothing ran: come later, or as you did but slower. */
const NOT_NOW: ReadonlySet<number> = new Set([408, 425, 429]);

/**
 * Of an opaque handler this asserts nothing: it is what a provider answers that gave up on us, and what Middy answers in
 * the name of a handler that is still running (`timeoutEarlyResponse`).
 */
const TIMEOUT = 408;

/** What becomes of the record when the handler has ended, by where its effects are. */
export function conclude(effects: Effects, ending: Ending, { began, openEffect }: Progress): Conclusion {
  if (effects === 'steps' && openEffect) return 'markUnknown'; // Whatever the handler makes of it.
  const back = effects === 'steps' && began ? 'handBack' : 'release';
  const failure = effects === 'opaque' ? 'markUnknown' : back;
  if (ending.kind === 'threw') return ending.notExecuted ? back : failure;
  if (NOT_NOW.has(ending.status)) return ending.status === TIMEOUT ? failure : back;
  if (ending.status >= 500) return failure;
  return ending.deferred ? 'accept' : 'complete';
}

/** What an attempt has begun by the time it starts to run. */
export function progressOf(record: Pick<InProgress, 'steps' | 'takenOver'>): Progress {
  return { began: record.takenOver || record.steps.size > 0, openEffect: openStep(record) !== undefined };
}
