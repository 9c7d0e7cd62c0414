import assert from 'node:assert/strict';
import { DynamoDBDocumentClient, GetCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, describe, it } from 'vitest';
import type { InProgress } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { LapseTo, Taken } from '../../lib/ledger/ledger.ts';
import {
  attemptAt,
  claimOf,
  doubtAt,
  execute,
  failedBy,
  failureAt,
  inProgress,
  LAPSED,
  outcomeAt,
  SKEW_MS,
  START,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';

const KEYS = 200;
const RESERVERS = 50;
const TAKERS = 20;
const RACES = 20;
const CLIENTS = 5;
/** Keys that race at the same time: enough to keep DynamoDB busy, few enough for it to answer in time. */
const KEYS_AT_ONCE = 2;

describe('a race on DynamoDB', () => {
  const { tableName, client: reader, newClient } = useTable();
  const documents = DynamoDBDocumentClient.from(reader);
  const clients = Array.from({ length: CLIENTS }, newClient);
  afterAll(() => {
    for (const client of clients) client.destroy();
  });

  /** As many environments as clients. They stop at nothing: this is about who wins, not about who gives up. */
  const ledgersAt = (now: number) =>
    clients.map((client) => dynamoDbLedger({ tableName, client, clock: () => now, sleep: async () => {} }));
  const all = ledgersAt(START);
  const late = ledgersAt(LAPSED);
  const [ledger, sweep] = [all[0], late[1]];
  assert.ok(ledger && sweep);

  /** All at once, each through the next client. */
  const contend = <L, T>(
    ledgers: readonly L[],
    count: number,
    act: (ledger: L) => Promise<T>,
  ): Promise<T[]> =>
    Promise.all(
      Array.from({ length: count }, (_, index) => {
        const next = ledgers[index % ledgers.length];
        assert.ok(next);
        return act(next);
      }),
    );

  /** One owns it, all others are shown the very record that the one owns. */
  const assertOneWinner = (answers: readonly Taken[]): InProgress => {
    const [winner, ...more] = answers.filter(({ kind }) => kind === 'owned');
    assert.ok(winner?.record?.status === 'in_progress', 'somebody wins');
    assert.equal(more.length, 0, 'nobody else does');
    for (const { record } of answers) assert.deepEqual(record, winner.record);
    return winner.record;
  };

  it(`has one winner among ${RESERVERS} who reserve a key, for each of ${KEYS} keys`, async () => {
    await atOnce(KEYS_AT_ONCE, KEYS, async () => {
      const { pk } = claimOf();
      const answers = await contend(all, RESERVERS, (one) => one.reserve(claimOf({ pk }), execute));
      assert.deepEqual(await ledger.read(pk), assertOneWinner(answers));
    });
  });

  it(`has one winner among ${TAKERS} who retake a failed record`, async () => {
    await atOnce(KEYS_AT_ONCE, RACES, async () => {
      const failed = await failedBy(ledger, await inProgress(ledger));
      const answers = await contend(all, TAKERS, (one) => one.retake(failed, attemptAt(START)));
      const winner = assertOneWinner(answers);
      assert.deepEqual([winner.operationId, winner.attempt], [failed.operationId, 2]);
      assert.deepEqual(await ledger.read(failed.pk), winner);
    });
  });

  it(`has one winner among ${TAKERS} who take over an abandoned record`, async () => {
    await atOnce(KEYS_AT_ONCE, RACES, async () => {
      const abandoned = await inProgress(ledger);
      const by = () => ({ ...attemptAt(LAPSED), skewMs: SKEW_MS });
      const winner = assertOneWinner(await contend(late, TAKERS, (one) => one.takeOver(abandoned, by())));
      assert.deepEqual([winner.operationId, winner.attempt], [abandoned.operationId, 2]);
      assert.deepEqual(await ledger.read(abandoned.pk), winner);
    });
  });

  it(`has one winner among ${TAKERS} who reuse an expired key`, async () => {
    const now = outcomeAt(START).expiresAt + SKEW_MS + 1;
    const afterwards = ledgersAt(now);
    await atOnce(KEYS_AT_ONCE, RACES, async () => {
      const mine = await inProgress(ledger);
      await ledger.complete(mine, outcomeAt(START));
      const claim = () => claimOf({ pk: mine.pk, now, leaseUntil: now + 1_000 });
      const answers = await contend(afterwards, TAKERS, (one) => one.reserve(claim(), execute));
      const winner = assertOneWinner(answers);
      assert.notEqual(winner.operationId, mine.operationId);
      assert.deepEqual(await ledger.read(mine.pk), winner);
    });
  });

  const lapses: readonly (readonly [InProgress['effects'], (pk: string) => LapseTo])[] = [
    ['opaque', (pk) => ({ to: 'unknown', doubt: { kind: 'opaque' }, ...doubtAt(pk, LAPSED) })],
    ['transactional', () => ({ to: 'failed_retryable', ...failureAt(LAPSED) })],
  ];
  for (const [effects, target] of lapses) {
    it(`between completing and lapsing (${effects}) has one winner, seen by the other`, async () => {
      await atOnce(KEYS_AT_ONCE, RACES, async (index) => {
        const mine = await inProgress(ledger, { effects });
        const [complete, lapse] = await eitherFirst(
          index,
          () => ledger.complete(mine, outcomeAt(LAPSED)),
          () => sweep.lapse(mine, { ...target(mine.pk), skewMs: SKEW_MS }),
        );
        assert.deepEqual([complete.kind, lapse.kind].sort(), ['fenced', 'moved']);
        assert.ok(complete.kind !== 'refused');
        assert.deepEqual(complete.record, lapse.record);
        assert.equal(complete.record?.status, complete.kind === 'moved' ? 'completed' : target('').to);
        assert.deepEqual(await ledger.read(mine.pk), complete.record);
      });
    });
  }

  it('between completing and taking over has one winner, seen by the other', async () => {
    await atOnce(KEYS_AT_ONCE, RACES, async (index) => {
      const mine = await inProgress(ledger);
      const by = { ...attemptAt(LAPSED), skewMs: SKEW_MS };
      const [complete, taken] = await eitherFirst(
        index,
        () => ledger.complete(mine, outcomeAt(LAPSED)),
        () => sweep.takeOver(mine, by),
      );
      const outcome = `${complete.kind} ${taken.kind}`;
      assert.ok(['moved held', 'fenced owned'].includes(outcome), outcome);
      assert.ok(complete.kind !== 'refused');
      assert.deepEqual(complete.record, taken.record);
      assert.equal(complete.record?.owner, complete.kind === 'moved' ? mine.owner : by.owner);
      assert.deepEqual(await ledger.read(mine.pk), complete.record);
    });
  });

  it('between completing with writes and taking over leaves no half of a commit', async () => {
    await atOnce(KEYS_AT_ONCE, RACES, async (index) => {
      const mine = await inProgress(ledger);
      const domainKey = { pk: `domain-${mine.pk}`, sk: 'record' };
      const writes = [{ Put: { TableName: tableName, Item: domainKey } }];
      const [complete, taken] = await eitherFirst(
        index,
        () => ledger.complete(mine, outcomeAt(LAPSED), writes),
        () => sweep.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS }),
      );
      const outcome = `${complete.kind} ${taken.kind}`;
      assert.ok(['moved held', 'fenced owned'].includes(outcome), outcome);
      const { Item } = await documents.send(new GetCommand({ TableName: tableName, Key: domainKey }));
      assert.equal(Item !== undefined, complete.kind === 'moved');
    });
  });
});

/** Both at the same time; who leaves first alternates, so that both orders come up. */
async function eitherFirst<A, B>(
  index: number,
  a: () => Promise<A>,
  b: () => Promise<B>,
): Promise<readonly [A, B]> {
  if (index % 2 === 0) return Promise.all([a(), b()]);
  const [second, first] = await Promise.all([b(), a()]);
  return [first, second];
}

async function atOnce(workers: number, count: number, work: (index: number) => Promise<void>): Promise<void> {
  const indexes = Array.from({ length: count }).keys();
  await Promise.all(
    Array.from({ length: workers }, async () => {
      for (const index of indexes) await work(index);
    }),
  );
}
