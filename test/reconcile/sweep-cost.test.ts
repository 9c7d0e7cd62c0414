import { BatchWriteItemCommand, type WriteRequest } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { expect, it } from 'vitest';
import { eachOf } from '../../lib/core/each-of.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { encode } from '../../lib/ledger/item.ts';
import { dueShard, dueShards } from '../../lib/ledger/schema.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import { claimOf, execute, LAPSED, movedRecord, replyOf, START } from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';

const table = useTable({ withStream: false }); // Nobody reads it, and DynamoDB Local writes twice as fast without.

const FEW = 1_000;
/** What DynamoDB Local takes within the time of a test; `npm run sweep-cost` makes it the 100,000 of the page. */
const MANY = Number(process.env['ONCEKEY_SWEEP_RECORDS'] ?? 10_000);
const DUE_PER_SHARD = 3;
/** BatchWriteItem takes no more. */
const BATCH = 25;
const WRITERS = 8;

const time = { now: START };
const ledger = dynamoDbLedger({ ...table, clock: () => time.now });
const pkOf = (key: string) => scopePk({ tenant: 'tenant-1', operation: 'POST /payments', key });

/** A completed record as the ledger writes it, to be copied under other names. */
async function template(): Promise<LedgerRecord> {
  const mine = movedRecord<InProgress>(await ledger.reserve(claimOf({ pk: pkOf('template') }), execute));
  const outcome = {
    now: START,
    reply: replyOf('{"id":"ch_1"}'),
    outbox: [],
    ...expiryAfter(defaultPolicy, START),
  };
  return movedRecord(await ledger.complete(mine, outcome));
}

/** As many completed records as there are numbers from the one to the other. */
async function fill(done: LedgerRecord, from: number, to: number): Promise<void> {
  const item = marshall({ sk: 'record', v: 1, ...encode(done) }, { removeUndefinedValues: true });
  const batches = Array.from({ length: Math.ceil((to - from) / BATCH) }, (_, index) => from + index * BATCH);
  await eachOf(batches, WRITERS, async (first) => {
    const numbers = Array.from({ length: Math.min(BATCH, to - first) }, (_, index) => first + index);
    let left: WriteRequest[] = numbers.map((number) => ({
      PutRequest: { Item: { ...item, pk: { S: pkOf(`done-${number}`) } } },
    }));
    while (left.length > 0) {
      const written = await table.client.send(
        new BatchWriteItemCommand({ RequestItems: { [table.tableName]: left } }),
      );
      left = written.UnprocessedItems?.[table.tableName] ?? [];
    }
  });
}

/** Keys that spread evenly, so that what a shard's page costs is the same in each round. */
function evenPks(round: string): readonly string[] {
  const inShard = new Map<string, number>();
  const pks: string[] = [];
  for (let each = 0; pks.length < dueShards().length * DUE_PER_SHARD; each += 1) {
    const pk = pkOf(`${round}-${each}`);
    const count = (inShard.get(dueShard(pk)) ?? 0) + 1;
    if (count > DUE_PER_SHARD) continue;
    inShard.set(dueShard(pk), count);
    pks.push(pk);
  }
  return pks;
}

/** The same number of abandoned attempts each time, half of them to be freed and half to be called unknown. */
async function abandon(round: string): Promise<void> {
  time.now = START;
  for (const [index, pk] of evenPks(round).entries()) {
    const effects = index % 2 === 0 ? 'transactional' : 'opaque';
    const mine = movedRecord<InProgress>(await ledger.reserve(claimOf({ pk, effects }), execute));
    await ledger.watch(mine, { shard: dueShard(pk), at: mine.leaseUntil });
  }
  time.now = LAPSED;
}

/** What one run asks of DynamoDB, by its own count. */
async function costOfRun() {
  const client = table.newClient();
  const cost = { calls: 0, units: 0, looked: 0 };
  client.middlewareStack.add(
    (next) => async (args) => {
      Object.assign(args.input, { ReturnConsumedCapacity: 'TOTAL' });
      const result = await next(args);
      const { ConsumedCapacity } = result.output as { ConsumedCapacity?: { CapacityUnits?: number } };
      cost.calls += 1;
      cost.units += ConsumedCapacity?.CapacityUnits ?? Number.NaN;
      return result;
    },
    { step: 'initialize' },
  );
  const clock = () => time.now;
  const counted = dynamoDbLedger({ ...table, client, clock });
  const { handle } = sweeper({ ledger: counted, clock, random: () => 1, log: () => {}, metrics: () => {} });
  const { looked, failed, complete } = await handle({}, { getRemainingTimeInMillis: () => 60_000 });
  client.destroy();
  expect([failed, complete]).toEqual([0, true]);
  return { ...cost, looked };
}

it(`a sweep costs the same with ${FEW} and with ${MANY} completed records: what is due, and a look at each shard`, async () => {
  const done = await template();
  await fill(done, 0, FEW);
  await abandon('few');
  const few = await costOfRun();
  await fill(done, FEW, MANY);
  await abandon('many');
  const many = await costOfRun();
  expect(many).toEqual(few);
  const due = dueShards().length * DUE_PER_SHARD;
  // One page of each shard, of those that are due and of those that are parked; one read and one write of each record.
  expect(many).toMatchObject({ looked: due, calls: 2 * dueShards().length + 2 * due });
  process.stdout.write(`${MANY} completed records: ${JSON.stringify(many)}\n`);
});
