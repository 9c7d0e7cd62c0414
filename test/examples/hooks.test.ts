import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import { idempotency, idempotent, jwtClaim, type OnceContext } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';
import { expect, it } from 'vitest';
import { post, type Result } from '../middleware/stage.ts';

const options = () =>
  ({
    ledger: memoryLedger(),
    tenant: jwtClaim('sub'),
    effects: 'transactional',
    log: () => {},
    metrics: () => {},
    storedHeaders: ['x-outer', 'x-inner'],
  }) as const;

/** Has only an `after`, as many hooks do. */
const marks = (name: string): middy.MiddlewareObj => ({
  after({ response }) {
    response.headers[name] = 'yes';
  },
});

const created = async () => ({ statusCode: 201, headers: {}, body: '' });

async function replayOf(handler: (event: never, context: never) => Promise<unknown>): Promise<object> {
  const send = () => handler(post({ key: 'k' }) as never, { getRemainingTimeInMillis: () => 9_000 } as never);
  await send();
  const { headers } = (await send()) as Result;
  expect(headers['Idempotent-Replayed']).toBe('true');
  return headers;
}

it('around idempotency(), a hook with only an after misses replays; inside, what it adds is stored', async () => {
  const handler = middy()
    .use(marks('x-outer'))
    .use(idempotency(options()))
    .use(marks('x-inner'))
    .handler(created);
  const replay = await replayOf(handler);
  expect(replay).not.toHaveProperty('x-outer');
  expect(replay).toMatchObject({ 'x-inner': 'yes' });
});

it('around idempotent(), it sees replays as any response', async () => {
  const handler = middy().use(marks('x-outer')).handler(idempotent(created, options()));
  expect(await replayOf(handler)).toMatchObject({ 'x-outer': 'yes' });
});

/** A payment whose key is sent twice: what came of each, how often it ran, and what was written. */
async function twice(
  behind: middy.MiddlewareObj,
  run: () => Promise<object> = created,
  { effects = 'transactional', outer = {} as Partial<middy.MiddlewareObj> } = {},
) {
  const ledger = memoryLedger();
  const logged: string[] = [];
  let runs = 0;
  const lambda = middy<unknown, unknown, Error, Context & OnceContext<unknown>>();
  if (Object.keys(outer).length > 0) lambda.use(outer as middy.MiddlewareObj<unknown, unknown>);
  lambda
    .use(
      idempotency({
        ...options(),
        ledger,
        log: ({ decision }) => logged.push(decision),
        ...(effects === 'opaque' ? { effects, onUnknown: 'park' } : {}),
      }),
    )
    .use(behind as middy.MiddlewareObj<unknown, unknown>)
    .handler(async (_event, { once }) => {
      runs += 1;
      if (effects === 'transactional') once.write({ run: runs });
      return run();
    });
  const send = async () => {
    const context = { getRemainingTimeInMillis: () => 9_000 } as never;
    const answer = await lambda(post({ key: 'k' }), context).catch((error: Error) => error.message);
    return typeof answer === 'string' ? answer : (answer as Result).statusCode;
  };
  const answers = [await send(), await send()];
  return { answers, runs, logged, written: ledger.written.length };
}

it('a hook behind idempotency() that answers early is not seen by it: nothing is committed, and the key waits for its lease', async () => {
  const early = { statusCode: 200, headers: {}, body: '' };
  for (const hook of ['before', 'after'] as const) {
    const { answers, written } = await twice({ [hook]: () => early });
    expect(answers).toEqual([200, 409]);
    expect(written).toBe(0);
  }
  const failing = async () => Promise.reject(new Error('broken'));
  expect(await twice({ onError: () => early }, failing)).toMatchObject({ answers: [200, 200], runs: 1 });
});

it('one that throws counts as a failure of the handler', async () => {
  const parser = {
    before() {
      throw new Error('the body is not JSON');
    },
  };
  const { answers, runs, logged } = await twice(parser, created, { effects: 'opaque' });
  expect(answers).toEqual(['the body is not JSON', 409]);
  expect(logged).toEqual(['created', 'unknown', 'unknown']);
  expect(runs).toBe(0);
});

it('the answer that an error hook behind it sets is stored, without what the handler had collected', async () => {
  const onError = (request: middy.Request) => {
    request.response = { statusCode: 402, headers: {}, body: '"declined"' };
  };
  const failing = async () => Promise.reject(new Error('declined'));
  expect(await twice({ onError }, failing)).toMatchObject({ answers: [402, 402], runs: 1, written: 0 });
});

it('an error hook around it that answers everything takes a replay for a failure, unless it leaves alone what is answered', async () => {
  const failed = { statusCode: 500, headers: {}, body: '' };
  const careless = (request: middy.Request) => {
    request.response = failed;
  };
  const careful = (request: middy.Request) => {
    request.response ??= failed;
  };
  const nothing = { before() {} };
  expect((await twice(nothing, created, { outer: { onError: careless } })).answers).toEqual([201, 500]);
  expect((await twice(nothing, created, { outer: { onError: careful } })).answers).toEqual([201, 201]);
});
