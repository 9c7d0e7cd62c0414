import type Stripe from 'stripe';
import { describe, expect, it } from 'vitest';
import { CHARGE, errorOf, openStage, type Stage, sdk } from './stage.ts';

/** So many charges, one per second, oldest first. */
async function charged({ simulator, time }: Stage, count: number): Promise<readonly Stripe.PaymentIntent[]> {
  const stripe = sdk(simulator);
  const made: Stripe.PaymentIntent[] = [];
  for (let index = 0; index < count; index += 1) {
    const metadata = { order: `order ${index}`, shop: index % 2 === 0 ? 'North' : 'south' };
    made.push(await stripe.paymentIntents.create({ ...CHARGE, amount: 1_000 + index, metadata }));
    time.now += 1_000;
  }
  return made;
}

const ids = (items: readonly { readonly id: string }[]) => items.map(({ id }) => id);

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

describe('a list', () => {
  it('has the newest first, ten if nobody says how many, and says whether there are more', async () => {
    const stage = await openStage();
    const made = await charged(stage, 12);
    const stripe = sdk(stage.simulator);
    const page = await stripe.paymentIntents.list();
    expect([page.object, page.url, page.has_more]).toEqual(['list', '/v1/payment_intents', true]);
    expect(ids(page.data)).toEqual(ids(made.slice(2).reverse()));
    const rest = await stripe.paymentIntents.list({ starting_after: page.data.at(-1)?.id ?? '' });
    expect([ids(rest.data), rest.has_more]).toEqual([ids(made.slice(0, 2).reverse()), false]);
  });

  it("is paged through by Stripe's client, forwards and backwards, without a gap", async () => {
    const stage = await openStage();
    const made = await charged(stage, 23);
    const stripe = sdk(stage.simulator);
    expect(ids(await all(stripe.paymentIntents.list({ limit: 5 })))).toEqual(ids(made.toReversed()));
    const oldest = made[0]?.id ?? '';
    const backwards = await all(stripe.paymentIntents.list({ limit: 4, ending_before: oldest }));
    expect(ids(backwards)).toEqual(ids(made.slice(1)));
    const before = await stripe.paymentIntents.list({ limit: 4, ending_before: oldest });
    expect([ids(before.data), before.has_more]).toEqual([ids(made.slice(1, 5).reverse()), true]);
  });

  it('goes on where it was, whatever comes meanwhile', async () => {
    const stage = await openStage();
    const made = await charged(stage, 4);
    const stripe = sdk(stage.simulator);
    const first = await stripe.paymentIntents.list({ limit: 2 });
    await charged(stage, 3);
    const next = await stripe.paymentIntents.list({ limit: 10, starting_after: first.data[1]?.id ?? '' });
    expect(ids([...first.data, ...next.data])).toEqual(ids(made.toReversed()));
  });

  it('can be of a span of time, with its ends or without', async () => {
    const stage = await openStage();
    const made = await charged(stage, 6);
    const stripe = sdk(stage.simulator);
    const at = (index: number) => made[index]?.created ?? 0;
    for (const [created, from, to] of [
      [{ gte: at(1), lte: at(4) }, 1, 5],
      [{ gt: at(1), lt: at(4) }, 2, 4],
      [{ gte: at(3) }, 3, 6],
      [{ lt: at(2) }, 0, 2],
      [{ gt: at(5) }, 6, 6],
      [{ gte: at(0) - 10_000, lte: at(0) - 1 }, 0, 0],
      [at(3), 3, 4],
    ] as const) {
      const page = await stripe.paymentIntents.list({ created, limit: 100 });
      expect(ids(page.data)).toEqual(ids(made.slice(from, to).reverse()));
      const paged = await all(stripe.paymentIntents.list({ created, limit: 1 }));
      expect(ids(paged)).toEqual(ids(page.data));
    }
  });

  it('shows what was made while the clock stood still or was set back, once each', async () => {
    const stage = await openStage();
    const stripe = sdk(stage.simulator);
    const made: Stripe.PaymentIntent[] = [];
    for (const step of [0, 0, 5_000, -8_000, 0, 2_000, 20_000, -1_000]) {
      stage.time.now += step;
      made.push(await stripe.paymentIntents.create(CHARGE));
    }
    const newestFirst = made
      .map((intent, index) => ({ ...intent, index }))
      .sort((a, b) => b.created - a.created || b.index - a.index);
    expect(ids(await all(stripe.paymentIntents.list({ limit: 3 })))).toEqual(ids(newestFirst));
  });

  it.each([
    [{ limit: 0 }, 'limit', 'parameter_invalid_integer'],
    [{ limit: 101 }, 'limit', 'parameter_invalid_integer'],
    [{ starting_after: 'pi_none' }, 'starting_after', 'resource_missing'],
    [{ ending_before: 'pi_none' }, 'ending_before', 'resource_missing'],
    [{ starting_after: 'pi_a', ending_before: 'pi_b' }, undefined, 'parameters_exclusive'],
    [{ created: { since: 5 } }, 'since', 'parameter_unknown'],
    [{ created: { gte: 'noon' } }, 'gte', 'parameter_invalid_integer'],
    [{ colour: 'red' }, 'colour', 'parameter_unknown'],
  ])('is refused with %j', async (params, param, code) => {
    const { simulator } = await openStage();
    const error = await errorOf(sdk(simulator).paymentIntents.list(params as Stripe.PaymentIntentListParams));
    expect([error.statusCode, error.param, error.code]).toEqual([400, param, code]);
  });

  it('of charges has the declined ones too, and can be of one intent', async () => {
    const stage = await openStage();
    const stripe = sdk(stage.simulator);
    const declined = { ...CHARGE, payment_method: 'pm_card_chargeDeclined' };
    const id = (await errorOf(stripe.paymentIntents.create(declined))).payment_intent?.id ?? '';
    await stripe.paymentIntents.confirm(id, { payment_method: 'pm_card_visa' });
    await charged(stage, 1);
    expect((await stripe.charges.list()).data.map(({ status }) => status)).toEqual([
      ...['succeeded', 'succeeded', 'failed'],
    ]);
    expect((await stripe.charges.list({ payment_intent: id })).data.map(({ paid }) => paid)).toEqual([
      true,
      false,
    ]);
  });
});

describe('a search', () => {
  async function found(stage: Stage, query: string): Promise<readonly number[]> {
    const { data } = await sdk(stage.simulator).paymentIntents.search({ query, limit: 100 });
    return data.map(({ amount }) => amount - 1_000);
  }

  it('finds by metadata, status and currency, all of which must hold', async () => {
    const stage = await openStage();
    await charged(stage, 5);
    const stripe = sdk(stage.simulator);
    await stripe.paymentIntents.create({ amount: 1_100, currency: 'usd', metadata: { order: 'order 1' } });
    for (const [query, amounts] of [
      ["metadata['order']:'order 1'", [100, 1]],
      [`metadata["order"]:"order 1"`, [100, 1]],
      ["metadata['order']:'order 1' AND status:'succeeded'", [1]],
      ["metadata['shop']:'north' and currency:'EUR'", [4, 2, 0]],
      ["metadata['shop']:'North' AND metadata['order']:'order 1'", []],
      ["metadata['order']:'order'", []],
      ["metadata['none']:'order 1'", []],
      ["status:'requires_payment_method'", [100]],
    ] as const) {
      expect([query, await found(stage, query)]).toEqual([query, amounts]);
    }
  });

  it('finds values with quotes in them', async () => {
    const stage = await openStage();
    const metadata = { note: `it's "5" \\ 6` };
    await sdk(stage.simulator).paymentIntents.create({ ...CHARGE, metadata });
    expect(await found(stage, `metadata['note']:'it\\'s "5" \\\\ 6'`)).toEqual([250]);
    expect(await found(stage, `metadata['note']:"it's \\"5\\" \\\\ 6"`)).toEqual([250]);
  });

  it("is paged through by Stripe's client without a gap", async () => {
    const stage = await openStage();
    await charged(stage, 13);
    const pages = sdk(stage.simulator).paymentIntents.search({ query: "status:'succeeded'", limit: 4 });
    expect((await all(pages)).map(({ amount }) => amount - 1_000)).toEqual(
      Array.from({ length: 13 }, (_, index) => 12 - index),
    );
  });

  it.each([
    'order 1',
    "metadata['order']",
    "metadata['order']:order",
    "metadata['order']:'order 1' OR status:'succeeded'",
    "metadata['order']:'order 1' status:'succeeded'",
    "metadata['order']:'a' AND",
    "-status:'succeeded'",
    "amount:'5'",
    'created>5',
    Array.from({ length: 11 }, () => "status:'succeeded'").join(' AND '),
  ])('is refused for the query %s, rather than half understood', async (query) => {
    const { simulator } = await openStage();
    const error = await errorOf(sdk(simulator).paymentIntents.search({ query }));
    expect([error.statusCode, error.param]).toEqual([400, 'query']);
  });

  it('can lag behind, and then sees what was, while a list sees what is', async () => {
    const stage = await openStage();
    const { simulator, time } = stage;
    const stripe = sdk(simulator);
    simulator.setSearchLagMs(30_000);
    const metadata = { order: 'lagging' };
    const { id } = await stripe.paymentIntents.create({ ...CHARGE, confirm: false, metadata });
    const search = async () =>
      (await stripe.paymentIntents.search({ query: "metadata['order']:'lagging'" })).data.map(
        ({ status }) => status,
      );
    time.now += 29_999;
    expect(await search()).toEqual([]);
    time.now += 1;
    expect(await search()).toEqual(['requires_confirmation']);
    await stripe.paymentIntents.confirm(id);
    expect(await search()).toEqual(['requires_confirmation']);
    expect((await stripe.paymentIntents.list()).data.map(({ status }) => status)).toEqual(['succeeded']);
    time.now += 30_000;
    expect(await search()).toEqual(['succeeded']);
  });
});

describe('an event', () => {
  it('tells of each change once, as things were then, and can be listed by type', async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const paid = await stripe.paymentIntents.create(CHARGE, { idempotencyKey: 'key-1' });
    await stripe.refunds.create({ payment_intent: paid.id, amount: 250 });
    await stripe.refunds.create({ payment_intent: paid.id });
    const made = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
    await errorOf(stripe.paymentIntents.confirm(made.id, { payment_method: 'pm_card_chargeDeclined' }));
    await stripe.paymentIntents.cancel(made.id);
    const events = await all(stripe.events.list({ limit: 2 }));
    expect(events.map(({ type }) => type)).toEqual([
      ...['payment_intent.canceled', 'payment_intent.payment_failed', 'charge.refunded', 'charge.refunded'],
      'payment_intent.succeeded',
    ]);
    const [canceled, failed, whole, part, succeeded] = events;
    expect(succeeded?.data.object).toEqual(paid);
    expect(succeeded?.request?.idempotency_key).toBe('key-1');
    expect([failed?.data.object, canceled?.data.object]).toMatchObject([
      { object: 'payment_intent', status: 'requires_payment_method' },
      { object: 'payment_intent', status: 'canceled' },
    ]);
    expect([part?.data.object, whole?.data.object]).toMatchObject([
      { object: 'charge', amount_refunded: 250, refunded: false },
      { object: 'charge', amount_refunded: 1_250, refunded: true },
    ]);
    expect(part?.data.previous_attributes).toEqual({ amount_refunded: 0 });
    expect(whole?.data.previous_attributes).toEqual({ amount_refunded: 250, refunded: false });
    expect(await stripe.events.retrieve(succeeded?.id ?? '')).toEqual(succeeded);
    expect(ids((await stripe.events.list({ type: 'charge.refunded' })).data)).toEqual(
      ids(events.slice(2, 4)),
    );
    const types = ['payment_intent.canceled', 'payment_intent.succeeded'];
    expect((await stripe.events.list({ types })).data).toHaveLength(2);
  });
});
