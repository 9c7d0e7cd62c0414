import { crc32 } from 'node:zlib';
import {
  DeleteItemCommand,
  DescribeTableCommand,
  type DynamoDBClient,
  GetItemCommand,
  ListTablesCommand,
  PutItemCommand,
  QueryCommand,
  type TransactWriteItem,
  TransactWriteItemsCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import fc from 'fast-check';
import { describe, expect, inject, it } from 'vitest';
import { InvalidFault } from '../../../lib/local/faults.ts';
import { STORE_FAULTS } from '../../../lib/local/store/store-faults.ts';
import { seededRandom } from '../../support/random.ts';
import { useTable } from '../../support/table.ts';
import { until } from './processes.ts';
import { useProxies } from './proxied.ts';

/* What the SDK makes of the proxy's faults, and DynamoDB of the requests that met them. */

const { tableName: TableName, client: direct } = useTable();
const { proxyTo, clientOf } = useProxies();

let named = 0;
const newKey = () => {
  named += 1;
  return { pk: { S: `item-${named}` }, sk: { S: 'record' } };
};
type Key = ReturnType<typeof newKey>;

const put = (client: DynamoDBClient, key: Key, abortSignal = new AbortController().signal) =>
  client.send(new PutItemCommand({ TableName, Item: key }), { abortSignal });
const isThere = async (Key: Key) =>
  (await direct.send(new GetItemCommand({ TableName, Key, ConsistentRead: true }))).Item !== undefined;

async function faulty(random?: () => number) {
  const proxy = await proxyTo(inject('dynamoDbEndpoint'), random);
  return { ...proxy, client: clientOf(proxy.url) };
}

describe('without a fault', () => {
  const digits = fc.stringMatching(/^[1-9][0-9]{0,37}$/);
  const leaf = fc.oneof(
    fc.string({ unit: 'binary', minLength: 1 }).map((S) => ({ S })),
    digits.map((N) => ({ N })),
    fc
      .tuple(digits, fc.integer({ min: -80, max: 80 }))
      .map(([one, exponent]) => ({ N: `-${one}E${exponent}` })),
    fc.uint8Array({ minLength: 1, maxLength: 2_000 }).map((B) => ({ B })),
    fc.boolean().map((BOOL) => ({ BOOL })),
    fc.constant({ NULL: true as const }),
  );
  const attribute = fc.oneof(
    leaf,
    fc.array(leaf, { maxLength: 4 }).map((L) => ({ L })),
    fc
      .dictionary(fc.string({ minLength: 1, maxLength: 20 }), leaf, { maxKeys: 4, noNullPrototype: true })
      .map((M) => ({ M })),
  );

  it('items of any bytes, any letters and any numbers are the same through the proxy as without it', async () => {
    const { client } = await faulty();
    await fc.assert(
      fc.asyncProperty(attribute, async (value) => {
        const Key = newKey();
        await client.send(new PutItemCommand({ TableName, Item: { ...Key, value } }));
        const read = new GetItemCommand({ TableName, Key, ConsistentRead: true });
        const [through, without] = await Promise.all([client.send(read), direct.send(read)]);
        expect(through.Item).toEqual(without.Item);
        await direct.send(new PutItemCommand({ TableName, Item: { ...Key, value } }));
        expect((await direct.send(read)).Item).toEqual(through.Item);
      }),
      { numRuns: 100 },
    );
  });
});

describe('a fault', () => {
  it('drop-request: the write does not happen, and its client hears nothing until the connection is reset', async () => {
    const { client, faults, timers, seen } = await faulty();
    faults.set({ mode: 'drop-request' });
    const key = newKey();
    const sent = expect(put(client, key)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await until(() => timers.waiting.length === 1);
    expect(timers.waiting).toEqual([5_000]);
    timers.fire();
    await sent;
    expect(await isThere(key)).toBe(false);
    expect(seen()).toMatchObject({ requests: 1, faulted: { 'drop-request': 1 } });
  });

  it('drop-response: the write happens, and its client hears nothing until the connection is reset', async () => {
    const { client, faults, timers } = await faulty();
    faults.set({ mode: 'drop-response', latencyMs: 60_000 });
    const key = newKey();
    const sent = expect(put(client, key)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await until(() => timers.waiting.length === 1);
    expect(timers.waiting).toEqual([60_000]);
    expect(await isThere(key)).toBe(true);
    timers.fire();
    await sent;
  });

  it.each(['drop-request', 'drop-response'])('%s: a client that gives up is not waited for', async (mode) => {
    const { client, faults, timers } = await faulty();
    faults.set({ mode });
    const giveUp = new AbortController();
    const sent = expect(put(client, newKey(), giveUp.signal)).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => timers.waiting.length === 1);
    giveUp.abort();
    await sent;
    await until(() => timers.waiting.length === 0);
  });

  it('delay: the write happens later', async () => {
    const { client, faults, timers } = await faulty();
    faults.set({ mode: 'delay' });
    const key = newKey();
    const sent = put(client, key);
    await until(() => timers.waiting.length === 1);
    expect(timers.waiting).toEqual([200]);
    expect(await isThere(key)).toBe(false);
    timers.fire();
    await sent;
    expect(await isThere(key)).toBe(true);
  });

  it('delay: a write whose client has given up happens all the same', async () => {
    const { client, faults, timers } = await faulty();
    faults.set({ mode: 'delay' });
    const [key, giveUp] = [newKey(), new AbortController()];
    const sent = expect(put(client, key, giveUp.signal)).rejects.toMatchObject({ name: 'AbortError' });
    await until(() => timers.waiting.length === 1);
    giveUp.abort();
    await sent;
    faults.set({ mode: 'none' });
    await put(client, newKey()); // By now the proxy knows that the client has gone.
    timers.fire();
    await until(() => isThere(key));
  });

  it.each([
    ['throttle', 'ProvisionedThroughputExceededException', 400, 'client'],
    ['error', 'InternalServerError', 500, 'server'],
  ] as const)('%s: DynamoDB answers %s, and has done nothing', async (mode, name, httpStatusCode, $fault) => {
    const { client, faults, timers } = await faulty();
    faults.set({ mode });
    const key = newKey();
    await expect(put(client, key)).rejects.toMatchObject({ name, $fault, $metadata: { httpStatusCode } });
    await expect(client.send(new GetItemCommand({ TableName, Key: key }))).rejects.toMatchObject({ name });
    expect(timers.waiting).toEqual([]);
    expect(await isThere(key)).toBe(false);
  });

  it('throttle: an answer says what its bytes sum up to, and may be late', async () => {
    const { url, faults, timers } = await faulty();
    faults.set({ mode: 'throttle', latencyMs: 700 });
    const headers = { 'x-amz-target': 'DynamoDB_20120810.PutItem' };
    const asked = fetch(url, { method: 'POST', headers, body: '{}' });
    await until(() => timers.waiting.length === 1);
    expect(timers.waiting).toEqual([700]);
    timers.fire();
    const answer = await asked;
    const bytes = Buffer.from(await answer.arrayBuffer());
    expect([answer.status, answer.headers.get('x-amz-crc32')]).toEqual([400, String(crc32(bytes))]);
  });

  it('throttle: the SDK tries again by itself, as it does with the real one', async () => {
    let asked = 0;
    const { url, faults, seen } = await faulty(() => {
      asked += 1;
      return asked <= 2 ? 0 : 1;
    });
    faults.set({ mode: 'throttle', probability: 0.5 });
    const key = newKey();
    const { $metadata } = await put(clientOf(url, 3), key);
    expect($metadata.attempts).toBe(3);
    expect(await isThere(key)).toBe(true);
    expect(seen()).toEqual({
      requests: 3,
      faulted: { throttle: 2 },
      operations: { PutItem: { requests: 3, faulted: { throttle: 2 } } },
    });
  });

  it('down: connections are reset at once, until it is over', async () => {
    const { client, faults } = await faulty();
    const key = newKey();
    await put(client, newKey());
    faults.set({ mode: 'down' });
    await expect(put(client, key)).rejects.toMatchObject({ code: 'ECONNRESET' });
    await expect(put(client, key)).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(await isThere(key)).toBe(false);
    faults.set({ mode: 'none' });
    await put(client, key);
    expect(await isThere(key)).toBe(true);
  });
});

describe('a conflict', () => {
  it.each([1, 2, 25, 100])('cancels a transaction of %s items for its first', async (items) => {
    const { client, faults } = await faulty();
    faults.set({ mode: 'conflict' });
    const keys = Array.from({ length: items }, newKey);
    const TransactItems = keys.map((Item): TransactWriteItem => ({ Put: { TableName, Item } }));
    await expect(client.send(new TransactWriteItemsCommand({ TransactItems }))).rejects.toMatchObject({
      name: 'TransactionCanceledException',
      CancellationReasons: keys.map((_, index) => ({ Code: index === 0 ? 'TransactionConflict' : 'None' })),
    });
    expect((await Promise.all(keys.map(isThere))).some(Boolean)).toBe(false);
  });

  it('is what a write of one item is refused for', async () => {
    const { client, faults } = await faulty();
    faults.set({ mode: 'conflict' });
    const Key = newKey();
    const conflict = { name: 'TransactionConflictException', $metadata: { httpStatusCode: 400 } };
    await expect(put(client, Key)).rejects.toMatchObject(conflict);
    await expect(client.send(new DeleteItemCommand({ TableName, Key }))).rejects.toMatchObject(conflict);
    await expect(client.send(new UpdateItemCommand({ TableName, Key }))).rejects.toMatchObject(conflict);
    expect(await isThere(Key)).toBe(false);
  });

  it('is nothing to a read, which is not counted as faulted', async () => {
    const { client, faults, seen } = await faulty();
    faults.set({ mode: 'conflict' });
    const { pk, sk } = newKey();
    await client.send(new GetItemCommand({ TableName, Key: { pk, sk } }));
    const query = { KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: { ':pk': pk } };
    await client.send(new QueryCommand({ TableName, ...query }));
    expect(seen()).toMatchObject({ requests: 2, faulted: {} });
  });

  it('is not made of what is no transaction: DynamoDB itself refuses that', async () => {
    const { client, faults } = await faulty();
    faults.set({ mode: 'conflict' });
    const none = client.send(new TransactWriteItemsCommand({ TransactItems: [] }));
    await expect(none).rejects.toMatchObject({ name: 'ValidationException' });
  });
});

describe('faults', () => {
  it.each(STORE_FAULTS)('%s: what makes and describes tables has none', async (mode) => {
    const { client, faults, seen } = await faulty();
    faults.set({ mode });
    const { Table } = await client.send(new DescribeTableCommand({ TableName }));
    expect(Table?.TableStatus).toBe('ACTIVE');
    await client.send(new ListTablesCommand({ Limit: 1 }));
    expect(seen()).toEqual({ requests: 0, faulted: {}, operations: {} });
  });

  it('meet as many requests as the dice say, the same with the same seed', async () => {
    const run = async (seed: number) => {
      const { client, faults, seen } = await faulty(seededRandom(seed));
      faults.set({ mode: 'error', probability: 0.3 });
      const outcomes: boolean[] = [];
      for (let sent = 0; sent < 60; sent += 1) {
        outcomes.push(
          await put(client, newKey()).then(
            () => true,
            () => false,
          ),
        );
      }
      expect(seen().faulted).toEqual({ error: outcomes.filter((passed) => !passed).length });
      return outcomes;
    };
    const [one, same, other] = [await run(7), await run(7), await run(8)];
    expect(one).toEqual(same);
    expect(one).not.toEqual(other);
    expect(new Set(one)).toEqual(new Set([true, false]));
  });

  it('never meet anything at a probability of 0, and always at 1', async () => {
    const { client, faults, seen } = await faulty(() => 1 - Number.EPSILON);
    faults.set({ mode: 'error', probability: 0 });
    await put(client, newKey());
    faults.set({ mode: 'error', probability: 1 });
    await expect(put(client, newKey())).rejects.toMatchObject({ name: 'InternalServerError' });
    expect(seen()).toMatchObject({ requests: 2, faulted: { error: 1 } });
  });

  it('that are none are refused, and those from before stay', async () => {
    const { faults, reports } = await faulty();
    faults.set({ mode: 'delay', probability: 0.5 });
    expect(() => faults.set({ mode: 'dwon' })).toThrow(InvalidFault);
    expect(() => faults.set({ mode: 'dwon' })).toThrow(
      `mode is "dwon"; expected one of ${STORE_FAULTS.join(', ')}.`,
    );
    expect(faults.get()).toEqual({ mode: 'delay', probability: 0.5 });
    expect(reports.map(({ message }) => message)).toEqual([
      'Faults of the store: {"mode":"delay","probability":0.5}.',
    ]);
  });

  it('are told of, and what each request met', async () => {
    const { client, faults, reports } = await faulty();
    faults.set({ mode: 'throttle' });
    await put(client, newKey()).catch(() => {});
    expect(reports.at(-1)).toEqual({
      at: Date.UTC(2030, 0, 15, 12),
      source: 'store',
      level: 'debug',
      kind: 'platform',
      message: 'PutItem meets throttle.',
      fields: { operation: 'PutItem', mode: 'throttle' },
    });
  });
});
