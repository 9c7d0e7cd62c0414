import { describe, expect, it } from 'vitest';
import { openPace, providerTimeoutMs } from '../../lambdas/service/pace.ts';

describe('the pace of a deployment', () => {
  it("is the library's own where its variables say nothing, or nothing but spaces", () => {
    expect(openPace({})).toEqual({});
    expect(openPace({ SETTLING_MS: ' ' })).toEqual({});
    expect(providerTimeoutMs({})).toBe(20_000);
  });

  it('is what its variables say', () => {
    const told = {
      SETTLING_MS: '5000',
      RECONCILE_BASE_MS: '1000',
      RECONCILE_CAP_MS: '8000',
      PROVIDER_TIMEOUT_MS: '4000',
    };
    expect(openPace(told)).toEqual({ settlingMs: 5_000, reconcileBaseMs: 1_000, reconcileCapMs: 8_000 });
    expect(providerTimeoutMs(told)).toBe(4_000);
  });

  it('is refused where a request could outlast the time after which it is believed not to have happened', () => {
    expect(() => openPace({ SETTLING_MS: '19999' })).toThrow(
      'PROVIDER_TIMEOUT_MS is 20000 and SETTLING_MS is 19999',
    );
    expect(() => openPace({ PROVIDER_TIMEOUT_MS: '120001' })).toThrow('SETTLING_MS is 120000');
    expect(openPace({ SETTLING_MS: '20000' })).toEqual({ settlingMs: 20_000 });
  });

  it.each(['0', '-1', '1.5', 'soon', '1e400'])('is refused as %s, which is no time', (text) => {
    expect(() => openPace({ SETTLING_MS: text })).toThrow(`The environment variable SETTLING_MS is ${text};`);
    expect(() => providerTimeoutMs({ PROVIDER_TIMEOUT_MS: text })).toThrow('PROVIDER_TIMEOUT_MS');
  });
});
