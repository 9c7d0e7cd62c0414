import type { EventEmitter } from 'node:events';

/** Ctrl-C, `kill`, and a terminal that was closed. */
const ENDINGS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export interface EndingPorts {
  /** Where the signals arrive. */
  readonly signals: EventEmitter;
  /** What is written to: nobody reads any more what a pipe or a terminal that has gone was to show. */
  readonly outputs: readonly EventEmitter[];
  /** For whoever cannot wait. */
  readonly hurry: () => void;
  readonly clock: () => number;
}

/** A terminal's Ctrl-C reaches npm and us, and npm passes on what it gets: two signals that are one. */
const SAME_MS = 1_000;

export interface Ending {
  readonly signal: AbortSignal;
  forget(): void;
}

/** The first signal ends it in order, so that no child is left; whoever cannot wait for that sends another one. */
export function awaitEnding({ signals, outputs, hurry, clock }: EndingPorts): Ending {
  const ending = new AbortController();
  let askedAt: number | undefined;
  const end = () => {
    askedAt ??= clock();
    if (clock() - askedAt >= SAME_MS) hurry();
    ending.abort();
  };
  const unheard = () => ending.abort();
  for (const name of ENDINGS) signals.on(name, end);
  // These stay: without a listener, whatever is still written would end us before our children.
  for (const output of outputs) output.on('error', unheard);
  return {
    signal: ending.signal,
    forget() {
      for (const name of ENDINGS) signals.off(name, end);
    },
  };
}
