import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { recordOfImage } from '../../lib/ledger/image.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { paired, sentinel } from '../../lib/reconcile/sentinel.ts';
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
    ...{ ledger, time, measured, logged, image },
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
    const { reserve, change, batch, ledger } = world();
    const mine = await reserve();
    const reserved = await change(mine.pk);
    const done = await completedBy(ledger, mine, outcomeAt(START));
    expect(await batch(reserved)).toEqual([]);
    expect(await ledger.read(mine.pk)).toEqual(done);
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

  it('that cannot be watched is reported, and the others are watched all the same', async () => {
    const { reserve, change, batch, ledger, logged } = world();
    const [good, bad] = [await reserve(), await reserve()];
    const damaged = await change(bad.pk);
    const { owner: _, ...image } = damaged.dynamodb.NewImage ?? {};
    const changes = [{ dynamodb: { ...damaged.dynamodb, NewImage: image } }, await change(good.pk)];
    expect(await batch(...changes)).toEqual([{ itemIdentifier: damaged.dynamodb.SequenceNumber }]);
    expect(await ledger.read(good.pk)).toHaveProperty('due');
    expect(logged).toContainEqual(
      expect.objectContaining({ decision: 'sentinel_failed', reason: 'RecordUnreadable' }),
    );
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
    expect(await batch(removed('completed'), removed('failed_retryable'))).toEqual([]);
    expect(measured.map(({ metrics }) => metrics)).toEqual([{ 'ttl_pruned.count': 2 }]);
    expect(logged).toEqual([]);
    await batch(removed('in_progress'), removed('accepted'), removed('unknown'), removed('completed', true));
    const alarms = measured.filter(({ metrics }) => metrics.evidence_removed === 1);
    expect(alarms).toHaveLength(4);
    expect(
      logged.filter(({ decision, level }) => decision === 'evidence_removed' && level === 'error'),
    ).toHaveLength(4);
  });
});

describe('pairing', () => {
  const stream = (pk: string, before: string | undefined, after: string | undefined, sk = 'record') => ({
    dynamodb: {
      Keys: { pk: { S: pk }, sk: { S: sk } },
      OldImage: before === undefined ? undefined : { status: { S: before } },
      NewImage: after === undefined ? undefined : { status: { S: after } },
      SequenceNumber: '1',
    },
  });
  const pairing = (...records: unknown[]) => {
    const { leftovers, reservations } = paired(recordChanges({ Records: records }));
    return { leftovers: leftovers.map(({ pk }) => pk), reservations };
  };

  it('counts a record once, and lets its last change decide', () => {
    const [open, done] = [stream('a', undefined, 'in_progress'), stream('a', 'in_progress', 'completed')];
    expect(pairing(open, open)).toEqual({ leftovers: ['a'], reservations: 1 });
    expect(pairing(open, done)).toEqual({ leftovers: [], reservations: 1 });
    expect(pairing(done)).toEqual({ leftovers: [], reservations: 0 });
    expect(pairing(open, done, stream('a', 'failed_retryable', 'in_progress'))).toEqual({
      leftovers: ['a'],
      reservations: 1,
    });
  });

  it('passes over what is no record, what was removed, and what is no batch', () => {
    expect(pairing(stream('a', undefined, 'in_progress', 'body#x#000'))).toEqual({
      leftovers: [],
      reservations: 0,
    });
    expect(pairing(stream('a', 'completed', undefined))).toEqual({ leftovers: [], reservations: 0 });
    expect(pairing({}, { dynamodb: {} })).toEqual({ leftovers: [], reservations: 0 });
    expect(recordChanges(undefined)).toEqual([]);
  });

  it('leaves alone what is watched already', () => {
    const watched = stream('a', 'in_progress', 'in_progress');
    Object.assign(watched.dynamodb.NewImage ?? {}, { dueShard: { S: 'due#1' } });
    expect(pairing(watched)).toEqual({ leftovers: [], reservations: 1 });
  });
});
