import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Stripe from 'stripe';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { remembered } from '../../../lambdas/service/secrets.ts';
import { stripeProvider } from '../../../lambdas/service/stripe-provider.ts';
import { executed } from '../../../lib/effects/resolver.ts';
import type { StripeSimulatorOptions } from '../../../lib/local/provider/simulator.ts';
import type { WebhookSettings } from '../../../lib/local/provider/webhook-settings.ts';
import { stripeSignature } from '../../../lib/reconcile/stripe-signature.ts';
import { webhook } from '../../../lib/reconcile/webhook.ts';
import { memoryLedger } from '../../../lib/testing/index.ts';
import { httpApi } from '../../http/events.ts';
import { type PaymentEvent, unknownRecord } from '../../reconcile/webhook-stage.ts';
import {
  API_KEY,
  CHARGE,
  chargeOnce,
  errorOf,
  heldTimers,
  openStage,
  plain,
  START,
  sdk,
  until,
} from './stage.ts';
import { type Delivery, webhookEndpoint } from './webhook-stage.ts';

const SECRET = 'whsec_test_secret';

let endpoint: Awaited<ReturnType<typeof webhookEndpoint>>;
beforeEach(async () => {
  endpoint = await webhookEndpoint();
});
afterEach(() => endpoint.close());

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-provider-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

/** With timers that go off when the test says so. */
async function tellingStage(
  rest: Partial<WebhookSettings> = {},
  options: Partial<StripeSimulatorOptions> = {},
) {
  const time = { now: START };
  const held = heldTimers(time);
  const webhooks = { url: endpoint.url, secret: SECRET, ...rest };
  const stage = await openStage({ webhooks, timers: held.timers, clock: () => time.now, ...options });
  return { ...stage, ...held, time };
}

async function delivered(count: number): Promise<readonly Delivery[]> {
  await until(() => endpoint.deliveries.length >= count);
  return endpoint.deliveries;
}

const first = async (): Promise<Delivery> => {
  const [delivery] = await delivered(1);
  if (!delivery) throw new TypeError('There was no delivery.');
  return delivery;
};

describe('a webhook', () => {
  it('tells of each change with the event that the API has', async () => {
    const { simulator } = await tellingStage();
    const stripe = sdk(simulator);
    const paid = await stripe.paymentIntents.create({ ...CHARGE, metadata: { operationRef: 'ref-1' } });
    await delivered(1);
    await stripe.refunds.create({ payment_intent: paid.id });
    await delivered(2);
    const declined = { ...CHARGE, payment_method: 'pm_card_chargeDeclined' };
    const failed = (await errorOf(stripe.paymentIntents.create(declined))).payment_intent;
    await delivered(3);
    await stripe.paymentIntents.cancel(failed?.id ?? '');
    const deliveries = await delivered(4);
    expect(deliveries.map(({ event }) => event.type)).toEqual([
      ...['payment_intent.succeeded', 'charge.refunded', 'payment_intent.payment_failed'],
      'payment_intent.canceled',
    ]);
    expect(deliveries[0]?.event).toMatchObject({ object: 'event', data: { object: paid }, livemode: false });
    expect(deliveries[0]?.contentType).toBe('application/json; charset=utf-8');
    for (const { event } of deliveries) {
      const { pending_webhooks, ...kept } = await stripe.events.retrieve(event.id);
      expect({ ...kept, pending_webhooks: 1 }).toEqual(event);
      expect(pending_webhooks).toBe(0);
    }
  });

  it("is accepted by Stripe's own library and by ours, and refused if anything of it was changed", async () => {
    const { simulator, time } = await tellingStage();
    await chargeOnce(simulator, 'key-1', '&description=Gr%C3%BC%C3%9Fe');
    const { body, signature, event } = await first();
    const theirs = (...[text, header, secret]: [string, string, string]) =>
      Stripe.webhooks.constructEvent(text, header, secret, 300, undefined, time.now).id;
    const ours = async (text: string, header: string, secret: string) => {
      const ledger = memoryLedger({ clock: () => time.now });
      const verify = stripeSignature({ secrets: [secret], clock: () => time.now });
      const hook = webhook<unknown, PaymentEvent>({
        ...{ ledger, verify, clock: () => time.now, subject: () => undefined, log: () => undefined },
        fetch: () => executed({ statusCode: 201 }),
        metrics: () => undefined,
      });
      const request = httpApi({ headers: { 'Stripe-Signature': header }, body: text });
      return (await hook(request)).statusCode;
    };
    expect(theirs(body, signature, SECRET)).toBe(event.id);
    expect(await ours(body, signature, SECRET)).toBe(200);
    const [t = '', v1 = ''] = signature.split(',');
    for (const [text, header, secret] of [
      [body.replace('1250', '9250'), signature, SECRET],
      [`${body} `, signature, SECRET],
      [body, `t=${START / 1_000 + 1},${v1}`, SECRET],
      [body, `${t},v1=${'0'.repeat(64)}`, SECRET],
      [body, signature, 'whsec_another'],
      [body, t, SECRET],
      [body, '', SECRET],
    ] as const) {
      expect(() => theirs(text, header, secret)).toThrow(Stripe.errors.StripeSignatureVerificationError);
      expect(await ours(text, header, secret)).toBe(400);
    }
    time.now += 301_000;
    expect(() => theirs(body, signature, SECRET)).toThrow('tolerance');
    expect(await ours(body, signature, SECRET)).toBe(400);
  });

  it('settles what the answer would have told, where that was lost', async () => {
    const time = { now: START };
    const clock = () => time.now;
    const { simulator } = await tellingStage({}, { clock });
    const ledger = memoryLedger({ clock });
    const { pk, operationId } = await unknownRecord(ledger);
    simulator.faults.set({ mode: 'timeout-after-charge' });
    const leaving = new AbortController();
    const metadata = `&metadata[operationRef]=${pk}&metadata[operationId]=${operationId}`;
    const asking = plain(simulator, '/v1/payment_intents', {
      ...{
        form: `amount=1250&currency=eur&confirm=true&payment_method=pm_card_visa${metadata}`,
        key: 'key-1',
      },
      signal: leaving.signal,
    }).catch(() => 'lost');
    const { body, signature } = await first();
    leaving.abort();
    expect(await asking).toBe('lost');
    const provider = stripeProvider({
      apiKey: remembered(async () => API_KEY),
      baseUrl: simulator.url,
      timeoutMs: 20_000,
    });
    const hook = webhook<unknown, PaymentEvent>({
      ...{ ledger, clock, verify: stripeSignature({ secrets: [SECRET], clock }) },
      ...{ log: () => undefined, metrics: () => undefined },
      subject: ({ data }) => ({ operationRef: String(data.object.metadata?.['operationRef']) }),
      async fetch(_, { operationRef }) {
        const span = { from: START - 60_000, to: START + 60_000 };
        const finding = await provider.find({ operationRef, operationId }, span);
        return executed({ statusCode: 201, body: JSON.stringify(finding) });
      },
    });
    const request = httpApi({ headers: { 'Stripe-Signature': signature }, body });
    expect((await hook(request)).statusCode).toBe(200);
    expect(await ledger.read(pk)).toMatchObject({ status: 'completed' });
    expect(simulator.charges()).toMatchObject([{ operationRef: pk, operationId }]);
  });

  it.each([[500], [302], [404], [0]])(
    'that is answered %i comes again later, signed anew',
    async (status) => {
      const { simulator, waiting, pass, time, reports } = await tellingStage();
      endpoint.statuses.push(status, status);
      const { body: intent } = await chargeOnce(simulator, 'key-1');
      const [one] = await delivered(1);
      if (status === 0) pass(20_000);
      await until(() => reports.some(({ level }) => level === 'warn') && waiting().length === 1);
      const events = await sdk(simulator).events.list();
      expect(events.data.map(({ pending_webhooks }) => pending_webhooks)).toEqual([1]);
      const [pauseMs = 0] = waiting();
      expect(pauseMs).toBeGreaterThanOrEqual(500);
      expect(pauseMs).toBeLessThanOrEqual(1_000);
      pass(4_000);
      const [, two] = await delivered(2);
      expect(two?.body).toBe(one?.body);
      expect(two?.signature).toMatch(new RegExp(`^t=${Math.floor(time.now / 1_000)},v1=`));
      if (status === 0) pass(20_000);
      await until(
        () => reports.filter(({ level }) => level === 'warn').length === 2 && waiting().length === 1,
      );
      pass(4_000);
      await delivered(3);
      await until(() => waiting().length === 0);
      expect(endpoint.deliveries.map(({ event }) => event.id)).toEqual(Array(3).fill(events.data[0]?.id));
      expect(simulator.charges().map(({ id }) => id)).toEqual([intent.id]);
    },
  );

  it('is given up in the end, and somebody is told', async () => {
    const { simulator, waiting, pass, reports } = await tellingStage();
    const warnings = () => reports.filter(({ level }) => level === 'warn');
    endpoint.statuses.push(...Array(40).fill(503));
    await chargeOnce(simulator, 'key-1');
    for (let tries = 1; tries < 20; tries += 1) {
      await until(() => warnings().length === tries && waiting().length === 1);
      const [pauseMs = 0] = waiting();
      expect(pauseMs).toBeLessThanOrEqual(60_000);
      pass(pauseMs);
    }
    await until(() => reports.some(({ level }) => level === 'error'));
    expect(endpoint.deliveries).toHaveLength(20);
    expect(waiting()).toEqual([]);
    expect((await sdk(simulator).events.list()).data[0]?.pending_webhooks).toBe(0);
  });

  it('can come twice, late, and before the answer', async () => {
    const { simulator, waiting, pass } = await tellingStage({
      ...{ delayMs: 7_000, duplicateProbability: 1, beforeAnswer: true },
    });
    let answered = false;
    const asking = chargeOnce(simulator, 'key-1').finally(() => {
      answered = true;
    });
    await until(() => waiting().length === 2);
    expect([waiting(), endpoint.deliveries, answered]).toEqual([[7_000, 7_000], [], false]);
    expect((await chargeOnce(simulator, 'key-1')).status).toBe(409);
    pass(7_000);
    const [one, two] = await delivered(2);
    expect(two?.event.id).toBe(one?.event.id);
    expect((await asking).status).toBe(200);
    expect(simulator.charges()).toHaveLength(1);
  });

  it('keeps no answer waiting for an endpoint that is not there', async () => {
    await endpoint.close();
    const { simulator, reports } = await tellingStage({ beforeAnswer: true });
    expect((await chargeOnce(simulator, 'key-1')).status).toBe(200);
    expect(reports.filter(({ level }) => level === 'warn')).toHaveLength(1);
    endpoint = await webhookEndpoint();
  });

  it('is not sent for what never happened', async () => {
    const { simulator, waiting } = await tellingStage();
    simulator.faults.set({ mode: 'timeout-before-charge' });
    const lost = chargeOnce(simulator, 'key-1').catch(() => undefined);
    await until(() => waiting().length === 1);
    simulator.faults.set({ mode: 'none' });
    await plain(simulator, '/v1/payment_intents', { form: 'amount=ten' });
    await plain(simulator, '/v1/payment_intents', { form: 'amount=500&currency=eur' });
    expect((await sdk(simulator).events.list()).data).toEqual([]);
    await chargeOnce(simulator, 'key-2');
    await chargeOnce(simulator, 'key-2');
    await delivered(1);
    expect((await sdk(simulator).events.list()).data).toHaveLength(1);
    await simulator.close();
    await lost;
    expect(endpoint.deliveries).toHaveLength(1);
  });

  it.each(['at the start', 'later'])(
    'that nobody has taken is sent after a restart, to where it goes then, which is said %s',
    async (when) => {
      const folder = newFolder();
      endpoint.statuses.push(200, 500);
      const before = await tellingStage({}, { folder });
      await chargeOnce(before.simulator, 'key-1');
      await delivered(1);
      await chargeOnce(before.simulator, 'key-2');
      const [, untaken] = await delivered(2);
      await until(() => before.waiting().length === 1);
      await before.simulator.close();
      expect(before.waiting()).toEqual([]);

      const webhooks = { url: endpoint.url, secret: 'whsec_new' };
      const { simulator } = await openStage({ folder, ...(when === 'at the start' && { webhooks }) });
      if (when === 'later') simulator.setWebhooks(webhooks);
      const [, , again] = await delivered(3);
      expect(again?.event.id).toBe(untaken?.event.id);
      const events = () => sdk(simulator).events.list({});
      while ((await events()).data.some(({ pending_webhooks }) => pending_webhooks > 0));
      await simulator.close();
      const last = await openStage({ folder, webhooks });
      await chargeOnce(last.simulator, 'key-3');
      await delivered(4);
      expect(endpoint.deliveries[3]?.event.id).not.toBe(untaken?.event.id);
    },
  );

  it('of a change that a reset overtakes on its way to disk is not sent', async () => {
    const { simulator } = await tellingStage({}, { folder: newFolder() });
    const asking = chargeOnce(simulator, 'key-1');
    await until(() => simulator.intents().length === 1);
    await simulator.reset();
    expect((await asking).status).toBe(200);
    await chargeOnce(simulator, 'key-2');
    const [only] = await delivered(1);
    expect(only?.event).toMatchObject({ request: { idempotency_key: 'key-2' } });
    expect(endpoint.deliveries).toHaveLength(1);
  });

  it('is forgotten with a reset', async () => {
    const { simulator, waiting } = await tellingStage({ delayMs: 1_000 });
    await chargeOnce(simulator, 'key-1');
    expect(waiting()).toEqual([1_000]);
    await simulator.reset();
    expect(waiting()).toEqual([]);
    expect(endpoint.deliveries).toEqual([]);
  });

  it('of a request that a reset overtakes is not sent, and its charge is forgotten', async () => {
    const { simulator, waiting, pass } = await tellingStage({ delayMs: 1_000 });
    simulator.faults.set({ mode: 'slow', latencyMs: 500 });
    const asking = chargeOnce(simulator, 'key-1');
    await until(() => waiting().length === 2);
    const resetting = simulator.reset();
    pass(500);
    await resetting;
    expect((await asking).status).toBe(200);
    pass(60_000);
    expect([simulator.charges(), endpoint.deliveries, waiting()]).toEqual([[], [], []]);
    simulator.faults.set({ mode: 'none' });
    expect((await chargeOnce(simulator, 'key-1')).headers.get('idempotent-replayed')).toBeNull();
    expect(simulator.charges()).toHaveLength(1);
  });

  it('waits for its turn in a burst, and no time of it counts against the endpoint', async () => {
    const { simulator, waiting, pass, reports } = await tellingStage();
    endpoint.statuses.push(...Array(32).fill(0));
    await Promise.all(Array.from({ length: 40 }, (_, index) => chargeOnce(simulator, `key-${index}`)));
    await delivered(32);
    expect(waiting()).toEqual(Array(32).fill(20_000));
    pass(20_000);
    const told = await delivered(40);
    expect(new Set(told.map(({ event }) => event.id)).size).toBe(40);
    await until(() => waiting().length === 32);
    expect(reports.filter(({ level }) => level === 'warn')).toHaveLength(32);
  });

  it.each([
    [{ url: '/webhooks' }, 'webhooks.url'],
    [{ url: 'https://shop.example/webhooks' }, 'webhooks.url'],
    [{ secret: '' }, 'webhooks.secret'],
    [{ delayMs: -1 }, 'webhooks.delayMs'],
    [{ delayMs: Number.POSITIVE_INFINITY }, 'webhooks.delayMs'],
    [{ duplicateProbability: 2 }, 'webhooks.duplicateProbability'],
  ])('is refused with %j', async (rest, message) => {
    await expect(tellingStage(rest)).rejects.toThrow(message);
    const { simulator } = await openStage();
    const settings = { url: endpoint.url, secret: SECRET, ...rest };
    expect(() => simulator.setWebhooks(settings)).toThrow(message);
  });
});
