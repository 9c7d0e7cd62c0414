import { randomBytes } from 'node:crypto';
import { DynamoDBDocumentClient, ScanCommand } from '@aws-sdk/lib-dynamodb';
import { dynamoDbLedger, idempotent, jwtClaim } from 'oncekey';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { post, type Result } from '../middleware/stage.ts';
import { createLedgerTable } from './create-table.ts';
import { client, tableName } from './local-ledger.ts';
import { aesSeals } from './seals.ts';

beforeAll(() => createLedgerTable(client, tableName));
afterAll(() => client.destroy());

function cards(key: Uint8Array) {
  // #region seals
  const ledger = dynamoDbLedger({ tableName, client, seals: aesSeals(key) });
  // #endregion seals
  const handler = idempotent(async () => ({ statusCode: 201, body: '{"card":"4242 4242 4242 4242"}' }), {
    ledger,
    tenant: jwtClaim('sub'),
    effects: 'transactional',
    log: () => {},
    metrics: () => {},
  });
  return async (): Promise<Result> => {
    const answer: unknown = await handler(post({ key: 'card-1' }), {
      getRemainingTimeInMillis: () => 60_000,
    } as never);
    return answer as Result;
  };
}

it('a sealed body is replayed, is not in the table, and does not open with another key', async () => {
  const issue = cards(randomBytes(32));
  const first = await issue();
  const replay = await issue();
  expect(replay.body).toBe(first.body);
  expect(replay.headers['Idempotent-Replayed']).toBe('true');

  const { Items = [] } = await DynamoDBDocumentClient.from(client).send(
    new ScanCommand({ TableName: tableName }),
  );
  expect(Items).toHaveLength(1);
  const bytes = Items.flatMap(({ response }) => Object.values(response)).filter(
    (value) => value instanceof Uint8Array,
  );
  expect(Buffer.concat(bytes).toString('latin1')).not.toContain('4242');

  expect((await cards(randomBytes(32))()).statusCode).toBe(503);
});
