import type { ApiModel } from '../model.ts';

/** Lets a burst through at once, and then as many a second as the rate says. Without limits, everything. */
export function tokenBucket(limits: ApiModel['throttle'], clock: () => number): () => boolean {
  if (!limits) return () => true;
  const { ratePerSecond, burst } = limits;
  let tokens = burst;
  let filledAt = clock();

  return () => {
    const now = clock();
    // A clock that is set back takes nothing away.
    tokens = Math.min(burst, tokens + (Math.max(0, now - filledAt) * ratePerSecond) / 1_000);
    filledAt = now;
    if (tokens < 1) return false;
    tokens -= 1;
    return true;
  };
}
