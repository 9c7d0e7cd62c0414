import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { limits } from '../../core/limits.ts';
import type { Completed, CompletedDelivered, DoneStep, InProgress, Reply } from '../../core/record.ts';
import type { AuditEntry, Ledger } from '../../ledger/ledger.ts';
import {
  attemptAt,
  claimOf,
  completedBy,
  contractCase,
  deferralAt,
  execute,
  failureAt,
  inProgress,
  movedRecord,
  noise,
  outcomeAt,
  replyOf,
  SECOND,
  START,
} from './subject.ts';

const LATER = START + SECOND;
const headers = [['location', '/payments/1']] as const;
const erasure = { now: LATER, headers };

/** One that is on the record, and one that is beside it. */
const replies: Readonly<Record<string, Reply>> = {
  'a short body': replyOf('{"name":"Ada"}'),
  'a body of several chunks': { ...replyOf(''), body: noise(2 * limits.chunkMaxBytes), base64: true },
};

async function answered(ledger: Ledger<unknown>, reply = replyOf('{"name":"Ada"}')) {
  const done = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), reply });
  return delivered(done);
}

function delivered(done: Completed): CompletedDelivered {
  if (done.outbox) throw new Error('expected that nothing is left to deliver');
  return done;
}

function signature(who: string): { audit: AuditEntry } {
  return { audit: { at: LATER, id: randomUUID(), who, why: 'request 17', move: 'erase' } };
}

export const erasures = [
  ...Object.entries(replies).map(([what, reply]) =>
    contractCase(`of ${what} that is erased nothing is left but that it was answered`, async ({ ledger }) => {
      const done = await answered(ledger, reply);
      const erased = movedRecord<CompletedDelivered>(await ledger.erase(done, erasure));
      assert.deepEqual(await ledger.read(done.pk), erased);
      const { status, fingerprint, operationId, attempt, owner, completedAt, expiresAt, ttl } = done;
      const kept = { status, fingerprint, operationId, attempt, owner, completedAt, expiresAt, ttl };
      assert.partialDeepStrictEqual(erased, kept);
      const left = { status: reply.status, headers, body: new Uint8Array(), base64: false };
      assert.deepEqual(await ledger.reply(done.pk, erased.response), left);
      if ('set' in done.response.body) {
        // Whoever read the record before must not get it either, or a part of it.
        await assert.rejects(ledger.reply(done.pk, done.response), /chunks are missing/);
      }
    }),
  ),

  contractCase('a key whose body is erased is held as before', async ({ ledger }) => {
    const done = await answered(ledger);
    const erased = movedRecord<CompletedDelivered>(await ledger.erase(done, erasure));
    const again = await ledger.reserve(claimOf({ pk: done.pk }), execute);
    assert.deepEqual(again, { kind: 'held', record: erased });
  }),

  contractCase('what steps returned is erased as well, and that they ran is not', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const long = JSON.stringify({ name: Buffer.from(noise(2_000)).toString('base64') });
    const first = movedRecord<InProgress>(await ledger.saveStep(mine, 'charge', '{"name":"Ada"}', START));
    const both = movedRecord<InProgress>(await ledger.saveStep(first, 'ship', long, START + 1));
    const done = delivered(await completedBy(ledger, both));
    const erased = movedRecord<CompletedDelivered>(await ledger.erase(done, erasure));
    assert.deepEqual(await ledger.read(done.pk), erased);
    for (const [name, step] of done.steps) {
      assert.deepEqual(erased.steps.get(name), { ...step, result: '' });
    }
    assert.equal(erased.steps.size, 2);
    await assert.rejects(
      ledger.stepResult(done.pk, done.steps.get('ship') as DoneStep),
      /chunks are missing/,
    );
  }),

  contractCase('what an attempt that lost has stored is erased with the rest', async ({ ledger, setNow }) => {
    const reply = { ...replyOf(''), body: noise(limits.inlineBodyMaxBytes + 1) };
    const slow = await inProgress(ledger);
    const lapsed = slow.leaseUntil + 2 * SECOND;
    setNow(lapsed);
    const by = { ...attemptAt(lapsed), skewMs: SECOND };
    const taken = movedRecord<InProgress>(await ledger.takeOver(slow, by));
    const done = delivered(await completedBy(ledger, taken, { ...outcomeAt(lapsed), reply }));
    assert.equal((await ledger.complete(slow, { ...outcomeAt(lapsed), reply })).kind, 'fenced');
    const { response } = done;
    if ('inline' in response.body) throw new Error('expected chunks');
    const lost = {
      ...response,
      body: { ...response.body, set: response.body.set.replace(by.owner, slow.owner) },
    };
    assert.deepEqual((await ledger.reply(done.pk, lost)).body, reply.body);
    movedRecord(await ledger.erase(done, { ...erasure, now: lapsed }));
    await assert.rejects(ledger.reply(done.pk, lost), /chunks are missing/);
  }),

  contractCase('erasing is signed once, by the first', async ({ ledger }) => {
    const done = await answered(ledger);
    const [ada, bob] = [signature('Ada'), signature('Bob')];
    const erased = movedRecord(await ledger.erase(done, erasure, ada));
    for (const from of [done, erased as CompletedDelivered]) {
      const again = await ledger.erase(from, { now: LATER + 1, headers: [] }, bob);
      assert.deepEqual(again, { kind: 'moved', record: erased });
    }
    assert.deepEqual(await ledger.read(done.pk), erased);
    assert.deepEqual(await ledger.audits(done.pk), [ada.audit]);
  }),

  contractCase('what is open, or another operation, is not erased', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const { outbox } = deferralAt(START);
    const undelivered = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), outbox });
    const done = await answered(ledger);
    for (const [now, changed] of [
      [mine, { status: 'completed' }],
      [undelivered, { outbox: undefined, ttl: 1 }],
      [done, { operationId: randomUUID() }],
      [done, { attempt: 2 }],
    ] as const) {
      const from = { ...done, ...now, ...changed } as CompletedDelivered;
      const refused = await ledger.erase(from, erasure, signature('Ada'));
      assert.deepEqual(refused, { kind: 'fenced', record: now });
      assert.deepEqual(await ledger.audits(now.pk), []);
    }
  }),

  contractCase('a failure that is erased may be released', async ({ ledger }) => {
    const declined = await answered(ledger, replyOf('"declined"', 402));
    const erased = movedRecord<CompletedDelivered>(await ledger.erase(declined, erasure));
    const reopened = await ledger.reopen(erased, failureAt(LATER));
    assert.equal(reopened.record?.status, 'failed_retryable');
    assert.deepEqual(await ledger.read(declined.pk), reopened.record);
  }),
];
