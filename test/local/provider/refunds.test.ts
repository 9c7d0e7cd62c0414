import { describe, expect, it } from 'vitest';
import { CHARGE, errorOf, openStage, plain, START, sdk } from './stage.ts';

describe('a refund', () => {
  it('gives back what is left, or a part of it, and never more than was charged', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const paid = await stripe.paymentIntents.create(CHARGE);
    const part = await stripe.refunds.create({
      ...{ payment_intent: paid.id, amount: 400, reason: 'requested_by_customer', metadata: { ticket: '7' } },
    });
    expect(part).toMatchObject({
      ...{ object: 'refund', amount: 400, currency: 'eur', status: 'succeeded', created: START / 1_000 },
      ...{ payment_intent: paid.id, charge: paid.latest_charge, reason: 'requested_by_customer' },
      metadata: { ticket: '7' },
    });
    expect(await stripe.refunds.retrieve(part.id)).toEqual(part);
    const tooMuch = await errorOf(stripe.refunds.create({ payment_intent: paid.id, amount: 851 }));
    expect([tooMuch.statusCode, tooMuch.code, tooMuch.message]).toEqual([
      ...[
        400,
        'amount_too_large',
        'Refund amount (€8.51) is greater than unrefunded amount on charge (€8.50)',
      ],
    ]);
    const rest = await stripe.refunds.create({ charge: String(paid.latest_charge) });
    expect(rest.amount).toBe(850);
    const charge = await stripe.charges.retrieve(String(paid.latest_charge));
    expect([charge.amount_refunded, charge.refunded]).toEqual([1_250, true]);
    const again = await errorOf(stripe.refunds.create({ payment_intent: paid.id, amount: 1 }));
    expect([again.statusCode, again.code]).toEqual([400, 'charge_already_refunded']);
    expect(simulator.charges()).toMatchObject([{ id: paid.id, amount: 1_250, refunded: 1_250 }]);
    const other = await stripe.paymentIntents.create(CHARGE);
    await stripe.refunds.create({ payment_intent: other.id });
    expect((await stripe.refunds.list()).data).toHaveLength(3);
    const ofOne = (await stripe.refunds.list({ payment_intent: paid.id })).data;
    expect(ofOne.map(({ id }) => id)).toEqual([rest.id, part.id]);
    expect((await stripe.refunds.list({ charge: charge.id })).data).toEqual(ofOne);
  });

  it('of a hundred at once gives back no more than there is', async () => {
    const { simulator } = await openStage();
    const paid = await sdk(simulator).paymentIntents.create(CHARGE);
    const form = `payment_intent=${paid.id}&amount=100`;
    const asked = Array.from({ length: 100 }, () => plain(simulator, '/v1/refunds', { form }));
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(12);
    expect(simulator.charges()).toMatchObject([{ refunded: 1_200 }]);
  });

  it('needs a charge that went through', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const open = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    const declined = { ...CHARGE, payment_method: 'pm_card_chargeDeclined' };
    const failed = (await errorOf(stripe.paymentIntents.create(declined))).payment_intent;
    for (const [params, code, param] of [
      [{ payment_intent: open.id }, undefined, undefined],
      [{ payment_intent: failed?.id ?? '' }, undefined, undefined],
      [{ charge: String(failed?.latest_charge) }, undefined, undefined],
      [{ payment_intent: 'pi_none' }, 'resource_missing', 'payment_intent'],
      [{ charge: 'ch_none' }, 'resource_missing', 'charge'],
      [{}, undefined, undefined],
      [{ payment_intent: open.id, charge: 'ch_none' }, 'parameters_exclusive', undefined],
      [{ payment_intent: open.id, amount: 0 }, 'parameter_invalid_integer', 'amount'],
      [{ payment_intent: open.id, reason: 'boredom' as 'duplicate' }, undefined, 'reason'],
    ] as const) {
      const error = await errorOf(stripe.refunds.create(params));
      expect([params, error.statusCode, error.code, error.param]).toEqual([params, 400, code, param]);
    }
    expect((await stripe.refunds.list()).data).toEqual([]);
  });
});
