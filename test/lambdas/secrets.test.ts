import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { remembered, rotatingSignature } from '../../lambdas/service/secrets.ts';
import type { HttpRequest } from '../../lib/index.ts';
import { MINUTE_MS, START } from './stage.ts';

describe('a secret', () => {
  it('is read once, by however many ask at once', async () => {
    let readings = 0;
    const secret = remembered(async () => `sk_${++readings}`);
    expect(await Promise.all([secret(), secret()])).toEqual(['sk_1', 'sk_1']);
    expect(await secret()).toBe('sk_1');
  });

  it('is read again after a reading that failed, and after it was said to be wrong', async () => {
    let readings = 0;
    const secret = remembered(async () => {
      readings += 1;
      if (readings === 1) throw new Error('throttled');
      return `sk_${readings}`;
    });
    await expect(secret()).rejects.toThrow('throttled');
    expect(await secret()).toBe('sk_2');
    secret.forget();
    expect(await secret()).toBe('sk_3');
  });
});

describe('the signature of a webhook', () => {
  function signing(text: string) {
    const state = { now: START, readings: 0, text };
    const verify = rotatingSignature(
      async () => {
        state.readings += 1;
        return state.text;
      },
      () => state.now,
    );
    const isSigned = (secret: string) => {
      const time = Math.floor(state.now / 1_000);
      const digest = createHmac('sha256', secret).update(`${time}.{}`).digest('hex');
      const headers = new Map([['stripe-signature', [`t=${time},v1=${digest}`]]]);
      return verify({ headers, body: Buffer.from('{}') } as unknown as HttpRequest);
    };
    return { state, isSigned };
  }

  it('is verified by one secret, or by any of several, read once', async () => {
    const one = signing('whsec_a\n');
    expect([await one.isSigned('whsec_a'), await one.isSigned('whsec_a')]).toEqual([true, true]);
    expect(one.state.readings).toBe(1);
    const two = signing('["whsec_a", "whsec_b"]');
    expect([await two.isSigned('whsec_a'), await two.isSigned('whsec_b')]).toEqual([true, true]);
  });

  it('is verified by a new secret as soon as one comes that was signed with it', async () => {
    const { state, isSigned } = signing('whsec_a');
    expect(await isSigned('whsec_a')).toBe(true);
    state.text = 'whsec_b';
    state.now += MINUTE_MS;
    expect(await isSigned('whsec_b')).toBe(true);
  });

  it('is not verified by a secret that was taken out of use, some minutes later', async () => {
    const { state, isSigned } = signing('whsec_a');
    expect(await isSigned('whsec_a')).toBe(true);
    state.text = 'whsec_b';
    state.now += 5 * MINUTE_MS;
    expect(await isSigned('whsec_a')).toBe(false);
  });

  it('does not make us read the secret for every forgery', async () => {
    const { state, isSigned } = signing('whsec_a');
    for (let forgeries = 0; forgeries < 50; forgeries += 1) expect(await isSigned('whsec_x')).toBe(false);
    expect(state.readings).toBe(1);
    state.now += 15_000;
    expect(await isSigned('whsec_x')).toBe(false);
    expect(state.readings).toBe(2);
  });
});
