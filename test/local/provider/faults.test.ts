import type Stripe from 'stripe';
import { describe, expect, it } from 'vitest';
import { InvalidFault } from '../../../lib/local/faults.ts';
import { FAULT_MODES, type FaultMode } from '../../../lib/local/provider/fault-modes.ts';
import type { StripeSimulator } from '../../../lib/local/provider/simulator.ts';
import { CHARGE, chargeOnce, errorOf, heldTimers, openStage, plain, START, sdk, until } from './stage.ts';

/** How a client learns of the end of a charge: what it was told, or nothing. */
type Told = 'succeeded' | 'declined' | 'failed' | 'nothing';

/** How long a client waits before it gives up. Answers that come mostly take a fraction of it; if not, it asks again. */
const PATIENCE_MS = 400;
/** Of who knows that an answer will come. */
const ALL_THE_TIME_MS = 60_000;

/** Whether or not a client repeats a request by itself, it asks again under the same key until it is told something. */
interface Client {
  ask(key: string, timeoutMs?: number): Promise<Told>;
}

function sdkClient(simulator: StripeSimulator, maxNetworkRetries: number): Client {
  const stripe = sdk(simulator, { maxNetworkRetries });
  return {
    ask: (idempotencyKey, timeout = PATIENCE_MS) =>
      stripe.paymentIntents.create(CHARGE, { idempotencyKey, timeout }).then(
        ({ status }) => (status === 'succeeded' ? 'succeeded' : 'nothing'),
        ({ statusCode }: InstanceType<typeof Stripe.errors.StripeError>) => toldBy(statusCode),
      ),
  };
}

function fetchClient(simulator: StripeSimulator): Client {
  return {
    ask: (key, timeoutMs = PATIENCE_MS) =>
      plain(simulator, '/v1/payment_intents', {
        ...{ form: 'amount=1250&currency=eur&confirm=true&payment_method=pm_card_visa', key },
        signal: AbortSignal.timeout(timeoutMs),
      }).then(
        ({ status }) => toldBy(status),
        () => 'nothing',
      ),
  };
}

function toldBy(status: number | undefined): Told {
  switch (status) {
    case 200:
      return 'succeeded';
    case 402:
      return 'declined';
    case 500:
      return 'failed';
    default:
      return 'nothing';
  }
}

const CLIENTS: Readonly<Record<string, (simulator: StripeSimulator) => Client>> = {
  "Stripe's client without retries": (simulator) => sdkClient(simulator, 0),
  "Stripe's client with retries": (simulator) => sdkClient(simulator, 2),
  'fetch with retries': fetchClient,
};

const CHARGED: Readonly<Record<Told, number>> = { succeeded: 1, declined: 0, failed: 1, nothing: 0 };

describe.each(Object.entries(CLIENTS))('for %s', (_, clientOf) => {
  it.each(FAULT_MODES)(
    'a key ends with one charge at the most, and as it was told, where it is %s',
    async (mode) => {
      const { simulator } = await openStage();
      const client = clientOf(simulator);
      simulator.faults.set({ mode, probability: 0.5, ...(mode === 'slow' && { latencyMs: 50 }) });
      const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);
      const told = await Promise.all(
        keys.map(async (key) => {
          for (let tries = 0; tries < 40; tries += 1) {
            const answer = await client.ask(key);
            if (answer !== 'nothing') return answer;
          }
          return 'nothing';
        }),
      );
      expect(told).not.toContain('nothing');
      const charged = keys.map(
        (key) => simulator.charges().filter(({ idempotencyKey }) => idempotencyKey === key).length,
      );
      expect(charged).toEqual(told.map((answer) => CHARGED[answer]));
      // Later, too, and whatever the mode is then.
      simulator.faults.set({ mode: 'none' });
      expect(await Promise.all(keys.map((key) => client.ask(key, ALL_THE_TIME_MS)))).toEqual(told);
      expect(simulator.charges()).toHaveLength(charged.filter((count) => count === 1).length);
      const expected: readonly FaultMode[] = ['error', 'decline'];
      expect(told.some((answer) => answer !== 'succeeded')).toBe(expected.includes(mode));
    },
  );
});

describe('a fault', () => {
  async function heldStage() {
    const time = { now: START };
    const held = heldTimers(time);
    return { ...held, ...(await openStage({ timers: held.timers, clock: () => time.now })) };
  }

  it('after the charge leaves a charge and no answer, and its key answers when it is asked again', async () => {
    const { simulator, waiting } = await heldStage();
    simulator.faults.set({ mode: 'timeout-after-charge' });
    const leaving = new AbortController();
    const asking = plain(simulator, '/v1/payment_intents', {
      ...{ form: 'amount=1250&currency=eur&confirm=true&payment_method=pm_card_visa', key: 'key-1' },
      signal: leaving.signal,
    });
    await until(() => waiting().length === 1);
    expect(simulator.charges()).toHaveLength(1);
    expect(waiting()).toEqual([120_000]);
    const second = await chargeOnce(simulator, 'key-1');
    expect([second.status, second.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    leaving.abort();
    await expect(asking).rejects.toThrow('abort');
    await until(() => waiting().length === 0);
    expect(simulator.charges()).toHaveLength(1);
  });

  it('before the charge leaves nothing, and its key unused', async () => {
    const { simulator, waiting, pass } = await heldStage();
    simulator.faults.set({ mode: 'timeout-before-charge', latencyMs: 5_000 });
    const asking = chargeOnce(simulator, 'key-1');
    await until(() => waiting().length === 1);
    expect([simulator.charges(), simulator.intents()]).toEqual([[], []]);
    simulator.faults.set({ mode: 'none' });
    expect((await chargeOnce(simulator, 'key-1', '&metadata[a]=1')).status).toBe(200);
    // The connection of who waits longer is closed.
    pass(5_000);
    await expect(asking).rejects.toThrow('fetch failed');
    expect(simulator.charges()).toHaveLength(1);
  });

  it('of a 500 comes after the charge, is kept under the key, and is not worth a retry', async () => {
    const { simulator } = await openStage();
    simulator.faults.set({ mode: 'error' });
    const first = await chargeOnce(simulator, 'key-1');
    expect([first.status, first.body.error.type]).toEqual([500, 'api_error']);
    expect(first.headers.get('stripe-should-retry')).toBe('false');
    simulator.faults.set({ mode: 'none' });
    const second = await chargeOnce(simulator, 'key-1');
    expect([second.status, second.text]).toEqual([500, first.text]);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
    expect(simulator.charges()).toHaveLength(1);
    const [listed] = (await sdk(simulator).paymentIntents.list()).data;
    expect(listed?.status).toBe('succeeded');
  });

  it('of declining is a decline of a good card', async () => {
    const { simulator } = await openStage();
    simulator.faults.set({ mode: 'decline' });
    const error = await errorOf(sdk(simulator).paymentIntents.create(CHARGE));
    expect([error.type, error.code, error.decline_code]).toEqual([
      ...['StripeCardError', 'card_declined', 'generic_decline'],
    ]);
    expect(error.payment_intent?.status).toBe('requires_payment_method');
    expect(simulator.charges()).toEqual([]);
  });

  it('of slowness makes everything late, and nothing different', async () => {
    const { simulator, waiting, pass } = await heldStage();
    const { body } = await chargeOnce(simulator, 'key-1');
    simulator.faults.set({ mode: 'slow' });
    for (const ask of [
      () => chargeOnce(simulator, 'key-1'),
      () => chargeOnce(simulator, 'key-2'),
      () => plain(simulator, '/v1/payment_intents'),
      () => plain(simulator, `/v1/payment_intents/${body.id}`),
      () => plain(simulator, '/v1/refunds', { form: `payment_intent=${body.id}` }),
    ]) {
      const asking = ask();
      await until(() => waiting().length === 1);
      expect(waiting()).toEqual([2_000]);
      pass(2_000);
      expect((await asking).status).toBe(200);
    }
    expect(simulator.charges()).toHaveLength(2);
  });

  it.each<FaultMode>(['timeout-after-charge', 'timeout-before-charge', 'error', 'decline'])(
    'such as %s leaves alone what takes no money',
    async (mode) => {
      const { simulator } = await openStage();
      const { body: paid } = await chargeOnce(simulator, 'key-1');
      simulator.faults.set({ mode });
      const stripe = sdk(simulator);
      expect((await chargeOnce(simulator, 'key-1')).status).toBe(200);
      const made = await stripe.paymentIntents.create({ ...CHARGE, confirm: false });
      expect((await stripe.paymentIntents.cancel(made.id)).status).toBe('canceled');
      expect((await stripe.paymentIntents.list()).data).toHaveLength(2);
      expect((await stripe.paymentIntents.search({ query: "status:'succeeded'" })).data).toHaveLength(1);
      expect((await stripe.refunds.create({ payment_intent: paid.id })).status).toBe('succeeded');
      expect((await plain(simulator, '/v1/payment_intents', { form: 'amount=ten' })).status).toBe(400);
    },
  );

  it('holds no connection beyond the end', async () => {
    const { simulator, waiting } = await heldStage();
    simulator.faults.set({ mode: 'timeout-before-charge' });
    const asking = chargeOnce(simulator, 'key-1').catch((error: Error) => error.message);
    await until(() => waiting().length === 1);
    await simulator.close();
    expect([await asking, waiting()]).toEqual(['fetch failed', []]);
  });

  it.each([
    [undefined],
    [{}],
    [{ mode: 'explode' }],
    [{ mode: 'slow', probability: 1.1 }],
    [{ mode: 'slow', probability: -0.1 }],
    [{ mode: 'slow', probability: '1' }],
    [{ mode: 'slow', latencyMs: -1 }],
    [{ mode: 'slow', latencyMs: Number.NaN }],
    [{ mode: 'slow', latency: 5 }],
  ])('is refused as %j, with a sentence, and the one before stays', async (faults) => {
    const { simulator } = await openStage();
    simulator.faults.set({ mode: 'decline', probability: 0.25 });
    expect(() => simulator.faults.set(faults)).toThrow(InvalidFault);
    expect(simulator.faults.current()).toEqual({ mode: 'decline', probability: 0.25 });
  });
});
