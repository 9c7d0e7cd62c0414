import type { EpochMs } from '../core/record.ts';

/** In a row, with no success between: one throttled call is weather, five are an outage. */
const FAILURES = 5;

/** Long enough to let a store recover, short enough that nobody needs to be told. */
const OPEN_MS = 5_000;

export interface Breaker {
  /** How long callers are turned away without asking the store; 0 while they are not. */
  remainingMs(now: EpochMs): number;
  succeeded(): void;
  failed(now: EpochMs): void;
}

/** Spares callers the wait, and the store the load, while it does not answer. It never lets a request through unprotected. */
export function breaker(): Breaker {
  let failures = 0;
  let openUntil: EpochMs = 0;
  return {
    remainingMs: (now) => Math.max(0, openUntil - now),
    succeeded() {
      failures = 0;
    },
    failed(now) {
      failures += 1;
      if (failures < FAILURES) return;
      failures = 0;
      openUntil = now + OPEN_MS;
    },
  };
}
