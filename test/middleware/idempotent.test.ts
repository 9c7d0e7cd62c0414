import { randomUUID } from 'node:crypto';
import middy from '@middy/core';
import { describe, expect, it } from 'vitest';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotent } from '../../lib/middleware/idempotent.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import { post, type Result } from './stage.ts';

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
