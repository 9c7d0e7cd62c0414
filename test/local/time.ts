import { setImmediate as turn } from 'node:timers/promises';
import type { Timers } from '../../lib/local/timers.ts';

const START = Date.UTC(2030, 0, 15, 12);

/** A clock that only a test moves, and timers that go by it. */
export function fakeTime(start = START) {
  let now = start;
  const waiting = new Set<{ at: number; act: () => void }>();
  const timers: Timers = {
    after(ms, act) {
      const timer = { at: now + ms, act };
      waiting.add(timer);
      return () => waiting.delete(timer);
    },
  };
  return {
    start,
    clock: () => now,
    timers,
    pass,
    settle,
    /** The machine slept: nothing ran, and now it is later. */
    sleep(ms: number) {
      now += ms;
    },
    get waiting() {
      return waiting.size;
    },
  };

  async function pass(ms: number): Promise<void> {
    const until = now + ms;
    await settle();
    for (;;) {
      const [next] = [...waiting].sort((a, b) => a.at - b.at);
      if (!next || next.at > until) break;
      now = Math.max(now, next.at);
      waiting.delete(next);
      next.act();
      await settle();
    }
    now = until;
  }

  /** Lets everything run that waits for nothing but a promise. */
  async function settle(): Promise<void> {
    for (let turns = 0; turns < 3; turns += 1) await turn();
  }
}
