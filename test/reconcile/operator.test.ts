import { describe, expect, it } from 'vitest';
import type { Accepted, Completed, InProgress, LedgerRecord, Unknown } from '../../lib/core/record.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import { IllegalMove } from '../../lib/reconcile/illegal-move.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import {
  acceptedBy,
  claimOf,
  completedBy,
  execute,
  failedBy,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import { acceptedWith, bothLedgers, charge, completedWith } from './stage.ts';

const table = useTable();

const ledgers = bothLedgers(table);

const by = { who: 'ada@example.com', why: 'Stripe shows ch_1 as captured' };
const SETTLED = START + LEASE_MS + 1_000 + 120_000;

for (const [name, ledgerOf] of Object.entries(ledgers)) {
  describe(`an operator on ${name}`, () => {
    function world() {
      const time = { now: SETTLED };
      const ledger = ledgerOf(() => time.now);
      const reserve = async (effects: 'opaque' | 'steps' | 'transactional' = 'opaque') => {
        const now = time.now;
        Object.assign(time, { now: START });
        const mine = movedRecord<InProgress>(await ledger.reserve(claimOf({ effects }), execute));
        Object.assign(time, { now });
        return mine;
      };
      return { ledger, time, reserve, ...operator({ ledger, clock: () => time.now }) };
    }

    it('settles an unknown payment as executed, with the response that clients get from then on', async () => {
      const { ledger, reserve, settleExecuted, inspect, time } = world();
      const unknown = await unknownBy(ledger, await reserve());
      const settled = await settleExecuted(unknown.pk, by, { statusCode: 201, body: '{"id":"ch_1"}' });
      expect(settled).toMatchObject({ status: 'completed', completedAt: time.now });
      const { record, audits } = await inspect(unknown.pk);
      expect(record).toEqual(settled);
      expect(audits).toEqual([{ ...by, at: time.now, id: expect.any(String), move: 'settle as executed' }]);
    });

    it('settles one as not executed, but not while something may be on its way', async () => {
      const { ledger, reserve, settleNotExecuted, inspect, time } = world();
      const unknown = await unknownBy(ledger, await reserve());
      time.now = SETTLED - 1;
      await expect(settleNotExecuted(unknown.pk, by)).rejects.toThrow(/may still be on its way until 2030-/);
      expect(await inspect(unknown.pk)).toEqual({ record: unknown, audits: [] });
      time.now = SETTLED;
      expect(await settleNotExecuted(unknown.pk, by)).toMatchObject({ status: 'failed_retryable' });
    });

    it('speaks of the open effect where there are steps', async () => {
      const { ledger, reserve, settleExecuted, settleNotExecuted } = world();
      const open = async () => {
        const mine = await reserve('steps');
        return unknownBy(ledger, movedRecord<InProgress>(await ledger.openStep(mine, 'receipt', START)));
      };
      const done = (await settleExecuted((await open()).pk, by, { sent: true })) as InProgress;
      expect(done).toMatchObject({ status: 'in_progress', attempt: 2 });
      expect(done.steps.get('receipt')).toMatchObject({ state: 'done', result: '{"sent":true}' });
      const cleared = (await settleNotExecuted((await open()).pk, by)) as InProgress;
      expect(cleared.steps.size).toBe(0);
      const without = await unknownBy(ledger, await reserve('steps'));
      await expect(settleExecuted(without.pk, by, 1)).rejects.toThrow(/none of its effects is open/);
      const named = (await settleExecuted(without.pk, by, { id: 'ch_1' }, 'charge')) as InProgress;
      expect(named).toMatchObject({ status: 'in_progress', attempt: 2 });
      expect(named.steps.get('charge')).toMatchObject({ state: 'done', result: '{"id":"ch_1"}' });
    });

    it('settles what is accepted, event by event, so that none is lost', async () => {
      const { ledger, settleExecuted, inspect, time } = world();
      time.now = START;
      const { pk } = await acceptedWith(ledger, charge(1), charge(2));
      const first = await settleExecuted(pk, by, { statusCode: 201, body: '1' });
      expect(first).toMatchObject({ status: 'accepted', due: { shard: dueShard(pk), at: START } });
      expect((first as Accepted).accepted.outbox).toMatchObject([
        { delivery: { state: 'done' } },
        expect.not.objectContaining({ delivery: expect.anything() }),
      ]);
      const last = await settleExecuted(pk, by, { statusCode: 201, body: '2' });
      expect(last).toMatchObject({ status: 'completed', response: { status: 201 } });
      expect((await inspect(pk)).audits).toHaveLength(2);
    });

    it('releases a stored failure, and never a success', async () => {
      const { ledger, reserve, release, inspect, time } = world();
      const declined = await completedBy(ledger, await reserve(), outcomeAt(START, '"declined"', 402));
      const paid = await completedBy(ledger, await reserve(), outcomeAt(START));
      expect(await release(declined.pk, by)).toMatchObject({
        status: 'failed_retryable',
        errorCode: 'released',
      });
      await expect(release(paid.pk, by)).rejects.toThrow(
        /it was successful \(201\), so it would happen twice/,
      );
      expect(await inspect(paid.pk)).toEqual({ record: paid, audits: [] });
      expect((await inspect(declined.pk)).audits).toMatchObject([{ who: by.who, at: time.now }]);
    });

    it('puts a parked record back where the sweep looks, with all its tries', async () => {
      const { ledger, redrive, list, time } = world();
      time.now = START;
      const record = await completedWith(ledger, charge(1));
      const due = {
        shard: dueShard(record.pk, 'parked'),
        at: START,
        parkedAt: START,
        tries: 8,
        error: 'Down',
      };
      await ledger.watch(record as never, due);
      expect((await list({ parked: true })).map(({ pk }) => pk)).toContain(record.pk);
      expect(await redrive(record.pk, by)).toMatchObject({
        due: { shard: dueShard(record.pk), at: time.now },
      });
      const again = (await ledger.read(record.pk)) as Completed;
      expect(again.due).not.toHaveProperty('parkedAt');
      expect(again.due).not.toHaveProperty('tries');
      expect((await list({ parked: true })).map(({ pk }) => pk)).not.toContain(record.pk);
    });

    it('lists what is open by state and by age', async () => {
      const { ledger, reserve, list, time } = world();
      const unknown = await unknownBy(ledger, await reserve());
      const waiting = await reserve('transactional');
      await ledger.watch(waiting, { shard: dueShard(waiting.pk), at: START + 1 });
      const pks = async (what: Parameters<typeof list>[0]) =>
        (await list({ ...what, limit: 1_000 })).map(({ pk }) => pk);
      expect(await pks({})).toEqual(expect.arrayContaining([unknown.pk, waiting.pk]));
      expect(await pks({ status: 'unknown' })).not.toContain(waiting.pk);
      expect(await pks({ olderThanMs: time.now - START })).toContain(unknown.pk);
      expect(await pks({ olderThanMs: time.now - START + 1 })).not.toContain(unknown.pk);
    });

    it('is refused what is not legal, with the reason, and nothing is changed or signed', async () => {
      const { ledger, reserve, inspect, ...moves } = world();
      const { settleExecuted, settleNotExecuted, release, redrive } = moves;
      const response = { statusCode: 201, body: '' };
      const states: readonly (readonly [LedgerRecord, readonly (() => Promise<unknown>)[]])[] =
        await Promise.all(
          [
            async () => {
              const record = await failedBy(ledger, await reserve());
              const { pk } = record;
              return [
                record,
                [
                  () => settleExecuted(pk, by, response, 'charge'),
                  () => settleNotExecuted(pk, by),
                  () => release(pk, by),
                  () => redrive(pk, by),
                ],
              ] as const;
            },
            async () => {
              const record = await reserve();
              const { pk } = record;
              return [
                record,
                [
                  () => settleExecuted(pk, by, response, 'charge'),
                  () => settleNotExecuted(pk, by),
                  () => release(pk, by),
                ],
              ] as const;
            },
            async () => {
              const record = await acceptedBy(ledger, await reserve('transactional'));
              return [
                record,
                [() => settleNotExecuted(record.pk, by), () => release(record.pk, by)],
              ] as const;
            },
            async () => {
              const record = await completedBy(ledger, await reserve(), outcomeAt(START));
              const { pk } = record;
              return [
                record,
                [
                  () => settleExecuted(pk, by, response),
                  () => settleNotExecuted(pk, by),
                  () => redrive(pk, by),
                ],
              ] as const;
            },
          ].map((make) => make()),
        );
      for (const [record, illegal] of states) {
        for (const move of illegal) await expect(move()).rejects.toThrow(IllegalMove);
        expect(await inspect(record.pk)).toEqual({ record, audits: [] });
      }
      await expect(redrive('never-was', by)).rejects.toThrow(/There is no record never-was/);
    });

    it('has to say who, and why', async () => {
      const { ledger, reserve, settleExecuted, inspect } = world();
      const unknown = await unknownBy(ledger, await reserve());
      for (const signature of [{ who: '', why: 'x' }, { who: 'x', why: ' ' }, {} as never]) {
        await expect(settleExecuted(unknown.pk, signature, 1)).rejects.toThrow(/needs wh[oy]/);
      }
      expect((await inspect(unknown.pk)).record).toEqual(unknown);
    });

    it('loses against whoever was faster, and is told', async () => {
      const { ledger, reserve, settleNotExecuted, inspect, time } = world();
      const unknown = (await unknownBy(ledger, await reserve())) as Unknown;
      const slow = operator({
        clock: () => time.now,
        ledger: { ...ledger, read: async () => unknown },
      });
      await settleNotExecuted(unknown.pk, by);
      await expect(slow.settleNotExecuted(unknown.pk, { ...by, who: 'late' })).rejects.toThrow(
        /did not allow it: it is failed_retryable now/,
      );
      expect((await inspect(unknown.pk)).audits).toHaveLength(1);
    });
  });
}
