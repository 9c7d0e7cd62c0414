import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Doubt } from '../../core/decide.ts';
import type { Accepted, CompletedDelivered, InProgress, LedgerRecord, Unknown } from '../../core/record.ts';
import type { SettleTo } from '../../ledger/ledger.ts';
import {
  acceptedBy,
  attemptAt,
  completedBy,
  contractCase,
  deferralAt,
  doubtAt,
  dueOf,
  failureAt,
  inProgress,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  replyOf,
  SECOND,
  SKEW_MS,
  START,
  unknownAfterAccept,
  unknownBy,
} from './subject.ts';

const LATER = START + SECOND;
const opaque: Doubt = { kind: 'opaque' };
const expiry = { expiresAt: LATER + 86_400_000, ttl: Math.ceil(LATER / SECOND) + 90_000 };
const executed = (text: string): SettleTo => ({
  to: 'completed',
  now: LATER,
  reply: replyOf(text),
  ...expiry,
});
const notExecuted: SettleTo = { to: 'failed_retryable', ...failureAt(LATER) };

function toUnknown(record: LedgerRecord, now: number, doubt: Doubt) {
  return { to: 'unknown', doubt, skewMs: SKEW_MS, ...doubtAt(record.pk, now) } as const;
}

function toFailed(now: number) {
  return { to: 'failed_retryable', skewMs: SKEW_MS, ...failureAt(now) } as const;
}

function reentry(pk: string) {
  return { owner: randomUUID(), now: LATER, due: dueOf(pk, LATER) };
}

const lapses = [
  contractCase(
    'a lapsed opaque attempt becomes unknown, with no TTL and a place in the index',
    async ({ ledger }) => {
      const mine = await inProgress(ledger, { effects: 'opaque' });
      const lapsed = await ledger.lapse(mine, toUnknown(mine, LAPSED, opaque));
      assert.equal(lapsed.kind, 'moved');
      assert.equal(lapsed.record.status, 'unknown');
      assert.equal('ttl' in lapsed.record, false);
      assert.deepEqual(await ledger.read(mine.pk), lapsed.record);
    },
  ),

  contractCase('a lapsed transactional attempt may run again', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const lapsed = await ledger.lapse(mine, toFailed(LAPSED));
    assert.equal(lapsed.kind, 'moved');
    assert.equal(lapsed.record.status, 'failed_retryable');
    assert.deepEqual(await ledger.read(mine.pk), lapsed.record);
  }),

  contractCase(
    'only a transactional attempt is called proven not executed by the sweep',
    async ({ ledger }) => {
      for (const effects of ['opaque', 'steps'] as const) {
        const mine = await inProgress(ledger, { effects });
        assert.deepEqual(
          await ledger.lapse(mine, toFailed(LAPSED)),
          { kind: 'fenced', record: mine },
          effects,
        );
      }
    },
  ),

  contractCase('a live lease does not lapse, to the last millisecond of the skew', async ({ ledger }) => {
    const doubtful = await inProgress(ledger, { effects: 'opaque' });
    const last = doubtful.leaseUntil + SKEW_MS;
    const early = await ledger.lapse(doubtful, toUnknown(doubtful, last, opaque));
    assert.deepEqual(early, { kind: 'fenced', record: doubtful });
    const safe = await inProgress(ledger);
    assert.deepEqual(await ledger.lapse(safe, toFailed(last)), { kind: 'fenced', record: safe });
  }),

  contractCase('a sweep that acts on an old read changes nothing', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    setNow(LAPSED);
    const { record } = await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    const muchLater = LAPSED + LEASE_MS + SKEW_MS + 1;
    assert.deepEqual(await ledger.lapse(mine, toFailed(muchLater)), { kind: 'fenced', record });
  }),

  contractCase('a lapse needs the owner, the attempt and a record in progress', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    for (const stranger of [{ owner: randomUUID() }, { attempt: 2 }]) {
      const lapsed = await ledger.lapse({ ...mine, ...stranger }, toFailed(LAPSED));
      assert.deepEqual(lapsed, { kind: 'fenced', record: mine });
    }
    const done = await completedBy(ledger, mine);
    assert.deepEqual(await ledger.lapse(mine, toFailed(LAPSED)), { kind: 'fenced', record: done });
  }),

  contractCase('the doubt must still stand when the record is called unknown', async ({ ledger }) => {
    const open: Doubt = { kind: 'open_effect', step: 'charge' };
    const begun = await inProgress(ledger, { effects: 'steps' });
    const intent = movedRecord<InProgress>(await ledger.openStep(begun, 'charge', LATER));
    const saved = movedRecord<InProgress>(await ledger.saveStep(intent, 'charge', '"ch_1"', LATER));
    const refused = await ledger.lapse(intent, toUnknown(intent, LAPSED, open));
    assert.deepEqual(refused, { kind: 'fenced', record: saved });

    const crashed = await inProgress(ledger, { effects: 'steps' });
    const left = movedRecord<InProgress>(await ledger.openStep(crashed, 'charge', LATER));
    assert.equal((await ledger.lapse(left, toUnknown(left, LAPSED, open))).kind, 'moved');

    for (const [effects, doubt] of [
      ['transactional', opaque],
      ['steps', opaque],
      ['transactional', { kind: 'effects_changed' }],
      ['opaque', { kind: 'dedupe_window_over' }],
    ] as const) {
      const mine = await inProgress(ledger, { effects });
      const lapsed = await ledger.lapse(mine, toUnknown(mine, LAPSED, doubt));
      assert.deepEqual(lapsed, { kind: 'fenced', record: mine }, `${doubt.kind} of ${effects}`);
    }
    for (const kind of ['effects_changed', 'dedupe_window_over'] as const) {
      const mine = await inProgress(ledger, { effects: 'steps' });
      assert.equal((await ledger.lapse(mine, toUnknown(mine, LAPSED, { kind }))).kind, 'moved', kind);
    }
  }),
];

const settlements = [
  contractCase('an unknown record is settled as executed, with its response', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const settled = await ledger.settle(unknown, executed('{"found":1}'));
    const done = movedRecord<CompletedDelivered>(settled);
    assert.equal(Buffer.from((await ledger.reply(done.pk, done.response)).body).toString(), '{"found":1}');
    assert.equal(done.ttl, expiry.ttl);
    assert.equal('due' in done || 'leaseUntil' in done || 'errorCode' in done, false);
    assert.deepEqual(await ledger.read(done.pk), done);
  }),

  contractCase(
    'an unknown record is settled as not executed, and its key may run again',
    async ({ ledger }) => {
      const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
      const settled = await ledger.settle(unknown, notExecuted);
      assert.equal(settled.record?.status, 'failed_retryable');
      assert.deepEqual(await ledger.read(unknown.pk), settled.record);
    },
  ),

  contractCase(
    'what was accepted is never settled as not executed, but accepted again',
    async ({ ledger }) => {
      const accepted = await acceptedBy(ledger, await inProgress(ledger));
      const unknown = await unknownAfterAccept(ledger, accepted);
      assert.deepEqual(unknown.accepted, accepted.accepted);
      assert.deepEqual(await ledger.settle(unknown, notExecuted), { kind: 'fenced', record: unknown });
      const { accepted: _, ...forgetful } = unknown;
      assert.deepEqual(await ledger.settle(forgetful, notExecuted), { kind: 'fenced', record: unknown });

      const target = { to: 'accepted', ...reentry(unknown.pk) } as const;
      const again = await ledger.settle(unknown, target);
      const reaccepted = movedRecord<Accepted>(again);
      assert.equal(reaccepted.attempt, unknown.attempt + 1);
      assert.equal(reaccepted.owner, target.owner);
      assert.equal(reaccepted.dedupeSince, target.now);
      assert.deepEqual(reaccepted.accepted, accepted.accepted);
      assert.deepEqual(await ledger.read(unknown.pk), reaccepted);
      assert.deepEqual(await ledger.settle(unknown, target), again, 'its own retry as well');
    },
  ),

  contractCase('what was never accepted cannot be accepted by a resolver', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger));
    const target = { to: 'accepted', ...reentry(unknown.pk) } as const;
    await assert.rejects(ledger.settle(unknown, target), /never accepted/);
    const { accepted } = await acceptedBy(ledger, await inProgress(ledger));
    const pretended: Unknown = { ...unknown, accepted };
    assert.deepEqual(await ledger.settle(pretended, target), { kind: 'fenced', record: unknown });
  }),

  contractCase(
    'a verdict on a steps record is about its open effect, and sends it back to work',
    async ({ ledger }) => {
      for (const step of [
        { name: 'charge', step: { state: 'done', attempt: 1, at: LATER, result: '"ch_1"' } },
        { name: 'charge', step: undefined },
      ] as const) {
        const mine = await inProgress(ledger, { effects: 'steps' });
        const row = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '1', LATER));
        const intent = movedRecord<InProgress>(await ledger.openStep(row, 'charge', LATER));
        const unknown = await unknownBy(ledger, intent);
        const target = { to: 'in_progress', step, ...reentry(mine.pk) } as const;
        const settled = await ledger.settle(unknown, target);
        const resumed = movedRecord<InProgress>(settled);
        assert.equal(resumed.leaseUntil, target.now);
        assert.equal(resumed.attempt, unknown.attempt + 1);
        assert.equal(resumed.owner, target.owner);
        assert.equal(resumed.takenOver, true);
        assert.deepEqual(resumed.steps.get('charge'), step.step);
        assert.equal(resumed.steps.get('row')?.state, 'done');
        assert.deepEqual(await ledger.read(mine.pk), resumed);
        assert.deepEqual(await ledger.settle(unknown, target), settled, 'its own retry as well');
      }
    },
  ),

  contractCase('only a steps record with the effect still open is sent back to work', async ({ ledger }) => {
    const opaqueOne = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const back = { to: 'in_progress', step: undefined, ...reentry(opaqueOne.pk) } as const;
    assert.deepEqual(await ledger.settle(opaqueOne, back), { kind: 'fenced', record: opaqueOne });

    const mine = await inProgress(ledger, { effects: 'steps' });
    const saved = movedRecord<InProgress>(await ledger.saveStep(mine, 'charge', '"ch_1"', LATER));
    const unknown = await unknownBy(ledger, saved);
    const clear = {
      to: 'in_progress',
      step: { name: 'charge', step: undefined },
      ...reentry(mine.pk),
    } as const;
    assert.deepEqual(await ledger.settle(unknown, clear), { kind: 'fenced', record: unknown });

    const deferred = await acceptedBy(ledger, await inProgress(ledger, { effects: 'steps' }));
    const lost = await unknownAfterAccept(ledger, deferred);
    await assert.rejects(ledger.settle(lost, back), /was accepted/);
    const { accepted: _, ...forgetful } = lost;
    assert.deepEqual(await ledger.settle(forgetful, back), { kind: 'fenced', record: lost });
  }),

  contractCase(
    'a steps record is never settled as a whole: its recovery points would go',
    async ({ ledger }) => {
      const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'steps' }));
      for (const target of [notExecuted, executed('"all of it"')]) {
        assert.deepEqual(await ledger.settle(unknown, target), { kind: 'fenced', record: unknown });
      }
    },
  ),

  contractCase('a settlement on an old read changes nothing', async ({ ledger }) => {
    const targets = (pk: string): SettleTo[] => [
      executed('"old"'),
      notExecuted,
      { to: 'accepted', ...reentry(pk) },
    ];
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const first = await unknownAfterAccept(ledger, accepted);
    const again = movedRecord<Accepted>(await ledger.settle(first, { to: 'accepted', ...reentry(first.pk) }));
    const second = await unknownAfterAccept(ledger, again);
    for (const target of targets(first.pk)) {
      assert.deepEqual(await ledger.settle(first, target), { kind: 'fenced', record: second }, target.to);
    }
    const stranger = { ...second, operationId: randomUUID() };
    for (const target of targets(first.pk)) {
      assert.deepEqual(await ledger.settle(stranger, target), { kind: 'fenced', record: second }, target.to);
    }
  }),

  contractCase('a settled record is not settled again', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const { record } = await ledger.settle(unknown, executed('"first"'));
    assert.deepEqual(await ledger.settle(unknown, executed('"second"')), { kind: 'fenced', record });
    assert.deepEqual(await ledger.settle(unknown, notExecuted), { kind: 'fenced', record });
  }),

  contractCase('delivery turns an accepted record into its final response', async ({ ledger }) => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const target = { to: 'completed', now: LATER, reply: replyOf('"final"'), ...expiry } as const;
    const done = movedRecord<CompletedDelivered>(await ledger.settleAccepted(accepted, target));
    assert.equal(Buffer.from((await ledger.reply(done.pk, done.response)).body).toString(), '"final"');
    assert.equal(done.outbox, undefined);
    assert.equal(done.ttl, expiry.ttl);
    assert.deepEqual(await ledger.read(done.pk), done);
    const late = await ledger.settleAccepted(accepted, { to: 'unknown', ...doubtAt(done.pk, LATER) });
    assert.deepEqual(late, { kind: 'fenced', record: done });
  }),

  contractCase(
    'a dispatcher of an earlier attempt or another operation settles nothing',
    async ({ ledger }) => {
      const accepted = await acceptedBy(ledger, await inProgress(ledger));
      const target = { to: 'completed', now: LATER, reply: replyOf('"old"'), ...expiry } as const;
      for (const stranger of [{ attempt: 2 }, { operationId: randomUUID() }]) {
        const settled = await ledger.settleAccepted({ ...accepted, ...stranger }, target);
        assert.deepEqual(settled, { kind: 'fenced', record: accepted });
        const doubt = { to: 'unknown', ...doubtAt(accepted.pk, LATER) } as const;
        const doubted = await ledger.settleAccepted({ ...accepted, ...stranger }, doubt);
        assert.deepEqual(doubted, { kind: 'fenced', record: accepted });
      }
    },
  ),

  contractCase(
    'a stored failure is reopened; a success, a step or an outbox forbids it',
    async ({ ledger }) => {
      const refuse = async (mine: InProgress, outcome = outcomeAt(LATER, '"no"', 402)) => {
        const done = (await completedBy(ledger, mine, outcome)) as CompletedDelivered;
        assert.deepEqual(await ledger.reopen(done, failureAt(LATER)), { kind: 'fenced', record: done });
      };
      const declined = await completedBy(ledger, await inProgress(ledger), outcomeAt(LATER, '"no"', 402));
      const reopened = await ledger.reopen(declined as CompletedDelivered, failureAt(LATER));
      assert.equal(reopened.record?.status, 'failed_retryable');
      assert.deepEqual(await ledger.read(declined.pk), reopened.record);

      for (const status of [200, 201, 299])
        await refuse(await inProgress(ledger), outcomeAt(LATER, '"yes"', status));
      const begun = await inProgress(ledger, { effects: 'steps' });
      await refuse(movedRecord<InProgress>(await ledger.saveStep(begun, 'row', '1', LATER)));
      await refuse(await inProgress(ledger), {
        ...outcomeAt(LATER, '"no"', 402),
        outbox: deferralAt(LATER).outbox,
      });
      const other = await completedBy(ledger, await inProgress(ledger), outcomeAt(LATER, '"no"', 300));
      const stranger = { ...(other as CompletedDelivered), operationId: randomUUID() };
      assert.deepEqual(await ledger.reopen(stranger, failureAt(LATER)), { kind: 'fenced', record: other });
      assert.equal((await ledger.reopen(other as CompletedDelivered, failureAt(LATER))).kind, 'moved');
    },
  ),
];

const delivery = [
  contractCase('a delivered outbox lets the record end like any other', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const undelivered = await completedBy(ledger, mine, {
      ...outcomeAt(LATER),
      outbox: deferralAt(LATER).outbox,
    });
    if (!undelivered.outbox) throw new Error('expected an undelivered outbox');
    for (const stranger of [{ attempt: 2 }, { operationId: randomUUID() }]) {
      const refused = await ledger.deliver({ ...undelivered, ...stranger }, expiry.ttl);
      assert.deepEqual(refused, { kind: 'fenced', record: undelivered });
    }
    const done = movedRecord<CompletedDelivered>(await ledger.deliver(undelivered, expiry.ttl));
    assert.equal(done.ttl, expiry.ttl);
    assert.equal('outbox' in done, false);
    assert.deepEqual(await ledger.read(mine.pk), done);
    const late = await ledger.watch(undelivered, dueOf(mine.pk, LATER));
    assert.deepEqual(late, { kind: 'fenced', record: done });
    const again = await ledger.deliver(undelivered, expiry.ttl + 1);
    assert.deepEqual(again, { kind: 'fenced', record: done });
  }),

  contractCase('what was accepted is never reopened: its business write is committed', async ({ ledger }) => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const target = { to: 'completed', now: LATER, reply: replyOf('"no"', 402), ...expiry } as const;
    const declined = movedRecord<CompletedDelivered>(await ledger.settleAccepted(accepted, target));
    assert.deepEqual(await ledger.reopen(declined, failureAt(LATER)), { kind: 'fenced', record: declined });

    const unknown = await unknownAfterAccept(ledger, await acceptedBy(ledger, await inProgress(ledger)));
    const settled = await ledger.settle(unknown, { ...target, to: 'completed' });
    const detour = movedRecord<CompletedDelivered>(settled);
    assert.deepEqual(await ledger.reopen(detour, failureAt(LATER)), { kind: 'fenced', record: detour });
  }),
];

const due = [
  contractCase('of two sweeps that read the same place the slower changes nothing', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger));
    const parked = { shard: 'parked#1', at: LATER, parkedAt: LATER };
    const { record } = await ledger.watch(unknown, parked);
    const slower = await ledger.watch(unknown, dueOf(unknown.pk, LATER + SECOND));
    assert.deepEqual(slower, { kind: 'fenced', record });
    const fresh = await inProgress(ledger);
    const first = await ledger.watch(fresh, dueOf(fresh.pk, LATER));
    const second = await ledger.watch(fresh, dueOf(fresh.pk, LATER + SECOND));
    assert.deepEqual(second, { kind: 'fenced', record: first.record });
  }),

  contractCase('a watched record is found when it is due, and not before', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const shard = `due#${randomUUID()}`;
    const { record } = await ledger.watch(mine, { shard, at: LATER });
    assert.deepEqual(await ledger.read(mine.pk), record);
    assert.deepEqual((await ledger.due(shard, LATER - 1, 10)).entries, []);
    assert.deepEqual((await ledger.due(shard, LATER, 10)).entries, [{ pk: mine.pk, at: LATER }]);
    await completedBy(ledger, mine);
    assert.deepEqual((await ledger.due(shard, LATER, 10)).entries, []);
  }),

  contractCase('what is due comes in pages, oldest first', async ({ ledger }) => {
    const shard = `due#${randomUUID()}`;
    for (const wait of [3, 1, 2]) await ledger.watch(await inProgress(ledger), { shard, at: START + wait });
    const first = await ledger.due(shard, LATER, 2);
    const second = await ledger.due(shard, LATER, 2, first.next);
    assert.deepEqual(
      [...first.entries, ...second.entries].map(({ at }) => at - START),
      [1, 2, 3],
    );
  }),

  contractCase('a parked record stays visible, and comes back when rescheduled', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger));
    const parked = { shard: `parked#${randomUUID()}`, at: LATER, parkedAt: LATER };
    const waiting = movedRecord<Unknown>(await ledger.watch(unknown, parked));
    assert.deepEqual(waiting.due, parked);
    assert.equal((await ledger.due(parked.shard, LATER, 1)).entries.length, 1);
    const again = movedRecord<Unknown>(await ledger.watch(waiting, dueOf(unknown.pk, LATER)));
    assert.equal(again.due.parkedAt, undefined);
    assert.deepEqual(await ledger.read(unknown.pk), again);
  }),
];

const scans = [
  contractCase('what was completed in a window is found by its time and operation', async ({ ledger }) => {
    const operation = `POST /${randomUUID()}`;
    const done = async (now: number, name = operation) =>
      (await completedBy(ledger, await inProgress(ledger, { operation: name }), outcomeAt(now))).pk;
    const inside = [await done(START), await done(LATER - 1)];
    await done(START - 1);
    await done(LATER);
    await done(START, `POST /${randomUUID()}`);
    await inProgress(ledger, { operation });
    const failed = await inProgress(ledger, { operation });
    await ledger.release(failed, failureAt(START));
    const found: string[] = [];
    let next: string | undefined;
    do {
      const page = await ledger.completedIn({ from: START, to: LATER }, ['POST /x', operation], 3, next);
      found.push(...page.pks);
      next = page.next;
    } while (next !== undefined);
    assert.deepEqual(found.sort(), inside.sort());
  }),
];

export const others = [...scans, ...lapses, ...settlements, ...delivery, ...due];
