import { describe, expect, it } from 'vitest';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { MetricName, Sample } from '../../lib/observe/metrics.ts';
import { type BackstopOptions, type BackstopState, backstop } from '../../lib/reconcile/backstop.ts';
import {
  claimOf,
  completedBy,
  execute,
  LAPSED,
  movedRecord,
  outcomeAt,
  SKEW_MS,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import { acceptedWith, bothLedgers, charge, completedWith } from './stage.ts';

const table = useTable();

const ledgers = bothLedgers(table);

for (const [name, ledgerOf] of Object.entries(ledgers)) {
  describe(`the backstop on ${name}`, () => {
    function world(options: Partial<BackstopOptions> = {}) {
      const time = { now: START };
      const clock = () => time.now;
      const ledger = ledgerOf(clock);
      const logged: LogEntry[] = [];
      const pauses: number[] = [];
      const search = backstop({
        ledger,
        clock,
        sleep: async (ms) => void pauses.push(ms),
        log: (entry) => logged.push(entry),
        metrics: () => {},
        ...options,
      });
      const context = { getRemainingTimeInMillis: () => 60_000 };
      const reserve = async () => movedRecord<InProgress>(await ledger.reserve(claimOf(), execute));
      return {
        ledger,
        time,
        logged,
        pauses,
        reserve,
        search: (state: unknown = {}) => search(state, context),
      };
    }

    const dueOf = (record: LedgerRecord | undefined) => (record && 'due' in record ? record.due : undefined);

    it('finds what is open and watched by nobody, and leaves everything else alone', async () => {
      const { ledger, reserve, search, time, logged } = world({ pageItems: 3, segments: 2 });
      const [running, lapsing] = [await reserve(), await reserve()];
      const pending = await acceptedWith(ledger, charge(1));
      const undelivered = await completedWith(ledger, charge(1));
      const others = [
        await completedBy(ledger, await reserve(), outcomeAt(START)),
        await unknownBy(ledger, await reserve()),
      ];
      const found = await search();
      expect(found).toMatchObject({ failed: 0 });
      expect(found).not.toHaveProperty('next');
      expect(found.watched).toBeGreaterThanOrEqual(4);
      for (const { pk, leaseUntil } of [running, lapsing]) {
        expect(dueOf(await ledger.read(pk))).toMatchObject({ at: leaseUntil + SKEW_MS + 1 });
      }
      for (const { pk } of [pending, undelivered])
        expect(dueOf(await ledger.read(pk))).toMatchObject({ at: time.now });
      for (const record of others) expect(await ledger.read(record.pk)).toEqual(record);
      expect(logged.every(({ decision }) => decision === 'found_unwatched')).toBe(true);
      expect((await search()).watched).toBe(0);
    });

    it('has what is already abandoned looked at by the next sweep', async () => {
      const { ledger, reserve, search, time } = world();
      const { pk } = await reserve();
      time.now = LAPSED + 5_000;
      await search();
      expect(dueOf(await ledger.read(pk))).toMatchObject({ at: LAPSED + 5_000 });
    });

    it('pauses between pages, stops in time, and goes on where it stopped', async () => {
      const { ledger, reserve, time } = world();
      const mine = [await reserve(), await reserve(), await reserve()];
      const search = backstop({
        ledger,
        pageItems: 1,
        pauseMs: 30_000,
        clock: () => time.now,
        sleep: async (ms) => {
          time.now += ms;
        },
        log: () => {},
        metrics: () => {},
      });
      let state: BackstopState | undefined = { segment: 0 };
      let invocations = 0;
      while (state) {
        invocations += 1;
        state = (await search(state, { getRemainingTimeInMillis: () => 60_000 })).next;
      }
      expect(invocations).toBeGreaterThan(1);
      for (const { pk } of mine) expect(dueOf(await ledger.read(pk))).toBeDefined();
    });

    it('goes on past a record that it cannot read', async () => {
      const { ledger, reserve } = world();
      const [bad, good] = [await reserve(), await reserve()];
      const broken: Ledger<unknown> = {
        ...ledger,
        read: async (pk, call) => {
          if (pk === bad.pk) throw new Error('damaged');
          return ledger.read(pk, call);
        },
      };
      const measured: Sample[] = [];
      const metrics = (sample: Sample) => measured.push(sample);
      const quiet = { clock: () => START, sleep: async () => {}, log: () => {}, metrics };
      expect(await backstop({ ledger: broken, ...quiet })({}, {})).toMatchObject({ failed: 1 });
      expect(dueOf(await ledger.read(good.pk))).toBeDefined();
      const counted = (name: MetricName) => measured.filter(({ metrics }) => metrics[name] === 1).length;
      expect(counted('reconcile.failed.count')).toBe(1);
      expect(counted('reconcile.scheduled.count')).toBeGreaterThanOrEqual(1);
    });

    it('leaves a record where somebody has put it since its page was read', async () => {
      const { ledger, reserve } = world();
      const mine = await reserve();
      const parked = { shard: dueShard(mine.pk, 'parked'), at: START, parkedAt: START, error: 'x' };
      await ledger.watch(mine, parked);
      const stale: Ledger<unknown> = {
        ...ledger,
        unwatched: async () => ({ pks: [mine.pk], next: undefined }),
      };
      const quiet = { clock: () => START, sleep: async () => {}, log: () => {}, metrics: () => {} };
      await backstop({ ledger: stale, ...quiet })({}, {});
      expect(dueOf(await ledger.read(mine.pk))).toMatchObject(parked);
    });

    it('calls nothing watched that has changed while it looked', async () => {
      const { ledger, reserve, logged } = world();
      const mine = await reserve();
      const raced: Ledger<unknown> = {
        ...ledger,
        unwatched: async () => ({ pks: [mine.pk], next: undefined }),
        async watch(from, due, call) {
          await completedBy(ledger, mine, outcomeAt(START));
          return ledger.watch(from, due, call);
        },
      };
      const quiet = { clock: () => START, log: (entry: LogEntry) => logged.push(entry), metrics: () => {} };
      expect(await backstop({ ledger: raced, ...quiet })({}, {})).toEqual({ watched: 0, failed: 0 });
      expect(logged).toEqual([]);
    });

    it('begins anew with a place that this deployment does not have', async () => {
      const { ledger, reserve, search } = world({ segments: 2 });
      const { pk } = await reserve();
      expect(await search({ segment: 2, from: 'a cursor of then' })).toMatchObject({ failed: 0 });
      expect(dueOf(await ledger.read(pk))).toBeDefined();
    });
  });
}

it('a backstop says at once what its options lack', () => {
  const make = (options: object) => () => backstop({ ledger: memoryLedger(), ...options });
  expect(make({ ledger: {} })).toThrow(/backstop\(\) needs ledger/);
  expect(make({ segments: 0 })).toThrow(/segments is 0; expected a whole number of at least 1/);
  expect(make({ rate: 1 })).toThrow(/backstop\(\) has no option rate/);
});
