import type { EpochMs } from '../core/record.ts';

/** So many at once, and so many a second after that. */
export interface ThrottleLimits {
  readonly perSecond: number;
  readonly burst: number;
}

/** More callers than one environment serves within the seconds that a bucket takes to fill; the oldest is forgotten first. */
const CALLERS_MAX = 1_000;

/**
 * A bucket of tokens for each caller, in the memory of one environment: with n environments a caller gets at most n times as
 * much. Returns how long the caller has to wait, or nothing where it may go on.
 */
export function throttle({ perSecond, burst }: ThrottleLimits) {
  const buckets = new Map<string, { tokens: number; at: EpochMs }>();
  return (caller: string, now: EpochMs): number | undefined => {
    const { tokens, at } = buckets.get(caller) ?? { tokens: burst, at: now };
    const filled = Math.min(burst, tokens + (Math.max(0, now - at) * perSecond) / 1_000);
    buckets.delete(caller);
    buckets.set(caller, { tokens: filled >= 1 ? filled - 1 : filled, at: now });
    const [oldest] = buckets.keys();
    if (buckets.size > CALLERS_MAX && oldest !== undefined) buckets.delete(oldest);
    return filled >= 1 ? undefined : Math.max(1, Math.round(((1 - filled) * 1_000) / perSecond));
  };
}
