import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { throttle } from '../../lib/middleware/throttle.ts';

describe('a throttle', () => {
  it('takes a burst, and then as many as there are a second', () => {
    const wait = throttle({ perSecond: 2, burst: 3 });
    expect([1, 2, 3].map(() => wait('a', 0))).toEqual([undefined, undefined, undefined]);
    expect(wait('a', 0)).toBe(500);
    expect(wait('a', 499)).toBe(1);
    expect(wait('a', 500)).toBeUndefined();
    expect(wait('a', 500)).toBe(500);
  });

  it('knows its callers apart', () => {
    const wait = throttle({ perSecond: 1, burst: 1 });
    expect([wait('a', 0), wait('b', 0), wait('a', 0)]).toEqual([undefined, undefined, 1_000]);
  });

  it('does not go wrong with a clock that goes back', () => {
    const wait = throttle({ perSecond: 1, burst: 1 });
    wait('a', 5_000);
    expect(wait('a', 0)).toBe(1_000);
  });

  it('forgets the oldest of too many callers, and no other', () => {
    const wait = throttle({ perSecond: 1, burst: 1 });
    for (let caller = 0; caller <= 1_000; caller += 1) wait(`caller ${caller}`, 0);
    expect(wait('caller 1000', 0)).toBe(1_000);
    expect(wait('caller 0', 0)).toBeUndefined();
  });

  it('never lets more through than the burst and what has flowed in since', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.nat(2_000), { maxLength: 100 }),
        (perSecond, burst, pauses) => {
          const wait = throttle({ perSecond, burst });
          let [now, taken] = [0, 0];
          for (const pause of pauses) {
            now += pause;
            if (wait('a', now) === undefined) taken += 1;
          }
          expect(taken).toBeLessThanOrEqual(burst + (now * perSecond) / 1_000 + 1e-6);
        },
      ),
    );
  });
});
