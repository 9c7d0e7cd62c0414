import type { FunctionModel } from '../model.ts';
import type { Invoked, Queues, Report } from '../ports.ts';
import type { Timers } from '../timers.ts';
import type { Failed } from './answers.ts';
import { summaryOf } from './lambda-errors.ts';

/*
 * Lambda's queue of events that nobody waits for.
 * https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html
 */

export interface LaterQueue {
  add(model: FunctionModel, requestId: string, event: string): void;
  close(): void;
}

export interface LaterQueueOptions {
  readonly clock: () => number;
  readonly timers: Timers;
  readonly queues: Queues;
  readonly invoke: (model: FunctionModel, requestId: string, event: string) => Promise<Invoked>;
  readonly tell: (source: string, level: Report['level'], message: string, fields?: Report['fields']) => void;
}

/** One event on its way. Its id stays the same in all its tries. */
interface Errand {
  readonly model: FunctionModel;
  readonly requestId: string;
  readonly event: string;
  readonly since: number;
  invocations: number;
  throttles: number;
  last?: Failed;
}

type Condition = 'RetriesExhausted' | 'EventAgeExceeded';

/** A minute after the first failure, two after the second. */
const RETRY_MS = [60_000, 120_000];

/** A throttled event comes again after a second, then later and later, up to five minutes. */
const THROTTLED_MS = 1_000;
const THROTTLED_MAX_MS = 5 * 60_000;

export function laterQueue({ clock, timers, queues, invoke, tell }: LaterQueueOptions): LaterQueue {
  const errands = new Set<Errand>();
  const waits = new Set<() => void>();
  let isClosed = false;

  async function attempt(errand: Errand): Promise<void> {
    const { model, requestId, event } = errand;
    const invoked = await invoke(model, requestId, event);
    if (isClosed) return;
    if (invoked.kind === 'throttled') {
      errand.throttles += 1;
      again(errand, Math.min(THROTTLED_MS * 2 ** (errand.throttles - 1), THROTTLED_MAX_MS), 'throttled');
      return;
    }
    errand.invocations += 1;
    errand.throttles = 0;
    if (invoked.kind === 'returned') {
      errands.delete(errand);
      return;
    }
    errand.last = invoked;
    const { retryAfterMs = RETRY_MS } = model.later;
    const retryMs = retryAfterMs[Math.min(errand.invocations, retryAfterMs.length) - 1];
    if (retryMs === undefined || errand.invocations > model.later.retries)
      discard(errand, 'RetriesExhausted');
    else again(errand, retryMs, summaryOf(invoked.payload));
  }

  /** Unless it is too old by then: an event is discarded as soon as it can be said that nothing will come of it. */
  function again(errand: Errand, waitMs: number, reason: string): void {
    const { model, requestId, since } = errand;
    if (clock() + waitMs - since > model.later.maxAgeSeconds * 1000) {
      discard(errand, 'EventAgeExceeded');
      return;
    }
    tell(model.name, 'warn', `an event is tried again in ${waitMs / 1000} s: ${reason}`, { requestId });
    const cancel = timers.after(waitMs, () => {
      waits.delete(cancel);
      void attempt(errand);
    });
    waits.add(cancel);
  }

  function discard(errand: Errand, condition: Condition): void {
    const { model, requestId } = errand;
    errands.delete(errand);
    const queue = model.later.onFailure?.queue;
    if (queue !== undefined) queues.send(queue, recordOf(errand, condition, clock()));
    const where = queue === undefined ? 'lost, for it has no on-failure destination' : `kept in ${queue}`;
    tell(model.name, 'error', `an event was given up on (${condition}) and is ${where}`, {
      requestId,
      queue,
    });
  }

  function drop({ model, requestId }: Errand): void {
    tell(model.name, 'warn', 'an event was dropped: the cloud is closed', { requestId });
  }

  return {
    add(model, requestId, event) {
      const errand = { model, requestId, event, since: clock(), invocations: 0, throttles: 0 };
      if (isClosed) {
        drop(errand);
        return;
      }
      errands.add(errand);
      void attempt(errand);
    },
    close() {
      isClosed = true;
      for (const cancel of waits) cancel();
      for (const errand of errands) drop(errand);
      waits.clear();
      errands.clear();
    },
  };
}

/** https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-retain-records.html */
function recordOf({ model, requestId, event, invocations, last }: Errand, condition: Condition, at: number) {
  return JSON.stringify({
    version: '1.0',
    timestamp: new Date(at).toISOString(),
    requestContext: {
      requestId,
      functionArn: `${model.arn}:$LATEST`,
      condition,
      approximateInvokeCount: invocations,
    },
    requestPayload: jsonOr(event),
    ...(last && {
      responseContext: { statusCode: 200, executedVersion: '$LATEST', functionError: 'Unhandled' },
      responsePayload: jsonOr(last.payload),
    }),
  });
}

/** An event that is no JSON is one of the reasons why a function fails. */
function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
