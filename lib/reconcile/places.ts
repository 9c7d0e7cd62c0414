import { backoffMs, type Pauses } from '../core/policy.ts';
import type { Due, EpochMs } from '../core/record.ts';
import { dueShard } from '../ledger/schema.ts';

/* Where an open record is put: to be looked at again, or before an operator. */

interface Placed {
  readonly pk: string;
  readonly due?: Due;
}

/** Later and later; half of each pause is jitter. */
export function retryPlace(
  { pk, due }: Placed,
  now: EpochMs,
  pauses: Pauses,
  random: () => number,
  error?: string,
  afterMs?: number,
): Due & { readonly tries: number } {
  const tries = (due?.tries ?? 0) + 1;
  const at = now + Math.max(afterMs ?? 0, backoffMs(pauses, tries - 1, random));
  return { shard: dueShard(pk), at, tries, ...(error !== undefined && { error }) };
}

/** Nothing was tried in vain: it is just not time yet. */
export function waitPlace({ pk, due }: Placed, at: EpochMs): Due {
  const { tries, error } = due ?? {};
  return {
    shard: dueShard(pk),
    at,
    ...(tries !== undefined && { tries }),
    ...(error !== undefined && { error }),
  };
}

export function parkedPlace(
  { pk, due }: Placed,
  now: EpochMs,
  error: string,
  tries: number = due?.tries ?? 0,
): Due {
  return { shard: dueShard(pk, 'parked'), at: now, parkedAt: now, tries, error };
}
