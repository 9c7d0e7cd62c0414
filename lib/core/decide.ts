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
function doubtAbout(record: InProgress, request: RequestClaim, policy: Policy): Doubt | undefined {
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

export type Conclusion = 'complete' | 'accept' | 'release' | 'markUnknown';

/** Returning one of these asserts that nothing ran: come later, or as you did but slower. */
const NOT_NOW: ReadonlySet<number> = new Set([408, 425, 429]);

/** What becomes of the record when the handler has ended, by where its effects are. */
export function conclude(effects: Exclude<Effects, 'steps'>, ending: Ending): Conclusion {
  const failure = effects === 'transactional' ? 'release' : 'markUnknown';
  if (ending.kind === 'threw') return ending.notExecuted ? 'release' : failure;
  if (NOT_NOW.has(ending.status)) return 'release';
  if (ending.status >= 500) return failure;
  return ending.deferred ? 'accept' : 'complete';
}
