import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { CompletedDelivered, FailedRetryable, InProgress } from '../../core/record.ts';
import type { Attestation, AuditEntry } from '../../ledger/ledger.ts';
import {
  attemptAt,
  claimOf,
  completedBy,
  contractCase,
  dueOf,
  execute,
  failedBy,
  inProgress,
  LAPSED,
  movedRecord,
  outcomeAt,
  SECOND,
  SKEW_MS,
  START,
  unknownBy,
} from './subject.ts';

function answerAt(now: number, text = '"ch_1"'): Attestation {
  const { outbox: _, ...outcome } = outcomeAt(now, text);
  return { ...outcome, skewMs: SKEW_MS };
}

function signature(who: string): { audit: AuditEntry } {
  return { audit: { at: LAPSED, id: randomUUID(), who, why: 'the bank has it', move: 'attest' } };
}

export const attestations = [
  ...(['opaque', 'transactional', 'steps'] as const).map((effects) =>
    contractCase(
      `an abandoned ${effects} attempt that is attested has its answer, an end and one signature`,
      async ({ ledger }) => {
        const mine = await inProgress(ledger, { effects });
        const parked = { ...dueOf(mine.pk, START), parkedAt: START, error: 'no_request' };
        const from = movedRecord<InProgress>(await ledger.watch(mine, parked));
        const ada = signature('Ada');
        const done = movedRecord<CompletedDelivered>(await ledger.attest(from, answerAt(LAPSED), ada));
        assert.deepEqual(await ledger.read(mine.pk), done);
        const { expiresAt, ttl } = outcomeAt(LAPSED);
        assert.partialDeepStrictEqual(done, { status: 'completed', completedAt: LAPSED, expiresAt, ttl });
        assert.equal('due' in done, false);
        assert.deepEqual(done.moves.at(-1), { move: 'attest', at: LAPSED, attempt: 1 });
        const { body } = await ledger.reply(done.pk, done.response);
        assert.equal(Buffer.from(body).toString(), '"ch_1"');
        assert.deepEqual(await ledger.audits(mine.pk), [ada.audit]);
      },
    ),
  ),

  contractCase('a failure that is attested is replayed, and its key runs no more', async ({ ledger }) => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const done = movedRecord(await ledger.attest(failed, answerAt(START + SECOND)));
    assert.deepEqual(await ledger.read(failed.pk), done);
    assert.equal('errorCode' in done, false);
    const again = await ledger.reserve(claimOf({ pk: failed.pk }), execute);
    assert.deepEqual(again, { kind: 'held', record: done });
    assert.equal((await ledger.retake(failed, attemptAt(START + SECOND))).kind, 'held');
  }),

  contractCase('a live attempt is not attested, to the last millisecond of the skew', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const early = await ledger.attest(mine, answerAt(mine.leaseUntil + SKEW_MS), signature('Ada'));
    assert.deepEqual(early, { kind: 'fenced', record: mine });
    assert.deepEqual(await ledger.audits(mine.pk), []);
  }),

  contractCase('a failure that has expired is not attested: its key is free', async ({ ledger }) => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const late = await ledger.attest(failed, answerAt(failed.expiresAt + 1));
    assert.deepEqual(late, { kind: 'fenced', record: failed });
    assert.equal((await ledger.attest(failed, answerAt(failed.expiresAt))).kind, 'moved');
  }),

  contractCase('an attestation on an old read changes nothing', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    const failed = await failedBy(ledger, await inProgress(ledger));
    for (const from of [mine, failed]) {
      const strangers = [{ attempt: 2 }, { operationId: randomUUID() }, { pk: `pk-${randomUUID()}` }];
      for (const stranger of strangers) {
        const old = await ledger.attest({ ...from, ...stranger }, answerAt(LAPSED), signature('Ada'));
        assert.deepEqual(old, { kind: 'fenced', record: 'pk' in stranger ? undefined : from });
      }
    }
    const other = { ...mine, owner: randomUUID() };
    assert.deepEqual(await ledger.attest(other, answerAt(LAPSED)), { kind: 'fenced', record: mine });
    setNow(LAPSED);
    const { record } = await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    const muchLater = answerAt(LAPSED + 3_600_000);
    assert.deepEqual(await ledger.attest(mine, muchLater), { kind: 'fenced', record });
    const retaken = await ledger.retake(failed, attemptAt(LAPSED));
    assert.deepEqual(await ledger.attest(failed, muchLater), { kind: 'fenced', record: retaken.record });
    assert.deepEqual(await ledger.audits(failed.pk), []);
  }),

  contractCase('what has an answer, or is in doubt, is not attested', async ({ ledger }) => {
    const done = await completedBy(ledger, await inProgress(ledger));
    const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const running = await inProgress(ledger);
    for (const now of [done, unknown]) {
      const { owner, attempt, operationId, pk } = now;
      const from: InProgress = { ...running, owner, attempt, operationId, pk };
      assert.deepEqual(await ledger.attest(from, answerAt(LAPSED)), { kind: 'fenced', record: now });
      const { expiresAt, ttl } = outcomeAt(START);
      const failed = {
        ...from,
        status: 'failed_retryable',
        errorCode: '',
        completedAt: START,
        expiresAt,
        ttl,
      } as const;
      const refused = await ledger.attest(failed as FailedRetryable, answerAt(LAPSED));
      assert.deepEqual(refused, { kind: 'fenced', record: now });
    }
  }),

  contractCase('a late owner does not replace what was attested, and is told', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const done = movedRecord(await ledger.attest(mine, answerAt(LAPSED)));
    const late = await ledger.complete(mine, outcomeAt(LAPSED, '"its own"'));
    assert.deepEqual(late, { kind: 'fenced', record: done });
  }),

  contractCase('of two who attest the same, one has signed', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const [ada, bob] = [signature('Ada'), signature('Bob')];
    const record = movedRecord(await ledger.attest(mine, answerAt(LAPSED), ada));
    assert.deepEqual(await ledger.attest(mine, answerAt(LAPSED), bob), { kind: 'fenced', record });
    assert.deepEqual(await ledger.audits(mine.pk), [ada.audit]);
  }),
];
