import { describe, expect, it, vi } from 'vitest';
import { MINUTE_MS, ORDER, onBothLedgers } from './stage.ts';
import { DECLINED, type Mishap } from './stripe-server.ts';

const NAME = 'POST /transfers';

describe('POST /transfers', () => {
  onBothLedgers((stage) => {
    it('charges inside the request, keeps a row, and replays its answer byte for byte', async () => {
      const { post, get, stripe } = stage();
      const made = await post('/transfers', { key: 'k-1', body: ORDER });
      expect(made.status).toBe(201);
      const { id } = made.body;
      expect(made.body).toEqual({ id, status: 'succeeded', ...ORDER, charge: 'pi_1' });
      expect((await get(`/transfers/${id}`)).body).toMatchObject(made.body);
      const again = await post('/transfers', { key: 'k-1', body: ORDER });
      expect([again.status, again.text]).toEqual([201, made.text]);
      expect(stripe.requests).toHaveLength(1);
    });

    it('keeps a declined card', async () => {
      const { post, get } = stage();
      const body = { ...ORDER, paymentMethod: DECLINED };
      const declined = await post('/transfers', { key: 'k-1', body });
      expect(declined.status).toBe(402);
      expect((await post('/transfers', { key: 'k-1', body })).text).toBe(declined.text);
      expect((await get(`/transfers/${declined.body.id}`)).body).toMatchObject({ status: 'declined' });
    });

    it('keeps what Stripe does not take', async () => {
      const { post, get } = stage();
      const body = { ...ORDER, currency: 'KPW' };
      const rejected = await post('/transfers', { key: 'k-1', body });
      expect([rejected.status, rejected.body.code]).toEqual([422, 'charge_rejected']);
      expect((await get(`/transfers/${rejected.body.id}`)).body).toMatchObject({ status: 'rejected' });
    });

    it('throws a fault of its own, so that Lambda counts it, and charges nobody again for it', async () => {
      const { post, service, stripe, sweep, time } = stage();
      const end = vi.spyOn(service.rows, 'end').mockRejectedValueOnce(new TypeError('no such table'));
      await expect(post('/transfers', { key: 'k-1', body: ORDER })).rejects.toThrow('no such table');
      end.mockRestore();
      time.now += MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      expect((await post('/transfers', { key: 'k-1', body: ORDER })).status).toBe(201);
      expect(stripe.charged()).toHaveLength(1);
    });

    it.each<Mishap>(['rate-limited', 'unauthorized', 'forbidden'])(
      'may be sent again at once where Stripe was %s and so charged nothing',
      async (mishap) => {
        const { post, stripe, record } = stage();
        stripe.mishaps.push(mishap);
        const failed = await post('/transfers', { key: 'k-1', body: ORDER });
        expect([failed.status, failed.body.retry]).toEqual([503, 'same-key']);
        expect((await record(NAME, 'k-1')).status).toBe('failed_retryable');
        expect((await post('/transfers', { key: 'k-1', body: ORDER })).status).toBe(201);
        expect(stripe.charged()).toHaveLength(1);
      },
    );

    it.each<Mishap>(['lost-after-charge', 'error-after-charge'])(
      'is settled by its resolver where it ended %s, with the answer it would have had, and its row',
      async (mishap) => {
        const { post, get, sweep, stripe, time, record } = stage();
        stripe.mishaps.push(mishap);
        const failed = await post('/transfers', { key: 'k-1', body: ORDER });
        expect(failed.status).toBe(503);
        expect(failed.headers['retry-after']).toBe('30');
        const { operationId, status } = await record(NAME, 'k-1');
        expect(status).toBe('unknown');
        const waiting = await post('/transfers', { key: 'k-1', body: ORDER });
        expect([waiting.status, waiting.body.code]).toEqual([409, 'outcome_unknown']);
        const id = `trf_${operationId}`;
        expect((await get(`/transfers/${id}`)).status).toBe(404);

        time.now += MINUTE_MS;
        expect(await sweep()).toEqual({ settled: 1 });
        const ended = await post('/transfers', { key: 'k-1', body: ORDER });
        expect(ended.status).toBe(201);
        expect(ended.body).toEqual({ id, status: 'succeeded', ...ORDER, charge: 'pi_1' });
        expect((await get(`/transfers/${id}`)).body).toMatchObject(ended.body);
        expect(stripe.charged()).toHaveLength(1);
      },
    );

    it('is found in the list while search lags behind', async () => {
      const { post, sweep, stripe, time } = stage();
      stripe.mishaps.push('lost-after-charge');
      stripe.searchLags = true;
      stripe.others = 250;
      await post('/transfers', { key: 'k-1', body: ORDER });
      time.now += MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      expect((await post('/transfers', { key: 'k-1', body: ORDER })).status).toBe(201);
      expect(stripe.charged()).toHaveLength(1);
    });

    it('is believed not to be there only after the settling time, and then may be sent again', async () => {
      const { post, sweep, stripe, time, record } = stage();
      stripe.mishaps.push('lost-before-charge');
      await post('/transfers', { key: 'k-1', body: ORDER });
      time.now += MINUTE_MS;
      expect(await sweep()).toEqual({ rescheduled: 1 });
      expect((await record(NAME, 'k-1')).status).toBe('unknown');
      time.now += 3 * MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      expect((await post('/transfers', { key: 'k-1', body: ORDER })).status).toBe(201);
      const posted = stripe.requests.filter(({ method }) => method === 'POST');
      expect(posted).toHaveLength(2);
      expect(new Set(posted.map(({ key }) => key)).size).toBe(1);
      expect(stripe.charged()).toHaveLength(1);
    });

    it('stays unknown where more charges were made meanwhile than it can look through', async () => {
      const { post, sweep, stripe, time, record } = stage();
      stripe.mishaps.push('lost-before-charge');
      stripe.others = 1_001;
      await post('/transfers', { key: 'k-1', body: ORDER });
      time.now += 5 * MINUTE_MS;
      expect(await sweep()).toEqual({ rescheduled: 1 });
      expect((await record(NAME, 'k-1')).status).toBe('unknown');
    });

    it('ends as declined where Stripe has given up on it', async () => {
      const { post, sweep, stripe, time } = stage();
      stripe.mishaps.push('processing');
      await post('/transfers', { key: 'k-1', body: ORDER });
      for (const intent of stripe.intents) intent.status = 'canceled';
      time.now += 5 * MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      const ended = await post('/transfers', { key: 'k-1', body: ORDER });
      expect([ended.status, ended.body.reason]).toEqual([402, 'canceled']);
    });

    it('stays unknown while Stripe has not decided, and ends as Stripe decides', async () => {
      const { post, sweep, stripe, time, record } = stage();
      stripe.mishaps.push('processing');
      expect((await post('/transfers', { key: 'k-1', body: ORDER })).status).toBe(503);
      time.now += 5 * MINUTE_MS;
      expect(await sweep()).toEqual({ rescheduled: 1 });
      expect((await record(NAME, 'k-1')).status).toBe('unknown');
      for (const intent of stripe.intents) intent.status = 'succeeded';
      time.now += 5 * MINUTE_MS;
      expect(await sweep()).toEqual({ settled: 1 });
      expect((await post('/transfers', { key: 'k-1', body: ORDER })).status).toBe(201);
    });
  });
});
