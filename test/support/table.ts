import { randomUUID } from 'node:crypto';
import { CreateTableCommand, DeleteTableCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, inject } from 'vitest';
import { createTableInput } from '../../lib/ledger/schema.ts';
import { localLedgerClient } from './local-client.ts';

export interface TestTable {
  readonly tableName: string;
  readonly client: DynamoDBClient;
  /**
   * Stands still, so that a ledger opened with it is never out of time: DynamoDB Local may be silent for seconds while
   * another file's race has both cores. A test about running out of time brings its own clock.
   */
  readonly clock: () => number;
  /** Another client of the same table, for faults that must not reach the first. */
  newClient(): DynamoDBClient;
}

/** A table of the test file's own, created before its tests and gone after them. */
export function useTable({ withStream = true } = {}): TestTable {
  const tableName = `test-${randomUUID()}`;
  const newClient = () => localLedgerClient(inject('dynamoDbEndpoint'));
  const client = newClient();
  beforeAll(async () => {
    const { StreamSpecification, ...input } = createTableInput(tableName);
    await client.send(new CreateTableCommand({ ...input, ...(withStream && { StreamSpecification }) }));
  });
  afterAll(async () => {
    await client.send(new DeleteTableCommand({ TableName: tableName }));
    client.destroy();
  });
  const openedAt = Date.now();
  return { tableName, client, clock: () => openedAt, newClient };
}
