import { beforeEach, describe, expect, it } from 'vitest';
import { OutcomeUncertain, type Provider } from '../../../lambdas/service/provider.ts';
import { remembered } from '../../../lambdas/service/secrets.ts';
import { stripeProvider } from '../../../lambdas/service/stripe-provider.ts';
import { NotExecuted } from '../../../lib/index.ts';
import type { FaultMode } from '../../../lib/local/provider/fault-modes.ts';
import { API_KEY, openStage, START, type Stage } from './stage.ts';

const ORDER = { customerId: 'cus_ann', amount: 1_250, currency: 'EUR', reference: 'invoice 7' };
const PURPOSE = { operationRef: 'ref-1', operationId: 'op-1', tenant: 'shop-7' };
const SPAN = { from: START - 60_000, to: START + 60_000 };

/** The service that is deployed pays through this; it must not notice that it is not Stripe. */
describe('the reference service’s provider', () => {
  let stage: Stage;
  let provider: Provider;
  beforeEach(async () => {
    stage = await openStage();
    provider = providerOf();
  });

  function providerOf(timeoutMs = 10_000, key = API_KEY): Provider {
    return stripeProvider({ apiKey: remembered(async () => key), baseUrl: stage.simulator.url, timeoutMs });
  }
  const call = (key = 'key-1') => ({ key, signal: new AbortController().signal });

  it('charges once under a key, and finds it by search, by list and by its id', async () => {
    const outcome = await provider.charge(ORDER, PURPOSE, call());
    const [charge] = stage.simulator.charges();
    expect(outcome).toEqual({ kind: 'succeeded', charge: charge?.id });
    expect(await provider.charge(ORDER, PURPOSE, call())).toEqual(outcome);
    expect(stage.simulator.charges()).toMatchObject([{ ...PURPOSE, amount: 1_250, idempotencyKey: 'key-1' }]);
    const found = { kind: 'ended', outcome, purpose: PURPOSE, request: ORDER, createdAt: START };
    expect(await provider.find(PURPOSE, SPAN)).toEqual(found);
    expect(await provider.read(charge?.id ?? '')).toEqual(found);
    stage.simulator.setSearchLagMs(60_000);
    expect(await provider.find(PURPOSE, SPAN)).toEqual(found);
    const made = [];
    for await (const each of provider.made(SPAN)) made.push(each);
    const { tenant: _, ...named } = PURPOSE;
    expect(made).toEqual([{ id: charge?.id, at: START, state: 'succeeded', ...named }]);
  });

  it('is told of a card that is declined, and of a request that is rejected', async () => {
    const poor = { ...ORDER, paymentMethod: 'pm_card_chargeDeclinedInsufficientFunds' };
    const declined = await provider.charge(poor, PURPOSE, call());
    expect(declined).toMatchObject({ kind: 'declined', code: 'insufficient_funds' });
    expect(await provider.find(PURPOSE, SPAN)).toMatchObject({ kind: 'ended', outcome: declined });
    const asking = { ...ORDER, paymentMethod: 'pm_card_authenticationRequired' };
    expect(await provider.charge(asking, PURPOSE, call('key-2'))).toMatchObject({
      ...{ kind: 'declined', code: 'authentication_not_handled' },
    });
    expect(await provider.charge({ ...ORDER, amount: 1 }, PURPOSE, call('key-3'))).toEqual({
      ...{ kind: 'rejected', code: 'amount_too_small' },
    });
    const wrong = providerOf(10_000, 'sk_test_wrong').charge(ORDER, PURPOSE, call('key-4'));
    await expect(wrong).rejects.toThrow(NotExecuted);
    expect(stage.simulator.charges()).toEqual([]);
  });

  it.each<[FaultMode, 'ended' | 'absent']>([
    ['timeout-after-charge', 'ended'],
    ['timeout-before-charge', 'absent'],
    ['error', 'ended'],
  ])('does not know what came of a charge where it is %s, and finds out', async (mode, kind) => {
    stage.simulator.faults.set({ mode });
    await expect(providerOf(300).charge(ORDER, PURPOSE, call())).rejects.toThrow(OutcomeUncertain);
    expect(await provider.find(PURPOSE, SPAN)).toMatchObject({ kind });
    expect(stage.simulator.charges()).toHaveLength(kind === 'ended' ? 1 : 0);
    stage.simulator.faults.set({ mode: 'none' });
    const again = await provider.charge(ORDER, PURPOSE, call());
    expect(again).toEqual({ kind: 'succeeded', charge: stage.simulator.charges()[0]?.id });
    expect(stage.simulator.charges()).toHaveLength(1);
  });
});
