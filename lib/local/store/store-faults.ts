import type { Faults } from '../faults.ts';
import { conflicted, internalError, throttled } from './fault-answers.ts';
import type { Answer } from './forward.ts';
import type { DataOperation } from './operations.ts';

/** What may become of a request that reads or writes items. Only `drop-response` and `delay` let DynamoDB see it. */
export const STORE_FAULTS = [
  'none',
  /** Lost on its way: silence, for `latencyMs` or until the client gives up, and then a reset. */
  'drop-request',
  /** Carried out; its answer is lost. Silence and a reset, as above. */
  'drop-response',
  /** ProvisionedThroughputExceededException. */
  'throttle',
  /** InternalServerError. */
  'error',
  /** Another transaction is in the way. Only writes of single items and transactions of writes are told so. */
  'conflict',
  /** It arrives `latencyMs` late, also if its client has left by then: what is on its way cannot be called back. */
  'delay',
  /** The connection is reset, as by a host on which nothing listens any more. */
  'down',
] as const;

export type StoreFault = (typeof STORE_FAULTS)[number];

/** What one request meets. */
export interface Met {
  readonly mode: Exclude<StoreFault, 'none'>;
  /** Passes before the request comes to its end. */
  readonly latencyMs: number;
  /** DynamoDB's, where the fault is one. */
  readonly answer: Answer | undefined;
}

/**
 * If nobody says. Clients of DynamoDB give up after a second or two: what is lost is silent for longer than that, and not
 * so long that somebody who watches takes it for the end of all. What answers with an error does so at once.
 */
const LATENCY_MS: Readonly<Partial<Record<StoreFault, number>>> = {
  'drop-request': 5_000,
  'drop-response': 5_000,
  delay: 200,
};

/** Undefined for a request that goes through. */
export function drawn(
  faults: Faults<StoreFault>,
  random: () => number,
  operation: DataOperation,
  body: Buffer,
): Met | undefined {
  const { mode, probability, latencyMs = LATENCY_MS[mode] ?? 0 } = faults;
  if (mode === 'none') return undefined;
  const answer = answerOf(mode, operation, body);
  if (mode === 'conflict' && !answer) return undefined;
  return random() < probability ? { mode, latencyMs, answer } : undefined;
}

function answerOf(mode: StoreFault, operation: DataOperation, body: Buffer): Answer | undefined {
  if (mode === 'throttle') return throttled();
  if (mode === 'error') return internalError();
  if (mode === 'conflict') return conflicted(operation, body);
  return undefined;
}
