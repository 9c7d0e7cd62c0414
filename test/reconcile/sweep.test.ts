import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { stepKey } from '../../lib/core/downstream-key.ts';
import { RecordUnreadable, StoreUnavailable } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { defaultPolicy, schedule } from '../../lib/core/policy.ts';
import type { Accepted, InProgress, LedgerRecord, Unknown } from '../../lib/core/record.ts';
import type { OperationOptions } from '../../lib/effects/operations.ts';
import {
  executed,
  notExecuted,
  type UnknownOperation,
  undetermined,
  type Verdict,
} from '../../lib/effects/resolver.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import { type SweepOptions, sweeper } from '../../lib/reconcile/sweep.ts';
import {
  claimOf,
  execute,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  replyOf,
  START,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import { acceptedWith, bothLedgers, charge, completedWith } from './stage.ts';

const table = useTable();

const ledgers = bothLedgers(table);

const MINUTE_MS = 60_000;

function world(ledgerOf: (clock: () => number) => Ledger<unknown>, options: Partial<SweepOptions> = {}) {
  const time = { now: START };
  const clock = () => time.now;
  const ledger = ledgerOf(clock);
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const sweep = sweeper({
    ledger,
    clock,
    random: () => 1,
    log: (entry) => logged.push(entry),
    metrics: (sample) => measured.push(sample),
    ...options,
  });
  return {
    ...{ ledger, time, logged, measured, clock },
    run: () => sweep.handle({}, { getRemainingTimeInMillis: () => 60_000 }),
    look: async (pk: string) => sweep.look((await ledger.read(pk)) as LedgerRecord, time.now + MINUTE_MS),
    /** A reservation that nobody works on any more, where the sweep looks. */
    async abandoned(
      effects: 'transactional' | 'steps' | 'opaque',
      request?: { function: string; event: Uint8Array },
    ) {
      const claim = { ...claimOf({ effects }), ...(request && { request }) };
      const mine = movedRecord<InProgress>(await ledger.reserve(claim, execute));
      return movedRecord<InProgress>(
        await ledger.watch(mine, { shard: dueShard(mine.pk), at: START + LEASE_MS }),
      );
    },
  };
}

const opaqueWith = (
  resolver: (operation: UnknownOperation) => Verdict | Promise<Verdict>,
): OperationOptions => ({
  effects: 'opaque',
  resolver,
});

for (const [name, ledgerOf] of Object.entries(ledgers)) {
  describe(`the sweep on ${name}`, () => {
    it('frees what was transactional, calls opaque attempts unknown, and has steps invoked again', async () => {
      const invoked: string[] = [];
      const { abandoned, ledger, time, look } = world(ledgerOf, {
        invoke: async (functionName) => void invoked.push(functionName),
      });
      const kept = { function: 'arn:payments', event: new TextEncoder().encode('{"body":"{}"}') };
      const [free, opaque, steps, lost] = [
        await abandoned('transactional'),
        await abandoned('opaque'),
        await abandoned('steps', kept),
        await abandoned('steps'),
      ];
      time.now = LAPSED;
      expect(await look(free.pk)).toBe('failed_retryable');
      expect(await look(opaque.pk)).toBe('unknown');
      expect(await look(steps.pk)).toBe('invoked');
      expect(await look(lost.pk)).toBe('parked');
      expect(invoked).toEqual(['arn:payments']);
      expect(await ledger.read(free.pk)).toMatchObject({
        status: 'failed_retryable',
        errorCode: 'abandoned',
      });
      expect(await ledger.read(opaque.pk)).toMatchObject({ status: 'unknown', due: { at: LAPSED + 30_000 } });
      expect(await ledger.read(lost.pk)).toMatchObject({ status: 'in_progress', due: { parkedAt: LAPSED } });
    });

    it('leaves an attempt alone until its lease has passed', async () => {
      const { abandoned, ledger, time, look } = world(ledgerOf);
      const record = await abandoned('transactional');
      time.now = START + LEASE_MS;
      expect(await look(record.pk)).toBe('waiting');
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'in_progress', due: { at: LAPSED } });
    });

    it('calls an open effect unknown, and steps whose provider may have forgotten them', async () => {
      const { abandoned, ledger, time, look } = world(ledgerOf, { effects: 'steps' });
      const [open, old] = [await abandoned('steps'), await abandoned('steps')];
      await ledger.openStep(open, 'charge', START + 1);
      time.now = LAPSED;
      expect(await look(open.pk)).toBe('unknown');
      time.now = START + 23 * 60 * MINUTE_MS;
      expect(await look(old.pk)).toBe('unknown');
      expect(await ledger.read(old.pk)).toMatchObject({ errorCode: 'dedupe_window_over' });
    });

    it('finds all that is due in every shard, page by page, and nothing else', async () => {
      const { abandoned, ledger, time, run } = world(ledgerOf);
      const count = name === 'memory' ? 200 : 30;
      const records = [];
      for (let each = 0; each < count; each += 1) {
        const mine = await abandoned('transactional');
        // The pks of these tests are no digests; spread them as digests are.
        const due = { shard: `due#${each % 4}`, at: START + LEASE_MS };
        records.push(movedRecord<InProgress>(await ledger.watch(mine, due)));
      }
      time.now = START + LEASE_MS - 1;
      const early = await run();
      time.now = LAPSED;
      const swept = await run();
      expect(early.looked).toBe(0);
      expect(swept.done['failed_retryable']).toBeGreaterThanOrEqual(count);
      expect(swept).toMatchObject({ failed: 0, complete: true });
      expect((await run()).looked).toBe(0);
      for (const { pk } of records) expect((await ledger.read(pk))?.status).toBe('failed_retryable');
    });

    it('goes on past a record that it cannot read, and says so', async () => {
      const { abandoned, ledger, time, logged, measured, clock } = world(ledgerOf);
      const [bad, good] = [await abandoned('transactional'), await abandoned('transactional')];
      const broken: Ledger<unknown> = {
        ...ledger,
        due: async () => ({ entries: [bad, good].map(({ pk }) => ({ pk, at: START })), next: undefined }),
        read: async (pk, call) => {
          if (pk === bad.pk) throw new Error('damaged');
          return ledger.read(pk, call);
        },
      };
      const { handle } = sweeper({
        ledger: broken,
        clock,
        log: (entry) => logged.push(entry),
        metrics: (sample) => measured.push(sample),
      });
      time.now = LAPSED;
      const swept = await handle({}, {});
      expect(swept.failed).toBe(16);
      const failures = measured.filter(({ metrics }) => metrics['reconcile.failed.count'] === 1);
      expect(failures).toHaveLength(16);
      expect((await ledger.read(good.pk))?.status).toBe('failed_retryable');
      expect(logged).toContainEqual(expect.objectContaining({ decision: 'sweep_failed', reason: 'Error' }));
    });

    it('puts off what it cannot do, as if it had been tried, and at last before an operator', async () => {
      const { abandoned, ledger, time, clock, logged } = world(ledgerOf);
      const kept = { function: 'arn:payments', event: new TextEncoder().encode('{"body":"{}"}') };
      const { pk } = await abandoned('steps', kept);
      const request = async () => Promise.reject(new RecordUnreadable('its key is gone'));
      const { look } = sweeper({
        ledger: { ...ledger, request },
        ...{ clock, invoke: async () => {}, random: () => 1, metrics: () => {} },
        log: (entry) => logged.push(entry),
      });
      const lookNow = async () => look((await ledger.read(pk)) as LedgerRecord, time.now + MINUTE_MS);
      time.now = LAPSED;
      for (let tries = 1; tries < schedule.reconcileTries; tries += 1) {
        expect(await lookNow()).toBe('rescheduled');
        const { due } = (await ledger.read(pk)) as InProgress;
        expect(due).toMatchObject({ tries, error: 'RecordUnreadable' });
        expect(await lookNow()).toBe('nothing');
        time.now = due?.at ?? 0;
      }
      expect(await lookNow()).toBe('parked');
      expect(await ledger.read(pk)).toMatchObject({ status: 'in_progress', due: { parkedAt: time.now } });
      expect(logged.at(-1)).toMatchObject({ decision: 'parked', reason: 'RecordUnreadable' });
    });

    it('does nothing twice when several run at once', async () => {
      const { abandoned, time, look, ledger } = world(ledgerOf);
      const record = await abandoned('opaque');
      time.now = LAPSED;
      await Promise.all([look(record.pk), look(record.pk), look(record.pk)]);
      const after = await ledger.read(record.pk);
      expect(after).toMatchObject({ status: 'unknown', attempt: 1 });
      expect(after?.moves).toHaveLength(1);
    });

    it('goes on with outboxes that are due', async () => {
      const sent: string[] = [];
      const time = { now: START };
      const ledger = ledgerOf(() => time.now);
      const deliveries = { charge: { dedupes: true, deliver: async () => void sent.push('charge') } };
      const quiet = { clock: () => time.now, log: () => {}, metrics: () => {} };
      const { look } = sweeper({
        ledger,
        dispatcher: dispatcher({ ledger, deliveries, ...quiet }),
        ...quiet,
      });
      const record = await completedWith(ledger, charge(1));
      await ledger.watch(record as never, { shard: dueShard(record.pk), at: START + 5_000, tries: 1 });
      expect(await look((await ledger.read(record.pk)) as LedgerRecord, START + MINUTE_MS)).toBe('nothing');
      time.now += 5_000;
      expect(await look((await ledger.read(record.pk)) as LedgerRecord, time.now + MINUTE_MS)).toBe(
        'settled',
      );
      expect(sent).toEqual(['charge']);
    });

    it('leaves an outbox to the stream where it has no dispatcher, and after an hour to a person', async () => {
      const { look, ledger, time } = world(ledgerOf);
      const records = [await acceptedWith(ledger, charge(1)), await completedWith(ledger, charge(1))];
      for (const record of records) {
        const due = { shard: dueShard(record.pk), at: START, tries: 1, error: 'Error (ECONNREFUSED)' };
        await ledger.watch(record as Accepted, due);
        time.now = START + defaultPolicy.reconcileCapMs;
        expect(await look(record.pk)).toBe('nothing');
        expect(await ledger.read(record.pk)).toMatchObject({ due });
        time.now += 1;
        expect(await look(record.pk)).toBe('parked');
        const parked = { parkedAt: time.now, tries: 1, error: 'no_dispatcher' };
        expect(await ledger.read(record.pk)).toMatchObject({ status: record.status, due: parked });
      }
    });
  });

  describe(`a resolver on ${name}`, () => {
    /** Unknown since its lease passed, with what the resolver will be asked about. */
    async function unknown(resolver: (operation: UnknownOperation) => Verdict | Promise<Verdict>) {
      const stage = world(ledgerOf, opaqueWith(resolver));
      const { pk } = await stage.abandoned('opaque');
      stage.time.now = LAPSED;
      await stage.look(pk);
      const settledAt = START + LEASE_MS + 1_000 + 120_000;
      return { ...stage, pk, settledAt, at: (now: number) => Object.assign(stage.time, { now }) };
    }

    it('that finds the effect makes its response the stored one', async () => {
      const asked: UnknownOperation[] = [];
      const { pk, look, at, ledger } = await unknown((operation) => {
        asked.push(operation);
        return executed({ statusCode: 201, headers: { 'set-cookie': 'a' }, body: '{"id":"ch_1"}' });
      });
      at(LAPSED + 30_000);
      expect(await look(pk)).toBe('settled');
      expect(asked).toMatchObject([{ operationRef: pk, open: undefined, attempt: 1 }]);
      const record = await ledger.read(pk);
      if (record?.status !== 'completed') throw new Error(`it is ${record?.status}`);
      const reply = await ledger.reply(pk, record.response);
      expect([reply.status, Buffer.from(reply.body).toString(), reply.headers]).toEqual([
        201,
        '{"id":"ch_1"}',
        [],
      ]);
    });

    it('that finds nothing is believed only when nothing can be on its way any more', async () => {
      const { pk, look, at, ledger, settledAt } = await unknown(() => notExecuted());
      at(LAPSED + 30_000);
      expect(await look(pk)).toBe('rescheduled');
      expect(await ledger.read(pk)).toMatchObject({ status: 'unknown', due: { at: settledAt } });
      at(settledAt);
      expect(await look(pk)).toBe('settled');
      expect(await ledger.read(pk)).toMatchObject({ status: 'failed_retryable', errorCode: 'not_executed' });
    });

    it('that was asked too early is not believed, however late it answers', async () => {
      const stage = await unknown(() => {
        const verdict = notExecuted();
        stage.time.now += 9_000; // What it did not see may land now.
        return verdict;
      });
      const { pk, look, at, ledger, settledAt } = stage;
      at(settledAt - 1);
      expect(await look(pk)).toBe('rescheduled');
      expect(await ledger.read(pk)).toMatchObject({ status: 'unknown', due: { at: settledAt } });
      expect(await look(pk)).toBe('settled');
    });

    it('that cannot say, or fails, is asked again, later and later, until an operator is', async () => {
      let asked = 0;
      const { pk, look, at, ledger, measured } = await unknown(() => {
        asked += 1;
        if (asked % 2 === 0) throw new TypeError('secret');
        return undetermined();
      });
      const pauses: number[] = [];
      let now = LAPSED + 30_000;
      for (let tries = 1; tries < schedule.reconcileTries; tries += 1) {
        at(now);
        expect(await look(pk)).toBe('rescheduled');
        const { due } = (await ledger.read(pk)) as Unknown;
        expect(due).toMatchObject({ tries, error: tries % 2 === 0 ? 'TypeError' : 'undetermined' });
        pauses.push((due.at - now) / 1_000);
        now = due.at;
      }
      expect(pauses).toEqual([30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
      at(now);
      expect(await look(pk)).toBe('parked');
      expect(await ledger.read(pk)).toMatchObject({ status: 'unknown', due: { parkedAt: now, tries: 10 } });
      expect(await look(pk)).toBe('nothing');
      expect(asked).toBe(10);
      expect(measured.filter(({ metrics }) => metrics.parked)).toHaveLength(1);
    });

    it('may say when to ask again, and is not believed to say nonsense', async () => {
      const verdicts: Verdict[] = [undetermined(600_000), { kind: 'maybe' } as never, executed(new Map())];
      const { pk, look, at, ledger } = await unknown(() => verdicts.shift() as Verdict);
      at(LAPSED + 30_000);
      await look(pk);
      const first = (await ledger.read(pk)) as Unknown;
      expect(first.due.at).toBe(LAPSED + 30_000 + 600_000);
      for (const error of ['InvalidArgument', 'UnstorableReply']) {
        at(((await ledger.read(pk)) as Unknown).due.at);
        expect(await look(pk)).toBe('rescheduled');
        expect(await ledger.read(pk)).toMatchObject({ status: 'unknown', due: { error } });
      }
    });

    it('that says what cannot be kept is asked again, later and later, until an operator is', async () => {
      const huge = executed({ statusCode: 201, body: 'x'.repeat(limits.bodyMaxBytes + 1) });
      const { pk, look, at, ledger, settledAt } = await unknown(() => huge);
      let now = settledAt;
      for (let tries = 1; tries < schedule.reconcileTries; tries += 1) {
        at(now);
        expect(await look(pk)).toBe('rescheduled');
        const { due } = (await ledger.read(pk)) as Unknown;
        expect(due).toMatchObject({ tries, error: 'InvalidArgument' });
        expect(due.at).toBeGreaterThan(now);
        now = due.at;
      }
      at(now);
      expect(await look(pk)).toBe('parked');
      expect(await ledger.read(pk)).toMatchObject({ status: 'unknown', due: { parkedAt: now, tries: 10 } });
    });

    it('that says what no step can hold, or be called, moves nothing, and has been asked', async () => {
      const full = Array.from({ length: limits.stepsMax }, (_, each) => `step-${each}`);
      for (const [steps, verdict] of [
        [[], executed('x'.repeat(limits.stepResultMaxBytes), 'charge')],
        [[], executed({}, 'no name!')],
        [[], executed({}, 7 as never)],
        [name === 'memory' ? full : [], executed({}, name === 'memory' ? 'one-more' : '')],
      ] as const) {
        const { abandoned, time, look, ledger } = world(ledgerOf, {
          effects: 'steps',
          resolver: () => verdict,
        });
        let mine = await abandoned('steps');
        for (const [index, step] of steps.entries())
          mine = movedRecord<InProgress>(await ledger.saveStep(mine, step, '1', START + index));
        time.now = START + 24 * 60 * MINUTE_MS;
        expect(await look(mine.pk)).toBe('unknown');
        time.now += 10 * MINUTE_MS;
        expect(await look(mine.pk)).toBe('rescheduled');
        const after = (await ledger.read(mine.pk)) as Unknown;
        expect(after).toMatchObject({ status: 'unknown', due: { tries: 1, error: 'InvalidArgument' } });
        expect([...after.steps.keys()]).toEqual(expect.arrayContaining([...steps]));
        expect(after.steps.size).toBe(steps.length);
      }
    });

    it('that names no time is asked again after the usual pause, and after a day at the latest', async () => {
      for (const [retryAfterMs, pauseMs] of [
        [Number.NaN, 30_000],
        [Infinity, 30_000],
        ['soon' as never, 30_000],
        [-5, 30_000],
        [100_000 / 3, 33_333],
        [1e17, 24 * 60 * MINUTE_MS],
      ] as const) {
        const { pk, look, at, ledger, settledAt } = await unknown(() => undetermined(retryAfterMs));
        at(settledAt);
        expect(await look(pk)).toBe('rescheduled');
        const due = { tries: 1, at: settledAt + pauseMs };
        expect(await ledger.read(pk)).toMatchObject({ status: 'unknown', due });
      }
    });

    it('that fails with a name as long as a message leaves a short one', async () => {
      const { pk, look, at, ledger, settledAt } = await unknown(() => {
        throw Object.assign(new Error('x'), { name: 'x'.repeat(500_000) });
      });
      at(settledAt);
      expect(await look(pk)).toBe('rescheduled');
      expect(await ledger.read(pk)).toMatchObject({ due: { tries: 1, error: 'x'.repeat(100) } });
    });

    it('is not to blame while the store does not answer: nothing is counted', async () => {
      const { pk, time, ledger, settledAt, clock } = await unknown(() => undetermined());
      time.now = settledAt;
      const settle = async () => Promise.reject(new StoreUnavailable('away'));
      const quiet = { clock, log: () => {}, metrics: () => {} };
      const resolver = () => executed({ statusCode: 201, body: '{}' });
      const { look } = sweeper({ ledger: { ...ledger, settle }, ...opaqueWith(resolver), ...quiet });
      const before = (await ledger.read(pk)) as LedgerRecord;
      await expect(look(before, time.now + MINUTE_MS)).rejects.toThrow('away');
      expect(await ledger.read(pk)).toEqual(before);
    });

    it('is missed at once where there is none: it waits for an operator', async () => {
      const { abandoned, time, look, ledger } = world(ledgerOf, { effects: 'opaque', onUnknown: 'park' });
      const { pk } = await abandoned('opaque');
      time.now = LAPSED;
      await look(pk);
      time.now = LAPSED + 30_000;
      expect(await look(pk)).toBe('parked');
      expect(await ledger.read(pk)).toMatchObject({ due: { error: 'no_resolver' } });
    });

    it('of steps speaks of the open effect: saved or cleared, the operation goes on', async () => {
      for (const [verdict, saved] of [
        [executed({ sent: true }), true],
        [notExecuted(), false],
      ] as const) {
        const asked: UnknownOperation[] = [];
        const { abandoned, time, look, ledger } = world(ledgerOf, {
          effects: 'steps',
          resolver: (operation) => {
            asked.push(operation);
            return verdict;
          },
        });
        const mine = await abandoned('steps');
        const row = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '{"id":1}', START + 1));
        await ledger.openStep(row, 'receipt', START + 2);
        time.now = LAPSED;
        await look(mine.pk);
        time.now = LAPSED + 150_000;
        expect(await look(mine.pk)).toBe('settled');
        const key = stepKey(mine.operationId, 'receipt');
        expect(asked[0]).toMatchObject({ open: { name: 'receipt', key } });
        expect(asked[0]?.steps.get('row')).toEqual({
          key: stepKey(mine.operationId, 'row'),
          result: { id: 1 },
        });
        const resumed = (await ledger.read(mine.pk)) as InProgress;
        expect(resumed).toMatchObject({ status: 'in_progress', attempt: 2, leaseUntil: time.now });
        expect(resumed.steps.get('receipt')?.state).toBe(saved ? 'done' : undefined);
        expect(resumed.due).toMatchObject({ at: time.now });
      }
    });

    it.each(['authorise', 'receipt'])('that names %s is no verdict on another step', async (named) => {
      const { abandoned, time, look, ledger } = world(ledgerOf, {
        effects: 'steps',
        resolver: () => executed({ id: 'auth_1' }, named),
      });
      const mine = await abandoned('steps');
      const authorised = movedRecord<InProgress>(await ledger.saveStep(mine, 'authorise', '1', START + 1));
      await ledger.openStep(authorised, 'capture', START + 2);
      time.now = LAPSED;
      await look(mine.pk);
      time.now = LAPSED + 150_000;
      expect(await look(mine.pk)).toBe('parked');
      const parked = await ledger.read(mine.pk);
      expect(parked).toMatchObject({ status: 'unknown', due: { error: 'verdict_without_effect' } });
      expect(parked?.steps.get('capture')).toMatchObject({ state: 'open' });
    });

    it('may name the step that has happened, where its provider may have forgotten the key', async () => {
      for (const [named, expected] of [
        ['charge', 'settled'],
        ['row', 'parked'], // It is recorded already: the verdict says nothing new.
        [undefined, 'parked'],
      ] as const) {
        const { abandoned, time, look, ledger } = world(ledgerOf, {
          effects: 'steps',
          resolver: () => executed({ id: 'ch_1' }, named),
        });
        const { pk, ...mine } = await abandoned('steps');
        const askedAt = START + (24 * 60 + 10) * MINUTE_MS;
        await ledger.saveStep({ pk, ...mine }, 'row', '1', askedAt); // By a clock that is ahead of ours.
        time.now = askedAt - 10 * MINUTE_MS;
        expect(await look(pk)).toBe('unknown');
        expect(await ledger.read(pk)).toMatchObject({ errorCode: 'dedupe_window_over' });
        time.now = askedAt;
        expect(await look(pk)).toBe(expected);
        const after = (await ledger.read(pk)) as InProgress | Unknown;
        if (expected === 'parked') {
          expect(after).toMatchObject({ status: 'unknown', due: { error: 'verdict_without_effect' } });
          continue;
        }
        expect(after).toMatchObject({ status: 'in_progress', due: { at: time.now } });
        const done = after.steps.get('charge');
        expect(done).toMatchObject({ state: 'done', result: '{"id":"ch_1"}' });
        expect(done?.at).toBeGreaterThan(after.steps.get('row')?.at ?? 0);
      }
    });

    it('cannot complete an operation over events that wait behind the one in doubt', async () => {
      const { ledger } = world(ledgerOf);
      const record = await acceptedWith(ledger, charge(1), charge(2));
      const due = { shard: dueShard(record.pk), at: START };
      const doubt = { to: 'unknown', now: START, errorCode: 'x', due, event: { index: 0 } } as const;
      const unknown = movedRecord<Unknown>(await ledger.settleAccepted(record, doubt));
      const whole = { to: 'completed', ...outcomeAt(START) } as const;
      await expect(ledger.settle(unknown, whole)).rejects.toThrow(/2 events that are not delivered/);
      expect(await ledger.read(record.pk)).toEqual(unknown);
    });

    it.each([
      [undefined, 'settled'],
      ['charge', 'settled'], // As the doubt was named to it.
      ['row', 'parked'],
    ])('of an accepted operation with steps that speaks of %s: %s', async (named, expected) => {
      const { time, look, ledger } = world(ledgerOf, {
        effects: 'steps',
        resolver: () => executed({ statusCode: 201, body: '"paid"' }, named),
      });
      const mine = movedRecord<InProgress>(await ledger.reserve(claimOf({ effects: 'steps' }), execute));
      const saved = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '1', START));
      const deferral = { now: START, reply: replyOf('{}', 202), outbox: [charge(1)] };
      const record = movedRecord<Accepted>(await ledger.accept(saved, deferral));
      const due = { shard: dueShard(record.pk), at: START };
      const doubt = { to: 'unknown', now: START, errorCode: 'x', due, event: { index: 0 } } as const;
      await ledger.settleAccepted(record, doubt);
      time.now = START + 121_000;
      expect(await look(record.pk)).toBe(expected);
      const after =
        expected === 'settled'
          ? { status: 'completed', response: { status: 201 } }
          : { status: 'unknown', due: { error: 'verdict_without_effect' } };
      expect(await ledger.read(record.pk)).toMatchObject(after);
    });

    it('of an accepted operation decides about the delivery in doubt, and keeps the events after it', async () => {
      for (const [verdict, events] of [
        [executed({ statusCode: 201, body: '"paid"' }), [charge(1)]],
        [executed({ statusCode: 201, body: '"paid"' }), [charge(1), charge(2)]],
        [notExecuted(), [charge(1), charge(2)]],
      ] as const) {
        const { time, look, ledger } = world(ledgerOf, { effects: 'transactional', resolver: () => verdict });
        const record = await acceptedWith(ledger, ...events);
        await ledger.noteDelivery(record, 0, { to: 'claimed', id: 'crashed', until: START + 1 });
        const event = { index: 0, id: 'crashed' };
        const due = { shard: dueShard(record.pk), at: START };
        await ledger.settleAccepted(record, { to: 'unknown', now: START, errorCode: 'x', due, event });
        time.now = START + 121_000;
        expect(await look(record.pk)).toBe('settled');
        const after = await ledger.read(record.pk);
        if (events.length === 1) {
          expect(after).toMatchObject({ status: 'completed', response: { status: 201 } });
          continue;
        }
        const delivery = verdict.kind === 'executed' ? { state: 'done', at: time.now } : undefined;
        expect(after).toMatchObject({ status: 'accepted', attempt: 2, due: { at: time.now } });
        const outbox = after?.status === 'accepted' ? after.accepted.outbox : [];
        expect(outbox).toHaveLength(2);
        if (delivery) expect(outbox[0]?.delivery).toMatchObject(delivery);
        else expect(outbox[0]).not.toHaveProperty('delivery');
        expect(outbox[1]).not.toHaveProperty('delivery');
      }
    });
  });
}

it('a sweeper says at once what its options lack', () => {
  const make = (options: object) => () => sweeper({ ledger: memoryLedger(), ...options });
  expect(make({ ledger: undefined })).toThrow(/sweeper\(\) needs ledger/);
  expect(make({ dispatcher: {} })).toThrow(/it has no redrive/);
  expect(make({ resolvers: {} })).toThrow(/sweeper\(\) has no option resolvers/);
  expect(make({ invoke: randomUUID() })).toThrow(/invoke is .*; expected a function/);
});
