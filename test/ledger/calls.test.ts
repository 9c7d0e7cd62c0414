import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { type AttributeValue, type DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, beforeEach, describe, it } from 'vitest';
import { fingerprint } from '../../lib/core/fingerprint.ts';
import { limits } from '../../lib/core/limits.ts';
import type {
  Accepted,
  CompletedUndelivered,
  DoneStep,
  InProgress,
  Undelivered,
} from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import {
  attemptAt,
  claimOf,
  completedBy,
  deferralAt,
  execute,
  failedBy,
  failureAt,
  inProgress,
  LAPSED,
  movedRecord,
  outcomeAt,
  replyOf,
  SECOND,
  SKEW_MS,
  START,
} from '../../lib/testing/contract/subject.ts';
import { wireOf } from '../support/faults.ts';
import { seededRandom } from '../support/random.ts';
import { useTable } from '../support/table.ts';

const LATER = START + SECOND;

const { tableName, newClient } = useTable();
const client = newClient();
const capacity = capacityOf(client);
const wire = wireOf(client);
const ledger = dynamoDbLedger({ tableName, client, clock: () => START, random: () => 0 });

beforeAll(async () => {
  await completedBy(ledger, await inProgress(ledger)); // DynamoDB Local's first answers are slow enough to time out.
});
beforeEach(() => {
  wire.takeNames();
  capacity.length = 0;
});
afterAll(() => client.destroy());

/** Makes every call report what it cost, which the ledger itself has no use for. */
function capacityOf(metered: DynamoDBClient): (number | undefined)[] {
  const units: (number | undefined)[] = [];
  metered.middlewareStack.add(
    (next) => async (args) => {
      const result = await next({ ...args, input: { ...args.input, ReturnConsumedCapacity: 'TOTAL' } });
      const { ConsumedCapacity } = result.output as { ConsumedCapacity?: { CapacityUnits?: number } };
      units.push(ConsumedCapacity?.CapacityUnits);
      return result;
    },
    { step: 'initialize', priority: 'low', name: 'capacityOfTest' },
  );
  return units;
}

const bytes = (length: number) => {
  const random = seededRandom(length);
  return Uint8Array.from({ length }, () => random() * 256);
};
const replyWith = (body: Uint8Array) => ({ ...outcomeAt(LATER), reply: { ...replyOf(''), body } });
const domainWrite = () => ({
  Put: { TableName: tableName, Item: { pk: `domain-${randomUUID()}`, sk: 'payment' } },
});

describe('DynamoDB is called', () => {
  it('twice for a fresh request: one put, one update', async () => {
    await completedBy(ledger, await inProgress(ledger));
    assert.deepEqual(wire.takeNames(), ['PutItem', 'UpdateItem']);
    assert.deepEqual(capacity, [1, 1], 'one write unit each');
  });

  it('once for a replay: the put that fails brings the record and its body', async () => {
    const done = await completedBy(ledger, await inProgress(ledger));
    wire.takeNames();
    const held = await ledger.reserve(claimOf({ pk: done.pk }), execute);
    assert.deepEqual(held, { kind: 'held', record: done });
    assert.deepEqual(await ledger.reply(done.pk, done.response), outcomeAt(START).reply);
    assert.deepEqual(wire.takeNames(), ['PutItem']);
  });

  it('once for a duplicate while the first is in flight', async () => {
    const mine = await inProgress(ledger);
    wire.takeNames();
    const held = await ledger.reserve(claimOf({ pk: mine.pk }), execute);
    assert.deepEqual(held, { kind: 'held', record: mine });
    assert.deepEqual(wire.takeNames(), ['PutItem']);
  });

  it('with a condition that brings the old item, in every write of a record', async () => {
    const before = wire.sent.length;
    const mine = await inProgress(ledger);
    const failed = await failedBy(ledger, mine);
    const again = movedRecord<InProgress>(await ledger.retake(failed, attemptAt(LATER)));
    await completedBy(ledger, again, outcomeAt(LATER));
    await ledger.accept(await inProgress(ledger), deferralAt(LATER), [domainWrite()]);
    for (const { name, input } of wire.sent.slice(before)) {
      const write = name === 'TransactWriteItems' ? input.TransactItems?.[0]?.['Update'] : input;
      assert.ok(write?.ConditionExpression, name);
      assert.equal(write.ReturnValuesOnConditionCheckFailure, 'ALL_OLD', name);
    }
  });

  it('once for a completion with writes: one transaction, the record first', async () => {
    const mine = await inProgress(ledger);
    wire.takeNames();
    const writes = [domainWrite(), domainWrite()];
    assert.equal((await ledger.complete(mine, outcomeAt(LATER), writes)).kind, 'moved');
    assert.deepEqual(wire.takeNames(), ['TransactWriteItems']);
    const [first, ...rest] = wire.sent.at(-1)?.input.TransactItems ?? [];
    assert.deepEqual(first?.['Update']?.Key, { pk: { S: mine.pk }, sk: { S: 'record' } });
    assert.equal(rest.length, 2);
  });

  it('once for a completion with no writes given: an update, at half the price', async () => {
    const mine = await inProgress(ledger);
    wire.takeNames();
    assert.equal((await ledger.complete(mine, outcomeAt(LATER), [])).kind, 'moved');
    assert.deepEqual(wire.takeNames(), ['UpdateItem']);
  });

  it('once more per chunk of a large body, each before the update that points at it', async () => {
    const mine = await inProgress(ledger);
    wire.takeNames();
    const done = await completedBy(ledger, mine, replyWith(bytes(2 * limits.chunkMaxBytes + 1)));
    assert.deepEqual(wire.takeNames(), ['PutItem', 'PutItem', 'PutItem', 'UpdateItem']);
    assert.deepEqual('chunks' in done.response.body && done.response.body.chunks, 3);
    for (const { input } of wire.sent.slice(-4, -1)) {
      assert.equal(input.ConditionExpression, 'attribute_not_exists(#pk)', 'a chunk is never overwritten');
    }
  });

  it('with a query on the replay of a large body, one page for each megabyte', async () => {
    const mine = await inProgress(ledger);
    const done = await completedBy(ledger, mine, replyWith(bytes(2 * limits.chunkMaxBytes)));
    const large = await completedBy(
      ledger,
      await inProgress(ledger),
      replyWith(bytes(4 * limits.chunkMaxBytes)),
    );
    wire.takeNames();
    await ledger.reserve(claimOf({ pk: mine.pk }), execute);
    await ledger.reply(done.pk, done.response);
    assert.deepEqual(wire.takeNames(), ['PutItem', 'Query']);
    assert.equal(JSON.parse(wire.sent.at(-1)?.body ?? '{}').ConsistentRead, true, 'the chunks are fresh');
    await ledger.reply(large.pk, large.response);
    assert.deepEqual(wire.takeNames(), ['Query', 'Query']);
  });

  it('with no query for a body on the record, to its largest', async () => {
    const mine = await inProgress(ledger);
    wire.takeNames();
    const done = await completedBy(ledger, mine, replyWith(bytes(limits.inlineBodyMaxBytes)));
    await ledger.reply(done.pk, done.response);
    assert.deepEqual(wire.takeNames(), ['UpdateItem']);
  });

  it('once for a step, twice for an effect, and once for the lease that is handed back', async () => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    wire.takeNames();
    const row = movedRecord<InProgress>(await ledger.saveStep(mine, 'row', '1', LATER));
    assert.deepEqual(wire.takeNames(), ['UpdateItem']);
    const open = movedRecord<InProgress>(await ledger.openStep(row, 'charge', LATER));
    const saved = movedRecord<InProgress>(await ledger.saveStep(open, 'charge', '"ch_1"', LATER));
    assert.deepEqual(wire.takeNames(), ['UpdateItem', 'UpdateItem']);
    await ledger.handBack(saved, LATER, { shard: 'due#0', at: LATER });
    assert.deepEqual(wire.takeNames(), ['UpdateItem']);
  });

  it('once more per chunk of a long result, and with one query when it is read', async () => {
    const texts = {
      short: '"ch_1"',
      compressed: JSON.stringify(Array(1_000).fill('again')),
      long: JSON.stringify(Buffer.from(bytes(2_000)).toString('base64')),
      longer: JSON.stringify(Buffer.from(bytes(600_000)).toString('base64')),
    };
    const puts = { short: 0, compressed: 0, long: 1, longer: 2 };
    let mine = await inProgress(ledger, { effects: 'steps' });
    for (const [name, text] of Object.entries(texts)) {
      const chunks = puts[name as keyof typeof puts];
      wire.takeNames();
      mine = movedRecord(await ledger.saveStep(mine, name, text, LATER));
      assert.deepEqual(wire.takeNames(), [...Array(chunks).fill('PutItem'), 'UpdateItem'], name);
      assert.equal(await ledger.stepResult(mine.pk, mine.steps.get(name) as DoneStep), text);
      assert.deepEqual(wire.takeNames(), chunks > 0 ? ['Query'] : [], name);
    }
  });

  it('once for a step with a write of its own: one transaction', async () => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    wire.takeNames();
    assert.equal((await ledger.saveStep(mine, 'row', '1', LATER, [domainWrite()])).kind, 'moved');
    assert.deepEqual(wire.takeNames(), ['TransactWriteItems']);
  });

  it('no more often for a request that is kept, and not at all to read it', async () => {
    const request = { function: 'payments', event: bytes(1_000) };
    const mine = movedRecord<InProgress>(await ledger.reserve({ ...claimOf(), request }, execute));
    assert.deepEqual(wire.takeNames(), ['PutItem']);
    assert.deepEqual(await ledger.request(mine), request);
    const failed = await failedBy(ledger, mine);
    assert.equal((await ledger.retake(failed, { ...attemptAt(LATER), request })).kind, 'owned');
    assert.deepEqual(wire.takeNames(), ['UpdateItem', 'UpdateItem']);
  });

  it('once for each note of a delivery, won or lost, and not at all for an event that is emitted', async () => {
    const { outbox } = deferralAt(LATER);
    const mine = await inProgress(ledger);
    wire.takeNames();
    const accepted = movedRecord<Accepted>(await ledger.accept(mine, deferralAt(LATER)));
    assert.deepEqual(wire.takeNames(), ['UpdateItem']);
    const emitted = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(LATER), outbox });
    assert.deepEqual(wire.takeNames(), ['PutItem', 'UpdateItem']);
    for (const record of [accepted, emitted as CompletedUndelivered]) {
      const claim = { to: 'claimed', id: 'me', until: LATER } as const;
      const claimed = movedRecord<Undelivered>(await ledger.noteDelivery(record, 0, claim));
      assert.equal((await ledger.noteDelivery(record, 0, { ...claim, id: 'you' })).kind, 'fenced');
      const done = { to: 'done', at: LATER, claim: 'me', reply: replyOf('"paid"') } as const;
      assert.equal((await ledger.noteDelivery(claimed, 0, done)).kind, 'moved');
      assert.deepEqual(wire.takeNames(), Array(3).fill('UpdateItem'));
      assert.equal(wire.sent.at(-1)?.input.ReturnValuesOnConditionCheckFailure, 'ALL_OLD');
    }
  });

  it('once more per chunk of a long answer of a delivery', async () => {
    const accepted = movedRecord<Accepted>(await ledger.accept(await inProgress(ledger), deferralAt(LATER)));
    const reply = { ...replyOf(''), body: bytes(2 * limits.inlineBodyMaxBytes) };
    wire.takeNames();
    assert.equal((await ledger.noteDelivery(accepted, 0, { to: 'done', at: LATER, reply })).kind, 'moved');
    assert.deepEqual(wire.takeNames(), ['PutItem', 'UpdateItem']);
    await assert.rejects(
      ledger.noteDelivery(accepted, 1, { to: 'done', at: LATER, reply }),
      /none with index 1/,
    );
    assert.deepEqual(wire.takeNames(), [], 'and no chunk is left behind for an event that is not there');
  });

  it('once to retake or take over, won or lost', async () => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const mine = await inProgress(ledger);
    wire.takeNames();
    assert.equal((await ledger.retake(failed, attemptAt(LATER))).kind, 'owned');
    assert.equal((await ledger.retake(failed, attemptAt(LATER))).kind, 'held');
    const late = { ...attemptAt(LAPSED), skewMs: SKEW_MS };
    assert.equal((await ledger.takeOver(mine, late)).kind, 'owned');
    assert.equal((await ledger.takeOver(mine, { ...late, owner: randomUUID() })).kind, 'held');
    assert.deepEqual(wire.takeNames(), Array(4).fill('UpdateItem'));
  });

  it('once by an owner that lost its fence: no read follows', async () => {
    const mine = await inProgress(ledger);
    await failedBy(ledger, mine);
    wire.takeNames();
    assert.equal((await ledger.complete(mine, outcomeAt(LATER))).kind, 'fenced');
    assert.equal((await ledger.complete(mine, outcomeAt(LATER), [domainWrite()])).kind, 'fenced');
    assert.deepEqual(wire.takeNames(), ['UpdateItem', 'TransactWriteItems']);
  });

  it('with one strongly consistent read to look at a record', async () => {
    const mine = await inProgress(ledger);
    wire.takeNames();
    await ledger.read(mine.pk);
    assert.deepEqual(wire.takeNames(), ['GetItem']);
    assert.equal(JSON.parse(wire.sent.at(-1)?.body ?? '{}').ConsistentRead, true);
  });
});

describe('a record with long names', () => {
  const tenant = `tenant_${randomUUID()}`;
  const operation =
    'POST /v2/organizations/{organizationId}/accounts/{accountId}/payments/{paymentId}/captures';
  const claim = () => ({
    tenant,
    operation,
    pk: scopePk({ tenant, operation, key: randomUUID() }),
    fingerprint: fingerprint({
      method: 'POST',
      path: '/v2/organizations/o/accounts/a/payments/p/captures',
      query: [],
      contentType: 'application/json',
      headers: [],
      body: bytes(100),
    }),
  });
  const headers = [
    ['content-type', 'application/json; charset=utf-8'],
    ['location', `/v2/organizations/${randomUUID()}/payments/${randomUUID()}`],
    ['etag', `"${createHash('sha256').digest('hex')}"`],
  ] as const;
  const emptyReply = { ...outcomeAt(LATER), reply: { ...replyOf(''), headers } };

  const sizeNow = async (pk: string) => {
    const { Item } = await client.send(
      new GetItemCommand({ TableName: tableName, Key: { pk: { S: pk }, sk: { S: 'record' } } }),
    );
    return itemBytes(Item ?? {});
  };

  it('stays under 1 KB without its body in every ordinary state, so that a replay costs one unit', async () => {
    const mine = await inProgress(ledger, claim());
    assert.ok((await sizeNow(mine.pk)) < 1_024, `in progress: ${await sizeNow(mine.pk)} bytes`);
    const failed = movedRecord<Awaited<ReturnType<typeof failedBy>>>(
      await ledger.release(mine, failureAt(LATER)),
    );
    assert.ok((await sizeNow(mine.pk)) < 1_024, `failed: ${await sizeNow(mine.pk)} bytes`);
    const again = movedRecord<InProgress>(await ledger.retake(failed, attemptAt(LATER)));
    capacity.length = 0;
    await completedBy(ledger, again, emptyReply);
    assert.deepEqual(capacity, [1], 'completing it costs one unit');
    assert.ok((await sizeNow(mine.pk)) < 1_024, `completed: ${await sizeNow(mine.pk)} bytes`);
  });

  it('costs one unit more for each further kilobyte of a body on the record', async () => {
    const mine = await inProgress(ledger, claim());
    capacity.length = 0;
    await completedBy(ledger, mine, { ...emptyReply, reply: { ...emptyReply.reply, body: bytes(4_096) } });
    const size = await sizeNow(mine.pk);
    assert.ok(size > 4_096 && size < 5 * 1_024, `${size} bytes`);
    assert.equal(capacity[0], 5);
  });
});

/** DynamoDB's own arithmetic: names and values in UTF-8, numbers by pairs of digits, 3 bytes per list or map. */
function itemBytes(item: Record<string, AttributeValue>): number {
  return Object.entries(item).reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + valueBytes(value),
    0,
  );
}

function valueBytes({ S, N, B, M, L }: AttributeValue): number {
  if (S !== undefined) return Buffer.byteLength(S);
  if (N !== undefined) return Math.ceil(N.replace(/\D/g, '').length / 2) + 1;
  if (B !== undefined) return B.byteLength;
  if (M !== undefined) return 3 + Object.keys(M).length + itemBytes(M);
  if (L !== undefined) return 3 + L.length + L.reduce((sum, value) => sum + valueBytes(value), 0);
  return 1;
}
