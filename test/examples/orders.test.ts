import { CreateTableCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, PutCommand, ScanCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { post, type Result } from '../middleware/stage.ts';
import { createLedgerTable } from './create-table.ts';
import { client, tableName } from './local-ledger.ts';
import { handler } from './orders.ts';

vi.mock('./ledger.ts', () => import('./local-ledger.ts'));

const stock = `stock-${tableName}`;
const orders = `orders-${tableName}`;
const documents = DynamoDBDocumentClient.from(client);

beforeAll(async () => {
  vi.stubEnv('STOCK_TABLE', stock);
  vi.stubEnv('ORDERS_TABLE', orders);
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  await createLedgerTable(client, tableName);
  await createTable(stock, 'sku');
  await createTable(orders, 'id');
  await documents.send(new PutCommand({ TableName: stock, Item: { sku: 'tea', inStock: 3 } }));
});

afterAll(() => {
  vi.restoreAllMocks();
  client.destroy();
});

async function createTable(TableName: string, key: string): Promise<void> {
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: key, AttributeType: 'S' }],
      KeySchema: [{ AttributeName: key, KeyType: 'HASH' }],
    }),
  );
}

async function order(key: string, body: object): Promise<Result> {
  const context = { getRemainingTimeInMillis: () => 60_000 } as never;
  return handler(post({ key, path: '/orders', body }) as never, context);
}

async function left(): Promise<unknown> {
  const { Item } = await documents.send(new GetCommand({ TableName: stock, Key: { sku: 'tea' } }));
  return Item?.['inStock'];
}

describe('the order example', () => {
  it('takes from stock once, however often it is sent', async () => {
    const first = await order('order-1', { sku: 'tea', quantity: 2 });
    const second = await order('order-1', { quantity: 2, sku: 'tea' });
    expect(first.statusCode).toBe(201);
    expect(second.body).toBe(first.body);
    expect(second.headers).toMatchObject({
      'Idempotent-Replayed': 'true',
      location: first.headers['location'],
    });
    expect(await left()).toBe(1);
    const { Items } = await documents.send(new ScanCommand({ TableName: orders }));
    expect(Items).toEqual([{ id: JSON.parse(first.body).id, sku: 'tea', quantity: 2 }]);
  });

  it('says that it is sold out, writes nothing, and runs again under the same key once there is more', async () => {
    expect(await order('order-2', { sku: 'tea', quantity: 2 })).toMatchObject({
      statusCode: 409,
      body: '{"error":"sold out"}',
    });
    expect(await left()).toBe(1);
    await documents.send(new PutCommand({ TableName: stock, Item: { sku: 'tea', inStock: 9 } }));
    expect((await order('order-2', { sku: 'tea', quantity: 2 })).statusCode).toBe(201);
    expect(await left()).toBe(7);
  });

  it('lists every fault of a bad request, whose key is not used up', async () => {
    const bad = await order('order-3', { sku: '', quantity: 0.5 });
    expect(bad.statusCode).toBe(400);
    const { code, errors } = JSON.parse(bad.body);
    expect(code).toBe('validation_failed');
    expect(errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual(['#/sku', '#/quantity']);
    expect((await order('order-3', { sku: 'tea', quantity: 1 })).statusCode).toBe(201);
  });
});
