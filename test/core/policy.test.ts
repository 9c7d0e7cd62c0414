import { describe, expect, it } from 'vitest';
import { backoffMs, defaultPolicy, schedule } from '../../lib/core/policy.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;

describe('the pause after tries in vain', () => {
  /** The most it can be; half of that is the least. */
  const pauses: [tries: number, mostMs: number][] = [
    [0, 30 * SECOND_MS],
    [1, MINUTE_MS],
    [2, 2 * MINUTE_MS],
    [6, 32 * MINUTE_MS],
    [7, 60 * MINUTE_MS],
    [8, 60 * MINUTE_MS],
    [10_000, 60 * MINUTE_MS],
  ];
  it.each(pauses)('after %d of them is up to %d ms, and half of it at least', (tries, mostMs) => {
    expect(backoffMs(defaultPolicy, tries, () => 0)).toBe(mostMs / 2);
    expect(backoffMs(defaultPolicy, tries, () => 0.5)).toBe(mostMs * 0.75);
    expect(backoffMs(defaultPolicy, tries, () => 1 - Number.EPSILON)).toBe(mostMs);
  });

  it('is in whole milliseconds, because it becomes a time of the record', () => {
    for (const random of [0.123456789, 1 / 3, 0.999]) {
      expect(backoffMs(defaultPolicy, 0, () => random) % 1).toBe(0);
    }
  });

  it('lets all tries of a delivery end well before a provider forgets our keys', () => {
    const tries = Array.from({ length: schedule.outboxTries }, (_, count) =>
      backoffMs(defaultPolicy, count, () => 1),
    );
    const totalMs = tries.reduce((sum, each) => sum + each, 0);
    expect(totalMs).toBeLessThan(23 * 60 * MINUTE_MS);
  });
});
