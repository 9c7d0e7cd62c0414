import type { CloudModel } from '../model.ts';

/** What a person who watches has time for. */
export interface Pace {
  readonly timeoutMsMax: number;
  /** For every function: by it, the app makes haste itself. */
  readonly environment: Readonly<Record<string, string>>;
}

/** What AWS does each minute, and what it collects for up to a minute, happens each second. */
const MINUTE_MS = 60_000;
const SECOND_MS = 1_000;

/** Of asynchronous events that failed, for which Lambda waits a minute and then two. */
const RETRY_AFTER_MS = [SECOND_MS, 2 * SECOND_MS];

/** Somebody waits for an answer of an API no longer than this; a function that may take longer works for nobody who waits. */
const WAITED_FOR_MS = 30_000;

export function hastened(model: CloudModel, { timeoutMsMax, environment }: Pace): CloudModel {
  const routed = new Set(model.apis.flatMap(({ routes }) => routes.map(({ functionName }) => functionName)));
  return {
    ...model,
    functions: model.functions.map((one) => {
      const isWaitedFor = routed.has(one.name) && one.timeoutMs <= WAITED_FOR_MS;
      return {
        ...one,
        timeoutMs: isWaitedFor ? Math.min(one.timeoutMs, timeoutMsMax) : one.timeoutMs,
        environment: { ...one.environment, ...environment },
        later: { ...one.later, retryAfterMs: RETRY_AFTER_MS },
      };
    }),
    mappings: model.mappings.map((one) => ({ ...one, windowMs: Math.min(one.windowMs, SECOND_MS) })),
    schedules: model.schedules.map((one) => ({
      ...one,
      everyMs: one.everyMs <= MINUTE_MS ? SECOND_MS : one.everyMs,
    })),
  };
}
