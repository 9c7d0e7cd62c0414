import { describe, expect, it } from 'vitest';
import { laterQueue } from '../../../lib/local/functions/later.ts';
import { memoryQueues } from '../../../lib/local/functions/memory-queues.ts';
import type { LaterModel } from '../../../lib/local/model.ts';
import type { Invoked, Report } from '../../../lib/local/ports.ts';
import { heldTimers, modelOf, stage } from './stage.ts';

const OK: Invoked = { kind: 'returned', payload: 'null' };
const THROTTLED: Invoked = { kind: 'throttled' };
const failed = (errorMessage: string): Invoked => ({
  kind: 'failed',
  error: 'Unhandled',
  payload: JSON.stringify({ errorType: 'Error', errorMessage, trace: [] }),
});

const LATER: LaterModel = { retries: 2, maxAgeSeconds: 21_600, onFailure: { queue: 'failed' } };

/** A queue whose function answers this, one after the other, in a time that goes on when it is told to. */
function scene(answers: readonly Invoked[], changed: Partial<LaterModel> = {}) {
  const later = { ...LATER, ...changed };
  const START = Date.parse('2026-01-01T00:00:00.000Z');
  let now = START;
  const timers = heldTimers();
  const queues = memoryQueues();
  const invoked: { readonly atMs: number; readonly requestId: string; readonly event: string }[] = [];
  const reports: Pick<Report, 'level' | 'message'>[] = [];
  const queue = laterQueue({
    clock: () => now,
    timers,
    queues,
    tell: (_, level, message) => reports.push({ level, message }),
    invoke: async (_, requestId, event) => {
      invoked.push({ atMs: now - START, requestId, event });
      return answers[invoked.length - 1] ?? OK;
    },
  });
  const model = modelOf({ later });
  return {
    queue,
    timers,
    invoked,
    reports,
    kept: () => queues.waiting('failed').map((body): unknown => JSON.parse(body)),
    add: (event = '{"a":1}') => queue.add(model, 'request-1', event),
    /** Goes from one wait to the next, until there is none. */
    async goOn(): Promise<void> {
      await settled();
      for (let [ms] = timers.waiting; ms !== undefined; [ms] = timers.waiting) {
        now += ms;
        timers.fire(ms);
        await settled();
      }
    },
  };
}

/** What is done at once is done after this. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('an event that nobody waits for', () => {
  it('is invoked at once, and not again when that worked', async () => {
    const { add, goOn, invoked, kept, reports } = scene([OK]);
    add();
    await goOn();
    expect(invoked).toEqual([{ atMs: 0, requestId: 'request-1', event: '{"a":1}' }]);
    expect([kept(), reports]).toEqual([[], []]);
  });

  it('that fails is tried again after one minute and after two more, with the same id, and then kept', async () => {
    const { add, goOn, invoked, kept, reports } = scene([failed('a'), failed('b'), failed('c'), OK]);
    add();
    await goOn();
    expect(invoked.map(({ atMs }) => atMs)).toEqual([0, 60_000, 180_000]);
    expect(new Set(invoked.map(({ requestId }) => requestId)).size).toBe(1);
    expect(kept()).toEqual([
      {
        version: '1.0',
        timestamp: '2026-01-01T00:03:00.000Z',
        requestContext: {
          requestId: 'request-1',
          functionArn: 'arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST',
          condition: 'RetriesExhausted',
          approximateInvokeCount: 3,
        },
        requestPayload: { a: 1 },
        responseContext: { statusCode: 200, executedVersion: '$LATEST', functionError: 'Unhandled' },
        responsePayload: { errorType: 'Error', errorMessage: 'c', trace: [] },
      },
    ]);
    expect(reports).toEqual([
      { level: 'warn', message: 'an event is tried again in 60 s: Error: a' },
      { level: 'warn', message: 'an event is tried again in 120 s: Error: b' },
      { level: 'error', message: 'an event was given up on (RetriesExhausted) and is kept in failed' },
    ]);
  });

  it('waits only as long as its function says', async () => {
    const { add, goOn, invoked } = scene([failed('a'), failed('b'), OK], { retryAfterMs: [1_000, 2_000] });
    add();
    await goOn();
    expect(invoked.map(({ atMs }) => atMs)).toEqual([0, 1_000, 3_000]);
  });

  it('that fails once is done when it works', async () => {
    const { add, goOn, invoked, kept } = scene([failed('a'), OK]);
    add();
    await goOn();
    expect(invoked).toHaveLength(2);
    expect(kept()).toEqual([]);
  });

  it('of a function without retries is tried once', async () => {
    const { add, goOn, invoked, kept } = scene([failed('a')], { retries: 0 });
    add();
    await goOn();
    expect(invoked).toHaveLength(1);
    expect(kept()).toMatchObject([{ requestContext: { approximateInvokeCount: 1 } }]);
  });

  it('that is throttled waits longer each time, and costs no retry', async () => {
    const answers = [THROTTLED, THROTTLED, THROTTLED, failed('a'), THROTTLED, failed('b'), failed('c')];
    const { add, goOn, invoked, kept } = scene(answers);
    add();
    await goOn();
    const waits = invoked.map(({ atMs }, index) => atMs - (invoked[index - 1]?.atMs ?? 0));
    expect(waits).toEqual([0, 1_000, 2_000, 4_000, 60_000, 1_000, 120_000]);
    expect(kept()).toMatchObject([{ requestContext: { approximateInvokeCount: 3 } }]);
  });

  it('that is only ever throttled is kept when it is too old, without a response', async () => {
    const { add, goOn, invoked, kept } = scene(Array(100).fill(THROTTLED), { maxAgeSeconds: 3_600 });
    add();
    await goOn();
    const waits = invoked.map(({ atMs }, index) => atMs - (invoked[index - 1]?.atMs ?? 0));
    expect(Math.max(...waits)).toBe(300_000);
    expect(invoked.at(-1)?.atMs).toBeGreaterThan(3_300_000);
    expect(invoked.at(-1)?.atMs).toBeLessThanOrEqual(3_600_000);
    expect(kept()).toEqual([
      {
        version: '1.0',
        timestamp: expect.any(String),
        requestContext: {
          requestId: 'request-1',
          functionArn: 'arn:aws:lambda:us-east-1:000000000000:function:f:$LATEST',
          condition: 'EventAgeExceeded',
          approximateInvokeCount: 0,
        },
        requestPayload: { a: 1 },
      },
    ]);
  });

  it('is not tried again when it would be too old by then', async () => {
    const { add, goOn, invoked, kept } = scene([failed('a'), failed('b'), OK], { maxAgeSeconds: 100 });
    add();
    await goOn();
    expect(invoked).toHaveLength(2);
    expect(kept()).toMatchObject([{ requestContext: { condition: 'EventAgeExceeded' } }]);
  });

  it('that nothing keeps is lost, and that is told', async () => {
    const { queue, goOn, reports, kept } = scene([failed('a')]);
    queue.add(modelOf({ later: { retries: 0, maxAgeSeconds: 60 } }), 'request-2', '{}');
    await goOn();
    expect(kept()).toEqual([]);
    expect(reports).toEqual([
      {
        level: 'error',
        message:
          'an event was given up on (RetriesExhausted) and is lost, for it has no on-failure destination',
      },
    ]);
  });

  it('that is no JSON is kept as it is', async () => {
    const { add, goOn, kept } = scene([failed('a')], { retries: 0 });
    add('{broken');
    await goOn();
    expect(kept()).toMatchObject([{ requestPayload: '{broken' }]);
  });

  it('is dropped with its timers when the cloud is closed', async () => {
    const { add, queue, timers, invoked, reports } = scene([failed('a'), failed('b')]);
    add();
    await settled();
    expect(timers.waiting).toEqual([60_000]);
    queue.close();
    expect(timers.waiting).toEqual([]);
    add();
    await settled();
    expect(invoked).toHaveLength(1);
    const dropped = { level: 'warn', message: 'an event was dropped: the cloud is closed' };
    expect(reports.slice(1)).toEqual([dropped, dropped]);
  });
});

it('a pool runs it like any other request, and keeps what fails in its queue', async () => {
  const code =
    'export const handler = async (event, { awsRequestId }) => { throw new Error(awsRequestId); };';
  const later = { retries: 1, maxAgeSeconds: 21_600, onFailure: { queue: 'failed' } };
  const { pool, told, timers, queues } = stage({ f: { code, later } });
  pool.invokeLater('f', '{"n":1}');
  await told('tried again in 60 s');
  expect(timers.fire(60_000)).toBe(1);
  await told('given up on');
  const [record = ''] = queues.waiting('failed');
  const { requestContext, requestPayload, responsePayload } = JSON.parse(record);
  expect(requestPayload).toEqual({ n: 1 });
  expect(responsePayload.errorMessage).toBe(requestContext.requestId);
  expect(requestContext.approximateInvokeCount).toBe(2);
});
