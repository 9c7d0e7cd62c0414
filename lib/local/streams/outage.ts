import type { Reporter } from '../ports.ts';

export interface Outage {
  /** Something did not work; returns how long to wait before it is tried again. */
  began(what: string, error: unknown): number;
  /** It works. */
  ended(what: string): void;
}

export interface OutageOptions {
  /** Whose, for the reader. */
  readonly name: string;
  readonly report: Reporter;
  readonly clock: () => number;
  readonly firstPauseMs: number;
  readonly longestPauseMs: number;
}

/** Tells once that something is away and once that it is back, however many ask and however often. */
export function outage({ name, report, clock, firstPauseMs, longestPauseMs }: OutageOptions): Outage {
  const tries = new Map<string, number>();
  return {
    began(what, error) {
      const before = tries.get(what) ?? 0;
      if (tries.size === 0) say('error', `${name} cannot go on: ${error}. It tries again until it can.`);
      tries.set(what, before + 1);
      return Math.min(longestPauseMs, firstPauseMs * 2 ** before);
    },
    ended(what) {
      if (tries.delete(what) && tries.size === 0) say('info', `${name} goes on.`);
    },
  };

  function say(level: 'error' | 'info', message: string): void {
    report({ at: clock(), source: 'stream', level, kind: 'platform', message });
  }
}
