import { describe, expect, it } from 'vitest';
import { defaultPolicy } from '../../lib/core/policy.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { protect } from '../../lib/middleware/protect.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';

const START = Date.UTC(2026, 0, 1);
const QUICK = { reconcileBaseMs: 2_000, reconcileCapMs: 5_000 } as const;

describe.each([
  ['their own', QUICK, 2_000, 5_000],
  ['the default', {}, defaultPolicy.reconcileBaseMs, defaultPolicy.reconcileCapMs],
])('an operation with %s pauses', (_, chosen, baseMs, capMs) => {
  it('is looked at first after the shortest, then later and later, and never after more than the longest', async () => {
    const time = { now: START };
    const clock = () => time.now;
    const ledger = memoryLedger({ clock });
    const silent = { log: () => {}, metrics: () => {} };
    const operation = {
      effects: 'opaque',
      resolver: () => Promise.reject(new Error('away')),
      ...chosen,
    } as const;
    const pay = protect(() => Promise.reject(new Error('lost')), {
      ...{ ledger, clock, operation: 'pay', tenant: () => 't', key: () => 'k-1', ...silent, ...operation },
    });
    await expect(pay({})).rejects.toThrow('lost');
    const pk = scopePk({ tenant: 't', operation: 'pay', key: 'k-1' });
    const due = async () => {
      const record = await ledger.read(pk);
      return record && 'due' in record ? record.due : undefined;
    };
    expect((await due())?.at).toBe(START + baseMs);

    const sweep = sweeper({
      ledger,
      clock,
      random: () => 1 - Number.EPSILON,
      ...silent,
      operations: { pay: operation },
    });
    const pauses: number[] = [];
    while ((await due())?.parkedAt === undefined) {
      time.now = (await due())?.at ?? Number.NaN;
      await sweep.handle({}, { getRemainingTimeInMillis: () => 60_000 });
      pauses.push(((await due())?.at ?? Number.NaN) - time.now);
    }
    const expected = pauses.slice(0, -1).map((_pause, tries) => Math.min(capMs, baseMs * 2 ** tries));
    expect(pauses.slice(0, -1)).toEqual(expected);
    expect(expected).toContain(capMs);
  });
});
