import { GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { recordOfImage } from '../../lib/ledger/image.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { backstop } from '../../lib/reconcile/backstop.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { recordChanges } from '../../lib/reconcile/stream.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import {
  attemptAt,
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

type Image = Readonly<Record<string, unknown>> | undefined;

function world() {
  const time = { now: START };
  const clock = () => time.now;
  const ledger = dynamoDbLedger({ ...table, clock });
  const measured: Sample[] = [];
  const logged: LogEntry[] = [];
  const quiet = {
    clock,
    metrics: (sample: Sample) => measured.push(sample),
    log: (entry: LogEntry) => logged.push(entry),
  };
  const sweep = sweeper({ ledger, ...quiet, log: () => {}, metrics: () => {} });
  const watch = sentinel({ ledger, sweeper: sweep, ...quiet });
  let sequence = 0;

  /** The item as Lambda shows it to a function: its bytes are base64 text. */
  async function image(pk: string): Promise<Image> {
    const Key = { pk: { S: pk }, sk: { S: 'record' } };
    const { Item } = await table.client.send(
      new GetItemCommand({ TableName: table.tableName, Key, ConsistentRead: true }),
    );
    return Item && JSON.parse(JSON.stringify(Item, (_, value) => (isBytes(value) ? toBase64(value) : value)));
  }

  return {
    ...{ ledger, time, measured, logged, image, quiet },
    reserve: async (
      effects: 'transactional' | 'steps' | 'opaque' = 'opaque',
      request?: { function: string; event: Uint8Array },
    ) =>
      movedRecord<InProgress>(
        await ledger.reserve({ ...claimOf({ effects }), ...(request && { request }) }, execute),
      ),
    /** One change of a record, from what it was to what it is now. */
    async change(pk: string, before?: Image) {
      sequence += 1;
      const Keys = { pk: { S: pk }, sk: { S: 'record' } };
      return {
        dynamodb: { Keys, OldImage: before, NewImage: await image(pk), SequenceNumber: String(sequence) },
      };
    },
    batch: async (...records: unknown[]) =>
      (await watch({ Records: records }, { getRemainingTimeInMillis: () => 60_000 })).batchItemFailures,
  };
}

function isBytes(value: unknown): value is Readonly<Record<string, number>> {
  const keys = typeof value === 'object' && value !== null ? Object.keys(value) : [];
  return keys.length > 0 && keys[0] === '0' && !Array.isArray(value);
}

const toBase64 = (bytes: Readonly<Record<string, number>>) =>
  Buffer.from(Object.values(bytes)).toString('base64');

describe('a reservation', () => {
  it('that ends within its batch is never written to again', async () => {
    const { reserve, change, batch, ledger, measured } = world();
    const mine = await reserve();
    const reserved = await change(mine.pk);
    const done = await completedBy(ledger, mine, outcomeAt(START));
    const ended = await change(mine.pk, reserved.dynamodb.NewImage);
    expect(await batch(reserved, ended)).toEqual([]);
    expect(await ledger.read(mine.pk)).toEqual(done);
    expect(measured.map(({ metrics }) => metrics)).toEqual([{ leftover_ratio: 0 }]);
  });

  it('that does not gets its place where the sweep looks, for when its lease has passed', async () => {
    const { reserve, change, batch, ledger, measured } = world();
    const [open, other] = [await reserve(), await reserve()];
    const [first, second] = [await change(open.pk), await change(other.pk)];
    await completedBy(ledger, other, outcomeAt(START));
    expect(await batch(first, second, await change(other.pk, second.dynamodb.NewImage))).toEqual([]);
    const due = { shard: dueShard(open.pk), at: open.leaseUntil + SKEW_MS + 1 };
    expect(await ledger.read(open.pk)).toEqual({ ...open, due });
    expect(measured.at(-1)?.metrics).toEqual({ leftover_ratio: 0.5 });
  });

  it('whose lease has passed is moved at once', async () => {
    const { reserve, change, batch, ledger, time } = world();
    const [opaque, free] = [await reserve('opaque'), await reserve('transactional')];
    const changes = [await change(opaque.pk), await change(free.pk)];
    time.now = LAPSED;
    expect(await batch(...changes)).toEqual([]);
    expect((await ledger.read(opaque.pk))?.status).toBe('unknown');
    expect((await ledger.read(free.pk))?.status).toBe('failed_retryable');
  });

  it('that has ended since the stream showed it is left as it is', async () => {
    const { reserve, change, batch, ledger, logged } = world();
    const mine = await reserve();
    const reserved = await change(mine.pk);
    const done = await completedBy(ledger, mine, outcomeAt(START));
    expect(await batch(reserved)).toEqual([]);
    expect(await ledger.read(mine.pk)).toEqual(done);
    expect(logged).toEqual([]); // Nobody is told that it is watched.
  });

  it('whose lease runs costs the one write that watches it, and no look', async () => {
    const { reserve, change, ledger, quiet } = world();
    const mine = await reserve();
    const looked: string[] = [];
    const look = async ({ pk }: LedgerRecord) => {
      looked.push(pk);
      return 'nothing';
    };
    const watch = sentinel({ ledger, sweeper: { look }, ...quiet });
    await watch({ Records: [await change(mine.pk)] }, {});
    expect(await ledger.read(mine.pk)).toHaveProperty('due');
    expect(looked).toEqual([]);
  });

  it('that was shown late is due from now on: nobody has forgotten it in the meantime', async () => {
    const { reserve, change, ledger, time, logged, quiet } = world();
    const mine = await reserve();
    const reserved = await change(mine.pk);
    time.now = LAPSED + 3 * 3_600_000; // As long as the stream was held up.
    await sentinel({ ledger, ...quiet })({ Records: [reserved] }, {});
    expect(await ledger.read(mine.pk)).toHaveProperty('due.at', time.now);
    expect(logged).toMatchObject([{ decision: 'watched' }]);
  });

  it('is not created again where the record is gone', async () => {
    const { reserve, change, batch, ledger } = world();
    const mine = await reserve();
    const { dynamodb } = await change(mine.pk);
    const image = { ...dynamodb.NewImage, pk: { S: 'never-was' } };
    const Keys = { pk: { S: 'never-was' }, sk: { S: 'record' } };
    expect(await batch({ dynamodb: { ...dynamodb, Keys, NewImage: image } })).toEqual([]);
    expect(await ledger.read('never-was')).toBeUndefined();
  });

  it('is watched by its last attempt, whatever the order or the number of what comes', async () => {
    const { reserve, change, batch, ledger, time } = world();
    const mine = await reserve('transactional');
    const first = await change(mine.pk);
    time.now = LAPSED;
    const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    const second = await change(mine.pk, first.dynamodb.NewImage);
    await batch(second, first, first);
    expect((await ledger.read(mine.pk)) as LedgerRecord).toMatchObject({
      attempt: 2,
      owner: taken.record?.owner,
    });
    await batch(first, second);
    await batch(second);
    const due = { at: (taken.record as InProgress).leaseUntil + SKEW_MS + 1 };
    expect(await ledger.read(mine.pk)).toMatchObject({ status: 'in_progress', attempt: 2, due });
  });

  it('with steps and a kept request is read from its image as from the table', async () => {
    const { reserve, ledger, image } = world();
    const mine = await reserve('steps', {
      function: 'arn',
      event: new TextEncoder().encode('{"body":"x"}'.repeat(50)),
    });
    const saved = movedRecord<InProgress>(
      await ledger.saveStep(mine, 'long', `"${'é'.repeat(900)}"`, START + 1),
    );
    expect(recordOfImage(await image(mine.pk))).toEqual(saved);
  });

  it('that has begun an effect since the stream showed it is moved as it is, not as it was', async () => {
    const { reserve, change, batch, ledger, time } = world();
    const mine = await reserve('steps');
    const reserved = await change(mine.pk);
    await ledger.openStep(mine, 'charge', START + 1);
    time.now = LAPSED;
    expect(await batch(reserved)).toEqual([]);
    expect(await ledger.read(mine.pk)).toMatchObject({ status: 'unknown', errorCode: 'open_effect' });
  });

  it('whose move fails is watched all the same, and does not come again', async () => {
    const { reserve, change, ledger, time, logged, quiet } = world();
    const mine = await reserve('transactional');
    const reserved = await change(mine.pk);
    time.now = LAPSED;
    const look = async () => Promise.reject(new TypeError('secret'));
    const watch = sentinel({ ledger, sweeper: { look }, ...quiet });
    expect(await watch({ Records: [reserved] }, {})).toEqual({ batchItemFailures: [] });
    expect(await ledger.read(mine.pk)).toMatchObject({ status: 'in_progress', due: { at: LAPSED } });
    expect(logged.at(-1)).toMatchObject({ decision: 'sentinel_failed', reason: 'TypeError' });
  });

  it('that the store cannot take is reported, and the others are watched all the same', async () => {
    const { reserve, change, ledger, logged, measured, quiet } = world();
    const [good, bad] = [await reserve(), await reserve()];
    const [unlucky, lucky] = [await change(bad.pk), await change(good.pk)];
    const broken: typeof ledger = {
      ...ledger,
      watch: (from, due, call) =>
        from.pk === bad.pk ? Promise.reject(new StoreUnavailable('away')) : ledger.watch(from, due, call),
    };
    const watch = sentinel({ ledger: broken, ...quiet });
    expect(await watch({ Records: [unlucky, lucky] }, {})).toEqual({
      batchItemFailures: [{ itemIdentifier: unlucky.dynamodb.SequenceNumber }],
    });
    expect(await ledger.read(good.pk)).toHaveProperty('due');
    expect(logged).toContainEqual(
      expect.objectContaining({ decision: 'sentinel_failed', reason: 'StoreUnavailable' }),
    );
    expect(measured.map(({ metrics }) => metrics)).toContainEqual({ 'store.error.count': 1 });
  });
});

describe('an image that cannot be read', () => {
  type Change = Awaited<ReturnType<ReturnType<typeof world>['change']>>;
  const damaged: Readonly<Record<string, (image: object) => object>> = {
    'lacks its owner': ({ ...image }) => Object.assign(image, { owner: undefined }),
    'has no operation and no attempt': ({ ...image }) =>
      Object.assign(image, { operationId: undefined, attempt: { N: 'many' } }),
    'is of a version to come': (image) => ({ ...image, v: { N: '99' } }),
    'holds what no attribute is': (image) => ({ ...image, owner: { X: 1 } }),
  };
  const withImage = ({ dynamodb }: Change, damage: (image: object) => object) => ({
    dynamodb: { ...dynamodb, NewImage: JSON.parse(JSON.stringify(damage(dynamodb.NewImage ?? {}))) },
  });

  for (const [how, damage] of Object.entries(damaged)) {
    it(`because it ${how} is looked up in the table, and watched as it is there`, async () => {
      const { reserve, change, batch, ledger, logged } = world();
      const mine = await reserve();
      expect(await batch(withImage(await change(mine.pk), damage))).toEqual([]);
      expect(await ledger.read(mine.pk)).toHaveProperty('due.at', mine.leaseUntil + SKEW_MS + 1);
      expect(logged[0]).toMatchObject({ decision: 'image_unreadable', level: 'error' });
    });
  }

  it('is no reason to watch what has ended since', async () => {
    const { reserve, change, batch, ledger } = world();
    const mine = await reserve();
    const reserved = withImage(await change(mine.pk), (image) => ({ ...image, v: { N: '99' } }));
    const done = await completedBy(ledger, mine, outcomeAt(START));
    expect(await batch(reserved)).toEqual([]);
    expect(await ledger.read(mine.pk)).toEqual(done);
  });

  it('is no reason to take a record from where it waits for an operator', async () => {
    const { reserve, change, batch, ledger, time } = world();
    const mine = await reserve();
    const reserved = withImage(await change(mine.pk), (image) => ({ ...image, v: { N: '99' } }));
    const due = { shard: dueShard(mine.pk, 'parked'), at: START, parkedAt: START, tries: 10, error: 'x' };
    const parked = movedRecord<InProgress>(await ledger.watch(mine, due));
    time.now = LAPSED;
    expect(await batch(reserved)).toEqual([]);
    expect(await ledger.read(mine.pk)).toEqual(parked);
  });

  it('in the table either is said, counted and left alone: the shard goes on, and the backstop finds it', async () => {
    const { reserve, change, batch, ledger, logged, measured, image, quiet } = world();
    const [bad, good] = [await reserve(), await reserve()];
    await table.client.send(
      new UpdateItemCommand({
        TableName: table.tableName,
        Key: { pk: { S: bad.pk }, sk: { S: 'record' } },
        UpdateExpression: 'SET v = :new',
        ExpressionAttributeValues: { ':new': { N: '99' } },
      }),
    );
    const before = await image(bad.pk);
    expect(await batch(await change(bad.pk), await change(good.pk))).toEqual([]);
    expect(await image(bad.pk)).toEqual(before);
    expect(await ledger.read(good.pk)).toHaveProperty('due');
    expect(logged).toContainEqual(
      expect.objectContaining({ decision: 'record_unreadable', reason: 'RecordUnreadable' }),
    );
    expect(measured).toContainEqual(expect.objectContaining({ metrics: { 'reconcile.failed.count': 1 } }));
    const { failed } = await backstop({ ledger, pauseMs: 0, ...quiet })({}, {});
    expect(failed).toBe(1);
  });

  it('comes again while the table does not answer', async () => {
    const { reserve, change, ledger, quiet } = world();
    const mine = await reserve();
    const reserved = withImage(await change(mine.pk), (image) => ({ ...image, v: { N: '99' } }));
    const read = async () => Promise.reject(new StoreUnavailable('away'));
    const watch = sentinel({ ledger: { ...ledger, read }, ...quiet });
    const { batchItemFailures } = await watch({ Records: [reserved] }, {});
    expect(batchItemFailures).toEqual([{ itemIdentifier: reserved.dynamodb.SequenceNumber }]);
  });
});

describe('a record that is removed', () => {
  const removed = (status: string, outbox = false) => ({
    dynamodb: {
      Keys: { pk: { S: 'gone' }, sk: { S: 'record' } },
      OldImage: { status: { S: status }, ...(outbox && { outbox: { L: [] } }) },
      SequenceNumber: '1',
    },
  });

  it('is counted when its time was over, and raises an alarm when its outcome was open', async () => {
    const { batch, measured, logged } = world();
    const byLocal = { ...removed('completed'), eventName: 'UNKNOWN_TO_SDK_VERSION' }; // DynamoDB Local's word for it.
    expect(await batch(byLocal, removed('failed_retryable'))).toEqual([]);
    expect(measured.map(({ metrics }) => metrics)).toEqual([{ 'ttl_pruned.count': 2 }]);
    expect(logged).toEqual([]);
    const open = [
      removed('in_progress'),
      removed('accepted'),
      removed('unknown'),
      removed('completed', true),
    ];
    await batch(removed('completed'), ...open);
    expect(measured.flatMap(({ metrics }) => metrics['ttl_pruned.count'] ?? [])).toEqual([2, 1]);
    const alarms = measured.filter(({ metrics }) => metrics.evidence_removed === 1);
    expect(alarms).toHaveLength(4);
    expect(
      logged.filter(({ decision, level }) => decision === 'evidence_removed' && level === 'error'),
    ).toHaveLength(4);
  });
});

describe('evidence that is removed', () => {
  it('is told of with all that its last image knew, since no record is left to be found', async () => {
    const { reserve, image, batch, logged } = world();
    const { pk, operationId, tenant, operation, attempt } = await reserve();
    const dynamodb = { Keys: { pk: { S: pk }, sk: { S: 'record' } }, SequenceNumber: '1' };
    await batch({ dynamodb: { ...dynamodb, OldImage: await image(pk) } });
    expect(logged).toEqual([
      {
        ...{ at: START, level: 'error', decision: 'evidence_removed', reason: 'in_progress' },
        ...{ tenant, operation, operationRef: pk.slice(0, 12), fullRef: pk, operationId, attempt },
      },
    ]);
  });
});

describe('a batch of whatever a stream may carry', () => {
  it('never fails for what is no record of ours', async () => {
    const { batch, measured } = world();
    const Keys = { pk: { S: 'a' }, sk: { S: 'record' } };
    const SequenceNumber = '1';
    const shownOpen = { status: { S: 'in_progress' } }; // Somebody's own item may have a status, too.
    const strange = [
      ...[null, undefined, 'text', 7, [], {}, { dynamodb: null }, { dynamodb: 'x' }, { dynamodb: {} }],
      ...[{ dynamodb: { Keys: 'pk', SequenceNumber } }, { dynamodb: { Keys: { pk: 'a' }, SequenceNumber } }],
      { dynamodb: { Keys: { pk: { S: 'a' }, sk: { S: 'body#x#000' } }, SequenceNumber, NewImage: {} } },
      { dynamodb: { Keys: { pk: { S: 'a' }, sk: { S: 'audit#x' } }, SequenceNumber } },
      { dynamodb: { Keys: { pk: { S: 'a' }, sk: { S: 'ref#1' } }, SequenceNumber, OldImage: shownOpen } },
      { dynamodb: { Keys: { id: { N: '1' } }, SequenceNumber, NewImage: { status: { S: 'in_progress' } } } },
      { dynamodb: { Keys, NewImage: { status: { S: 'in_progress' } } } },
      { dynamodb: { Keys, SequenceNumber, NewImage: { status: { N: '1' } } } },
      { dynamodb: { Keys, SequenceNumber, NewImage: { status: null } } },
      { dynamodb: { Keys, SequenceNumber, NewImage: { status: { S: 'of_tomorrow' } } } },
    ];
    expect(await batch(...strange)).toEqual([]);
    expect(measured).toEqual([]);
    for (const event of [undefined, null, 'text', {}, { Records: 'all' }])
      expect(recordChanges(event)).toEqual([]);
  });
});
