import { randomUUID } from 'node:crypto';
import middy from '@middy/core';
import { describe, expect, it, vi } from 'vitest';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotent } from '../../lib/middleware/idempotent.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import { pkOf, post, type Result } from './stage.ts';

const quiet = { log: () => {}, metrics: () => {}, tenant: jwtClaim('sub') };
const context = () => ({ getRemainingTimeInMillis: () => 10_000 }) as never;

function payments(options: Partial<IdempotencyOptions> = { effects: 'transactional' }) {
  let runs = 0;
  const handler = idempotent(
    async (event: ReturnType<typeof post>, { once }): Promise<unknown> => {
      runs += 1;
      if (event.body === '"throw"') throw new Error('declined');
      return { statusCode: 201, headers: { 'x-attempt': String(once.attempt) }, body: `{"paid":${runs}}` };
    },
    { ledger: memoryLedger(), ...quiet, ...options },
  );
  return { handler, runs: () => runs };
}

describe('a protected handler', () => {
  it('runs once per key, without Middy', async () => {
    const { handler, runs } = payments();
    const key = randomUUID();
    const first = (await handler(post({ key }), context())) as Result;
    const second = (await handler(post({ key }), context())) as Result;
    expect(first.headers['x-attempt']).toBe('1');
    expect(second.body).toBe(first.body);
    expect(second.headers['Idempotent-Replayed']).toBe('true');
    expect(runs()).toBe(1);
  });

  it('lets every outer hook run on replays, also one that has only an after', async () => {
    const { handler, runs } = payments();
    const seen: unknown[] = [];
    const lambda = middy(handler as never).after((request) => {
      const response = request.response as Result;
      seen.push(response.headers['Idempotent-Replayed']);
      response.headers['x-outer'] = 'yes';
    });
    const key = randomUUID();
    const answers = [
      await lambda(post({ key }) as never, context()),
      await lambda(post({ key }) as never, context()),
    ];
    expect(seen).toEqual([undefined, 'true']);
    expect((answers as unknown as Result[]).map(({ headers }) => headers['x-outer'])).toEqual(['yes', 'yes']);
    expect(runs()).toBe(1);
  });

  it('answers problems itself, and throws what the handler throws', async () => {
    const { handler, runs } = payments();
    expect(await handler(post({}), context())).toMatchObject({ statusCode: 400 });
    const key = randomUUID();
    await expect(handler(post({ key, body: '"throw"' }), context())).rejects.toThrow('declined');
    expect(runs()).toBe(1);
  });

  it("hands on whatever else it is called with, such as Middy's signal", async () => {
    const got: unknown[] = [];
    const handler = idempotent(
      async (_event: unknown, _context: unknown, ...rest: unknown[]) => {
        got.push(...rest);
        return { statusCode: 201, headers: {}, body: '' };
      },
      { ledger: memoryLedger(), ...quiet, effects: 'transactional' },
    );
    await middy(handler as never)(post({ key: randomUUID() }) as never, context());
    expect(got).toEqual([{ signal: expect.any(AbortSignal) }]);
  });

  it('stores nothing of an answer that could not be kept as it was meant', async () => {
    const ledger = memoryLedger();
    const handler = idempotent(
      async (_event: unknown, { once }) => {
        once.defer();
        return { statusCode: 202, headers: { location: '/payments/1' }, body: '' };
      },
      { ledger, ...quiet, effects: 'transactional' },
    );
    const key = randomUUID();
    await expect(handler(post({ key }), context())).rejects.toThrow(/once.defer\(\) without once.emit\(\)/);
    expect((await ledger.read(pkOf(key)))?.status).toBe('failed_retryable');
  });

  it('shows nothing of itself on the context it was called with', async () => {
    const seen: unknown[] = [];
    const handler = idempotent(
      async (_event: unknown, { once }) => {
        seen.push(once?.attempt);
        return { statusCode: 201, headers: {}, body: '' };
      },
      { ledger: memoryLedger(), ...quiet, effects: 'opaque', onUnknown: 'park' },
    );
    const shared = Object.freeze({});
    await handler(post({ key: randomUUID() }), shared as never);
    await handler(post({ method: 'PUT' }), shared as never);
    expect(seen).toEqual([1, undefined]);
  });

  it('may be given more time than a timer can hold', async () => {
    vi.useFakeTimers();
    const gate = Promise.withResolvers<void>();
    let signal: AbortSignal | undefined;
    const ledger = memoryLedger();
    const handler = idempotent(
      async (_event: unknown, { once }) => {
        signal = once.signal;
        await gate.promise;
        return { statusCode: 201, headers: {}, body: '' };
      },
      { ledger, ...quiet, effects: 'opaque', onUnknown: 'park' },
    );
    const key = randomUUID();
    const start = Date.now();
    const running = handler(post({ key }), { getRemainingTimeInMillis: () => 2 ** 31 + 1_000 } as never);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(signal?.aborted).toBe(false);
    const aDayMs = 24 * 3_600_000;
    expect(await ledger.read(pkOf(key))).toMatchObject({
      status: 'in_progress',
      leaseUntil: start + aDayMs + 5_000,
    });
    gate.resolve();
    expect(await running).toMatchObject({ statusCode: 201 });
    vi.useRealTimers();
  });

  it('consumes no key when a hook outside of it fails', async () => {
    const { handler, runs } = payments({ effects: 'opaque', onUnknown: 'park' });
    let broken = true;
    const lambda = middy(handler as never).before(() => {
      if (broken) throw new Error('the body is not JSON');
    });
    const key = randomUUID();
    await expect(lambda(post({ key }) as never, context())).rejects.toThrow('the body is not JSON');
    broken = false;
    expect(await lambda(post({ key }) as never, context())).toMatchObject({ statusCode: 201 });
    expect(runs()).toBe(1);
  });
});
