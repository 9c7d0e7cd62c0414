import { expect, it } from 'vitest';
import { dynamoDbLedger } from '../../../lib/ledger/dynamodb.ts';
import type { Invoked } from '../../../lib/local/ports.ts';
import { redriver } from '../../../lib/reconcile/redrive.ts';
import { sentinel } from '../../../lib/reconcile/sentinel.ts';
import { attemptAt, claimOf, execute, movedRecord } from '../../../lib/testing/contract/subject.ts';
import { useTable } from '../../support/table.ts';
import { realStream, until } from './real-stream.ts';

const table = useTable();
const { start, objects } = realStream(table);
const context = { getRemainingTimeInMillis: () => 60_000 };

const { clock } = table;
const ledger = dynamoDbLedger({ ...table, clock });
const quiet = { clock, log: () => {}, metrics: () => {} };
const watch = sentinel({ ledger, ...quiet });

const reserve = async () => movedRecord(await ledger.reserve(claimOf({ ...attemptAt(clock()) }), execute));
const isWatched = async (pk: string) => {
  const record = await ledger.read(pk);
  return record?.status === 'in_progress' && record.due !== undefined;
};

const asFunction = async (_: string, event: string): Promise<Invoked> => ({
  kind: 'returned',
  payload: JSON.stringify(await watch(JSON.parse(event), context)),
});

it('a reservation that is left alone is watched by the sentinel that the stream wakes', async () => {
  const record = await reserve();
  const poller = await start(asFunction, { reportsItemFailures: true, bisects: true });
  await until(() => isWatched(record.pk));
  await until(() => poller.idle());
  await poller.close();
});

it('what a sentinel failed on for good is done again from the object that the mapping left', async () => {
  const record = await reserve();
  const down = async (): Promise<Invoked> => ({ kind: 'failed', error: 'Crash', payload: '{}' });
  const poller = await start(down, { retries: 0 });
  await until(() => objects.size > 0);
  await until(() => poller.idle());
  await poller.close();
  expect(await isWatched(record.pk)).toBe(false);

  const redrive = redriver({
    read: async ({ bucket, key }) => objects.get(`${bucket}/${key}`) ?? '',
    handlers: { sentinel: watch },
    ...quiet,
  });
  const announced = [...objects.keys()].map((place) => {
    const [name = '', ...key] = place.split('/');
    const detail = { bucket: { name }, object: { key: key.join('/') } };
    return { source: 'aws.s3', 'detail-type': 'Object Created', detail };
  });
  for (const event of announced) expect((await redrive(event, context)).objects).toBe(1);
  expect(await isWatched(record.pk)).toBe(true);
});
