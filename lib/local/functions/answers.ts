import type { Invoked } from '../ports.ts';
import type { Outcome, Started } from './environment-process.ts';
import { exited, timedOut } from './lambda-errors.ts';

/* What an invoker is told of what became of a process. */

export type Failed = Extract<Invoked, { kind: 'failed' }>;

/** Its time was over, whatever it was doing. */
export function late(requestId: string, limitMs: number): Failed {
  return { kind: 'failed', error: 'Timeout', payload: timedOut(requestId, limitMs) };
}

export function failedStart(started: Started, requestId: string): Failed {
  if (started.kind === 'fatal') return { kind: 'failed', error: 'Unhandled', payload: started.payload };
  const how = started.kind === 'gone' ? started.how : 'signal: killed';
  return { kind: 'failed', error: 'Crash', payload: exited(requestId, how) };
}

export function invokedOf(outcome: Outcome, requestId: string): Invoked {
  switch (outcome.kind) {
    case 'returned':
      return { kind: 'returned', payload: outcome.payload };
    case 'threw':
    case 'fatal':
      return { kind: 'failed', error: 'Unhandled', payload: outcome.payload };
    case 'gone':
      return { kind: 'failed', error: 'Crash', payload: exited(requestId, outcome.how) };
    default:
      return outcome satisfies never;
  }
}
