import type { Timers } from '../../../lib/local/timers.ts';

export interface HandTimers extends Timers {
  /** How long each of those that wait is to wait. */
  readonly waiting: readonly number[];
  /** All that wait are over. */
  fire(): void;
}

/** They are over when a test says so. */
export function handTimers(): HandTimers {
  const timers = new Map<() => void, number>();
  return {
    after(ms, act) {
      const once = () => act();
      timers.set(once, ms);
      return () => timers.delete(once);
    },
    get waiting() {
      return [...timers.values()];
    },
    fire() {
      const over = [...timers.keys()];
      timers.clear();
      for (const act of over) act();
    },
  };
}
