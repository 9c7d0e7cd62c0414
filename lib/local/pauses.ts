import type { ServerResponse } from 'node:http';
import type { Timers } from './timers.ts';

export interface Pauses {
  /** Whether the time passed; not if it was called off before, or is over for good. */
  pause(ms: number, signal?: AbortSignal): Promise<boolean>;
  /** Ends all pauses, also those to come. */
  close(): void;
}

export function pauses(timers: Timers): Pauses {
  const waiting = new Set<() => void>();
  let closed = false;
  return {
    pause(ms, signal) {
      if (closed || signal?.aborted) return Promise.resolve(false);
      if (ms <= 0) return Promise.resolve(true);
      return new Promise((resolve) => {
        function end(passed: boolean): void {
          callOff();
          waiting.delete(stop);
          signal?.removeEventListener('abort', stop);
          resolve(passed);
        }
        const stop = () => end(false);
        const callOff = timers.after(ms, () => end(true));
        waiting.add(stop);
        signal?.addEventListener('abort', stop);
      });
    },
    close() {
      closed = true;
      for (const stop of [...waiting]) stop();
    },
  };
}

/** Aborts once nobody waits for the answer any more. */
export function goneFrom(response: ServerResponse): AbortSignal {
  const gone = new AbortController();
  if (response.destroyed) gone.abort();
  else response.once('close', () => gone.abort());
  return gone.signal;
}
