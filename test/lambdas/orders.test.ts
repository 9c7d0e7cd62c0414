import { describe, expect, it, vi } from 'vitest';
import type { Provider } from '../../lambdas/service/provider.ts';
import { announced } from './announced.ts';
import { MINUTE_MS, ORDER, onBothLedgers, START } from './stage.ts';
import { DECLINED } from './stripe-server.ts';

const NAME = 'POST /orders';

/** The process dies while it waits for this. */
const never = () => new Promise<never>(() => undefined);

describe('POST /orders', () => {
  onBothLedgers((stage) => {
    it('makes the row, the charge and the receipt, and replays its answer byte for byte', async () => {
      const { post, get, service, stripe } = stage();
      const made = await post('/orders', { key: 'k-1', body: ORDER });
      expect(made.status).toBe(201);
      const { id, receipt } = made.body;
      expect(made.body).toEqual({ id, status: 'succeeded', ...ORDER, charge: 'pi_1', receipt });
      expect(made.headers['location']).toBe(`/orders/${id}`);
      expect((await get(`/orders/${id}`)).body).toMatchObject(made.body);
      expect(await service.rows.read('receipt', 'shop-7', receipt)).toMatchObject({ charge: 'pi_1' });

      const again = await post('/orders', { key: 'k-1', body: ORDER });
      expect([again.status, again.text]).toEqual([201, made.text]);
      expect(again.headers['idempotent-replayed']).toBe('true');
      expect(stripe.requests).toHaveLength(1);
    });

    it('keeps a declined card, and makes no receipt', async () => {
      const { post, get, stripe } = stage();
      const body = { ...ORDER, paymentMethod: DECLINED };
      const declined = await post('/orders', { key: 'k-1', body });
      expect(declined.status).toBe(402);
      const again = await post('/orders', { key: 'k-1', body });
      expect([again.status, again.text]).toEqual([402, declined.text]);
      const row = (await get(`/orders/${declined.body.id}`)).body;
      expect(row).toMatchObject({ status: 'declined', reason: 'insufficient_funds' });
      expect(row.receipt).toBeUndefined();
      expect(stripe.requests).toHaveLength(1);
    });

    it('keeps what Stripe does not take, and makes no receipt', async () => {
      const { post, get, stripe } = stage();
      const rejected = await post('/orders', { key: 'k-1', body: { ...ORDER, currency: 'KPW' } });
      expect([rejected.status, rejected.body.code]).toEqual([422, 'charge_rejected']);
      const row = (await get(`/orders/${rejected.body.id}`)).body;
      expect(row).toMatchObject({ status: 'rejected', reason: 'currency_unknown' });
      expect(row.receipt).toBeUndefined();
      expect(stripe.charged()).toEqual([]);
    });

    it.each(['sweep', 'webhook'])(
      'that was left behind its charge goes on from there a day later, by the %s',
      async (by) => {
        const { post, service, stripe, sweep, time, record } = stage();
        const real = service.rows.created;
        const created = vi.spyOn(service.rows, 'created').mockImplementation((row) => {
          if (row.kind === 'receipt') throw new Error('out of memory');
          return real(row);
        });
        await expect(post('/orders', { key: 'k-1', body: ORDER })).rejects.toThrow('out of memory');
        created.mockRestore();
        time.now = START + 24 * 60 * MINUTE_MS;
        stripe.forgetKeys();
        expect(await sweep()).toEqual({ unknown: 1 });
        if (by === 'webhook') expect((await announced(stage())).status).toBe(200);
        for (let looks = 0; looks < 4; looks += 1) {
          time.now += 5 * MINUTE_MS;
          await sweep();
        }
        expect((await record(NAME, 'k-1')).status).toBe('completed');
        const ended = await post('/orders', { key: 'k-1', body: ORDER });
        expect([ended.status, ended.body.charge]).toEqual([201, 'pi_1']);
        expect(ended.body.receipt).toMatch(/^rcp_/);
        // What the record knows already nobody is asked for; a webhook fetches its own charge before anything else.
        const asked = stripe.requests.map(({ method, path }) => `${method} ${path}`);
        const fetched = by === 'webhook' ? ['GET /v1/payment_intents/pi_1'] : [];
        expect(asked).toEqual(['POST /v1/payment_intents', ...fetched]);
      },
    );

    it('goes on with the next retry where the answer to the charge was lost', async () => {
      const { post, stripe, time } = stage();
      stripe.mishaps.push('lost-after-charge');
      const failed = await post('/orders', { key: 'k-1', body: ORDER });
      expect(failed.status).toBe(503);
      expect(failed.body).toMatchObject({ code: 'provider_unavailable', retry: 'same-key' });
      time.now += 2_000; // The lease was handed back; a clock may be a second behind.
      expect((await post('/orders', { key: 'k-1', body: ORDER })).body).toMatchObject({ charge: 'pi_1' });
      expect(stripe.charged()).toHaveLength(1);
    });

    it.each([
      ['before its charge', (): Partial<Provider> => ({ charge: never })],
      [
        'after its charge',
        (real: Provider): Partial<Provider> => ({
          async charge(...call) {
            await real.charge(...call);
            return never();
          },
        }),
      ],
    ])('is finished from its kept request where the process died %s', async (when, dying) => {
      const { post, sweep, get, through, stripe, time, record } = stage();
      const died = Promise.withResolvers<void>();
      through((real) => {
        const provider: Provider = { ...real, ...dying(real) };
        return {
          ...provider,
          async charge(...call) {
            const charging = provider.charge(...call);
            died.resolve();
            return charging;
          },
        };
      });
      void post('/orders', { key: 'k-1', body: ORDER });
      await died.promise;
      while (when === 'after its charge' && stripe.charged().length === 0) await new Promise(setImmediate);
      through((real) => real);
      expect((await post('/orders', { key: 'k-1', body: ORDER })).status).toBe(409);

      time.now += MINUTE_MS; // Its lease has passed, and its client never comes back.
      expect(await sweep()).toEqual({ invoked: 1 });
      const { operationId, status } = await record(NAME, 'k-1');
      expect(status).toBe('completed');
      expect((await get(`/orders/ord_${operationId}`)).body).toMatchObject({ status: 'succeeded' });
      expect((await post('/orders', { key: 'k-1', body: ORDER })).status).toBe(201);
      expect(stripe.charged()).toHaveLength(1);
    });

    it.each([true, false])(
      'is settled by asking Stripe once its keys are forgotten (charged: %s)',
      async (charged) => {
        const { post, sweep, stripe, time } = stage();
        stripe.mishaps.push(charged ? 'lost-after-charge' : 'lost-before-charge');
        await post('/orders', { key: 'k-1', body: ORDER });
        time.now = START + 24 * 60 * MINUTE_MS;
        stripe.forgetKeys();
        expect(await sweep()).toEqual({ unknown: 1 });
        for (let looks = 0; looks < 4; looks += 1) {
          time.now += 5 * MINUTE_MS;
          await sweep();
        }
        const ended = await post('/orders', { key: 'k-1', body: ORDER });
        expect([ended.status, ended.body.charge]).toEqual([201, 'pi_1']);
        expect(stripe.charged()).toHaveLength(1);
      },
    );
  });
});
