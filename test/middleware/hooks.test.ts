import { randomUUID } from 'node:crypto';
import middy from '@middy/core';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { scopePk } from '../../lib/core/scope.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotency, type OnceContext } from '../../lib/middleware/idempotency.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import { pkOf, post, type Result } from './stage.ts';
import { counter, created, slow } from './work.ts';

const transactional = { effects: 'transactional' } as const;
const opaque = { effects: 'opaque', onUnknown: 'park' } as const;
const quiet = { log: () => {}, metrics: () => {}, tenant: jwtClaim('sub') };

type Handler = (event: ReturnType<typeof post>, context: OnceContext<unknown>) => unknown;

interface Surroundings {
  readonly inner?: readonly object[];
  readonly plugin?: middy.PluginObject;
  readonly context?: object;
}

/** A function with hooks behind ours, which answer and fail in its place. */
function chain(
  handler: Handler,
  options: Partial<IdempotencyOptions>,
  { inner = [], plugin = {}, context = { getRemainingTimeInMillis: () => 5_000 } }: Surroundings = {},
) {
  const ledger = memoryLedger();
  const lambda = middy<unknown, unknown>(plugin);
  for (const hooks of [idempotency({ ledger, ...quiet, ...options }), ...inner]) lambda.use(hooks as never);
  lambda.handler(handler as never);
  return {
    ledger,
    call: async (event: object) => (await lambda(event, context as never)) as Result,
    statusOf: async (key: string) => (await ledger.read(pkOf(key)))?.status,
  };
}

afterEach(() => {
  vi.useRealTimers();
});

describe("Middy's early answer in the name of a handler that still runs", () => {
  const early = {
    plugin: { timeoutEarlyInMillis: 9_995, timeoutEarlyResponse: () => ({ statusCode: 408 }) },
    context: { getRemainingTimeInMillis: () => 10_000 },
  };

  it('makes an opaque operation unknown: its provider is not called twice', async () => {
    const work = slow();
    const { call, statusOf } = chain(work.handler, opaque, early);
    const key = randomUUID();
    expect((await call(post({ key }))).statusCode).toBe(408);
    expect(await statusOf(key)).toBe('unknown');
    const again = await call(post({ key }));
    expect(JSON.parse(again.body)).toMatchObject({ code: 'outcome_unknown', retry: 'same-key' });
    expect(work.runs).toBe(1);
    work.resume();
  });

  it('frees the key of a transactional one, whose handler is told if it still wants to write', async () => {
    const gate = Promise.withResolvers<void>();
    const late = Promise.withResolvers<unknown>();
    const { call, statusOf, ledger } = chain(
      async (_, { once }) => {
        await gate.promise;
        try {
          once.write({ charge: 500 });
        } catch (error) {
          late.resolve(error);
        }
        return created();
      },
      transactional,
      early,
    );
    const key = randomUUID();
    expect((await call(post({ key }))).statusCode).toBe(408);
    gate.resolve();
    expect(String(await late.promise)).toMatch(/came after the handler had ended/);
    expect(await statusOf(key)).toBe('failed_retryable');
    expect(ledger.written).toEqual([]);
  });
});

describe('an error hook behind ours that answers', () => {
  const answers = (statusCode: number) => ({
    onError(request: { response: unknown }) {
      request.response = { statusCode, headers: {}, body: '"mapped"' };
    },
  });
  const fails: Handler = async (_, { once }) => {
    if (once.attempt === 1) throw new Error('card declined');
    return created();
  };

  it('says what is stored and replayed', async () => {
    for (const options of [transactional, opaque]) {
      const { call } = chain(fails, options, { inner: [answers(402)] });
      const key = randomUUID();
      expect((await call(post({ key }))).headers).not.toHaveProperty('Idempotent-Replayed');
      const replay = await call(post({ key }));
      expect(replay).toMatchObject({ statusCode: 402, body: '"mapped"' });
      expect(replay.headers['Idempotent-Replayed']).toBe('true');
    }
  });

  it('with a 5xx leaves the key as a handler that answers one does', async () => {
    for (const [options, status] of [
      [transactional, 'failed_retryable'],
      [opaque, 'unknown'],
    ] as const) {
      const { call, statusOf } = chain(fails, options, { inner: [answers(500)] });
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(500);
      expect(await statusOf(key)).toBe(status);
    }
  });

  it('commits nothing of what the handler had collected until it threw', async () => {
    const { call, statusOf, ledger } = chain(
      async (_, { once }) => {
        once.write({ charge: 500 });
        once.emit({ type: 'charged', payload: {} });
        once.defer();
        throw new Error('the mail server is away');
      },
      transactional,
      { inner: [answers(200)] },
    );
    const key = randomUUID();
    expect(await call(post({ key }))).toMatchObject({ statusCode: 200, body: '"mapped"' });
    expect(await statusOf(key)).toBe('completed');
    expect(ledger.written).toEqual([]);
    expect(await ledger.read(pkOf(key))).not.toHaveProperty('outbox');
  });
});

describe('two idempotency() in one chain', () => {
  it('each finish a record of their own, whichever of them answers', async () => {
    const inside = memoryLedger();
    const work = counter();
    let faults: { pointer: string; detail: string }[] = [{ pointer: '#', detail: 'not yet' }];
    const second = idempotency({ ledger: inside, ...quiet, ...transactional, validate: () => faults });
    const { call, ledger } = chain(
      work.handler,
      { ...transactional, operation: () => 'outer', operations: { outer: {} } },
      { inner: [second] },
    );
    const outerPk = (key: string) => scopePk({ tenant: 'tenant-1', operation: 'outer', key });
    const refused = randomUUID();
    expect(JSON.parse((await call(post({ key: refused }))).body)).toMatchObject({
      code: 'validation_failed',
    });
    expect(await ledger.read(outerPk(refused))).toMatchObject({ status: 'completed' });
    expect(await inside.read(pkOf(refused))).toBeUndefined();
    expect(work.runs).toBe(0);

    faults = [];
    const taken = randomUUID();
    expect((await call(post({ key: taken }))).statusCode).toBe(201);
    expect(await ledger.read(outerPk(taken))).toMatchObject({ status: 'completed' });
    expect(await inside.read(pkOf(taken))).toMatchObject({ status: 'completed' });
    expect((await call(post({ key: taken }))).headers['Idempotent-Replayed']).toBe('true');
    expect(work.runs).toBe(1);
  });
});

describe('a context', () => {
  it('that requests at once share gives each of them its own once', async () => {
    const both = Promise.withResolvers<void>();
    const seen: [string, number][] = [];
    let running = 0;
    const { call, ledger } = chain(async ({ body }, context) => {
      running += 1;
      if (running === 2) both.resolve();
      await both.promise;
      context.once.write(JSON.parse(body).amount);
      seen.push([context.once.operationId, JSON.parse(body).amount]);
      return created();
    }, transactional);
    await Promise.all([1, 2].map((amount) => call(post({ key: randomUUID(), body: { amount } }))));
    expect([...ledger.written].sort()).toEqual([1, 2]);
    expect(new Set(seen.map(([id]) => id)).size).toBe(2);
  });

  it('that is frozen is no obstacle, and stays as it is', async () => {
    const context = Object.freeze({ getRemainingTimeInMillis: () => 5_000, awsRequestId: 'r-1' });
    const seen: unknown[] = [];
    const { call } = chain(
      async (_, handed) => {
        seen.push(handed.once.attempt, (handed as unknown as typeof context).awsRequestId);
        return created();
      },
      opaque,
      { context },
    );
    expect((await call(post({ key: randomUUID() }))).statusCode).toBe(201);
    expect(seen).toEqual([1, 'r-1']);
    expect(context).not.toHaveProperty('once');
  });

  it('of a protected request shows nothing of it to a later, unprotected one', async () => {
    const seen: unknown[] = [];
    const { call } = chain(async (_, { once }) => {
      seen.push(once?.attempt);
      return created();
    }, transactional);
    await call(post({ key: randomUUID() }));
    await call(post({ method: 'PUT' }));
    expect(seen).toEqual([1, undefined]);
  });
});

describe('whatever a handler throws', () => {
  it('reaches its caller as it is, and the key is unknown', async () => {
    for (const odd of [null, 'text', 0, { a: 1 }]) {
      const { call, statusOf } = chain(() => Promise.reject(odd), opaque);
      const key = randomUUID();
      await expect(call(post({ key }))).rejects.toBe(odd);
      expect(await statusOf(key)).toBe('unknown');
    }
  });
});

describe('when the handler has ended', () => {
  const ends: Readonly<Record<string, () => Promise<unknown>>> = {
    'with an answer': async () => created(),
    'with an error': () => Promise.reject(new Error('card declined')),
  };
  for (const [how, end] of Object.entries(ends)) {
    it(`${how}, its deadline is no longer watched and its once is closed`, async () => {
      vi.useFakeTimers();
      let kept: OnceContext<unknown>['once'] | undefined;
      const { call } = chain(
        (_, { once }) => {
          kept = once;
          return end();
        },
        transactional,
        { plugin: { timeoutEarlyInMillis: 0 } },
      );
      await call(post({ key: randomUUID() })).catch(() => undefined);
      expect(vi.getTimerCount()).toBe(0);
      expect(kept?.signal.aborted).toBe(false);
      expect(() => kept?.write({ charge: 500 })).toThrow(/came after the handler had ended/);
    });
  }
});
