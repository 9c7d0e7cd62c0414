import { describe, expect, it } from 'vitest';
import type {
  Accepted,
  CompletedUndelivered,
  InProgress,
  LedgerRecord,
  Unknown,
} from '../../lib/core/record.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import {
  attemptAt,
  claimOf,
  completedBy,
  deferralAt,
  execute,
  failedBy,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  replyOf,
  SKEW_MS,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import {
  acceptedWith,
  bothLedgers,
  charge,
  completedWith,
  dispatchStage,
  Provider,
  through,
} from './stage.ts';

const table = useTable();
const by = { who: 'ada@example.com', why: 'the bank has it as ch_1' };
const answer = { statusCode: 201, body: '{"id":"ch_1"}' };
const MINUTE = 60_000;
const kinds = ['opaque', 'transactional', 'steps'] as const;

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  describe(`a person's verdict on ${name}`, () => {
    function world() {
      const time = { now: START };
      const clock = () => time.now;
      const ledger = ledgerOf(clock);
      const reserve = async (effects: (typeof kinds)[number] = 'opaque') =>
        movedRecord<InProgress>(await ledger.reserve(claimOf({ effects }), execute));
      return { ledger, time, clock, reserve, desk: operator({ ledger, clock }) };
    }

    async function body(ledger: Ledger<unknown>, record: LedgerRecord): Promise<string> {
      if (record.status !== 'completed') throw new Error(`expected completed, found ${record.status}`);
      return Buffer.from((await ledger.reply(record.pk, record.response)).body).toString();
    }

    it('ends what a restore has opened again, so that its key does not run twice', async () => {
      const { ledger, time, reserve, desk } = world();
      const open = await Promise.all(kinds.map((effects) => reserve(effects)));
      const failed = await failedBy(ledger, await reserve('transactional'));
      time.now = LAPSED;
      for (const { pk } of [...open, failed]) {
        const done = await desk.settleExecuted(pk, by, answer);
        expect(await body(ledger, done)).toBe(answer.body);
        expect(done).toMatchObject({ status: 'completed', ttl: expect.any(Number), completedAt: LAPSED });
        const held = await ledger.reserve(
          claimOf({ pk, now: LAPSED, leaseUntil: LAPSED + LEASE_MS }),
          execute,
        );
        expect(held).toEqual({ kind: 'held', record: done });
        const { audits } = await desk.inspect(pk);
        expect(audits).toMatchObject([{ ...by, move: 'settle as executed' }]);
      }
    });

    it('waits until an attempt can no longer run', async () => {
      const { time, reserve, desk } = world();
      const mine = await reserve();
      time.now = LAPSED - 1;
      await expect(desk.settleExecuted(mine.pk, by, answer)).rejects.toThrow(
        /may be running until 2030-01-15T12:00:31.001Z; come back then/,
      );
      expect(await desk.inspect(mine.pk)).toEqual({ record: mine, audits: [] });
      time.now = LAPSED;
      expect((await desk.settleExecuted(mine.pk, by, answer)).status).toBe('completed');
    });

    it('is no use for a failure that has expired: its key is free', async () => {
      const { ledger, time, reserve, desk } = world();
      const failed = await failedBy(ledger, await reserve());
      time.now = failed.expiresAt + 1;
      await expect(desk.settleExecuted(failed.pk, by, answer)).rejects.toThrow(/has expired/);
      time.now = failed.expiresAt;
      expect((await desk.settleExecuted(failed.pk, by, answer)).status).toBe('completed');
    });

    it('loses against a request that was faster, unsigned', async () => {
      const { ledger, time, clock, reserve, desk } = world();
      const mine = await reserve('transactional');
      time.now = LAPSED;
      await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
      const slow = operator({ ledger: { ...ledger, read: async () => mine }, clock });
      await expect(slow.settleExecuted(mine.pk, by, answer)).rejects.toThrow(/did not allow it/);
      const { record, audits } = await desk.inspect(mine.pk);
      expect([record?.status, record?.attempt, audits]).toEqual(['in_progress', 2, []]);
    });

    it('on steps is about the open effect while it is unknown, and then about the whole', async () => {
      const { ledger, time, reserve, desk } = world();
      const mine = await reserve('steps');
      const { pk } = await unknownBy(
        ledger,
        movedRecord<InProgress>(await ledger.openStep(mine, 'charge', START)),
      );
      time.now = LAPSED;
      const resumed = await desk.settleExecuted(pk, by, { id: 'ch_1' });
      expect(resumed).toMatchObject({ status: 'in_progress', attempt: 2 });
      const due = { shard: dueShard(pk, 'parked'), at: LAPSED, parkedAt: LAPSED, error: 'no_request' };
      await ledger.watch(resumed as InProgress, due); // No request was kept, so the sweep cannot go on.
      await expect(desk.settleExecuted(pk, by, answer, 'charge')).rejects.toThrow(/so leave out charge/);
      await expect(desk.settleNotExecuted(pk, by)).rejects.toThrow(/is for the sweep to decide; redrive it/);
      time.now += SKEW_MS + 1;
      const done = await desk.settleExecuted(pk, by, answer);
      expect(await body(ledger, done)).toBe(answer.body);
      expect(done.steps.get('charge')).toMatchObject({ state: 'done', result: '{"id":"ch_1"}' });
      expect(done).not.toHaveProperty('due');
    });

    it('on steps that are all known sends the operation on, and keeps what they returned', async () => {
      const { ledger, time, reserve, desk } = world();
      const saved = movedRecord<InProgress>(
        await ledger.saveStep(await reserve('steps'), 'charge', '"ch_1"', START),
      );
      const { pk } = await unknownBy(ledger, saved);
      time.now = LAPSED;
      await expect(desk.settleExecuted(pk, by, {})).rejects.toThrow(/name the step that has happened/);
      const resumed = await desk.settleExecuted(pk, by, { id: 'ch_2' }, 'charge');
      expect(resumed).toMatchObject({ status: 'in_progress', attempt: 2, due: { at: LAPSED } });
      expect(resumed.steps).toEqual(saved.steps);
    });

    it('on a step beside the open one is refused: nobody has said what became of that', async () => {
      const { ledger, time, reserve, desk } = world();
      const mine = await reserve('steps');
      const saved = movedRecord<InProgress>(await ledger.saveStep(mine, 'authorise', '"auth_1"', START));
      const record = await unknownBy(
        ledger,
        movedRecord<InProgress>(await ledger.openStep(saved, 'capture', START)),
      );
      time.now = LAPSED + 10 * MINUTE;
      for (const step of ['authorise', 'receipt']) {
        const settling = desk.settleExecuted(record.pk, by, { id: 'auth_1' }, step);
        await expect(settling).rejects.toThrow(`its open effect is capture, not ${step}`);
      }
      expect(await desk.inspect(record.pk)).toEqual({ record, audits: [] });
      const resumed = await desk.settleExecuted(record.pk, by, { id: 'cap_1' }, 'capture');
      expect(resumed.steps.get('capture')).toMatchObject({ state: 'done', result: '{"id":"cap_1"}' });
    });

    it('on a step is refused where a delivery is in doubt, or the operation as a whole', async () => {
      const { ledger, time, reserve, desk } = world();
      const saved = movedRecord<InProgress>(
        await ledger.saveStep(await reserve('steps'), 'authorise', '"auth_1"', START),
      );
      const deferral = { now: START, reply: replyOf('{}', 202), outbox: [charge(1)] };
      const accepted = movedRecord<Accepted>(await ledger.accept(saved, deferral));
      const due = { shard: dueShard(accepted.pk), at: START };
      const doubt = { to: 'unknown', now: START, errorCode: 'x', due, event: { index: 0 } } as const;
      const delivery = movedRecord<Unknown>(await ledger.settleAccepted(accepted, doubt));
      const whole = await unknownBy(ledger, await reserve('opaque'));
      time.now = LAPSED + 10 * MINUTE;
      for (const record of [delivery, whole]) {
        const settling = desk.settleExecuted(record.pk, by, { id: 'auth_1' }, 'authorise');
        await expect(settling).rejects.toThrow(/so leave out authorise/);
        expect(await desk.inspect(record.pk)).toEqual({ record, audits: [] });
      }
    });

    /** Completed, its first event tried once, and nobody knows what came of that. */
    async function inDoubt(...events: Parameters<typeof charge>[0][]) {
      const { ledger, time, ...rest } = world();
      const provider = new Provider(false);
      const failing = () => {
        if (provider.calls.length === 1) throw new Error('timeout');
      };
      const stage = dispatchStage(ledger, { charge: through(provider, failing) }, { time });
      const { pk } = await completedWith(ledger, ...events.map(charge));
      expect(await stage.redrive(pk)).toBe('parked');
      const parked = (await ledger.read(pk)) as CompletedUndelivered;
      expect(parked.outbox[0].delivery).toMatchObject({ state: 'claimed' });
      return { ledger, time, provider, stage, pk, parked, ...rest };
    }

    it('notes a delivery in doubt as made, and only the others are made after it', async () => {
      const { ledger, provider, stage, pk, desk } = await inDoubt(1, 2);
      const settled = await desk.settleExecuted(pk, by, { reference: 'ch_1' });
      expect(settled).toMatchObject({ status: 'completed', due: { shard: dueShard(pk), at: START } });
      expect((settled as CompletedUndelivered).due).not.toHaveProperty('parkedAt');
      expect(await ledger.read(pk)).toEqual(settled);
      expect(await stage.redrive(pk)).toBe('settled');
      expect(provider.effects).toEqual(['charge {"amount":1}', 'charge {"amount":2}']);
      const { record, audits } = await desk.inspect(pk);
      expect(record).toMatchObject({ status: 'completed', references: ['ch_1'], ttl: expect.any(Number) });
      expect(audits).toMatchObject([{ ...by, move: 'settle as executed' }]);
    });

    it('clears a delivery in doubt, once nothing can be on its way, and it is made again', async () => {
      const { ledger, time, provider, stage, pk, parked, desk } = await inDoubt(1);
      const claim = parked.outbox[0].delivery as { until: number };
      time.now = claim.until + SKEW_MS + 2 * MINUTE - 1;
      await expect(desk.settleNotExecuted(pk, by)).rejects.toThrow(/may still be on its way until 2030-/);
      expect(await desk.inspect(pk)).toEqual({ record: parked, audits: [] });
      time.now += 1;
      const cleared = (await desk.settleNotExecuted(pk, by)) as CompletedUndelivered;
      expect(cleared.outbox[0]).not.toHaveProperty('delivery');
      expect(cleared.due).toEqual({ shard: dueShard(pk), at: time.now });
      expect(await stage.redrive(pk)).toBe('settled');
      expect(provider.calls).toHaveLength(2);
      expect(await ledger.read(pk)).not.toHaveProperty('outbox');
      expect((await desk.inspect(pk)).audits).toMatchObject([{ ...by, move: 'settle as not executed' }]);
    });

    it('is about the claim that was looked at, and no later one', async () => {
      const { ledger, time, clock, pk, parked, desk } = await inDoubt(1);
      time.now += 60 * MINUTE;
      const cleared = (await desk.settleNotExecuted(pk, by)) as CompletedUndelivered;
      const again = { to: 'claimed', id: 'another', until: time.now + MINUTE } as const;
      const claimed = movedRecord(await ledger.noteDelivery(cleared, 0, again));
      const slow = operator({ ledger: { ...ledger, read: async () => parked }, clock });
      await expect(slow.settleExecuted(pk, by)).rejects.toThrow(/did not allow it/);
      await expect(slow.settleNotExecuted(pk, by)).rejects.toThrow(/did not allow it/);
      const { record, audits } = await desk.inspect(pk);
      expect([record, audits.length]).toEqual([claimed, 1]);
    });

    it('notes a delivery that a restore has forgotten, and it is not made again', async () => {
      const { ledger, time, desk } = world();
      const provider = new Provider(false);
      const stage = dispatchStage(ledger, { charge: through(provider) }, { time });
      const { pk } = await completedWith(ledger, charge(1));
      await expect(desk.settleNotExecuted(pk, by)).rejects.toThrow(/under a claim, so redrive it/);
      await desk.settleExecuted(pk, by);
      await expect(desk.settleExecuted(pk, by)).rejects.toThrow(
        /all of its events are delivered; redrive it/,
      );
      expect(await stage.redrive(pk)).toBe('settled');
      expect(provider.effects).toEqual([]);
    });

    it('releases nothing that would happen twice, and says which of the reasons it was', async () => {
      const { ledger, time, reserve, desk } = world();
      const declined = outcomeAt(START, '"no"', 402);
      const ran = async () => {
        const mine = await reserve('steps');
        return movedRecord<InProgress>(await ledger.saveStep(mine, 'charge', '1', START));
      };
      const taken = async () => {
        const mine = await reserve('steps');
        time.now = LAPSED;
        const by = { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS };
        const next = movedRecord<InProgress>(await ledger.takeOver(mine, by));
        time.now = START;
        return next;
      };
      const { outbox } = deferralAt(START);
      const settled = { to: 'completed', ...declined, reply: replyOf('"no"', 402) } as const;
      const cases: readonly (readonly [LedgerRecord, RegExp])[] = [
        [await reserve(), /only a completed one can be released/],
        [await completedBy(ledger, await reserve()), /it was successful \(201\)/],
        [await completedBy(ledger, await reserve(), { ...declined, outbox }), /events are not all delivered/],
        [
          movedRecord(await ledger.settleAccepted(await acceptedWith(ledger, charge(1)), settled)),
          /it was accepted on the way/,
        ],
        [await completedBy(ledger, await ran(), declined), /its steps have run \(charge\)/],
        [await completedBy(ledger, await taken(), declined), /an attempt of it was taken over/],
      ];
      for (const [record, why] of cases) {
        await expect(desk.release(record.pk, by)).rejects.toThrow(why);
        expect(await desk.inspect(record.pk)).toEqual({ record, audits: [] });
      }
    });

    it('releases a failure whose attempts left nothing behind, however many there were', async () => {
      const { ledger, time, reserve, desk } = world();
      const mine = await reserve('transactional');
      time.now = LAPSED;
      const second = { ...attemptAt(LAPSED, 'transactional'), skewMs: SKEW_MS };
      const taken = movedRecord<InProgress>(await ledger.takeOver(mine, second));
      const declined = await completedBy(ledger, taken, outcomeAt(LAPSED, '"no"', 402));
      expect(await desk.release(declined.pk, by)).toMatchObject({ status: 'failed_retryable' });
    });
  });
}
