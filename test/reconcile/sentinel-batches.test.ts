import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { LedgerRecord } from '../../lib/core/record.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { bankWorld, type Fate, type Route, routes } from '../support/bank.ts';
import { START } from './stage.ts';

const fates = ['fine', 'declines', 'times out', 'dies before', 'dies after', 'completion lost'] as const;

const requests = fc.array(
  fc.record({
    route: fc.constantFrom<Route>(...routes),
    key: fc.constantFrom('key-a', 'key-b'),
    fate: fc.constantFrom<Fate>(...fates),
    thenMs: fc.constantFrom(0, 1_000, 400_000, 26 * 3_600_000),
  }),
  { minLength: 1, maxLength: 12 },
);

/** Where each change goes: to which batch, at which place there, and whether to another as well. */
const places = fc.infiniteStream(
  fc.record({ batch: fc.nat(3), place: fc.nat(), twice: fc.option(fc.nat(3), { nil: undefined }) }),
);

function withoutPlace(record: LedgerRecord): object {
  const { due: _, ...rest } = record as LedgerRecord & { due?: unknown };
  return rest;
}

it('batches split, shuffled and doubled move nothing, and whatever is open in them ends up watched', async () => {
  let left = 0;
  await fc.assert(
    fc.asyncProperty(requests, places, async (calls, random) => {
      const world = bankWorld((clock) => memoryLedger({ clock }), START);
      for (const { route, key, fate, thenMs } of calls) {
        Object.assign(world.plan, { fate, store: fate === 'completion lost' ? 'lost' : 'fine' });
        await world.request(route, key);
        world.advance(thenMs);
      }
      const before = await world.records();
      const ratios: number[] = [];
      const watch = sentinel({
        ledger: world.inner,
        clock: world.clock,
        log: () => {},
        metrics: ({ metrics }) => void ratios.push(metrics.leftover_ratio ?? 0),
      });
      const batches: { readonly record: object; readonly place: number }[][] = [[], [], [], []];
      for (const record of world.stream) {
        const { batch, place, twice } = random.next().value ?? { batch: 0, place: 0, twice: undefined };
        batches[batch]?.push({ record, place });
        if (twice !== undefined) batches[twice]?.push({ record, place: place + 1 });
      }
      for (const batch of batches) {
        const Records = batch.toSorted((one, other) => one.place - other.place).map(({ record }) => record);
        expect(await watch({ Records }, {})).toEqual({ batchItemFailures: [] });
      }
      const after = await world.records();
      expect(after.map(withoutPlace)).toEqual(before.map(withoutPlace));
      const open = after.filter(({ status }) => status === 'in_progress');
      for (const record of open) expect(record).toHaveProperty('due.shard');
      left += open.length;
      expect(ratios.every((ratio) => ratio >= 0 && ratio <= 1)).toBe(true);
    }),
    { seed: 21, numRuns: 60 },
  );
  expect(left).toBeGreaterThan(20); // It is not that all has ended.
});
