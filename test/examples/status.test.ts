import { idempotent, jwtClaim } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';
import { expect, it, vi } from 'vitest';
import { post } from '../middleware/stage.ts';
import { ledger } from './ledger.ts';
import { handler } from './status.ts';

vi.mock('./ledger.ts', () => ({ ledger: memoryLedger() }));

it('the status example tells a caller where its own operation stands', async () => {
  const quiet = { log: () => {}, metrics: () => {} };
  const options = { ledger, tenant: jwtClaim('sub'), effects: 'transactional', ...quiet } as const;
  const orders = idempotent(async () => ({ statusCode: 201, body: '{}' }), options);
  await orders(post({ key: 'order-1842', path: '/orders' }), {
    getRemainingTimeInMillis: () => 9_000,
  } as never);

  const ask = async (sub: string) => {
    const event = post({ method: 'GET', path: '/operations/order-1842', sub });
    return handler({ ...event, rawQueryString: 'operation=POST%20/orders' });
  };
  const own = await ask('tenant-1');
  expect(own.statusCode).toBe(200);
  expect(JSON.parse(own.body)).toMatchObject({
    state: 'completed',
    operation: 'POST /orders',
    retry: 'same-key',
  });
  expect((await ask('tenant-2')).statusCode).toBe(404);
});
