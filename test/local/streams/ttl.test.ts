import { randomUUID } from 'node:crypto';
import {
  CreateTableCommand,
  DeleteTableCommand,
  PutItemCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import { localLedgerClient } from '../../support/local-client.ts';
import { realStream, until } from './real-stream.ts';

const tableName = `test-${randomUUID()}`;
const client = localLedgerClient(inject('dynamoDbEndpoint'));
const { start } = realStream({ tableName, client });

// Not the ledger's own: TTL of DynamoDB Local removes nothing from a table with an index.
beforeAll(async () => {
  await client.send(
    new CreateTableCommand({
      TableName: tableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
    }),
  );
  const TimeToLiveSpecification = { Enabled: true, AttributeName: 'ttl' };
  await client.send(new UpdateTimeToLiveCommand({ TableName: tableName, TimeToLiveSpecification }));
});
afterAll(async () => {
  await client.send(new DeleteTableCommand({ TableName: tableName }));
  client.destroy();
});

it('what TTL removes comes as from DynamoDB, so that a filter for it finds it', async () => {
  const Item = { pk: { S: 'old' }, ttl: { N: String(Math.floor(Date.now() / 1_000) - 60) } };
  await client.send(new PutItemCommand({ TableName: tableName, Item }));
  const events: string[] = [];
  const invoke = async (_: string, event: string): Promise<Invoked> => {
    events.push(event);
    return { kind: 'returned', payload: 'null' };
  };
  const userIdentity = { type: ['Service'], principalId: ['dynamodb.amazonaws.com'] };
  const poller = await start(invoke, { filters: [{ userIdentity }] });
  await until(() => events.length > 0);
  expect(events.map((event) => JSON.parse(event).Records)).toMatchObject([
    [
      {
        eventName: 'REMOVE',
        userIdentity: { type: 'Service', principalId: 'dynamodb.amazonaws.com' },
        dynamodb: { Keys: { pk: { S: 'old' } }, OldImage: Item },
      },
    ],
  ]);
  await poller.close();
});
