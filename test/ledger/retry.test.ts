import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { DynamoDBClient, GetItemCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, beforeAll, describe, inject, it } from 'vitest';
import { InvalidArgument, RecordUnreadable, StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { schedule } from '../../lib/core/policy.ts';
import type { InProgress } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger, Taken, Until } from '../../lib/ledger/ledger.ts';
import { ledgerClient, type TransactWrite } from '../../lib/ledger/table.ts';
import { localClientConfig } from '../../lib/local/store/client.ts';
import {
  acceptedBy,
  attemptAt,
  claimOf,
  completedBy,
  execute,
  failedBy,
  inProgress,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  replyOf,
  SECOND,
  SKEW_MS,
  START,
} from '../../lib/testing/contract/subject.ts';
import {
  always,
  answered,
  cancelled,
  cutOff,
  type Fault,
  inTurn,
  neverArrived,
  only,
  type Plan,
  responseLost,
  socketError,
  thrown,
  times,
  type WireItem,
  wireOf,
} from '../support/faults.ts';
import { seededRandom } from '../support/random.ts';
import { useTable } from '../support/table.ts';

const LATER = START + SECOND;

const { tableName, client, newClient } = useTable();
const documents = DynamoDBDocumentClient.from(client);
const sound = dynamoDbLedger({ tableName, client, clock: () => START });

const clients: DynamoDBClient[] = [];
beforeAll(async () => {
  await inProgress(sound); // DynamoDB Local's first answer is slow enough to time out, and tries are counted here.
});
afterAll(() => {
  for (const each of clients) each.destroy();
});

/** A ledger whose requests meet the plan. Its clock moves by what it sleeps, and by nothing else. */
function stage(plan: Plan, { random = (): number => 1, standstill = false, start = START } = {}) {
  const faulty = newClient();
  clients.push(faulty);
  let now = start;
  const sleeps: number[] = [];
  const leftAt: number[] = [];
  const wire = wireOf(faulty, (call) => {
    leftAt.push(now);
    return plan(call);
  });
  const ledger = dynamoDbLedger({
    tableName,
    client: faulty,
    clock: () => now,
    random,
    sleep: async (ms) => {
      sleeps.push(ms);
      if (!standstill) now += ms;
    },
  });
  return {
    ledger,
    wire,
    sleeps,
    leftAt,
    setNow(next: number) {
      now = next;
    },
  };
}

/** The provider of credentials runs before the SDK's own retries, which label every error that passes them. */
function withCredentials(firstError: Error) {
  let asked = 0;
  const credentials = async () => {
    asked += 1;
    if (asked === 1) throw firstError;
    return { accessKeyId: 'local', secretAccessKey: 'local' };
  };
  const late = ledgerClient({ ...localClientConfig(inject('dynamoDbEndpoint')), credentials });
  clients.push(late);
  const ledger = dynamoDbLedger({ tableName, client: late, clock: () => START, sleep: async () => {} });
  return { ledger, asked: () => asked };
}

function domainPut(condition?: string): { Put: NonNullable<TransactWrite['Put']> } {
  const Item = { pk: `domain-${randomUUID()}`, sk: 'payment' };
  return { Put: { TableName: tableName, Item, ...(condition && { ConditionExpression: condition }) } };
}

async function exists({ Put }: ReturnType<typeof domainPut>): Promise<boolean> {
  const { pk, sk } = Put.Item ?? {};
  return (await documents.send(new GetCommand({ TableName: tableName, Key: { pk, sk } }))).Item !== undefined;
}

async function rawItem(pk: string): Promise<WireItem> {
  const Key = { pk: { S: pk }, sk: { S: 'record' } };
  const { Item } = await client.send(new GetItemCommand({ TableName: tableName, Key }));
  return JSON.parse(JSON.stringify(Item)) as WireItem;
}

describe('what may pass is tried again', () => {
  const transient: Readonly<Record<string, Fault>> = {
    'a lost response': responseLost,
    'a connection that broke before the request left': neverArrived,
    'a response that was cut off': cutOff,
    'a throttled request': answered('ThrottlingException'),
    'a throttled partition': answered('ProvisionedThroughputExceededException'),
    'a throttled account': answered('RequestLimitExceeded'),
    'an internal error': answered('InternalServerError', 500),
    'a service that is unavailable': answered('ServiceUnavailableException', 503),
    'a transaction of another on the same item': answered('TransactionConflictException'),
    'a timeout of the socket': thrown(
      Object.assign(new Error('socket hang up'), { name: 'TimeoutError', code: 'ETIMEDOUT' }),
    ),
    'a request that was aborted': thrown(Object.assign(new Error('Request aborted'), { name: 'AbortError' })),
  };
  for (const [what, fault] of Object.entries(transient)) {
    it(`${what}, for a reserve`, async () => {
      const { ledger, wire } = stage(times(2, fault));
      assert.equal((await ledger.reserve(claimOf(), execute)).kind, 'owned');
      assert.deepEqual(wire.takeNames(), ['PutItem', 'PutItem', 'PutItem']);
    });
  }

  const transientCancellations: Readonly<Record<string, Fault>> = {
    'a transaction still in progress': answered('TransactionInProgressException'),
    'a conflict on the record': cancelled('TransactionConflict', 'None'),
    'a conflict on a write': cancelled('None', 'TransactionConflict'),
    'a throttled record': cancelled('ThrottlingError', 'None'),
    'a throttled write': cancelled('None', 'ProvisionedThroughputExceeded'),
    'a failed condition beside a conflict on the record': cancelled(
      'TransactionConflict',
      'ConditionalCheckFailed',
    ),
    'a failed condition beside a throttled write': cancelled(
      'None',
      'ConditionalCheckFailed',
      'ThrottlingError',
    ),
    'an internal error': answered('InternalServerError', 500),
    'a lost response': responseLost,
  };
  for (const [what, fault] of Object.entries(transientCancellations)) {
    it(`${what}, for a completion with writes`, async () => {
      const { ledger, wire } = stage(only('TransactWriteItems', times(2, fault)));
      const mine = await inProgress(ledger);
      wire.takeNames();
      const write = domainPut('attribute_not_exists(pk)');
      const done = await ledger.complete(mine, outcomeAt(LATER), [write]);
      assert.equal(done.kind, 'moved');
      assert.deepEqual(await sound.read(mine.pk), done.record);
      assert.equal(await exists(write), true);
      assert.deepEqual(wire.takeNames(), Array(3).fill('TransactWriteItems'));
    });
  }

  it('a query and a read', async () => {
    const body = Uint8Array.from({ length: 2 * limits.inlineBodyMaxBytes }, noise());
    const outcome = { ...outcomeAt(LATER), reply: { ...replyOf(''), body } };
    const done = await completedBy(sound, await inProgress(sound), outcome);
    const { ledger, wire } = stage(inTurn(responseLost, undefined, answered('InternalServerError', 500)));
    assert.deepEqual(await ledger.read(done.pk), done);
    assert.equal(Buffer.compare((await ledger.reply(done.pk, done.response)).body, body), 0);
    assert.deepEqual(wire.takeNames(), ['GetItem', 'GetItem', 'Query', 'Query']);
  });

  it('credentials that could not be fetched because a socket broke or timed out', async () => {
    const timeout = Object.assign(new Error('no answer from the endpoint'), { name: 'TimeoutError' });
    for (const error of [socketError(), timeout]) {
      const { ledger, asked } = withCredentials(error);
      assert.equal((await ledger.reserve(claimOf(), execute)).kind, 'owned');
      assert.equal(asked(), 2);
    }
  });

  it('a thousand times in a row: no quota of the SDK runs out', async () => {
    const { ledger, wire } = stage(times(1_000, responseLost), { standstill: true });
    const claim = claimOf();
    const reserved = await ledger.reserve(claim, execute);
    assert.equal(reserved.kind, 'owned');
    assert.equal(reserved.record.owner, claim.owner);
    assert.ok(wire.sent.length > 1_000);
    assert.equal(
      (await ledger.reserve(claimOf(), execute)).kind,
      'owned',
      'and the client is as good as new',
    );
  });

  it('with pauses that double up to a cap, and full jitter', async () => {
    const most = stage(times(8, neverArrived), { standstill: true });
    await most.ledger.reserve(claimOf(), execute);
    assert.deepEqual(most.sleeps, [25, 50, 100, 200, 400, 500, 500, 500]);

    const least = stage(times(3, neverArrived), { standstill: true, random: () => 0 });
    await least.ledger.reserve(claimOf(), execute);
    assert.deepEqual(least.sleeps, [0, 0, 0]);
  });
});

describe('all tries of one call', () => {
  it('carry the same input: the time in the condition of a reserve does not move', async () => {
    const { ledger, wire, leftAt } = stage(times(4, neverArrived));
    await ledger.reserve(claimOf(), execute);
    assert.equal(new Set(leftAt).size, 5, 'time passed between them');
    assert.equal(new Set(wire.sent.map(({ body }) => body)).size, 1);
    const limit = wire.sent[0]?.input.ExpressionAttributeValues?.[':expiredBefore'];
    assert.deepEqual(limit, { N: String(START - SKEW_MS) });
  });

  it('carry the same token if they are a transaction, and another call carries another', async () => {
    const { ledger, wire } = stage(only('TransactWriteItems', inTurn(neverArrived, responseLost)));
    for (let calls = 0; calls < 2; calls += 1) {
      const mine = await inProgress(ledger);
      assert.equal((await ledger.complete(mine, outcomeAt(LATER), [domainPut()])).kind, 'moved');
    }
    const tokens = wire.sent.flatMap(({ input }) => input.ClientRequestToken ?? []);
    assert.equal(tokens.length, 4);
    assert.equal(new Set(tokens.slice(0, 3)).size, 1);
    assert.notEqual(tokens[3], tokens[0]);
  });
});

describe('no try leaves too late', () => {
  const untils: Readonly<Record<string, (ledger: Ledger<TransactWrite>, call: Until) => Promise<unknown>>> = {
    read: (ledger, call) => ledger.read('pk', call),
    reply: (ledger, call) => {
      const response = {
        status: 200,
        headers: [],
        base64: false,
        schemaVersion: 1,
        encoding: 'identity',
      } as const;
      const body = { set: 'nobody', chunks: 1 };
      return ledger.reply('pk', { ...response, length: 1, crc: 1, body }, call);
    },
    unwatched: (ledger, call) => ledger.unwatched({ index: 0, of: 1 }, 1, undefined, call),
    completedIn: (ledger, call) =>
      ledger.completedIn({ from: START, to: LATER }, ['POST /payments'], 1, undefined, call),
    due: (ledger, call) => ledger.due('due#0', START, 1, undefined, call),
    reserve: (ledger, call) => ledger.reserve(claimOf(), execute, call),
    complete: async (ledger, call) =>
      ledger.complete(await inProgress(sound), outcomeAt(LATER), undefined, call),
    'complete with writes': async (ledger, call) =>
      ledger.complete(await inProgress(sound), outcomeAt(LATER), [domainPut()], call),
    'complete with chunks': async (ledger, call) => {
      const body = Uint8Array.from({ length: 2 * limits.inlineBodyMaxBytes }, noise());
      const outcome = { ...outcomeAt(LATER), reply: { ...replyOf(''), body } };
      return ledger.complete(await inProgress(sound), outcome, undefined, call);
    },
    saveStep: async (ledger, call) =>
      ledger.saveStep(await inProgress(sound, { effects: 'steps' }), 'a', '1', LATER, undefined, call),
    noteDelivery: async (ledger, call) => {
      const note = { to: 'claimed', id: 'me', until: LATER } as const;
      return ledger.noteDelivery(await acceptedBy(sound, await inProgress(sound)), 0, note, call);
    },
    stepResult: (ledger, call) => {
      const body = { set: 'nobody', chunks: 1 };
      const result = { encoding: 'identity', length: 1, crc: 1, body } as const;
      return ledger.stepResult('pk', { state: 'done', attempt: 1, at: START, result }, call);
    },
  };
  for (const [name, act] of Object.entries(untils)) {
    it(`for a ${name}: not after the end that the caller set, and the caller is told`, async () => {
      const { ledger, leftAt, sleeps, wire } = stage(always(neverArrived));
      const until = START + 1_000;
      await assert.rejects(act(ledger, { until }), (error) => {
        assert.ok(error instanceof StoreUnavailable);
        assert.equal(error.remedy, 'retry-same-key');
        assert.match(error.message, /did not answer in time, after 6 tries \(Error: read ECONNRESET\)/);
        assert.match(error.message, /may have happened all the same; retry with the same key/);
        assert.ok(error.cause instanceof Error);
        return true;
      });
      assert.deepEqual(
        leftAt.map((at) => at - START),
        [0, 25, 75, 175, 375, 775],
      );
      assert.deepEqual(sleeps, [25, 50, 100, 200, 400, 225], 'the last pause ends with the time');
      assert.equal(wire.sent.length, 6);
    });

    it(`for a ${name}: with no time left nothing is sent at all`, async () => {
      const { ledger, wire } = stage(always(neverArrived));
      await assert.rejects(act(ledger, { until: START }), /no time left to ask the ledger; nothing was sent/);
      assert.equal(wire.sent.length, 0);
    });
  }

  it('not after the budget, if the caller set no end', async () => {
    const { ledger, leftAt } = stage(always(neverArrived));
    await assert.rejects(ledger.read('pk'), StoreUnavailable);
    assert.ok(leftAt.length > 8, `${leftAt.length} tries`);
    for (const at of leftAt) assert.ok(at < START + schedule.storeBudgetMs);
  });

  it('not after its own lease, for whoever claims a key, however late the caller would wait', async () => {
    const failed = await failedBy(sound, await inProgress(sound));
    const abandoned = await inProgress(sound);
    const generous = { until: LAPSED + LEASE_MS };
    const claims: readonly ((ledger: Ledger<TransactWrite>, leaseUntil: number) => Promise<unknown>)[] = [
      (ledger, leaseUntil) => ledger.reserve(claimOf({ leaseUntil }), execute, generous),
      (ledger, leaseUntil) => ledger.retake(failed, { ...attemptAt(START), leaseUntil }, generous),
      (ledger, leaseUntil) =>
        ledger.takeOver(abandoned, { ...attemptAt(START), leaseUntil, skewMs: SKEW_MS }, generous),
    ];
    for (const claim of claims) {
      const { ledger, leftAt } = stage(always(neverArrived));
      await assert.rejects(claim(ledger, START + 300), StoreUnavailable);
      assert.deepEqual(
        leftAt.map((at) => at - START),
        [0, 25, 75, 175],
      );
      const late = stage(always(neverArrived), { start: START + 300 });
      await assert.rejects(claim(late.ledger, START + 300), /nothing was sent/);
      assert.equal(late.wire.sent.length, 0);
    }
  });

  it('and a claim that finds itself only after its own lease owns nothing', async () => {
    const failed = await failedBy(sound, await inProgress(sound));
    const abandoned = await inProgress(sound);
    const leaseUntil = LAPSED + 300;
    const attempt = { ...attemptAt(LAPSED), leaseUntil, skewMs: SKEW_MS };
    const claims: readonly ((ledger: Ledger<TransactWrite>) => Promise<Taken>)[] = [
      (ledger) => ledger.reserve(claimOf({ now: LAPSED, leaseUntil }), execute),
      (ledger) => ledger.retake(failed, attempt),
      (ledger) => ledger.takeOver(abandoned, { ...attempt, owner: randomUUID() }),
    ];
    for (const claim of claims) {
      const slow: Fault = async (deliver) => {
        setNow(leaseUntil + 1); // Its second try left in time, and is answered late.
        return deliver();
      };
      const { ledger, setNow } = stage(inTurn(responseLost, slow), { start: LAPSED });
      const late = await claim(ledger);
      assert.equal(late.kind, 'held');
      assert.equal(late.record?.status, 'in_progress');
    }
    const onTime: Fault = async (deliver) => {
      last.setNow(leaseUntil);
      return deliver();
    };
    const last = stage(inTurn(responseLost, onTime), { start: LAPSED });
    const claimed = await last.ledger.reserve(claimOf({ now: LAPSED, leaseUntil }), execute);
    assert.equal(claimed.kind, 'owned', 'the last millisecond of the lease is still its own');
  });

  it('but an end between two milliseconds is an end like any other', async () => {
    const { ledger } = stage(() => undefined);
    assert.equal((await ledger.reserve(claimOf(), execute, { until: START + 900.5 })).kind, 'owned');
  });
});

describe('a request that hangs', () => {
  const ends: (() => void)[] = [];
  afterAll(() => {
    for (const end of ends) end();
  });

  /** Something that listens where DynamoDB should be. */
  async function listener(answer: (socket: Socket, connection: number) => void) {
    let connections = 0;
    const closed: Promise<unknown>[] = [];
    const server = createServer((socket) => {
      connections += 1;
      const connection = connections;
      socket.on('error', () => {});
      closed.push(once(socket, 'close'));
      socket.once('data', () => answer(socket, connection));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const hanging = ledgerClient(localClientConfig(`http://127.0.0.1:${port}`));
    clients.push(hanging);
    ends.push(() => server.close());
    return { hanging, closed, connections: () => connections };
  }

  it('is not waited for beyond the end that the caller set', async () => {
    const { hanging } = await listener((socket) => {
      setTimeout(() => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'), 800);
    });
    const ledger = dynamoDbLedger({ tableName, client: hanging });
    await assert.rejects(ledger.read('pk', { until: Date.now() + 200 }), StoreUnavailable);
  });

  const stuck: Readonly<Record<string, (socket: Socket) => void>> = {
    'before the first byte of the response': () => {},
    'in the middle of the response': (socket) =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"Item":'),
  };
  for (const [where, answer] of Object.entries(stuck)) {
    it(`${where} is aborted when the caller's time is over`, async () => {
      const { hanging, closed } = await listener(answer);
      const ledger = dynamoDbLedger({ tableName, client: hanging });
      await assert.rejects(ledger.read('pk', { until: Date.now() + 300 }), /after 1 try \(AbortError/);
      await Promise.all(closed);
      assert.equal(closed.length, 1, 'its connection is closed, so that it cannot arrive later');
    });
  }

  it('is aborted after its own timeout although there is time, and tried again', async () => {
    const { hanging, connections } = await listener((socket, connection) => {
      if (connection === 1) return;
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
    });
    const ledger = dynamoDbLedger({ tableName, client: hanging, clock: () => START, sleep: async () => {} });
    assert.equal(await ledger.read('pk', { until: START + 3_600_000 }), undefined);
    assert.equal(connections(), 2);
  });
});

describe('what cannot work is not tried again', () => {
  for (const name of [
    'ValidationException',
    'AccessDeniedException',
    'ResourceNotFoundException',
    'UnrecognizedClientException',
    'ItemCollectionSizeLimitExceededException',
  ]) {
    it(`${name} says at once what to look at`, async () => {
      const { ledger, wire } = stage(always(answered(name)));
      await assert.rejects(ledger.reserve(claimOf(), execute), (error) => {
        assert.ok(error instanceof StoreRefused);
        assert.equal(error.remedy, 'fix-deployment');
        assert.match(error.message, new RegExp(`${name}: injected ${name}`));
        assert.match(error.message, /Check the table's name, its keys, the function's permissions/);
        assert.ok(error.cause instanceof Error);
        return true;
      });
      assert.equal(wire.sent.length, 1);
    });
  }

  it('a store that refuses a reserve and does not show the record: never taken for a free key', async () => {
    const { ledger, wire } = stage(always(answered('ConditionalCheckFailedException')));
    await assert.rejects(ledger.reserve(claimOf(), execute), (error) => {
      assert.ok(error instanceof RecordUnreadable);
      assert.match(error.message, /must support ReturnValuesOnConditionCheckFailure: ALL_OLD/);
      return true;
    });
    assert.equal(wire.sent.length, 1);
  });

  it('a table that does not exist', async () => {
    const ledger = dynamoDbLedger({ tableName: 'no-such-table', client });
    await assert.rejects(ledger.reserve(claimOf(), execute), StoreRefused);
  });

  it('a write that DynamoDB does not understand, and then nothing is written', async () => {
    const mine = await inProgress(sound);
    const other = domainPut();
    const { ledger, wire } = stage(() => undefined);
    const writes = [other, domainPut('this is not a condition')];
    await assert.rejects(ledger.complete(mine, outcomeAt(LATER), writes), StoreRefused);
    assert.equal(wire.sent.length, 1);
    assert.deepEqual(await sound.read(mine.pk), mine);
    assert.equal(await exists(other), false);
  });

  it('a write that cannot be turned into an item: the error is the marshaller’s, and nothing is sent', async () => {
    const mine = await inProgress(sound);
    for (const value of [new Date(START), Number.NaN]) {
      const { ledger, wire } = stage(() => undefined);
      const { Put } = domainPut();
      const writes = [{ Put: { ...Put, Item: { ...Put.Item, value } } }];
      await assert.rejects(
        ledger.complete(mine, outcomeAt(LATER), writes),
        /Unsupported type passed|Special numeric value NaN/,
      );
      assert.equal(wire.sent.length, 0);
    }
    assert.deepEqual(await sound.read(mine.pk), mine);
  });

  it('a mistake in code, with an error code of Node’s or without', async () => {
    const mistakes = [
      new TypeError('x is not a function'),
      Object.assign(new TypeError('must be of type string'), { code: 'ERR_INVALID_ARG_TYPE' }),
    ];
    for (const mistake of mistakes) {
      const { ledger, asked } = withCredentials(mistake);
      await assert.rejects(ledger.reserve(claimOf(), execute), mistake);
      assert.equal(asked(), 1);
    }
  });

  it('what could not be read back: refused before anything is sent', async () => {
    const mine = await inProgress(sound);
    const failed = await failedBy(sound, await inProgress(sound));
    const accepted = await acceptedBy(sound, await inProgress(sound));
    const { ledger, wire } = stage(() => undefined);
    const endless = { ...outcomeAt(LATER), expiresAt: Number.NaN };
    const halfway = { ...attemptAt(LATER), leaseUntil: LATER + 0.5 };
    for (const act of [
      () => ledger.complete(mine, endless),
      () => ledger.complete(mine, endless, [domainPut()]),
      () => ledger.retake(failed, halfway),
      () => ledger.noteDelivery(accepted, 0, { to: 'done', at: LATER + 0.5 }),
    ]) {
      await assert.rejects(act, InvalidArgument);
    }
    assert.equal(wire.sent.length, 0);
  });

  it('more writes than fit beside the record: refused before anything is sent', async () => {
    const mine = await inProgress(sound);
    const { ledger, wire } = stage(() => undefined);
    const tooMany = Array.from({ length: limits.transactionMaxItems }, () => domainPut());
    await assert.rejects(ledger.complete(mine, outcomeAt(LATER), tooMany), (error) => {
      assert.ok(error instanceof InvalidArgument);
      assert.match(error.message, /100 writes were given.*pass at most 99/);
      return true;
    });
    assert.equal(wire.sent.length, 0);
    const done = await ledger.complete(mine, outcomeAt(LATER), tooMany.slice(1));
    assert.equal(done.kind, 'moved', '99 are taken');
  });

  it('a client that retries by itself', async () => {
    for (const config of [{}, { maxAttempts: 2 }]) {
      const eager = new DynamoDBClient({ ...localClientConfig(inject('dynamoDbEndpoint')), ...config });
      clients.push(eager);
      const wire = wireOf(eager);
      const ledger = dynamoDbLedger({ tableName, client: eager });
      const claim = claimOf();
      for (const act of [() => ledger.reserve(claim, execute), () => ledger.read(claim.pk)]) {
        await assert.rejects(act, (error) => {
          assert.ok(error instanceof InvalidArgument);
          assert.match(error.message, /makes \d attempts per call.*ledgerClient\(\).*maxAttempts: 1/);
          return true;
        });
      }
      assert.equal(wire.sent.length, 0);
    }
  });

  it('a client of ledgerClient() does not, whatever it is told', async () => {
    const stubborn = ledgerClient({ ...localClientConfig(inject('dynamoDbEndpoint')), maxAttempts: 5 });
    clients.push(stubborn);
    assert.equal(await stubborn.config.maxAttempts(), 1);
  });
});

describe('a transaction that is cancelled', () => {
  it('by a write says which, why and over what, and nothing is written', async () => {
    const taken = domainPut();
    await documents.send(new PutCommand({ ...taken.Put, Item: { ...taken.Put.Item, seat: '12A' } }));
    const free = domainPut();
    const silent = {
      Put: { ...taken.Put, Item: taken.Put.Item, ConditionExpression: 'attribute_not_exists(pk)' },
    };
    const asking = {
      Put: { ...silent.Put, ReturnValuesOnConditionCheckFailure: 'ALL_OLD' },
    } as const;

    for (const [write, item] of [
      [silent, undefined],
      [asking, { ...taken.Put.Item, seat: '12A' }],
    ] as const) {
      const mine = await inProgress(sound);
      const { ledger, wire } = stage(() => undefined);
      const refused = await ledger.complete(mine, outcomeAt(LATER), [free, write]);
      assert.ok(refused.kind === 'refused');
      assert.deepEqual(refused.reasons, [
        { write: free, index: 0, code: 'None', message: undefined, item: undefined },
        {
          write,
          index: 1,
          code: 'ConditionalCheckFailed',
          message: 'The conditional request failed',
          item,
        },
      ]);
      assert.equal(wire.sent.length, 1, 'it is not tried again');
      assert.deepEqual(await sound.read(mine.pk), mine);
      assert.equal(await exists(free), false);
    }
  });

  it('by a write for any lasting reason surfaces that reason', async () => {
    const mine = await inProgress(sound);
    const reason = { Code: 'ValidationError', Message: 'Type mismatch for attribute to update' };
    const { ledger, wire } = stage(always(cancelled('None', reason)));
    const write = domainPut();
    const refused = await ledger.complete(mine, outcomeAt(LATER), [write]);
    assert.ok(refused.kind === 'refused');
    assert.deepEqual(refused.reasons, [
      { write, index: 0, code: reason.Code, message: reason.Message, item: undefined },
    ]);
    assert.equal(wire.sent.length, 1);
  });

  it('by the record and by a write is about the record', async () => {
    const mine = await inProgress(sound);
    const done = await completedBy(sound, mine, outcomeAt(LATER));
    const impossible = domainPut('attribute_exists(pk)');
    const found = await sound.complete(mine, outcomeAt(LATER), [impossible]);
    assert.deepEqual(found, { kind: 'moved', record: done }, 'our own completion, from an earlier try');
    const another = await sound.complete(mine, outcomeAt(LATER, '"other"'), [impossible]);
    assert.deepEqual(another, { kind: 'fenced', record: done }, 'not what we wanted to say now');

    const other = await inProgress(sound);
    const failed = await failedBy(sound, other);
    const fenced = await sound.complete(other, outcomeAt(LATER), [impossible]);
    assert.deepEqual(fenced, { kind: 'fenced', record: failed });
  });

  it('by the record is answered at once, even beside a conflict', async () => {
    const mine = await inProgress(sound);
    const failed = await failedBy(sound, mine);
    const own = { Code: 'ConditionalCheckFailed', Item: await rawItem(mine.pk) };
    const { ledger, wire } = stage(always(cancelled(own, 'TransactionConflict')));
    const fenced = await ledger.complete(mine, outcomeAt(LATER), [domainPut()]);
    assert.deepEqual(fenced, { kind: 'fenced', record: failed });
    assert.equal(wire.sent.length, 1);
  });

  it('by the record for another reason than its condition is not blamed on the writes', async () => {
    const mine = await inProgress(sound);
    const tooLarge = {
      Code: 'ValidationError',
      Message: 'Item size to update has exceeded the maximum allowed',
    };
    const { ledger } = stage(always(cancelled(tooLarge, 'None')));
    await assert.rejects(ledger.complete(mine, outcomeAt(LATER), [domainPut()]), (error) => {
      assert.ok(error instanceof StoreRefused);
      assert.match(error.message, /Item size to update has exceeded/);
      return true;
    });
  });

  it('leaves the attempt free to answer otherwise, with a large body as well', async () => {
    const mine = await inProgress(sound, { effects: 'steps' });
    const large = (seed: number) => {
      const body = Uint8Array.from({ length: 2 * limits.inlineBodyMaxBytes }, noise(seed));
      return { ...outcomeAt(LATER), reply: { ...replyOf(''), body } };
    };
    const refused = await sound.complete(mine, large(1), [domainPut('attribute_exists(pk)')]);
    assert.equal(refused.kind, 'refused');
    const done = await completedBy(sound, mine, large(2));
    const replayed = await sound.reply(mine.pk, done.response);
    assert.equal(Buffer.compare(replayed.body, large(2).reply.body), 0);
  });

  it('in a step says the same, and the step is not saved', async () => {
    const mine = await inProgress(sound, { effects: 'steps' });
    const open = movedRecord<InProgress>(await sound.openStep(mine, 'charge', LATER));
    const refused = await sound.saveStep(open, 'charge', '1', LATER, [domainPut('attribute_exists(pk)')]);
    assert.equal(refused.kind === 'refused' && refused.reasons[0]?.code, 'ConditionalCheckFailed');
    assert.deepEqual(await sound.read(mine.pk), open);
  });
});

/** Bytes that do not compress, the same on every run. */
function noise(seed = 1): () => number {
  const random = seededRandom(seed);
  return () => Math.floor(random() * 256);
}
