import { DynamoDBDocumentClient, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { expect, it } from 'vitest';
import { limits } from '../../lib/core/limits.ts';
import { defaultPolicy, expiryAfter, schedule } from '../../lib/core/policy.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import {
  completedBy,
  deferralAt,
  inProgress,
  outcomeAt,
  replyOf,
  START,
} from '../../lib/testing/contract/subject.ts';
import { seededRandom } from '../support/random.ts';
import { useTable } from '../support/table.ts';

const table = useTable();
const documents = DynamoDBDocumentClient.from(table.client);
const ledger = dynamoDbLedger({ ...table, clock: () => START });

const random = seededRandom(7);
const body = Uint8Array.from({ length: 3 * limits.inlineBodyMaxBytes }, () => Math.floor(random() * 256));
const reply = { ...replyOf(''), body, base64: true };
const YEARS = 365 * 86_400;

async function chunkTtls(pk: string): Promise<number[]> {
  const { Items = [] } = await documents.send(
    new QueryCommand({
      TableName: table.tableName,
      KeyConditionExpression: 'pk = :pk AND begins_with(sk, :body)',
      ExpressionAttributeValues: { ':pk': pk, ':body': 'body#' },
    }),
  );
  return Items.map((item) => Number(item['ttl']));
}

it('chunks outlive the record that points at them', async () => {
  const outcome = { ...outcomeAt(START), reply };
  const done = await completedBy(ledger, await inProgress(ledger), outcome);
  expect(await chunkTtls(done.pk)).toEqual([outcome.ttl + schedule.chunkMarginSeconds]);
});

it('chunks of a record with an undelivered outbox outlive both its expiry and the open end', async () => {
  const { outbox } = deferralAt(START);
  const long = expiryAfter({ ...defaultPolicy, retentionSeconds: 3 * YEARS }, START);
  const kept = await completedBy(ledger, await inProgress(ledger), {
    ...outcomeAt(START),
    ...long,
    reply,
    outbox,
  });
  expect(await chunkTtls(kept.pk)).toEqual([long.ttl + schedule.chunkMarginSeconds]);

  const open = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), reply, outbox });
  const openEnd = START / 1_000 + schedule.openEndedSeconds;
  expect(await chunkTtls(open.pk)).toEqual([openEnd + schedule.chunkMarginSeconds]);
});

it('an acceptance does not inherit the shorter life of the same bytes in a completion that was refused', async () => {
  const mine = await inProgress(ledger);
  const impossible: TransactWrite = {
    Put: {
      TableName: table.tableName,
      Item: { pk: mine.pk, sk: 'row' },
      ConditionExpression: 'attribute_exists(pk)',
    },
  };
  const refused = await ledger.complete(mine, { ...outcomeAt(START), reply }, [impossible]);
  expect(refused.kind).toBe('refused');
  const accepted = await ledger.accept(mine, { ...deferralAt(START), reply });
  expect(accepted.kind).toBe('moved');
  const openEnd = START / 1_000 + schedule.openEndedSeconds;
  expect(await chunkTtls(mine.pk)).toContain(openEnd + schedule.chunkMarginSeconds);
});

it('whoever learns of its own reservation only after its lease does not own it', async () => {
  let now = START;
  const client = table.newClient();
  let sent = 0;
  client.middlewareStack.add(
    (next) => async (args) => {
      const answer = await next(args).catch((error: unknown) => ({ error }));
      sent += 1;
      if (sent === 1) throw Object.assign(new Error('lost'), { code: 'ECONNRESET' });
      now += 60_000; // The answer to the second try takes longer than the lease.
      if ('error' in answer) throw answer.error;
      return answer;
    },
    { step: 'initialize', priority: 'high', name: 'slow' },
  );
  const slow = dynamoDbLedger({ ...table, client, clock: () => now, sleep: async () => {} });
  const { record: _, kind } = await inProgress(slow).then(
    (record) => ({ kind: 'owned', record }),
    (error: Error) => ({ kind: error.message, record: undefined }),
  );
  expect(kind).toBe('a new key was held');
  expect(sent).toBe(2);
  client.destroy();
});
