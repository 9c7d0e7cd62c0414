import { describe, expect, it } from 'vitest';
import type { ApiAnswer } from '../../lambdas/service/answers.ts';
import { rotatingSignature } from '../../lambdas/service/secrets.ts';
import { stripeWebhook } from '../../lambdas/service/stripe-webhook.ts';
import { announced, SECRET, signed } from './announced.ts';
import { MINUTE_MS, ORDER, onBothLedgers, toldIn } from './stage.ts';
import { DECLINED } from './stripe-server.ts';

const NAME = 'POST /transfers';

describe('POST /webhooks/stripe', () => {
  onBothLedgers((stage) => {
    it('settles an unknown transfer by the charge itself, while search lags behind', async () => {
      const { post, get, stripe } = stage();
      stripe.mishaps.push('lost-after-charge');
      stripe.searchLags = true;
      await post('/transfers', { key: 'k-1', body: ORDER });
      expect((await announced(stage())).status).toBe(200);
      const ended = await post('/transfers', { key: 'k-1', body: ORDER });
      expect([ended.status, ended.body.charge]).toEqual([201, 'pi_1']);
      expect((await get(`/transfers/${ended.body.id}`)).status).toBe(200);
      const asked = stripe.requests.filter(({ method }) => method === 'GET');
      expect(asked.map(({ path }) => path)).toEqual(['/v1/payment_intents/pi_1']);
      expect(stripe.charged()).toHaveLength(1);
    });

    it('settles an unknown transfer as declined, by what Stripe has and not by what the event says', async () => {
      const { post, stripe } = stage();
      const body = { ...ORDER, paymentMethod: DECLINED };
      stripe.mishaps.push('lost-after-charge');
      await post('/transfers', { key: 'k-1', body });
      await announced(stage(), { type: 'payment_intent.succeeded' });
      expect((await post('/transfers', { key: 'k-1', body })).status).toBe(402);
    });

    it('settles it also by the event that tells of a declined card', async () => {
      const { post, record, stripe } = stage();
      const body = { ...ORDER, paymentMethod: DECLINED };
      stripe.mishaps.push('lost-after-charge');
      await post('/transfers', { key: 'k-1', body });
      await announced(stage(), { type: 'payment_intent.payment_failed' });
      expect((await record(NAME, 'k-1')).status).toBe('completed');
    });

    it.each([
      ['another', {}],
      // As of a key that had expired and was used again.
      ['an earlier one under the same key', { operationId: 'op-0' }],
    ])('asks for the operation itself where the event is about a charge of %s', async (_, earlier) => {
      const { post, record, stripe, service } = stage();
      stripe.mishaps.push('lost-before-charge');
      await post('/transfers', { key: 'k-1', body: ORDER });
      const { pk, operationId } = await record(NAME, 'k-1');
      const purpose = { operationRef: pk, operationId: 'op-1', tenant: 'shop-7', ...earlier };
      const given = { key: 'x', signal: new AbortController().signal };
      if ('operationId' in earlier) await service.provider.charge(ORDER, purpose, given);
      else await post('/transfers', { key: 'k-2', body: ORDER });
      const [other] = stripe.intents;
      if (!other) throw new TypeError('There is no charge.');
      const verify = rotatingSignature(async () => SECRET, stage().service.clock);
      const metadata = { operationRef: pk, operationId };
      const event = {
        id: 'evt_9',
        type: 'payment_intent.succeeded',
        data: { object: { id: other.id, metadata } },
      };
      const request = signed(JSON.stringify(event), stage().time.now);
      const told = toldIn((await stripeWebhook(stage().service, verify)(request)) as ApiAnswer);
      expect(told.status).toBe(503); // Not there, and too early to believe it.
      expect((await record(NAME, 'k-1')).status).toBe('unknown');
    });

    it('moves nothing for an event that Stripe did not sign', async () => {
      const { post, record, stripe, time } = stage();
      stripe.mishaps.push('lost-after-charge');
      await post('/transfers', { key: 'k-1', body: ORDER });
      time.now += MINUTE_MS;
      expect((await announced(stage(), { secret: 'whsec_guessed' })).status).toBe(400);
      expect((await record(NAME, 'k-1')).status).toBe('unknown');
    });
  });
});
