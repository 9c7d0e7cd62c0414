import { randomUUID } from 'node:crypto';
import { DynamoDBDocumentClient, GetCommand, PutCommand, UpdateCommand } from '@aws-sdk/lib-dynamodb';
import { beforeEach, describe, expect, it } from 'vitest';
import { RecordUnreadable } from '../../lib/core/errors.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type { Accepted, Completed, InProgress } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { type ItemVersions, itemVersions } from '../../lib/ledger/item.ts';
import {
  acceptedBy,
  attemptAt,
  claimOf,
  completedBy,
  dueOf,
  execute,
  failedBy,
  inProgress,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  SKEW_MS,
  START,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';

const table = useTable();
const documents = DynamoDBDocumentClient.from(table.client);

const IN_TEN_YEARS = START + 10 * 365 * 86_400_000;

let now = START;
const release = (versions: ItemVersions) => dynamoDbLedger({ ...table, clock: () => now }, versions);
const ledger = release(itemVersions);

beforeEach(() => {
  now = START;
});

const keyOf = (pk: string) => ({ pk, sk: 'record' });

async function rawItem(pk: string): Promise<Record<string, unknown>> {
  const { Item } = await documents.send(
    new GetCommand({ TableName: table.tableName, Key: keyOf(pk), ConsistentRead: true }),
  );
  return Item ?? {};
}

async function change(pk: string, expression: string, name: string, value?: unknown): Promise<void> {
  await documents.send(
    new UpdateCommand({
      TableName: table.tableName,
      Key: keyOf(pk),
      UpdateExpression: expression,
      ExpressionAttributeNames: { '#name': name },
      ...(value !== undefined && { ExpressionAttributeValues: { ':value': value } }),
    }),
  );
}

describe('a damaged item', () => {
  const required = [
    'v',
    'status',
    'tenant',
    'operation',
    'fingerprint',
    'effects',
    'operationId',
    'owner',
    'attempt',
    'createdAt',
    'lastRunAt',
  ];

  /** A result is free to be replaced once it has expired, damaged or not; what says that it has must be sound. */
  const decidesExpiry = new Set(['v', 'status', 'outbox', 'expiresAt', 'ttl']);
  const whenFor = (name: string) => (decidesExpiry.has(name) ? [START, IN_TEN_YEARS] : [START]);

  for (const name of [...required, 'leaseUntil']) {
    it(`is a clear error and never a fresh execution: an in_progress record without ${name}`, async () => {
      const { pk } = await inProgress(ledger);
      await change(pk, 'REMOVE #name', name);
      await expectUnreadable(pk, new RegExp(`attribute ${name} should be`), [START, IN_TEN_YEARS]);
    });
  }

  for (const name of [...required, 'response', 'completedAt', 'expiresAt', 'ttl']) {
    it(`is a clear error and never a fresh execution: a completed record without ${name}`, async () => {
      const { pk } = await completedBy(ledger, await inProgress(ledger));
      await change(pk, 'REMOVE #name', name);
      await expectUnreadable(pk, new RegExp(`attribute ${name} should be`), whenFor(name));
    });
  }

  const sound = { encoding: 'identity', length: 0, crc: 0, body: new Uint8Array() };
  const nonsense: [name: string, value: unknown][] = [
    ['status', 'pending'],
    ['effects', 'none'],
    ['attempt', -1],
    ['attempt', 1.5],
    ['attempt', '1'],
    ['createdAt', 'yesterday'],
    ['takenOver', 'yes'],
    ['moves', 'none'],
    ['moves', [{ move: 'takeOver' }]],
    ['steps', []],
    ['steps', { charge: { state: 'half', attempt: 1, at: 1 } }],
    ['steps', { charge: { state: 'done', attempt: 1, at: 1 } }],
    ['steps', { charge: { state: 'done', attempt: 1, at: 1, result: 7 } }],
    ['steps', { charge: { state: 'done', attempt: 1, at: 1, result: { encoding: 'zstd' } } }],
    ['steps', { charge: { state: 'done', attempt: 1, at: 1, result: { ...sound, encoding: 'gzip' } } }],
    ['steps', { charge: { state: 'done', attempt: 1, at: 1, result: { ...sound, chunks: 1 } } }],
    ['steps', { charge: { state: 'open', attempt: 1, at: 1 } }],
    ['response', 'none'],
    ['response', { status: 201 }],
    ['outbox', [{ type: 'charge', payload: '{}' }]],
    ['v', 'one'],
  ];
  for (const [name, value] of nonsense) {
    it(`is a clear error and never a fresh execution: ${name} is ${JSON.stringify(value)}`, async () => {
      const { pk } = await completedBy(ledger, await inProgress(ledger));
      await change(pk, 'SET #name = :value', name, value);
      await expectUnreadable(pk, /is damaged: attribute \S+ should be/, whenFor(name));
    });
  }

  const event = { type: 'charge', payload: '{}' };
  const done = { state: 'done', at: 1 };
  const openNonsense: [name: string, value: unknown][] = [
    ['outbox', []],
    ['outbox', 'none'],
    ['outbox', [{ ...event, payload: 7 }]],
    ['outbox', [{ ...event, delivery: 'done' }]],
    ['outbox', [{ ...event, delivery: { ...done, state: 'half' } }]],
    ['outbox', [{ ...event, delivery: { state: 'done' } }]],
    ['outbox', [{ ...event, delivery: { ...done, reference: 7 } }]],
    ['outbox', [{ ...event, delivery: { ...done, response: {} } }]],
    ['outbox', [event, { ...event, delivery: { state: 'claimed', id: 'me' } }]],
    ['outbox', [event, { ...event, delivery: { state: 'claimed', until: 1 } }]],
    ['dueAt', -1],
    ['parkedAt', 'now'],
    ['dueTries', -1],
    ['dueError', 7],
  ];
  for (const [name, value] of openNonsense) {
    it(`is a clear error and never a fresh execution: ${name} of an accepted record is ${JSON.stringify(value)}`, async () => {
      const accepted = await acceptedBy(ledger, await inProgress(ledger));
      await ledger.watch(accepted, { ...dueOf(accepted.pk, START), tries: 1, error: 'timeout' });
      await change(accepted.pk, 'SET #name = :value', name, value);
      await expectUnreadable(accepted.pk, /is damaged: attribute \S+ should be/, [START, IN_TEN_YEARS]);
    });
  }

  for (const value of [
    'none',
    {},
    { function: 7, event: sound },
    { function: 'f' },
    { function: 'f', event: {} },
  ]) {
    it(`is a clear error and never a fresh execution: its request is ${JSON.stringify(value)}`, async () => {
      const { pk } = await inProgress(ledger);
      await change(pk, 'SET #name = :value', 'request', value);
      await expectUnreadable(pk, /is damaged: attribute \S+ should be/, [START, IN_TEN_YEARS]);
    });
  }

  it('is noticed in a long result, an answer or a request that lost a byte', async () => {
    const long = JSON.stringify(Array.from({ length: 1_000 }, () => Math.random()));
    const request = { function: 'payments', event: new Uint8Array(Buffer.from(long)) };
    const claim = { ...claimOf({ effects: 'steps' }), request };
    const mine = movedRecord<InProgress>(await ledger.reserve(claim, execute));
    const saved = movedRecord<InProgress>(await ledger.saveStep(mine, 'charge', long, START));
    const step = saved.steps.get('charge');
    if (step?.state !== 'done' || typeof step.result === 'string') throw new Error('expected a stored body');
    if (!('chunks' in step.result.body) || !mine.request) throw new Error('expected chunks and a request');
    const { body } = step.result;
    for (const [result, message] of [
      [{ ...step.result, crc: 1 }, /do not match the checksum/],
      [{ ...step.result, body: { ...body, chunks: 2 } }, /1 of its chunks are missing/],
      [{ ...step.result, encoding: 'identity' as const }, /do not match the checksum/],
    ] as const) {
      await expect(ledger.stepResult(mine.pk, { ...step, result })).rejects.toThrow(message);
    }
    const broken = { ...mine.request, event: { ...mine.request.event, crc: 1 } };
    await expect(ledger.request({ ...mine, request: broken })).rejects.toThrow(RecordUnreadable);
  });

  it('is not overwritten when it is only a husk with a key', async () => {
    const pk = `pk-${randomUUID()}`;
    await documents.send(new PutCommand({ TableName: table.tableName, Item: { ...keyOf(pk), dueAt: 1 } }));
    await expectUnreadable(pk, /attribute v should be a whole number of 0 or more, found nothing/, [
      START,
      IN_TEN_YEARS,
    ]);
  });

  it('is noticed in a body that lost a chunk or a byte', async () => {
    const reply = {
      ...outcomeAt(START).reply,
      body: Uint8Array.from({ length: 900_000 }, () => Math.random() * 256),
    };
    const done = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), reply });
    const { body } = done.response;
    if (!('chunks' in body)) throw new Error('expected chunks');
    const lost = { ...done.response, body: { ...body, chunks: body.chunks + 1 } };
    await expect(ledger.reply(done.pk, lost)).rejects.toThrow(/1 of its chunks are missing/);
    await expect(ledger.reply(done.pk, { ...done.response, crc: 1 })).rejects.toThrow(
      /do not match the checksum/,
    );

    const small = await completedBy(ledger, await inProgress(ledger));
    const broken = { ...small.response, encoding: 'zstd' } as const;
    await expect(ledger.reply(small.pk, broken)).rejects.toThrow(RecordUnreadable);
  });

  async function expectUnreadable(pk: string, message: RegExp, when = [START]): Promise<void> {
    const before = await rawItem(pk);
    for (const at of when) {
      now = at;
      const claim = claimOf({ pk, now: at, leaseUntil: at + LEASE_MS });
      const reserve = ledger.reserve(claim, execute);
      await expect(reserve).rejects.toThrow(RecordUnreadable);
      await expect(reserve).rejects.toThrow(message);
    }
    now = START;
    await expect(ledger.read(pk)).rejects.toThrow(message);
    expect(await rawItem(pk)).toEqual(before);
  }
});

describe('a rolling deployment', () => {
  const current = release({ writes: 1, reads: 2 });
  const next = release({ writes: 2, reads: 3 });
  const afterNext = release({ writes: 3, reads: 4 });

  /** What the next release might add; the current one must carry it along untouched. */
  const addNews = (pk: string) => change(pk, 'SET #name = :value', 'addedInVersion2', { kept: true });

  it('lets the old release answer, complete and take over what the new one reserved', async () => {
    const mine = await inProgress(next);
    await addNews(mine.pk);
    const duplicate = await current.reserve(claimOf({ pk: mine.pk }), execute);
    expect(duplicate).toEqual({ kind: 'held', record: mine });
    now = LAPSED;
    const taken = await current.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    const done = await completedBy(current, movedRecord<InProgress>(taken), outcomeAt(LAPSED));
    now = START;
    expect(await rawItem(mine.pk)).toMatchObject({
      v: 2,
      addedInVersion2: { kept: true },
      status: 'completed',
    });
    expect(await next.read(mine.pk)).toEqual(done);
  });

  it('lets the new release answer, complete and retake what the old one reserved', async () => {
    const failed = await failedBy(next, await inProgress(current));
    const taken = movedRecord<InProgress>(await next.retake(failed, attemptAt(START)));
    const done = await completedBy(next, taken);
    expect(await rawItem(failed.pk)).toMatchObject({ v: 1, status: 'completed' });
    expect(await current.read(failed.pk)).toEqual(done);
  });

  it('has one winner per key, whichever release comes first', async () => {
    for (let round = 0; round < 20; round += 1) {
      const pk = `pk-${randomUUID()}`;
      const both = await Promise.all([current, next].map((each) => each.reserve(claimOf({ pk }), execute)));
      expect(both.map(({ kind }) => kind).sort()).toEqual(['held', 'owned']);
    }
  });

  it('survives a rollback: replays of what the new release stored are byte-identical', async () => {
    const done = await completedBy(next, await inProgress(next));
    await addNews(done.pk);
    const replay = await current.reserve(claimOf({ pk: done.pk }), execute);
    expect(replay).toEqual({ kind: 'held', record: done });
    expect(await current.reply(done.pk, done.response)).toEqual(outcomeAt(START).reply);
  });

  it('after a rollback an expired record of the new release is replaced as any other', async () => {
    const done = await completedBy(next, await inProgress(next));
    now = done.expiresAt + SKEW_MS + 1;
    const again = await current.reserve(claimOf({ pk: done.pk, now, leaseUntil: now + LEASE_MS }), execute);
    now = START;
    expect(again.kind).toBe('owned');
    expect((await rawItem(done.pk))['v']).toBe(1);
  });

  it('refuses a version two releases ahead, says so, and never runs its key afresh', async () => {
    const done: Completed = await completedBy(afterNext, await inProgress(afterNext));
    const before = await rawItem(done.pk);
    for (const at of [START, done.expiresAt + 10 * SKEW_MS]) {
      now = at;
      const claim = claimOf({ pk: done.pk, now: at, leaseUntil: at + LEASE_MS });
      await expect(current.reserve(claim, execute)).rejects.toThrow(
        /has format version 3; this release reads up to 2.*roll forward/,
      );
    }
    now = START;
    await expect(current.read(done.pk)).rejects.toThrow(RecordUnreadable);
    expect(await rawItem(done.pk)).toEqual(before);
  });
});

it('expiry is part of what is written, so that DynamoDB can drop the item by itself', async () => {
  const done = await completedBy(ledger, await inProgress(ledger));
  const { expiresAt, ttl } = expiryAfter(defaultPolicy, START);
  expect(await rawItem(done.pk)).toMatchObject({ expiresAt, ttl });
});

describe('an item', () => {
  it('has a short result as text, which an operator can read, and a long one beside it', async () => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const long = JSON.stringify(Array.from({ length: 1_000 }, () => Math.random()));
    const first = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '{"id":1}', START));
    await ledger.saveStep(first, 'charge', long, START);
    const { steps } = await rawItem(mine.pk);
    expect(steps).toMatchObject({
      row: { state: 'done', attempt: 1, at: START, result: '{"id":1}' },
      charge: { state: 'done', result: { encoding: 'zstd', length: Buffer.byteLength(long), chunks: 1 } },
    });
  });

  it('names why it is due, flat, so that the index and an operator see it', async () => {
    const { pk } = await acceptedBy(ledger, await inProgress(ledger)).then(async (accepted) => {
      const due = { shard: 'parked#1', at: START, parkedAt: START, tries: 8, error: 'timeout' };
      return movedRecord<Accepted>(await ledger.watch(accepted, due));
    });
    expect(await rawItem(pk)).toMatchObject({
      ...{ dueShard: 'parked#1', dueAt: START, parkedAt: START, dueTries: 8, dueError: 'timeout' },
    });
  });

  it('has each delivery with its event, and nothing where nothing is known', async () => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    expect((await rawItem(accepted.pk))['outbox']).toEqual([{ type: 'charge', payload: '{"amount":1}' }]);
    const claim = { to: 'claimed', id: 'me', until: START } as const;
    const claimed = movedRecord<Accepted>(await ledger.noteDelivery(accepted, 0, claim));
    expect((await rawItem(accepted.pk))['outbox']).toMatchObject([
      { delivery: { state: 'claimed', id: 'me', until: START } },
    ]);
    await ledger.noteDelivery(claimed, 0, { to: 'done', at: START, reference: 'ch_1', claim: 'me' });
    expect((await rawItem(accepted.pk))['outbox']).toEqual([
      { type: 'charge', payload: '{"amount":1}', delivery: { state: 'done', at: START, reference: 'ch_1' } },
    ]);
  });
});
