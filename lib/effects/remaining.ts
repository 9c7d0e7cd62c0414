/** A lease is as long, and nothing is done about a crashed call before it has passed. A timer holds it, too. */
export const REMAINING_MAX_MS = 24 * 3_600_000;

/** How long this invocation may still take, by its Lambda context; where the context does not say, so long. */
export function remainingMs(context: object, unknownMs: number): number {
  const ask: unknown = 'getRemainingTimeInMillis' in context ? context.getRemainingTimeInMillis : undefined;
  const remaining: unknown = typeof ask === 'function' ? ask.call(context) : undefined;
  if (typeof remaining !== 'number' || !Number.isFinite(remaining)) return unknownMs;
  return Math.min(remaining, REMAINING_MAX_MS);
}

/** Kept back from an invocation on a schedule or a stream, to write down the last thing learnt and to answer. */
export const ANSWER_MS = 2_000;

/** Until when such an invocation may work. Where nobody says how long it may take, it is a minute. */
export function workUntil(context: object, now: number, unknownMs = 60_000): number {
  return now + remainingMs(context, unknownMs) - ANSWER_MS;
}
