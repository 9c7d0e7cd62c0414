import { describe, expect, it } from 'vitest';
import { CHARGE_REQUESTED, deliveries } from '../../lambdas/service/operations.ts';
import { NotExecuted } from '../../lib/index.ts';
import { MINUTE_MS, ORDER, onBothLedgers, START } from './stage.ts';
import { DECLINED } from './stripe-server.ts';

const NAME = 'POST /payments';
const DAY_MS = 24 * 60 * MINUTE_MS;

describe('POST /payments', () => {
  onBothLedgers((stage) => {
    it('accepts a payment at once, charges it by delivery, and then replays how it ended', async () => {
      const { post, get, dispatch, stripe } = stage();
      const accepted = await post('/payments', { key: 'k-1', body: ORDER });
      expect(accepted.status).toBe(202);
      const { id } = accepted.body;
      expect(accepted.body).toEqual({ id, status: 'pending' });
      expect(accepted.headers).toMatchObject({ location: `/payments/${id}`, 'retry-after': '2' });
      expect(stripe.intents).toEqual([]);
      expect((await get(`/payments/${id}`)).body).toMatchObject({ id, status: 'pending', ...ORDER });

      await dispatch(NAME, 'k-1');
      await dispatch(NAME, 'k-1'); // The stream may bring it again.
      const ended = await post('/payments', { key: 'k-1', body: ORDER });
      expect(ended.status).toBe(201);
      expect(ended.body).toEqual({ id, status: 'succeeded', ...ORDER, charge: 'pi_1' });
      expect(ended.headers).toMatchObject({ location: `/payments/${id}`, 'idempotent-replayed': 'true' });
      expect((await get(`/payments/${id}`)).body).toMatchObject(ended.body);
      expect(stripe.charged()).toHaveLength(1);
    });

    it('is replayed for a week, counted from its end', async () => {
      const { post, dispatch, time } = stage();
      await post('/payments', { key: 'k-1', body: ORDER });
      time.now += MINUTE_MS;
      await dispatch(NAME, 'k-1');
      const { headers } = await post('/payments', { key: 'k-1', body: ORDER });
      expect(Date.parse(headers['idempotency-expires'] ?? '')).toBe(START + MINUTE_MS + 7 * DAY_MS);
    });

    it('is not sent to Stripe by a delivery whose time is up', async () => {
      const { post, service, record, stripe } = stage();
      await post('/payments', { key: 'k-1', body: ORDER });
      const { pk, operationId } = await record(NAME, 'k-1');
      const row = { kind: 'payment', tenant: 'shop-7', id: 'pay_1', operationRef: pk, status: 'pending' };
      const payload = { row: { ...row, createdAt: START, ...ORDER }, operationId, request: ORDER };
      const call = { key: 'x', signal: AbortSignal.abort(), operationRef: pk, tenant: 'shop-7' };
      const delivering = deliveries(service)[CHARGE_REQUESTED]?.deliver({ payload } as never, call as never);
      await expect(delivering).rejects.toThrow(NotExecuted);
      expect(stripe.requests).toEqual([]);
    });

    it('puts into the charge what leads back to the record', async () => {
      const { post, dispatch, record, stripe } = stage();
      await post('/payments', { key: 'k-1', body: { ...ORDER, description: 'Shoes' } });
      await dispatch(NAME, 'k-1');
      const { pk, operationId, tenant } = await record(NAME, 'k-1');
      expect(stripe.charged()[0]).toMatchObject({
        amount: 1_250,
        currency: 'eur',
        description: 'Shoes',
        metadata: { operationRef: pk, operationId, tenant, customerId: 'cus_ann', reference: 'invoice 7' },
      });
    });

    it('answers a declined card from then on, and says so in the row', async () => {
      const { post, get, dispatch, stripe } = stage();
      const body = { ...ORDER, paymentMethod: DECLINED };
      const { body: accepted } = await post('/payments', { key: 'k-1', body });
      await dispatch(NAME, 'k-1');
      const declined = await post('/payments', { key: 'k-1', body });
      expect(declined.status).toBe(402);
      expect(declined.headers['content-type']).toBe('application/problem+json');
      const reason = 'insufficient_funds';
      expect(declined.body).toMatchObject({ code: 'card_declined', reason, retry: 'never', id: accepted.id });
      expect((await get(`/payments/${accepted.id}`)).body).toMatchObject({ status: 'declined', reason });
      expect(stripe.charged()).toEqual([]);
    });

    it('answers what Stripe does not take from then on', async () => {
      const { post, dispatch } = stage();
      const body = { ...ORDER, currency: 'KPW' };
      await post('/payments', { key: 'k-1', body });
      await dispatch(NAME, 'k-1');
      const rejected = await post('/payments', { key: 'k-1', body });
      expect(rejected.status).toBe(422);
      expect(rejected.body).toMatchObject({ code: 'charge_rejected', reason: 'currency_unknown' });
    });

    it('charges once where the answer to the charge was lost', async () => {
      const { post, dispatch, sweep, stripe, time } = stage();
      stripe.mishaps.push('lost-after-charge');
      await post('/payments', { key: 'k-1', body: ORDER });
      await dispatch(NAME, 'k-1');
      expect((await post('/payments', { key: 'k-1', body: ORDER })).status).toBe(202);
      time.now += 2 * MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      expect((await post('/payments', { key: 'k-1', body: ORDER })).status).toBe(201);
      expect(stripe.charged()).toHaveLength(1);
      expect(new Set(stripe.requests.map(({ key }) => key)).size).toBe(1);
    });

    it('finds its charge where Stripe keeps repeating that it failed', async () => {
      const { post, dispatch, sweep, stripe, time } = stage();
      stripe.mishaps.push('error-after-charge');
      await post('/payments', { key: 'k-1', body: ORDER });
      await dispatch(NAME, 'k-1');
      time.now += 2 * MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      expect((await post('/payments', { key: 'k-1', body: ORDER })).body).toMatchObject({ charge: 'pi_1' });
      expect(stripe.charged()).toHaveLength(1);
    });

    it.each([true, false])(
      'asks for the charge once Stripe may have forgotten the key (charged: %s)',
      async (charged) => {
        const { post, dispatch, sweep, stripe, time, record } = stage();
        stripe.mishaps.push(charged ? 'lost-after-charge' : 'lost-before-charge');
        await post('/payments', { key: 'k-1', body: ORDER });
        await dispatch(NAME, 'k-1');
        time.now = START + DAY_MS;
        stripe.forgetKeys();
        expect(await sweep()).toEqual({ unknown: 1 });
        expect((await record(NAME, 'k-1')).status).toBe('unknown');
        for (let looks = 0; looks < 4; looks += 1) {
          time.now += 5 * MINUTE_MS;
          await sweep();
        }
        expect((await post('/payments', { key: 'k-1', body: ORDER })).status).toBe(201);
        expect(stripe.charged()).toHaveLength(1);
      },
    );

    it('finds a charge that its delivery made hours after the request, also where search has not seen it', async () => {
      const { post, dispatch, sweep, stripe, time } = stage();
      await post('/payments', { key: 'k-1', body: ORDER });
      time.now = START + 40 * MINUTE_MS; // The stream was late.
      stripe.mishaps.push('lost-after-charge');
      await dispatch(NAME, 'k-1');
      time.now = START + DAY_MS + 60 * MINUTE_MS;
      stripe.forgetKeys();
      stripe.searchLags = true;
      for (let looks = 0; looks < 6; looks += 1) {
        await sweep();
        time.now += 5 * MINUTE_MS;
      }
      expect((await post('/payments', { key: 'k-1', body: ORDER })).body).toMatchObject({ charge: 'pi_1' });
      expect(stripe.charged()).toHaveLength(1);
    });
  });
});
