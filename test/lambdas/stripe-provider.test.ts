import Stripe from 'stripe';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OutcomeUncertain } from '../../lambdas/service/provider.ts';
import { remembered } from '../../lambdas/service/secrets.ts';
import { readFailure } from '../../lambdas/service/stripe-errors.ts';
import { intentParams } from '../../lambdas/service/stripe-intents.ts';
import { stripeProvider } from '../../lambdas/service/stripe-provider.ts';
import { NotExecuted } from '../../lib/index.ts';
import { ORDER, providerOf, START } from './stage.ts';
import { DECLINED, type Mishap, type StripeServer, stripeServer } from './stripe-server.ts';

const PURPOSE = { operationRef: 'ref-1', operationId: 'op-1', tenant: 'shop-7' };
const call = () => ({ key: 'key-1', signal: new AbortController().signal });

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

describe('a charge by Stripe', () => {
  let stripe: StripeServer;
  beforeEach(async () => {
    stripe = await stripeServer(() => START);
  });
  afterEach(() => stripe.close());

  it.each<Mishap>(['rate-limited', 'unauthorized', 'forbidden'])(
    'was not made where Stripe answers %s',
    async (mishap) => {
      stripe.mishaps.push(mishap);
      await expect(providerOf(stripe).charge(ORDER, PURPOSE, call())).rejects.toThrow(NotExecuted);
    },
  );

  it('was not made where no connection came about', async () => {
    const nobody = await stripeServer(() => START);
    await nobody.close();
    await expect(providerOf(nobody).charge(ORDER, PURPOSE, call())).rejects.toThrow(NotExecuted);
  });

  it.each([
    ['ECONNREFUSED', NotExecuted],
    ['ENOTFOUND', NotExecuted],
    ['EAI_AGAIN', NotExecuted],
    ['ETIMEDOUT', OutcomeUncertain],
    ['ECONNRESET', OutcomeUncertain],
    [undefined, OutcomeUncertain],
  ])('whose connection ended with %s throws what is known of it', (code, what) => {
    const detail = Object.assign(new Error('no connection'), { code });
    const error = new Stripe.errors.StripeConnectionError({
      message: 'x',
      type: 'api_error',
      detail,
    } as never);
    expect(() => readFailure(error)).toThrow(what);
  });

  it('that was declined is not searched for when its answer is repeated', async () => {
    const body = { ...ORDER, paymentMethod: DECLINED };
    const first = await providerOf(stripe).charge(body, PURPOSE, call());
    expect(await providerOf(stripe).charge(body, PURPOSE, call())).toEqual(first);
    expect(stripe.requests.map(({ method }) => method)).toEqual(['POST', 'POST']);
  });

  it('is asked for with all that brings it back to its operation, and with nobody to confirm it', () => {
    expect(intentParams({ ...ORDER, description: 'Shoes' }, PURPOSE)).toEqual({
      ...{ amount: 1_250, currency: 'eur', description: 'Shoes', payment_method: 'pm_card_visa' },
      ...{ confirm: true, error_on_requires_action: true, allowed_payment_method_types: ['card'] },
      metadata: { ...PURPOSE, customerId: 'cus_ann', reference: 'invoice 7' },
    });
  });

  it('was not made where there was no time for it, or no key', async () => {
    const late = { key: 'key-1', signal: AbortSignal.abort() };
    await expect(providerOf(stripe).charge(ORDER, PURPOSE, late)).rejects.toThrow(NotExecuted);
    const apiKey = remembered(() => Promise.reject(new Error('no secret')));
    const keyless = stripeProvider({ apiKey, baseUrl: stripe.url, timeoutMs: 20_000 });
    await expect(keyless.charge(ORDER, PURPOSE, call())).rejects.toThrow(NotExecuted);
    expect(stripe.requests).toEqual([]);
  });

  it.each<Mishap>([
    'lost-after-charge',
    'lost-before-charge',
    'silent-after-charge',
    'error-after-charge',
    'processing',
    'lock-timeout',
    'key-in-use',
  ])('may have been made where it was %s, and is asked for once', async (mishap) => {
    stripe.mishaps.push(mishap);
    await expect(providerOf(stripe, 300).charge(ORDER, PURPOSE, call())).rejects.toThrow(OutcomeUncertain);
    expect(stripe.requests.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  it('may have been made where the key was used for another request', async () => {
    await providerOf(stripe).charge(ORDER, PURPOSE, call());
    const other = providerOf(stripe).charge({ ...ORDER, amount: 1 }, PURPOSE, call());
    await expect(other).rejects.toThrow(OutcomeUncertain);
  });

  it('is the same charge under the same key, and ends as it ended meanwhile', async () => {
    stripe.mishaps.push('processing');
    await expect(providerOf(stripe).charge(ORDER, PURPOSE, call())).rejects.toThrow(OutcomeUncertain);
    for (const intent of stripe.intents) intent.status = 'succeeded';
    expect(await providerOf(stripe).charge(ORDER, PURPOSE, call())).toEqual({
      kind: 'succeeded',
      charge: 'pi_1',
    });
    expect(stripe.intents).toHaveLength(1);
  });

  it.each<Mishap>(['processing', 'error-after-charge'])(
    'may have been made where it was %s, whatever comes of asking for it',
    async (mishap) => {
      stripe.mishaps.push(mishap);
      stripe.readsFail = true;
      for (let tries = 0; tries < 2; tries += 1) {
        await expect(providerOf(stripe).charge(ORDER, PURPOSE, call())).rejects.toThrow(OutcomeUncertain);
      }
    },
  );

  it('is tried with a key that was read anew after Stripe refused the old one', async () => {
    let readings = 0;
    const apiKey = remembered(async () => `sk_test_${++readings}`);
    const provider = stripeProvider({ apiKey, baseUrl: stripe.url, timeoutMs: 20_000 });
    stripe.mishaps.push('unauthorized');
    await expect(provider.charge(ORDER, PURPOSE, call())).rejects.toThrow(NotExecuted);
    await provider.charge(ORDER, PURPOSE, call());
    expect(readings).toBe(2);
  });

  it('is not taken for another operation’s that used the same key of a client earlier', async () => {
    await providerOf(stripe).charge(ORDER, PURPOSE, call());
    const later = { ...PURPOSE, operationId: 'op-2' };
    const span = { from: START - 60_000, to: START + 60_000 };
    expect(await providerOf(stripe).find(later, span)).toEqual({ kind: 'absent' });
    expect(await providerOf(stripe).find(PURPOSE, span)).toMatchObject({ kind: 'ended' });
  });

  it('is listed for an audit with all others of its time, page by page', async () => {
    stripe.mishaps.push('processing');
    const keyed = (key: string) => ({ ...call(), key });
    await providerOf(stripe)
      .charge(ORDER, PURPOSE, keyed('a'))
      .catch(() => undefined);
    await providerOf(stripe).charge(ORDER, PURPOSE, keyed('b'));
    await providerOf(stripe).charge({ ...ORDER, paymentMethod: DECLINED }, PURPOSE, keyed('c'));
    stripe.others = 250;
    const made = await all(providerOf(stripe).made({ from: START, to: START + 1 }));
    expect(made).toHaveLength(253);
    const { operationRef, operationId } = PURPOSE;
    expect(made.slice(250)).toEqual([
      { id: 'pi_3', at: START, state: 'refused', operationRef, operationId },
      { id: 'pi_2', at: START, state: 'succeeded', operationRef, operationId },
      { id: 'pi_1', at: START, state: 'pending', operationRef, operationId },
    ]);
    expect(await all(providerOf(stripe).made({ from: 0, to: START - 1_000 }))).toEqual([]);
  });

  it('is refused an address that is none, at the start', () => {
    const apiKey = remembered(async () => 'sk_test_123');
    expect(() => stripeProvider({ apiKey, baseUrl: 'localhost:12111', timeoutMs: 20_000 })).toThrow(
      'STRIPE_BASE_URL',
    );
  });
});
