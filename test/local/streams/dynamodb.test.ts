import { PutItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import { memoryCheckpoints } from '../../../lib/local/streams/checkpoints.ts';
import { useTable } from '../../support/table.ts';
import { realStream, until } from './real-stream.ts';

const table = useTable();
const { start, reports } = realStream(table);

interface Seen {
  readonly eventName: string;
  readonly eventSourceARN: string;
  readonly dynamodb: {
    readonly SequenceNumber: string;
    readonly Keys: { readonly pk: { readonly S: string } };
    readonly NewImage: { readonly n: { readonly N: string } };
  };
}

const put = (pk: string, n: number, more: object = {}) =>
  table.client.send(
    new PutItemCommand({
      TableName: table.tableName,
      Item: { pk: { S: pk }, sk: { S: 'record' }, n: { N: String(n) }, ...more },
    }),
  );

/** A function that keeps what it is sent of this test's own items. */
function recorder(prefix: string, answer: (batch: readonly Seen[]) => Invoked = () => OK) {
  const seen: Seen[] = [];
  const invoke = async (_: string, event: string): Promise<Invoked> => {
    const { Records } = JSON.parse(event) as { Records: Seen[] };
    const own = Records.filter(({ dynamodb }) => dynamodb.Keys.pk.S.startsWith(prefix));
    const invoked = answer(own);
    if (invoked.kind === 'returned') seen.push(...own);
    return invoked;
  };
  const of = (pk: string) =>
    seen
      .filter(({ dynamodb }) => dynamodb.Keys.pk.S === pk)
      .map(({ dynamodb }) => Number(dynamodb.NewImage.n.N));
  return { seen, invoke, of };
}

const OK: Invoked = { kind: 'returned', payload: '{"batchItemFailures":[]}' };
const counted = (to: number) => Array.from({ length: to }, (_, n) => n);

describe('the stream of DynamoDB Local', () => {
  it('shows what is empty as DynamoDB would', async () => {
    const { seen, invoke } = recorder('empty-');
    const poller = await start(invoke);
    const empty = {
      map: { M: {} },
      list: { L: [{ M: {} }, { L: [] }] },
      text: { S: '' },
      none: { NULL: true },
    };
    await put('empty-a', 1, { ...empty, bytes: { B: new Uint8Array() } });
    await until(() => seen.length > 0);
    expect(seen[0]?.dynamodb.NewImage).toMatchObject({ ...empty, bytes: { B: '' } });
    await poller.close();
  });

  it('is handed on whole, each item in its order, in as many lanes as there are', async () => {
    const { seen, invoke, of } = recorder('order-');
    const poller = await start(invoke, { parallelBatches: 4, batchSize: 3 });
    const items = ['order-a', 'order-b', 'order-c'];
    await Promise.all(
      items.map(async (pk) => {
        for (const n of counted(20)) await put(pk, n);
      }),
    );
    await until(() => seen.length >= 60);
    await until(() => poller.idle());
    for (const pk of items) expect(of(pk)).toEqual(counted(20));
    await poller.close();
  });

  it('shows bytes and numbers as Lambda does', async () => {
    const { seen, invoke } = recorder('shape-');
    const poller = await start(invoke);
    const n = '12345678901234567890.5';
    await put('shape-a', 0, { n: { N: n }, body: { B: new Uint8Array([1, 2, 255]) } });
    await until(() => seen.length > 0);
    expect(seen[0]).toMatchObject({
      eventName: 'INSERT',
      eventSource: 'aws:dynamodb',
      awsRegion: 'us-east-1',
      eventSourceARN: expect.stringContaining(
        `arn:aws:dynamodb:us-east-1:000000000000:table/${table.tableName}/stream/`,
      ),
      dynamodb: {
        ApproximateCreationDateTime: expect.any(Number),
        NewImage: { n: { N: n }, body: { B: 'AQL/' } },
        StreamViewType: 'NEW_AND_OLD_IMAGES',
      },
    });
    await poller.close();
  });

  it('is filtered by what its images have', async () => {
    const { seen, invoke } = recorder('filter-');
    const NewImage = { pk: { S: [{ prefix: 'filter-' }] }, n: { N: ['7'] }, ttl: { N: [{ exists: false }] } };
    const poller = await start(invoke, { filters: [{ dynamodb: { NewImage } }] });
    await put('filter-a', 1);
    await put('filter-b', 7, { ttl: { N: '4000000000' } });
    await put('filter-c', 7);
    await until(() => seen.length > 0);
    expect(seen.map(({ dynamodb }) => dynamodb.Keys.pk.S)).toEqual(['filter-c']);
    await poller.close();
  });

  it('is tried again where a function fails, and again in the order of the item', async () => {
    let tries = 0;
    const failing = (batch: readonly Seen[]): Invoked => {
      if (batch.length === 0) return OK;
      tries += 1;
      if (tries > 3) return OK;
      if (tries === 1) return { kind: 'failed', error: 'Timeout', payload: '{}' };
      const itemIdentifier = batch.at(-1)?.dynamodb.SequenceNumber;
      return { kind: 'returned', payload: JSON.stringify({ batchItemFailures: [{ itemIdentifier }] }) };
    };
    const { invoke, of } = recorder('retry-', failing);
    for (const n of counted(5)) await put('retry-a', n);
    const pauses = { firstRetryMs: 1, longestRetryMs: 5 };
    const poller = await start(invoke, { reportsItemFailures: true, bisects: true }, { pauses });
    await until(() => of('retry-a').includes(4) && poller.idle());
    const firstSeen = [...new Set(of('retry-a'))];
    expect(firstSeen).toEqual(counted(5));
    expect(tries).toBeGreaterThan(3);
    await poller.close();
  });

  it('is read on from its checkpoint, or only for what is new', async () => {
    const checkpoints = memoryCheckpoints();
    const { invoke, of } = recorder('restart-');
    for (const startAt of ['TRIM_HORIZON', 'LATEST'] as const) {
      const poller = await start(invoke, { startAt }, { checkpoints });
      await put('restart-a', startAt === 'LATEST' ? 2 : 1);
      await until(() => of('restart-a').length === (startAt === 'LATEST' ? 2 : 1) && poller.idle());
      await poller.close();
    }
    const latest = recorder('restart-');
    const poller = await start(latest.invoke, { startAt: 'LATEST' });
    await until(() => poller.idle());
    await put('restart-a', 3);
    await until(() => latest.seen.length > 0);
    expect(of('restart-a')).toEqual([1, 2]);
    expect(latest.of('restart-a')).toEqual([3]);
    await poller.close();
  });

  it('gave nobody a reason to be told of trouble', () => {
    expect(reports.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
