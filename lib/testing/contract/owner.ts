import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { limits } from '../../core/limits.ts';
import type { InProgress, LedgerRecord } from '../../core/record.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import {
  acceptedBy,
  attemptAt,
  claimOf,
  completedBy,
  contractCase,
  deferralAt,
  doubtAt,
  dueOf,
  execute,
  failedBy,
  failureAt,
  inProgress,
  LAPSED,
  movedRecord,
  outcomeAt,
  SECOND,
  SKEW_MS,
  START,
  unknownAfterAccept,
  unknownBy,
} from './subject.ts';

type OwnerMove = (
  ledger: Ledger<unknown>,
  mine: InProgress,
) => Promise<{ kind: string; record?: LedgerRecord | undefined }>;

const LATER = START + SECOND;

/** Every move that only the owner of the running attempt may make. */
const ownerMoves: Readonly<Record<string, OwnerMove>> = {
  complete: (ledger, mine) => ledger.complete(mine, outcomeAt(LATER, '{"late":true}')),
  accept: (ledger, mine) => ledger.accept(mine, deferralAt(LATER)),
  release: (ledger, mine) => ledger.release(mine, failureAt(LATER)),
  markUnknown: (ledger, mine) => ledger.markUnknown(mine, doubtAt(mine.pk, LATER)),
  handBack: (ledger, mine) => ledger.handBack(mine, LATER, dueOf(mine.pk, LATER)),
  openStep: (ledger, mine) => ledger.openStep(mine, 'charge', LATER),
  saveStep: (ledger, mine) => ledger.saveStep(mine, 'charge', '"ch_1"', LATER),
  watch: (ledger, mine) => ledger.watch(mine, dueOf(mine.pk, LATER)),
};

/** Where the record may have gone meanwhile, under the same owner and attempt. */
const meanwhile: Readonly<
  Record<string, (ledger: Ledger<unknown>, mine: InProgress) => Promise<LedgerRecord>>
> = {
  completed: completedBy,
  accepted: acceptedBy,
  failed_retryable: failedBy,
  unknown: unknownBy,
};

const fencing = Object.entries(ownerMoves).flatMap(([name, move]) => [
  ...Object.entries(meanwhile).map(([status, change]) =>
    contractCase(`${name} changes nothing once the record is ${status}`, async ({ ledger }) => {
      const mine = await inProgress(ledger, { effects: 'steps' });
      const now = await change(ledger, mine);
      const result = await move(ledger, mine);
      assert.deepEqual(result.record, now);
      assert.deepEqual(await ledger.read(mine.pk), now);
    }),
  ),

  contractCase(`${name} by a stale owner changes nothing`, async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    setNow(LAPSED);
    const { record } = await ledger.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS });
    assert.deepEqual(await move(ledger, mine), { kind: 'fenced', record });
    assert.deepEqual(await ledger.read(mine.pk), record);
  }),

  contractCase(`${name} needs both the owner and the attempt`, async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    for (const stranger of [{ owner: randomUUID() }, { attempt: 2 }]) {
      assert.deepEqual(await move(ledger, { ...mine, ...stranger }), { kind: 'fenced', record: mine });
    }
    assert.deepEqual(await ledger.read(mine.pk), mine);
  }),

  contractCase(`${name} never creates a record`, async ({ ledger }) => {
    const mine = { ...(await inProgress(ledger, { effects: 'steps' })), pk: `pk-${randomUUID()}` };
    assert.deepEqual(await move(ledger, mine), { kind: 'fenced', record: undefined });
    assert.equal(await ledger.read(mine.pk), undefined);
  }),

  contractCase(`${name} is recognised as done when it is asked for again`, async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const first = await move(ledger, mine);
    assert.equal(first.kind, 'moved');
    // But an intent asked for twice would be two tries at an effect that must be tried once.
    const again = name === 'openStep' ? { ...first, kind: 'fenced' } : first;
    assert.deepEqual(await move(ledger, mine), again);
    assert.deepEqual(await ledger.read(mine.pk), first.record);
  }),
]);

export const owner = [
  ...fencing,

  contractCase(
    'a completed record has its response, its expiry and its TTL, and no lease',
    async ({ ledger }) => {
      const mine = await inProgress(ledger);
      await ledger.watch(mine, dueOf(mine.pk, LATER));
      const outcome = outcomeAt(LATER);
      const done = await completedBy(ledger, mine, outcome);
      assert.equal(done.expiresAt, outcome.expiresAt);
      assert.equal(done.ttl, outcome.ttl);
      assert.equal('leaseUntil' in done || 'due' in done, false);
      assert.deepEqual(await ledger.reply(done.pk, done.response), outcome.reply);
      assert.deepEqual(await ledger.read(mine.pk), done);
    },
  ),

  contractCase('the answer of a late owner is the record, not its memory', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'opaque' });
    const unknown = await unknownBy(ledger, mine);
    const expiry = { expiresAt: START + 1e9, ttl: 2e9 };
    const settled = await ledger.settle(unknown, {
      to: 'completed',
      now: LATER,
      reply: outcomeAt(LATER, '"theirs"').reply,
      ...expiry,
    });
    for (const text of ['"mine"', '"yours"']) {
      const late = await ledger.complete(mine, outcomeAt(LATER, text)); // One of them as long as what is there.
      assert.deepEqual(late, { kind: 'fenced', record: settled.record });
    }
    const { outbox: _, ...outcome } = outcomeAt(LATER, '"mine"');
    assert.deepEqual(await ledger.completeLate(unknown, outcome), { kind: 'fenced', record: settled.record });
  }),

  contractCase('a late owner may complete what was called unknown meanwhile', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'opaque' });
    const unknown = await unknownBy(ledger, mine);
    const { outbox: _, ...outcome } = outcomeAt(LATER);
    const late = await ledger.completeLate(unknown, outcome);
    assert.equal(late.kind, 'moved');
    assert.deepEqual(await ledger.completeLate(unknown, outcome), late, 'its own retry as well');
    assert.deepEqual(await ledger.read(mine.pk), late.record);
  }),

  contractCase('a late completion needs both the owner and the attempt', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const { outbox: _, ...outcome } = outcomeAt(LATER);
    for (const stranger of [{ owner: randomUUID() }, { attempt: 2 }]) {
      const late = await ledger.completeLate({ ...unknown, ...stranger }, outcome);
      assert.deepEqual(late, { kind: 'fenced', record: unknown });
    }
  }),

  contractCase('a late owner never completes a record that was accepted', async ({ ledger }) => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const unknown = await unknownAfterAccept(ledger, accepted);
    const { outbox: _, ...outcome } = outcomeAt(LATER);
    assert.deepEqual(await ledger.completeLate(unknown, outcome), { kind: 'fenced', record: unknown });
  }),

  contractCase('a late completion is refused once the key was failed and taken again', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'opaque' });
    const unknown = await unknownBy(ledger, mine);
    const failed = await ledger.settle(unknown, { to: 'failed_retryable', ...failureAt(LATER) });
    const { outbox: _, ...outcome } = outcomeAt(LATER);
    assert.deepEqual(await ledger.completeLate(unknown, outcome), { kind: 'fenced', record: failed.record });
  }),

  contractCase('steps are recovery points that survive the attempt', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const first = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '{"id":1}', LATER));
    const second = movedRecord<InProgress>(await ledger.openStep(first, 'charge', LATER));
    const third = movedRecord<InProgress>(await ledger.saveStep(second, 'charge', '"ch_1"', LATER));
    assert.deepEqual(await ledger.read(mine.pk), third);
    setNow(LAPSED);
    const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS });
    assert.deepEqual(taken.record?.steps, third.steps);
  }),

  contractCase('one step never writes over another that it has not seen', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    await ledger.saveStep(mine, 'row', '{"id":1}', LATER);
    await ledger.saveStep(mine, 'charge', '"ch_1"', LATER);
    assert.deepEqual([...((await ledger.read(mine.pk))?.steps.keys() ?? [])].sort(), ['charge', 'row']);
  }),

  contractCase('a step leaves the record where the sweep looks', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const due = dueOf(mine.pk, LATER);
    await ledger.watch(mine, due);
    await ledger.openStep(mine, 'charge', LATER);
    await ledger.saveStep(mine, 'charge', '"ch_1"', LATER);
    const now = await ledger.read(mine.pk);
    assert.deepEqual(now?.status === 'in_progress' && now.due, due);
  }),

  contractCase('an acceptance needs an event, or nothing would ever complete it', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    await assert.rejects(ledger.accept(mine, { ...deferralAt(LATER), outbox: [] }), /without an event/);
    assert.deepEqual(await ledger.read(mine.pk), mine);
  }),

  contractCase('what could not be read back is not written', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const sound = outcomeAt(LATER);
    const headers = [['x-cost', 5]] as unknown as typeof sound.reply.headers;
    const { base64: _, ...plain } = sound.reply;
    const odd = [
      { ...sound, now: LATER + 0.5 },
      { ...sound, expiresAt: Number.NaN },
      { ...sound, ttl: sound.ttl + 0.1 },
      { ...sound, reply: { ...sound.reply, headers } },
      { ...sound, reply: plain as typeof sound.reply },
      { ...sound, reply: { ...sound.reply, headers: [['x-long', 'x'.repeat(300_000)]] as const } },
    ];
    for (const outcome of odd) {
      await assert.rejects(
        ledger.complete(mine, outcome),
        (error: Error) => error.name === 'InvalidArgument',
      );
    }
    const claim = claimOf({ leaseUntil: START + 0.5 });
    await assert.rejects(ledger.reserve(claim, execute), /This cannot be stored/);
    assert.equal(await ledger.read(claim.pk), undefined);
    const long = 'x'.repeat(limits.stepResultMaxBytes + 1);
    await assert.rejects(ledger.saveStep(mine, 'row', long, LATER), /at most 1048576 can be stored/);
    assert.deepEqual(await ledger.read(mine.pk), mine);
  }),

  contractCase('an intent is written once, and not over a finished step', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const open = movedRecord<InProgress>(await ledger.openStep(mine, 'charge', START));
    assert.deepEqual(await ledger.openStep(open, 'charge', LATER), { kind: 'fenced', record: open });
    const done = movedRecord<InProgress>(await ledger.saveStep(open, 'charge', '"ch_1"', LATER));
    assert.deepEqual(await ledger.openStep(done, 'charge', LATER), { kind: 'fenced', record: done });
    assert.deepEqual(await ledger.saveStep(done, 'charge', '"ch_2"', LATER), {
      kind: 'fenced',
      record: done,
    });
  }),

  contractCase('only the attempt that wrote an intent knows its result', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    await ledger.openStep(mine, 'charge', LATER);
    setNow(LAPSED);
    const taken = movedRecord<InProgress>(
      await ledger.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS }),
    );
    assert.deepEqual(await ledger.saveStep(taken, 'charge', '"ch_1"', LAPSED), {
      kind: 'fenced',
      record: taken,
    });
  }),

  contractCase('steps exist only in a steps record, under plain names', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'transactional' });
    assert.deepEqual(await ledger.openStep(mine, 'charge', LATER), { kind: 'fenced', record: mine });
    assert.deepEqual(await ledger.saveStep(mine, 'charge', '1', LATER), { kind: 'fenced', record: mine });
    for (const name of ['', '__proto__', 'a b', 'x'.repeat(65), '1st']) {
      await assert.rejects(ledger.openStep(mine, name, LATER), /cannot be named/, name);
      await assert.rejects(ledger.saveStep(mine, name, '1', LATER), /cannot be named/, name);
    }
  }),

  contractCase(
    'a lease is handed back only by a steps record, with its recovery points',
    async ({ ledger }) => {
      const mine = await inProgress(ledger, { effects: 'steps' });
      const begun = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '1', LATER));
      const back = movedRecord<InProgress>(await ledger.handBack(begun, LATER, dueOf(mine.pk, LATER)));
      assert.equal(back.leaseUntil, LATER);
      assert.equal('ttl' in back, false);
      assert.deepEqual(await ledger.read(mine.pk), back);
      const other = await inProgress(ledger, { effects: 'transactional' });
      assert.deepEqual(await ledger.handBack(other, LATER, dueOf(other.pk, LATER)), {
        kind: 'fenced',
        record: other,
      });
    },
  ),

  contractCase('a steps attempt is released only if no step ever began', async ({ ledger, setNow }) => {
    const begun = await inProgress(ledger, { effects: 'steps' });
    const now = await ledger.saveStep(begun, 'row', '1', LATER);
    assert.equal((await ledger.release(begun, failureAt(LATER))).kind, 'fenced');
    assert.deepEqual(await ledger.read(begun.pk), now.kind === 'moved' && now.record);

    const lost = await inProgress(ledger, { effects: 'steps' });
    setNow(LAPSED);
    const taken = movedRecord<InProgress>(
      await ledger.takeOver(lost, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS }),
    );
    assert.deepEqual(await ledger.release(taken, failureAt(LAPSED)), { kind: 'fenced', record: taken });

    setNow(START);
    const clean = await inProgress(ledger, { effects: 'steps' });
    assert.equal((await ledger.release(clean, failureAt(LATER))).kind, 'moved');
  }),

  contractCase('a transactional attempt is released even after a take-over', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    setNow(LAPSED);
    const taken = movedRecord<InProgress>(
      await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS }),
    );
    assert.equal((await ledger.release(taken, failureAt(LAPSED))).kind, 'moved');
  }),
];
