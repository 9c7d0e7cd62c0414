import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { executed } from '../../lib/effects/resolver.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { backstop } from '../../lib/reconcile/backstop.ts';
import { type RedriveOptions, redriver, type StreamHandler } from '../../lib/reconcile/redrive.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import {
  claimOf,
  completedBy,
  execute,
  LAPSED,
  movedRecord,
  outcomeAt,
  SKEW_MS,
  START,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';

const table = useTable();

const ARN = 'arn:aws:lambda:eu-central-1:123456789012:function:sentinel';
const BUCKET = 'on-failure';
const KEY = 'aws/lambda/5c1e/shardId-000/2030/01/15/2030-01-15T12.00.00-9f0b';
const context = { getRemainingTimeInMillis: () => 60_000 };

/** What Lambda puts into the bucket when it gives up on a batch. */
function failedBatch(records: readonly unknown[], overrides: object = {}): string {
  return JSON.stringify({
    requestContext: {
      requestId: '7c9e',
      functionArn: ARN,
      condition: 'RetryAttemptsExhausted',
      approximateInvokeCount: 3,
    },
    responseContext: { statusCode: 200, executedVersion: '$LATEST', functionError: 'Unhandled' },
    version: '1.0',
    timestamp: '2030-01-15T12:00:00.000Z',
    DDBStreamBatchInfo: {
      shardId: 'shardId-000',
      startSequenceNumber: '1',
      endSequenceNumber: String(records.length),
      batchSize: records.length,
      streamArn: 'arn:aws:dynamodb:eu-central-1:123456789012:table/ledger/stream/2030',
    },
    payload: JSON.stringify({ Records: records }),
    ...overrides,
  });
}

const notification = (...keys: string[]) => ({
  Records: keys.map((key) => ({
    eventSource: 'aws:s3',
    eventName: 'ObjectCreated:Put',
    s3: { bucket: { name: BUCKET }, object: { key } },
  })),
});

const numbered = (...numbers: string[]) =>
  numbers.map((SequenceNumber) => ({ dynamodb: { SequenceNumber } }));

/** A redriver over a bucket of the test's own, with everything it says written down. */
function stage(
  objects: Readonly<Record<string, string>>,
  handler: StreamHandler,
  options: Partial<RedriveOptions> = {},
) {
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const asked: string[] = [];
  const redrive = redriver({
    async read({ bucket, key }) {
      asked.push(`${bucket} ${key}`);
      const text = objects[key];
      if (text === undefined) throw Object.assign(new Error(`secret in ${key}`), { name: 'NoSuchKey' });
      return text;
    },
    handlers: { sentinel: handler },
    clock: () => START,
    log: (entry) => logged.push(entry),
    metrics: (sample) => measured.push(sample),
    ...options,
  });
  return { logged, measured, asked, redrive: (event: unknown) => redrive(event, context) };
}

/** A handler that fails so many records of each try, and keeps what it was given. */
function failing(...failures: readonly (readonly unknown[] | Error)[]) {
  const batches: unknown[][] = [];
  const handler: StreamHandler = async ({ Records }) => {
    const failed = failures[batches.length] ?? [];
    batches.push(Records);
    if (failed instanceof Error) throw failed;
    return { batchItemFailures: failed.map((itemIdentifier) => ({ itemIdentifier })) };
  };
  return { batches, handler };
}

describe('an on-failure object', () => {
  it('is done again by the function that failed, with the records as they were', async () => {
    const { batches, handler } = failing();
    const records = numbered('1', '2');
    const { redrive, logged, measured } = stage({ [KEY]: failedBatch(records) }, handler);
    expect(await redrive(notification(KEY))).toEqual({ objects: 1, records: 2 });
    expect(batches).toEqual([records]);
    expect(logged).toMatchObject([{ decision: 'redriven', reason: 'RetryAttemptsExhausted' }]);
    expect(measured).toEqual([]);
  });

  it('is found under the key that it has, however it is announced', async () => {
    const key = 'a b/ü+1:2%';
    const { redrive, asked } = stage({ [key]: failedBatch(numbered('1')) }, failing().handler);
    await redrive(notification('a+b/%C3%BC%2B1%3A2%25'));
    const detail = { bucket: { name: BUCKET }, object: { key, 'version-id': 'v1' } };
    await redrive({ source: 'aws.s3', 'detail-type': 'Object Created', detail });
    expect(asked).toEqual([`${BUCKET} ${key}`, `${BUCKET} ${key}`]);
  });

  it('has its key decoded only where it was encoded', async () => {
    const key = 'a+b%20c';
    const { redrive, asked } = stage({ [key]: failedBatch(numbered('1')) }, failing().handler);
    await redrive({ source: 'aws.s3', detail: { bucket: { name: BUCKET }, object: { key } } });
    expect(asked).toEqual([`${BUCKET} ${key}`]);
  });

  it('is done when its handler has returned, with whatever but failures', async () => {
    for (const returned of [undefined, null, {}, 'ok', { batchItemFailures: null }]) {
      const { redrive } = stage({ [KEY]: failedBatch(numbered('1')) }, async () => returned);
      expect(await redrive(notification(KEY))).toEqual({ objects: 1, records: 1 });
    }
  });

  it('is read in the version that was announced, where there are versions', async () => {
    const seen: unknown[] = [];
    const read = async (object: unknown) => {
      seen.push(object);
      return failedBatch(numbered('1'));
    };
    const { redrive } = stage({}, failing().handler, { read });
    const bucket = { name: BUCKET };
    await redrive({ Records: [{ s3: { bucket, object: { key: 'k', versionId: 'v1' } } }] });
    await redrive({ source: 'aws.s3', detail: { bucket, object: { key: 'k', 'version-id': 'v2' } } });
    expect(seen).toEqual(['v1', 'v2'].map((versionId) => ({ bucket: BUCKET, key: 'k', versionId })));
  });

  it('of an alias is done again by the function behind it', async () => {
    const { batches, handler } = failing();
    const text = failedBatch(numbered('1'), { requestContext: { functionArn: `${ARN}:live` } });
    await stage({ [KEY]: text }, handler).redrive(notification(KEY));
    expect(batches).toHaveLength(1);
  });

  it('goes to the handler that handlerOf names', async () => {
    const { batches, handler } = failing();
    const text = failedBatch(numbered('1'), {
      requestContext: { functionArn: ARN.replace(/sentinel$/, 'Stack-Sentinel1A2B') },
    });
    const handlerOf: RedriveOptions['handlerOf'] = ({ functionArn, streamArn }) =>
      functionArn.includes('Stack-Sentinel') && streamArn?.includes('table/ledger') ? 'sentinel' : undefined;
    await stage({ [KEY]: text }, handler, { handlerOf }).redrive(notification(KEY));
    expect(batches).toHaveLength(1);
  });

  it('whose payload is no text but an object is as good', async () => {
    const { batches, handler } = failing();
    const text = failedBatch([], { payload: { Records: numbered('7') } });
    await stage({ [KEY]: text }, handler).redrive(notification(KEY));
    expect(batches).toEqual([numbered('7')]);
  });
});

describe('what fails again', () => {
  const records = numbered('1', '2', '3');
  const objects = { [KEY]: failedBatch(records) };

  it('is tried once more, without the rest', async () => {
    const { batches, handler } = failing(['2']);
    expect(await stage(objects, handler).redrive(notification(KEY))).toMatchObject({ records: 3 });
    expect(batches).toEqual([records, numbered('2')]);
  });

  it('is then thrown, so that Lambda tries again and keeps the event', async () => {
    const { batches, handler } = failing(['2', '3'], ['3']);
    const { redrive, logged, measured } = stage(objects, handler);
    await expect(redrive(notification(KEY))).rejects.toThrow(
      `1 of 1 on-failure objects were not redriven. s3://${BUCKET}/${KEY}: 1 of 3 records failed again`,
    );
    expect(batches).toEqual([records, numbered('2', '3')]);
    expect(logged).toMatchObject([{ level: 'error', decision: 'redrive_failed', reason: 'RedriveFailed' }]);
    expect(measured.map(({ metrics }) => metrics)).toEqual([{ 'reconcile.failed.count': 1 }]);
  });

  it('is all of it where the handler throws, or names what is not there', async () => {
    for (const failure of [new Error('down'), ['9'], [''], [undefined], ['1', '9']]) {
      const { batches, handler } = failing(failure);
      await stage(objects, handler).redrive(notification(KEY));
      expect(batches).toEqual([records, records]);
    }
    const { handler } = failing(new StoreUnavailable('secret'), new StoreUnavailable('secret'));
    const refused = stage(objects, handler).redrive(notification(KEY));
    await expect(refused).rejects.toThrow(/3 of 3 records failed again \(StoreUnavailable\)$/);
  });

  it('does not keep other objects from being done', async () => {
    const { batches, handler } = failing();
    const { redrive, logged } = stage({ ...objects, broken: '{"requestCon' }, handler);
    const why =
      /1 of 2 on-failure objects were not redriven\. s3:\/\/on-failure\/broken: The object is not JSON/;
    await expect(redrive(notification('broken', KEY))).rejects.toThrow(why);
    expect(batches).toEqual([records]);
    expect(logged.map(({ decision }) => decision)).toEqual(['redrive_failed', 'redriven']);
  });

  it('waits for the next invocation where time has ended', async () => {
    const { batches, handler } = failing();
    let now = START;
    const slow: StreamHandler = async (event, ...rest) => {
      now += 60_000;
      return handler(event, ...rest);
    };
    const { redrive } = stage({ ...objects, second: objects[KEY] ?? '' }, slow, { clock: () => now });
    await expect(redrive(notification(KEY, 'second'))).rejects.toThrow(/second: there was no time left/);
    expect(batches).toHaveLength(1);
  });
});

describe('what cannot be redriven is never acknowledged:', () => {
  const unusable: Readonly<Record<string, readonly [text: string | undefined, reason: string, why: RegExp]>> =
    {
      'an object that only says where the records were': [
        failedBatch(numbered('1'), { payload: undefined }),
        'no_payload',
        /has no payload.*found by backstop\(\)/,
      ],
      'one that is not there': [undefined, 'NoSuchKey', /: NoSuchKey$/],
      'one that is no JSON': ['<html>', 'not_json', /is not JSON/],
      'one whose payload is cut off': [
        failedBatch([], { payload: '{"Records":[' }),
        'not_json',
        /Its payload is not JSON/,
      ],
      'one that is something else': ['{"a":1}', 'not_a_failed_batch', /no requestContext\.functionArn/],
      'a batch without records': [failedBatch([]), 'no_records', /has no Records/],
      'one of a function that nobody stands in for': [
        failedBatch(numbered('1'), { requestContext: { functionArn: ARN.replace('sentinel', 'toString') } }),
        'no_handler',
        /no handler for .*:toString \(looked for toString\); redriver\(\) has sentinel/,
      ],
    };

  it.each(Object.entries(unusable))('%s', async (_, [text, reason, why]) => {
    const { batches, handler } = failing();
    const { redrive, logged, measured } = stage(text === undefined ? {} : { [KEY]: text }, handler);
    await expect(redrive(notification(KEY))).rejects.toThrow(why);
    expect(batches).toEqual([]);
    expect(logged).toMatchObject([{ level: 'error', decision: 'redrive_failed', reason }]);
    expect(measured.map(({ metrics }) => metrics)).toEqual([{ 'reconcile.failed.count': 1 }]);
    expect(JSON.stringify(logged)).not.toContain('secret');
  });

  it.each([
    undefined,
    {},
    { Records: [] },
    { Records: [{ s3: { bucket: {}, object: { key: 'k' } } }] },
    { source: 'aws.ec2', detail: { bucket: { name: 'b' }, object: { key: 'k' } } },
  ])('an event that names no object: %j', async (event) => {
    const { redrive, logged } = stage({}, failing().handler);
    await expect(redrive(event)).rejects.toThrow(/names no S3 object/);
    expect(logged).toMatchObject([{ level: 'error', reason: 'not_an_object_event' }]);
  });
});

it('a redriver says at once what its options lack', () => {
  const good = { read: async () => '', handlers: { sentinel: async () => ({}) } };
  const make = (options: object) => () => redriver({ ...good, ...options });
  expect(make({ read: undefined })).toThrow(/redriver\(\) needs read/);
  expect(make({ handlers: {} })).toThrow(/redriver\(\) needs handlers/);
  expect(make({ handlers: { a: 1 } })).toThrow(/handler a of redriver\(\) is number/);
  expect(make({ handler: 1 })).toThrow(/redriver\(\) has no option handler\. Did you mean handlers\?/);
});

describe('a batch that the sentinel lost', () => {
  /** Payments in the table, a bank that knows them, and a sentinel whose store does not answer. */
  function world() {
    const time = { now: START };
    const clock = () => time.now;
    const quiet = { clock, log: () => {}, metrics: () => {} };
    const ledger = dynamoDbLedger({ ...table, clock }) as Ledger<unknown>;
    const broken: Ledger<unknown> = {
      ...ledger,
      watch: async () => {
        throw new StoreUnavailable('down');
      },
    };
    const sweep = sweeper({
      ledger,
      ...quiet,
      random: () => 1,
      effects: 'opaque',
      resolver: async () => executed({ statusCode: 201, body: '{"charge":"ch_1"}' }),
    });
    return {
      ...{ time, ledger, quiet },
      off: sentinel({ ledger: broken, ...quiet }),
      on: sentinel({ ledger, ...quiet }),
      reserve: async (effects: 'opaque' | 'transactional') =>
        movedRecord<InProgress>(await ledger.reserve(claimOf({ effects }), execute)),
      sweepAt: async (now: number) => {
        time.now = now;
        return sweep.handle({}, context);
      },
    };
  }

  async function change(pk: string, SequenceNumber: string) {
    const Keys = { pk: { S: pk }, sk: { S: 'record' } };
    const { Item } = await table.client.send(
      new GetItemCommand({ TableName: table.tableName, Key: Keys, ConsistentRead: true }),
    );
    return { eventName: 'INSERT', dynamodb: { Keys, NewImage: Item, SequenceNumber } };
  }

  const dueIn = (record: LedgerRecord | undefined) => record && 'due' in record && record.due;

  /** A crashed payment, a crashed order and one that has ended meanwhile; all that the stream said of them is lost. */
  async function lost() {
    const { off, reserve, ledger, ...rest } = world();
    const [payment, order, ended] = [
      await reserve('opaque'),
      await reserve('transactional'),
      await reserve('opaque'),
    ];
    const records = [await change(payment.pk, '1'), await change(order.pk, '2'), await change(ended.pk, '3')];
    const done = await completedBy(ledger, ended, outcomeAt(START));
    expect((await off({ Records: records }, context)).batchItemFailures).toHaveLength(3);
    expect(dueIn(await ledger.read(payment.pk))).toBeFalsy();
    return { ...rest, ledger, payment, order, done, records };
  }

  async function endsWell({ ledger, sweepAt, payment, order, done }: Awaited<ReturnType<typeof lost>>) {
    for (const { pk, leaseUntil } of [payment, order]) {
      const due = { shard: dueShard(pk), at: leaseUntil + SKEW_MS + 1 };
      expect(dueIn(await ledger.read(pk))).toEqual(due);
    }
    expect(await ledger.read(done.pk)).toEqual(done);
    await sweepAt(LAPSED);
    expect(await ledger.read(order.pk)).toMatchObject({ status: 'failed_retryable' });
    expect(await ledger.read(payment.pk)).toMatchObject({ status: 'unknown' });
    await sweepAt(LAPSED + 60_000);
    expect(await ledger.read(payment.pk)).toMatchObject({ status: 'completed' });
    expect(await ledger.read(done.pk)).toEqual(done);
  }

  it('is redriven: what is open is watched, swept and settled', async () => {
    const scene = await lost();
    const { redrive } = stage({ [KEY]: failedBatch(scene.records) }, scene.on);
    expect(await redrive(notification(KEY))).toEqual({ objects: 1, records: 3 });
    await endsWell(scene);
  });

  it('and whose object is lost as well is found by the backstop, swept and settled', async () => {
    const scene = await lost();
    const search = backstop({ ledger: scene.ledger, ...scene.quiet, sleep: async () => {} });
    expect(await search({}, context)).toMatchObject({ failed: 0 });
    await endsWell(scene);
  });

  it('changes nothing when it is redriven days later, or twice', async () => {
    const scene = await lost();
    const { redrive } = stage({ [KEY]: failedBatch(scene.records) }, scene.on);
    await redrive(notification(KEY));
    await endsWell(scene);
    const pks = [scene.payment, scene.order, scene.done].map(({ pk }) => pk);
    const before = await Promise.all(pks.map((pk) => scene.ledger.read(pk)));
    scene.time.now = LAPSED + 3 * 86_400_000;
    await redrive(notification(KEY, KEY));
    expect(await Promise.all(pks.map((pk) => scene.ledger.read(pk)))).toEqual(before);
  });
});
