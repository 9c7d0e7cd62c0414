import { describe, expect, it } from 'vitest';
import {
  CHARGE,
  chargeOnce,
  errorOf,
  FORM,
  HOUR_MS,
  heldTimers,
  openStage,
  type Plain,
  plain,
  sdk,
  until,
} from './stage.ts';

const INTENTS = '/v1/payment_intents';

function headersOf({ headers }: Plain) {
  const shown = ['idempotency-key', 'original-request', 'idempotent-replayed', 'stripe-should-retry'];
  return shown.map((name) => headers.get(name));
}

describe('an idempotency key', () => {
  it('repeats the first answer byte for byte, and charges once', async () => {
    const { simulator } = await openStage();
    const first = await chargeOnce(simulator, 'key-1');
    const second = await chargeOnce(simulator, 'key-1');
    expect(first.status).toBe(200);
    expect([second.status, second.text]).toEqual([200, first.text]);
    const request = first.headers.get('request-id');
    expect(headersOf(first)).toEqual(['key-1', request, null, null]);
    expect(headersOf(second)).toEqual(['key-1', request, 'true', null]);
    expect(second.headers.get('request-id')).not.toBe(request);
    expect(simulator.charges().map(({ idempotencyKey }) => idempotencyKey)).toEqual(['key-1']);
  });

  it('knows the same parameters in another order', async () => {
    const { simulator } = await openStage();
    const rest = '&metadata[b]=2&metadata[a]=1&allowed_payment_method_types[]=card';
    await chargeOnce(simulator, 'key-1', rest);
    const form = `allowed_payment_method_types%5B%5D=card&metadata[a]=1&${FORM}&metadata[b]=2`;
    const second = await plain(simulator, INTENTS, { form, key: 'key-1' });
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(simulator.charges()).toHaveLength(1);
  });

  it('repeats what was answered then, whatever has become of it', async () => {
    const { simulator } = await openStage();
    const form = 'amount=500&currency=eur&payment_method=pm_card_visa';
    const first = await plain(simulator, INTENTS, { form, key: 'key-1' });
    await plain(simulator, `${INTENTS}/${first.body.id}/confirm`, { form: '' });
    const second = await plain(simulator, INTENTS, { form, key: 'key-1' });
    expect(second.text).toBe(first.text);
    expect(second.body.status).toBe('requires_confirmation');
    expect((await plain(simulator, `${INTENTS}/${first.body.id}`)).body.status).toBe('succeeded');
  });

  it.each([
    ['another amount', INTENTS, FORM.replace('1250', '1251'), /same parameters/],
    ['one parameter more', INTENTS, `${FORM}&metadata[a]=1`, /same parameters/],
    ['one parameter less', INTENTS, FORM.replace('&confirm=true', ''), /same parameters/],
    ['parameters that make no sense', INTENTS, 'amount=ten', /same parameters/],
    ['another endpoint', '/v1/refunds', FORM, /same endpoint.*\/v1\/refunds.*\/v1\/payment_intents/],
  ])('is refused with %s', async (_, path, form, message) => {
    const { simulator } = await openStage();
    await chargeOnce(simulator, 'key-1');
    const { status, body, headers } = await plain(simulator, path, { form, key: 'key-1' });
    expect([status, body.error.type]).toEqual([400, 'idempotency_error']);
    expect(body.error.message).toMatch(message);
    expect(headers.get('idempotent-replayed')).toBeNull();
    expect(simulator.charges()).toHaveLength(1);
    // And that refusal is not what is kept.
    expect((await chargeOnce(simulator, 'key-1')).status).toBe(200);
  });

  it('tells parameters apart that look alike', async () => {
    const { simulator } = await openStage();
    await chargeOnce(simulator, 'key-1', '&metadata[a]=1&metadata[b]=2');
    for (const rest of ['&metadata[a]=2&metadata[b]=1', '&metadata[a]=12', '&metadata[a,b]=1,2']) {
      expect((await chargeOnce(simulator, 'key-1', rest)).body.error.type).toBe('idempotency_error');
    }
  });

  it('is in use until its answer is there, and others are told to come again', async () => {
    const time = { now: Date.UTC(2030, 0, 15, 12) };
    const { timers, waiting, pass } = heldTimers(time);
    const { simulator } = await openStage({ timers, clock: () => time.now });
    simulator.faults.set({ mode: 'slow', latencyMs: 900 });
    const first = chargeOnce(simulator, 'key-1');
    await until(() => waiting().length === 1);
    simulator.faults.set({ mode: 'none' });
    for (const form of [FORM, `${FORM}&metadata[a]=1`]) {
      const second = await plain(simulator, INTENTS, { form, key: 'key-1' });
      expect([second.status, second.body.error.code]).toEqual([409, 'idempotency_key_in_use']);
      expect(headersOf(second)).toEqual(['key-1', null, null, 'true']);
    }
    expect((await chargeOnce(simulator, 'key-2')).status).toBe(200);
    pass(900);
    expect((await first).status).toBe(200);
    expect((await chargeOnce(simulator, 'key-1')).text).toBe((await first).text);
    expect(simulator.charges()).toHaveLength(2);
  });

  it('makes one charge of a hundred simultaneous requests', async () => {
    const { simulator } = await openStage();
    const answers = await Promise.all(Array.from({ length: 100 }, () => chargeOnce(simulator, 'key-1')));
    expect(simulator.charges()).toHaveLength(1);
    const [charge] = simulator.charges();
    for (const { status, body } of answers) {
      if (status === 200) expect(body.id).toBe(charge?.id);
      else expect([status, body.error.code]).toEqual([409, 'idempotency_key_in_use']);
    }
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
  });

  it('is kept for 24 hours, and then makes a new charge', async () => {
    const { simulator, time } = await openStage();
    const first = await chargeOnce(simulator, 'key-1');
    time.now += 24 * HOUR_MS - 1;
    expect((await chargeOnce(simulator, 'key-1')).text).toBe(first.text);
    time.now += 1;
    const later = await chargeOnce(simulator, 'key-1');
    expect(later.body.id).not.toBe(first.body.id);
    expect(simulator.charges()).toHaveLength(2);
    expect((await chargeOnce(simulator, 'key-1')).text).toBe(later.text);
  });

  it('repeats what was refused once the work had begun', async () => {
    const { simulator } = await openStage();
    const declined = FORM.replace('pm_card_visa', 'pm_card_chargeDeclined');
    const { body: intent } = await chargeOnce(simulator, 'paid');
    for (const [path, form, status] of [
      [INTENTS, declined, 402],
      [INTENTS, FORM.replace('pm_card_visa', 'pm_none'), 400],
      [`${INTENTS}/${intent.id}/cancel`, '', 400],
      [`${INTENTS}/pi_none/cancel`, '', 404],
      ['/v1/refunds', 'payment_intent=pi_none', 400],
    ] as const) {
      const key = `key ${path} ${form}`;
      const first = await plain(simulator, path, { form, key });
      const second = await plain(simulator, path, { form, key });
      expect([first.status, second.status, second.text]).toEqual([status, status, first.text]);
      expect(second.headers.get('idempotent-replayed')).toBe('true');
    }
    expect(simulator.intents()).toHaveLength(2);
    expect(simulator.charges()).toHaveLength(1);
  });

  it('is not used up by what was refused before', async () => {
    const { simulator } = await openStage();
    const wrong = { authorization: 'Bearer sk_test_wrong' };
    for (const request of [
      { form: 'amount=ten' },
      { form: `${FORM}&colour=red` },
      { form: FORM, headers: wrong },
    ]) {
      const refused = await plain(simulator, INTENTS, { ...request, key: 'key-1' });
      expect([refused.status >= 400, refused.headers.get('original-request')]).toEqual([true, null]);
    }
    expect((await chargeOnce(simulator, 'key-1')).status).toBe(200);
  });

  it('of more than 255 characters is refused, and an empty one is none', async () => {
    const { simulator } = await openStage();
    expect((await chargeOnce(simulator, 'k'.repeat(255))).status).toBe(200);
    expect((await chargeOnce(simulator, 'k'.repeat(256))).status).toBe(400);
    await chargeOnce(simulator, '');
    await chargeOnce(simulator, '');
    expect(simulator.charges()).toHaveLength(3);
  });

  it('protects every request that changes something', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const made = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    const twice = <T>(ask: (idempotencyKey: string) => Promise<T>, key: string) =>
      [ask(key), ask(key)] as const;
    const other = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    for (const [first, second] of [
      twice((idempotencyKey) => stripe.paymentIntents.confirm(made.id, {}, { idempotencyKey }), 'confirm'),
      twice((idempotencyKey) => stripe.paymentIntents.cancel(other.id, {}, { idempotencyKey }), 'cancel'),
    ]) {
      const ended = await Promise.allSettled([first, second]);
      expect(ended.some(({ status }) => status === 'fulfilled')).toBe(true);
    }
    const refund = (idempotencyKey: string) =>
      stripe.refunds.create({ payment_intent: made.id, amount: 250 }, { idempotencyKey });
    expect(await refund('refund')).toEqual(await refund('refund'));
    expect(simulator.charges()).toMatchObject([{ id: made.id, refunded: 250, idempotencyKey: 'confirm' }]);
  });

  it("is refused for other parameters in the words that Stripe's client knows", async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    await stripe.paymentIntents.create(CHARGE, { idempotencyKey: 'key-1' });
    const other = stripe.paymentIntents.create({ ...CHARGE, amount: 1_251 }, { idempotencyKey: 'key-1' });
    expect((await errorOf(other)).type).toBe('StripeIdempotencyError');
  });
});
