import type Stripe from 'stripe';
import { describe, expect, it } from 'vitest';
import type { wireCharge, wireIntent, wireRefund } from '../../../lib/local/provider/wire.ts';
import { API_KEY, CHARGE, errorOf, FORM, openStage, plain, START, sdk } from './stage.ts';

/* What is written is what Stripe's client has types for. */
null as unknown as ReturnType<typeof wireIntent> satisfies Omit<Stripe.PaymentIntent, 'last_payment_error'>;
null as unknown as ReturnType<typeof wireCharge> satisfies Omit<Stripe.Charge, 'payment_method_details'>;
null as unknown as ReturnType<typeof wireRefund> satisfies Stripe.Refund;

describe('a payment intent', () => {
  it('is charged when it is confirmed as it is made', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const metadata = { operationRef: 'ref-1', operationId: 'op-1', tenant: 'shop-7', note: 'Grüße & 1=1' };
    const intent = await stripe.paymentIntents.create({ ...CHARGE, metadata, description: 'tea' });
    expect(intent).toMatchObject({
      ...{ object: 'payment_intent', status: 'succeeded', amount: 1_250, amount_received: 1_250 },
      ...{ currency: 'eur', created: START / 1_000, description: 'tea', livemode: false, metadata },
    });
    expect(intent.id).toMatch(/^pi_3\w{20,}$/);
    expect(intent.client_secret).toMatch(new RegExp(`^${intent.id}_secret_\\w{20,}$`));
    const charge = await stripe.charges.retrieve(String(intent.latest_charge));
    expect(charge).toMatchObject({
      paid: true,
      status: 'succeeded',
      amount: 1_250,
      payment_intent: intent.id,
    });
    expect(simulator.charges()).toEqual([
      {
        ...{
          id: intent.id,
          charge: charge.id,
          amount: 1_250,
          currency: 'eur',
          created: START / 1_000,
          metadata,
        },
        ...{ operationRef: 'ref-1', operationId: 'op-1', tenant: 'shop-7', refunded: 0 },
        idempotencyKey: expect.stringMatching(/^stripe-node-retry-/),
      },
    ]);
    expect(await stripe.paymentIntents.retrieve(intent.id)).toEqual(intent);
    expect(simulator.intents()).toEqual([intent]);
  });

  it('is not charged before it is confirmed, and then once', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const made = await stripe.paymentIntents.create({ amount: 500, currency: 'USD' });
    expect([made.status, made.currency, made.latest_charge]).toEqual([
      'requires_payment_method',
      'usd',
      null,
    ]);
    const bare = await errorOf(stripe.paymentIntents.confirm(made.id));
    expect([bare.statusCode, bare.code]).toEqual([400, 'payment_intent_unexpected_state']);
    expect(simulator.charges()).toEqual([]);
    const paid = await stripe.paymentIntents.confirm(made.id, { payment_method: 'pm_card_mastercard' });
    expect(paid.status).toBe('succeeded');
    const again = await errorOf(stripe.paymentIntents.confirm(made.id));
    expect([again.statusCode, again.code, again.payment_intent?.id]).toEqual([
      ...[400, 'payment_intent_unexpected_state', made.id],
    ]);
    expect(simulator.charges()).toHaveLength(1);
  });

  it('keeps the payment method that it was made with until it is confirmed', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const made = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    expect(made.status).toBe('requires_confirmation');
    const paid = await stripe.paymentIntents.confirm(made.id);
    expect([paid.status, paid.payment_method]).toEqual(['succeeded', made.payment_method]);
  });

  it.each([
    ['pm_card_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_visa_chargeDeclined', 'card_declined', 'generic_decline'],
    ['pm_card_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_visa_chargeDeclinedInsufficientFunds', 'card_declined', 'insufficient_funds'],
    ['pm_card_visa_chargeDeclinedLostCard', 'card_declined', 'lost_card'],
    ['pm_card_visa_chargeDeclinedStolenCard', 'card_declined', 'stolen_card'],
    ['pm_card_chargeDeclinedExpiredCard', 'expired_card', 'expired_card'],
    ['pm_card_chargeDeclinedIncorrectCvc', 'incorrect_cvc', 'incorrect_cvc'],
    ['pm_card_chargeDeclinedProcessingError', 'processing_error', 'processing_error'],
    ['pm_card_visa_chargeDeclinedVelocityLimitExceeded', 'card_declined', 'card_velocity_exceeded'],
  ])('of %s is declined, and no money moves', async (payment_method, code, decline_code) => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const error = await errorOf(stripe.paymentIntents.create({ ...CHARGE, payment_method }));
    expect([error.statusCode, error.type, error.code, error.decline_code]).toEqual([
      ...[402, 'StripeCardError', code, decline_code],
    ]);
    const intent = await stripe.paymentIntents.retrieve(error.payment_intent?.id ?? '');
    expect(intent).toMatchObject({
      status: 'requires_payment_method',
      payment_method: null,
      amount_received: 0,
    });
    expect(intent.last_payment_error).toMatchObject({ code, decline_code, type: 'card_error' });
    const charge = await stripe.charges.retrieve(String(intent.latest_charge));
    expect(charge).toMatchObject({ paid: false, status: 'failed', failure_code: code });
    expect(error.charge).toBe(charge.id);
    expect(simulator.charges()).toEqual([]);
    const other = await stripe.paymentIntents.confirm(intent.id, { payment_method: 'pm_card_visa' });
    expect([other.status, other.last_payment_error]).toEqual(['succeeded', null]);
    expect(simulator.charges()).toHaveLength(1);
  });

  it('of a card whose owner must confirm waits for them, or is declined where nobody can be asked', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const asking = { ...CHARGE, payment_method: 'pm_card_authenticationRequired' };
    const intent = await stripe.paymentIntents.create({ ...asking, return_url: 'https://shop.example/back' });
    expect([intent.status, intent.next_action?.type]).toEqual(['requires_action', 'redirect_to_url']);
    for (const [rest, decline_code] of [
      [{ error_on_requires_action: true }, 'authentication_not_handled'],
      [{ off_session: true }, 'authentication_required'],
    ] as const) {
      const error = await errorOf(stripe.paymentIntents.create({ ...asking, ...rest }));
      expect([error.statusCode, error.code, error.decline_code]).toEqual([
        ...[402, 'authentication_required', decline_code],
      ]);
      expect(error.payment_intent?.status).toBe('requires_payment_method');
    }
    expect(simulator.charges()).toEqual([]);
  });

  it('can be canceled until it is charged, and never be charged after', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const { id } = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    const canceled = await stripe.paymentIntents.cancel(id, { cancellation_reason: 'abandoned' });
    expect(canceled).toMatchObject({
      ...{ status: 'canceled', canceled_at: START / 1_000, cancellation_reason: 'abandoned' },
    });
    const paid = await stripe.paymentIntents.create(CHARGE);
    for (const asking of [
      stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' }),
      stripe.paymentIntents.cancel(id),
      stripe.paymentIntents.cancel(paid.id),
    ]) {
      expect((await errorOf(asking)).code).toBe('payment_intent_unexpected_state');
    }
    expect(simulator.charges()).toHaveLength(1);
  });
});

describe('a request that makes no sense', () => {
  const many = Array.from({ length: 51 }, (_, index) => `metadata[k${index}]=v`).join('&');
  const REST = 'currency=eur&payment_method=pm_card_visa&confirm=true';

  it.each([
    [REST, 'parameter_missing', 'amount'],
    [`amount=&${REST}`, 'parameter_invalid_empty', 'amount'],
    [`amount=12.5&${REST}`, 'parameter_invalid_integer', 'amount'],
    [`amount=ten&${REST}`, 'parameter_invalid_integer', 'amount'],
    [`amount=-5&${REST}`, 'parameter_invalid_integer', 'amount'],
    [`amount=0&${REST}`, 'parameter_invalid_integer', 'amount'],
    [`amount=49&${REST}`, 'amount_too_small', 'amount'],
    [`amount=100000000&${REST}`, 'amount_too_large', 'amount'],
    ['amount=500', 'parameter_missing', 'currency'],
    ['amount=500&currency=kpw', undefined, 'currency'],
    ['amount=500&currency=eur&confirm=true', 'parameter_missing', 'payment_method'],
    ['amount=500&currency=eur&off_session=true', undefined, 'off_session'],
    ['amount=500&currency=eur&confirm=yes', undefined, 'confirm'],
    [`${FORM}&colour=red`, 'parameter_unknown', 'colour'],
    [`${FORM}&application_fee_amount=1`, undefined, 'application_fee_amount'],
    [`${FORM}&capture_method=manual`, undefined, 'capture_method'],
    [`${FORM}&${many}`, undefined, 'metadata'],
    [`${FORM}&metadata[${'k'.repeat(41)}]=v`, undefined, 'metadata'],
    [`${FORM}&metadata[k]=${'v'.repeat(501)}`, undefined, 'metadata'],
    [`${FORM}&metadata[k][l]=v`, undefined, 'metadata[k]'],
    [`${FORM}&metadata=flat`, undefined, 'metadata'],
    [`${FORM}&payment_method_types[]=klarna`, undefined, 'payment_method_types'],
    [`${FORM}&customer=cus_1`, 'resource_missing', 'customer'],
    [FORM.replace('pm_card_visa', 'pm_card_nobody'), 'resource_missing', 'payment_method'],
    [`${FORM}&amount[deep]=1`, undefined, undefined],
    [`${FORM}&a]b=1`, undefined, undefined],
    [`${FORM}&description=%E0%A4%A`, undefined, undefined],
  ])('as %.60s is a 400, and charges nothing', async (form, code, param) => {
    const { simulator } = await openStage();
    const { status, body } = await plain(simulator, '/v1/payment_intents', { form });
    expect([status, body.error.type]).toEqual([400, 'invalid_request_error']);
    expect([body.error.code, body.error.param]).toEqual([code, param]);
    expect(body.error.message.length).toBeGreaterThan(10);
    expect(simulator.intents()).toEqual([]);
    expect(simulator.charges()).toEqual([]);
  });

  it('is taken up to the limits of metadata, and metadata that is unset is not there', async () => {
    const { simulator } = await openStage();
    const fifty = Array.from({ length: 49 }, (_, index) => [`k${index}`, 'v']);
    const metadata = { ...Object.fromEntries(fifty), ['k'.repeat(40)]: 'v'.repeat(500) };
    const intent = await sdk(simulator).paymentIntents.create({ ...CHARGE, metadata });
    expect(intent.metadata).toEqual(metadata);
    const unset = await plain(simulator, '/v1/payment_intents', {
      form: `${FORM}&metadata[a]=&metadata[b]=1`,
    });
    expect(unset.body.metadata).toEqual({ b: '1' });
  });

  it('takes the smallest amount of each currency, and not less', async () => {
    const { simulator } = await openStage();
    for (const [currency, least] of [
      ['usd', 50],
      ['gbp', 30],
      ['jpy', 50],
      ['huf', 17_500],
    ] as const) {
      const stripe = sdk(simulator);
      expect((await stripe.paymentIntents.create({ ...CHARGE, currency, amount: least })).status).toBe(
        'succeeded',
      );
      const { code } = await errorOf(
        stripe.paymentIntents.create({ ...CHARGE, currency, amount: least - 1 }),
      );
      expect(code).toBe('amount_too_small');
    }
  });

  it('of a kind that is not there is a 404 that says what was asked for', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    for (const [asking, param] of [
      [stripe.paymentIntents.retrieve('pi_none'), 'intent'],
      [stripe.paymentIntents.confirm('pi_none'), 'intent'],
      [stripe.paymentIntents.cancel('pi_none'), 'intent'],
      [stripe.charges.retrieve('ch_none'), 'id'],
      [stripe.refunds.retrieve('re_none'), 'id'],
      [stripe.events.retrieve('evt_none'), 'id'],
    ] as const) {
      const error = await errorOf(asking);
      expect([error.statusCode, error.code, error.param]).toEqual([404, 'resource_missing', param]);
    }
    const elsewhere = await errorOf(stripe.customers.list());
    expect([elsewhere.statusCode, elsewhere.message]).toEqual([
      404,
      expect.stringContaining('GET: /v1/customers'),
    ]);
  });

  it('that is JSON is told which content type there must be', async () => {
    const { simulator } = await openStage();
    const headers = { 'content-type': 'application/json' };
    const { status, body } = await plain(simulator, '/v1/payment_intents', {
      form: '{"amount":500}',
      headers,
    });
    expect([status, body.error.message]).toEqual([400, expect.stringContaining('x-www-form-urlencoded')]);
  });

  it('of more than a megabyte is refused', async () => {
    const { simulator } = await openStage();
    const form = `${FORM}&description=${'x'.repeat(1_000_001)}`;
    expect((await plain(simulator, '/v1/payment_intents', { form })).status).toBe(400);
    expect(simulator.charges()).toEqual([]);
  });
});

describe('whoever asks', () => {
  it('is known by the key as Bearer and as Basic, and by nothing else', async () => {
    const { simulator } = await openStage();
    const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
    for (const [authorization, status] of [
      [`Bearer ${API_KEY}`, 200],
      [`bearer ${API_KEY}`, 200],
      [basic(`${API_KEY}:`), 200],
      [basic(API_KEY), 200],
      [`Bearer ${API_KEY}x`, 401],
      [basic(`:${API_KEY}`), 401],
      ['Bearer', 401],
      [`Digest ${API_KEY}`, 401],
      ['', 401],
    ] as const) {
      const answer = await plain(simulator, '/v1/payment_intents', {
        form: FORM,
        headers: { authorization },
      });
      expect([authorization, answer.status]).toEqual([authorization, status]);
      expect(answer.text).not.toContain(API_KEY);
    }
    expect(simulator.charges()).toHaveLength(4);
    const error = await errorOf(sdk(simulator).paymentIntents.list({}, { apiKey: 'sk_test_somebody_elses' }));
    expect([error.type, error.statusCode]).toEqual(['StripeAuthenticationError', 401]);
  });

  it('is answered with the id of the request and the version of the API that was asked for', async () => {
    const { simulator } = await openStage();
    const headers = { 'stripe-version': '2024-06-20' };
    const first = await plain(simulator, '/v1/payment_intents', { headers });
    const second = await plain(simulator, '/v1/payment_intents');
    expect(first.headers.get('request-id')).toMatch(/^req_\w{14}$/);
    expect(second.headers.get('request-id')).not.toBe(first.headers.get('request-id'));
    expect(first.headers.get('stripe-version')).toBe('2024-06-20');
    expect(second.headers.get('stripe-version')).toMatch(/^20\d\d-/);
  });
});
