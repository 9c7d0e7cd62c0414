import { DescribeTimeToLiveCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { scopePk } from 'oncekey';
import { afterAll, beforeAll, expect, inject, it, vi } from 'vitest';
import { createLedgerTable } from './create-table.ts';

const tableName = 'examples-ledger';
let client: DynamoDBClient;

// #region local
beforeAll(async () => {
  vi.stubEnv('AWS_ENDPOINT_URL_DYNAMODB', inject('dynamoDbEndpoint')); // Yours: http://localhost:8000
  vi.stubEnv('AWS_REGION', 'local');
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'local');
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'local');
  vi.stubEnv('LEDGER_TABLE', tableName);
  client = new DynamoDBClient();
  await createLedgerTable(client, tableName);
});
// #endregion local

afterAll(() => client.destroy());

it('the ledger of the examples reads a table that was created as the guide says', async () => {
  const { ledger } = await import('./ledger.ts');
  const until = Date.now() + 50_000; // A busy machine may need more than one try.
  expect(await ledger.read(scopePk({ tenant: 'a', operation: 'b', key: 'c' }), { until })).toBeUndefined();
  const { TimeToLiveDescription: ttl } = await client.send(
    new DescribeTimeToLiveCommand({ TableName: tableName }),
  );
  expect(ttl).toEqual({ AttributeName: 'ttl', TimeToLiveStatus: 'ENABLED' });
});
