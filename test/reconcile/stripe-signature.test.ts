import { createHmac, timingSafeEqual } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { readEvent } from '../../lib/http/request.ts';
import { type StripeSignatureOptions, stripeSignature } from '../../lib/reconcile/stripe-signature.ts';
import { httpApi } from '../http/events.ts';

/** The real one, which counts how often it was called. */
vi.mock(import('node:crypto'), async (original) => {
  const crypto = await original();
  return { ...crypto, timingSafeEqual: vi.fn(crypto.timingSafeEqual) };
});

const NOW = Date.UTC(2030, 0, 15, 12);
const SECONDS = NOW / 1_000;
const SECRET = 'whsec_current';
const BODY = '{"id":"evt_1"}';

const v1 = (secret: string, time: number | string = SECONDS, body: string | Uint8Array = BODY) =>
  createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex');

/** Whether a request with this header and body passes. */
async function passes(
  header: string | undefined,
  {
    body = BODY,
    base64 = false,
    ...options
  }: Partial<StripeSignatureOptions> & {
    readonly body?: unknown;
    readonly base64?: boolean;
  } = {},
) {
  const verify = stripeSignature({ secrets: [SECRET], clock: () => NOW, ...options });
  const headers = { 'Stripe-Signature': header };
  return verify(readEvent(httpApi({ headers, body, isBase64Encoded: base64 })));
}

describe("Stripe's signature", () => {
  it('passes as it was made, and as openssl makes it', async () => {
    expect(await passes(`t=${SECONDS},v1=${v1(SECRET)}`)).toBe(true);
    expect(await passes(`t=${SECONDS}, v1=${v1(SECRET)}, v0=${'6'.repeat(64)}`)).toBe(true);
    // printf '1893499200.{}' | openssl dgst -sha256 -hmac whsec_current
    const header = 't=1893499200,v1=cbcf64c8883df3b1cd48d7a837ee65490599a0ca1534d020b003ce56176ee07c';
    expect(await passes(header, { body: '{}', clock: () => 1_893_499_200_000 })).toBe(true);
  });

  it('does not pass for another body, time or secret, nor for a digest that is one digit off', async () => {
    const right = v1(SECRET);
    const off = `${right.slice(0, -1)}${right.endsWith('0') ? '1' : '0'}`;
    for (const [header, body] of [
      [`t=${SECONDS},v1=${right}`, '{"id":"evt_2"}'],
      [`t=${SECONDS + 1},v1=${right}`, BODY],
      [`t=0${SECONDS},v1=${right}`, BODY],
      [`t=${SECONDS},v1=${v1('whsec_other')}`, BODY],
      [`t=${SECONDS},v1=${off}`, BODY],
      [`t=${SECONDS},v0=${right}`, BODY],
      [`t=${SECONDS},v1=${right.slice(0, 62)}`, BODY],
      [`t=${SECONDS},v1=${right}0`, BODY],
      [`t=${SECONDS},v1=${right}x`, BODY],
      [`t=${SECONDS},v1=`, BODY],
    ] as const) {
      expect(await passes(header, { body }), header).toBe(false);
    }
  });

  it('is as old as the tolerance at the most, and no further ahead of our clock', async () => {
    for (const [offset, expected] of [
      [-300, true],
      [300, true],
      [-301, false],
      [301, false],
    ] as const) {
      const time = SECONDS + offset;
      expect(await passes(`t=${time},v1=${v1(SECRET, time)}`), String(offset)).toBe(expected);
    }
    const header = `t=${SECONDS - 2},v1=${v1(SECRET, SECONDS - 2)}`;
    expect(await passes(header, { toleranceMs: 2_000 })).toBe(true);
    expect(await passes(header, { toleranceMs: 1_999 })).toBe(false);
  });

  it('passes under any secret of a rotation, in whatever order, and under none that is gone', async () => {
    const [older, newer] = [v1('whsec_old'), v1(SECRET)];
    for (const secrets of [
      ['whsec_old', SECRET],
      [SECRET, 'whsec_old'],
    ]) {
      expect(await passes(`t=${SECONDS},v1=${older}`, { secrets })).toBe(true);
      expect(await passes(`t=${SECONDS},v1=${newer}`, { secrets })).toBe(true);
    }
    expect(await passes(`t=${SECONDS},v1=${older}`)).toBe(false);
    expect(await passes(`t=${SECONDS},v1=${older},v1=${newer}`)).toBe(true);
    expect(await passes(`t=${SECONDS},v1=${newer},v1=${older}`)).toBe(true);
  });

  it('may be checked with secrets that are read when they are needed', async () => {
    let secrets = ['whsec_old'];
    const verify = stripeSignature({ secrets: async () => secrets, clock: () => NOW });
    const request = readEvent(
      httpApi({ headers: { 'stripe-signature': `t=${SECONDS},v1=${v1(SECRET)}` }, body: BODY }),
    );
    expect(await verify(request)).toBe(false);
    secrets = [SECRET];
    expect(await verify(request)).toBe(true);
    secrets = [''];
    await expect(verify(request)).rejects.toThrow(InvalidArgument);
  });

  it('is compared with every secret, wherever the right one is: the time it takes says nothing', async () => {
    const compared = vi.mocked(timingSafeEqual);
    const secrets = ['whsec_old', SECRET, 'whsec_next'];
    const wrong = ['1', '2'].map((digit) => digit.repeat(64));
    for (const signatures of [
      [v1('whsec_old'), ...wrong],
      [...wrong, v1('whsec_next')],
      [...wrong, v1('whsec_other')],
    ]) {
      compared.mockClear();
      await passes(`t=${SECONDS},${signatures.map((one) => `v1=${one}`).join(',')}`, { secrets });
      expect(compared).toHaveBeenCalledTimes(9);
    }
  });

  it('that is too old, or none at all, costs no reading of secrets', async () => {
    let reads = 0;
    const secrets = () => {
      reads += 1;
      return [SECRET];
    };
    const old = SECONDS - 301;
    expect(await passes(`t=${old},v1=${v1(SECRET, old)}`, { secrets })).toBe(false);
    expect(await passes(undefined, { secrets })).toBe(false);
    expect(reads).toBe(0);
    expect(await passes(`t=${SECONDS},v1=${v1(SECRET)}`, { secrets })).toBe(true);
    expect(reads).toBe(1);
  });

  it('is not checked where the secrets cannot be read, and that is no answer', async () => {
    const header = `t=${SECONDS},v1=${v1('')}`;
    for (const secrets of [
      () => Promise.reject(new Error('the secrets cannot be read')),
      () => [],
      () => [''],
      () => undefined as never,
      () => SECRET as never,
    ]) {
      await expect(passes(header, { secrets })).rejects.toThrow(/secrets/);
    }
  });

  it('is over the bytes that were sent: unicode, binary, and base64 of them', async () => {
    const unicode = '{"name":"Zoë 🦊 \\u00e9"}';
    const header = `t=${SECONDS},v1=${v1(SECRET, SECONDS, unicode)}`;
    expect(await passes(header, { body: unicode })).toBe(true);
    expect(await passes(header, { body: Buffer.from(unicode).toString('base64'), base64: true })).toBe(true);
    expect(await passes(header, { body: JSON.parse(unicode) })).toBe(false); // A parser was first.
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    const binary = `t=${SECONDS},v1=${v1(SECRET, SECONDS, bytes)}`;
    expect(await passes(binary, { body: Buffer.from(bytes).toString('base64'), base64: true })).toBe(true);
  });

  it('that cannot be read is invalid, and never an error', async () => {
    const right = v1(SECRET);
    for (const header of [
      undefined,
      '',
      ',',
      '=',
      't=',
      `v1=${right}`,
      `t=${SECONDS}`,
      `t=now,v1=${right}`,
      `t=${'9'.repeat(400)},v1=${right}`,
      `t=-${SECONDS},v1=${right}`,
      `t=${SECONDS},t=${SECONDS},v1=${right}`,
      `t=${SECONDS},v1=${right.slice(0, 63)}é`,
    ]) {
      expect(await passes(header), header).toBe(false);
    }
    await fc.assert(
      fc.asyncProperty(fc.string({ unit: 'binary', maxLength: 100 }), async (noise) => {
        expect(await passes(noise)).toBe(false);
        expect(await passes(`t=${SECONDS},v1=${noise}`)).toBe(false);
        expect(await passes(`t=${noise},v1=${right}`)).toBe(false);
      }),
    );
  });

  it('in two headers is invalid: which one was meant?', async () => {
    const verify = stripeSignature({ secrets: [SECRET], clock: () => NOW });
    const request = readEvent(httpApi({ body: BODY }));
    const line = `t=${SECONDS},v1=${v1(SECRET)}`;
    const twice = { ...request, headers: new Map([['stripe-signature', [line, line]]]) };
    expect(await verify(twice)).toBe(false);
  });

  it('is not checked with options that cannot be right, and a secret is in no message', () => {
    for (const options of [
      undefined,
      {},
      { secrets: [] },
      { secrets: 'whsec_hidden' },
      { secrets: [''] },
      { secrets: ['whsec_hidden', undefined] },
      { secrets: [SECRET], toleranceMs: 0 },
      { secrets: [SECRET], tolerance: 300 },
      { secrets: [SECRET], clock: NOW },
    ]) {
      const made = () => stripeSignature(options as never);
      expect(made).toThrow(InvalidArgument);
      expect(made).not.toThrow(/whsec_hidden/);
    }
  });
});
