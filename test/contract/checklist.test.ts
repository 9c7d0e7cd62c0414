import { fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once as next } from 'node:events';
import { readFileSync } from 'node:fs';
import {
  CreateTableCommand,
  DeleteTableCommand,
  DescribeTableCommand,
  GetItemCommand,
  ScanCommand,
  type TimeToLiveSpecification,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { defaultPolicy, schedule } from '../../lib/core/policy.ts';
import type { LedgerRecord } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { delivered } from '../../lib/effects/deliveries.ts';
import { NotExecuted } from '../../lib/effects/errors.ts';
import { executed, notExecuted } from '../../lib/effects/resolver.ts';
import { problems } from '../../lib/http/problem-table.ts';
import { allOf, jwtClaim } from '../../lib/http/tenant.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { createTableInput, ledgerTable, RECORD_SK } from '../../lib/ledger/schema.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import { statusHandler } from '../../lib/middleware/status-handler.ts';
import { jsonLogSink } from '../../lib/observe/log.ts';
import { emfSink, type Sample } from '../../lib/observe/metrics.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import { alb, httpApi } from '../http/events.ts';
import { said, templates } from '../infra/stage.ts';
import { post, type Result, stage } from '../middleware/stage.ts';
import { counter, created, START, slow, timeline } from '../middleware/work.ts';
import { quotaStage } from '../reconcile/quota-stage.ts';
import { dispatchStage, streamRecord } from '../reconcile/stage.ts';
import { always, type Fault, neverArrived, only, type Plan, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';
import { chargesOf, paymentNode } from './payment-node.ts';

/*
 * What reviewers of an idempotency layer ask for, one test per line. `docs/contract.md` has the same list, and the last test
 * here compares the two: a line without a test fails, and so does one that waits for something.
 */

const table = useTable();

/** Time stands still unless a test has its own: a slow machine is not a store that does not answer. */
const { clock: still } = timeline(table);
const onTable = (client = table.client) => dynamoDbLedger({ ...table, client, clock: still });
const transactional = { effects: 'transactional', clock: still } as const;
const opaque = { effects: 'opaque', onUnknown: 'park', clock: still } as const;
const DAY_MS = 86_400_000;

/** Longer than the lease of any call here: ten seconds of remaining time, the margin and the skew. */
const PAST_THE_LEASE_MS = 60_000;

/** A process that ends where it waits for this, as far as anybody can see. */
function death() {
  const reached = Promise.withResolvers<void>();
  return {
    reached: reached.promise,
    async at() {
      reached.resolve();
      await new Promise(() => {});
    },
  };
}
const lives = async () => {};

const codeOf = ({ body }: Result): unknown => JSON.parse(body).code;
const isReplay = ({ headers }: Result) => headers['Idempotent-Replayed'] === 'true';
const refOf = (key: string, tenant = 'tenant-1', operation = 'POST /payments') =>
  scopePk({ tenant, operation, key });

/** A client of the test's own, whose requests it sees and may break. */
function wired(plan?: Plan) {
  const client = table.newClient();
  onTestFinished(() => client.destroy());
  return { client, wire: wireOf(client, plan) };
}

/** A payment node in another process, which ends with the test at the latest. */
async function startProcess(fate: 'answers' | 'hangs') {
  const module = new URL('./payment-process.ts', import.meta.url);
  const child = fork(module, [inject('dynamoDbEndpoint'), table.tableName, fate], { execArgv: [] });
  onTestFinished(() => {
    child.kill('SIGKILL');
  });
  await next(child, 'message');
  const tell = async (order: string): Promise<unknown> => {
    child.send(order);
    const [answer] = await next(child, 'message');
    return answer;
  };
  return { child, tell };
}

async function rawRecord(pk: string) {
  const Key = { pk: { S: pk }, sk: { S: RECORD_SK } };
  const input = { TableName: table.tableName, Key, ConsistentRead: true };
  return (await table.client.send(new GetItemCommand(input))).Item;
}

describe('a key belongs to one caller and one request', () => {
  it('two identical posts at once create one resource, and both get the same response', async () => {
    const work = slow();
    const { call } = stage<TransactWrite>(
      onTable(),
      async (_, { once }) => {
        const Item = { pk: `payment ${randomUUID()}`, sk: 'row', madeUnder: once.operationId };
        once.write({ Put: { TableName: table.tableName, Item } });
        await work.handler();
        return created(once.operationId);
      },
      { ...transactional, inFlight: 'wait', sleep: async () => work.resume() },
    );
    const key = randomUUID();
    const [one, other] = await Promise.all([call(post({ key })), call(post({ key }))]);
    expect(one.statusCode).toBe(201);
    expect(other.statusCode).toBe(201);
    expect(other.body).toBe(one.body);
    expect([isReplay(one), isReplay(other)].toSorted()).toEqual([false, true]);
    const rows = new ScanCommand({
      TableName: table.tableName,
      ConsistentRead: true,
      FilterExpression: 'madeUnder = :operation',
      ExpressionAttributeValues: { ':operation': { S: one.body } },
    });
    expect((await table.client.send(rows)).Count).toBe(1);
    expect(work.runs).toBe(1);
  });

  it('another body under a used key is answered 422, and the first result stays', async () => {
    const work = counter((run) => created(`"payment ${run}"`));
    const { call } = stage(onTable(), work.handler, transactional);
    const key = randomUUID();
    const first = await call(post({ key }));
    const other = await call(post({ key, body: { amount: 501 } }));
    expect(other.statusCode).toBe(422);
    expect(other.body).not.toContain('payment 1');
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: first.body });
    expect(work.runs).toBe(1);
  });

  it('the same key of two tenants is two operations, each with a result of its own', async () => {
    const work = counter();
    const { call } = stage(onTable(), work.handler, transactional);
    const key = randomUUID();
    for (const [sub, body] of [
      ['ann', '1'],
      ['bob', '2'],
    ] as const) {
      const fresh = await call(post({ key, sub }));
      expect([isReplay(fresh), fresh.body]).toEqual([false, body]);
      const replay = await call(post({ key, sub }));
      expect([isReplay(replay), replay.body]).toEqual([true, body]);
    }
    expect(work.runs).toBe(2);
  });

  it('a new token of the same caller finds its key, another caller of the same tenant does not', async () => {
    const work = counter();
    const { call } = stage(onTable(), work.handler, {
      ...transactional,
      tenant: allOf(jwtClaim('https://example.com/tenant'), jwtClaim('sub')),
    });
    const key = randomUUID();
    const as = (claims: object) =>
      call(
        httpApi({
          headers: { 'idempotency-key': key },
          requestContext: { authorizer: { jwt: { claims } } },
        }),
      );
    expect((await as({ sub: 'ann', exp: '1710345600' })).body).toBe('1');
    expect(isReplay(await as({ sub: 'ann', exp: '1710349200', jti: randomUUID() }))).toBe(true);
    const other = await as({ sub: 'bob' });
    expect([isReplay(other), other.body]).toEqual([false, '2']);
    const elsewhere = await as({ sub: 'ann', 'https://example.com/tenant': 'globex' });
    expect([isReplay(elsewhere), elsewhere.body]).toEqual([false, '3']);
  });

  it('a tenant and a key have one item, which the primary key of the table guarantees', async () => {
    const { call } = stage(onTable(), counter().handler, transactional);
    const key = randomUUID();
    const path = `/payments-${key}`;
    for (const sub of ['ann', 'bob', 'ann', 'bob', 'ann']) await call(post({ key, sub, path }));
    const records = new ScanCommand({
      TableName: table.tableName,
      ConsistentRead: true,
      FilterExpression: '#operation = :operation',
      ExpressionAttributeNames: { '#operation': 'operation' },
      ExpressionAttributeValues: { ':operation': { S: `POST ${path}` } },
    });
    const { Items = [] } = await table.client.send(records);
    const keys = Items.map(({ pk, sk }) => [pk?.S, sk?.S]);
    expect(keys.toSorted()).toEqual(
      ['ann', 'bob'].map((sub) => [refOf(key, sub, `POST ${path}`), RECORD_SK]).toSorted(),
    );
    const { Table } = await table.client.send(new DescribeTableCommand({ TableName: table.tableName }));
    expect(Table?.KeySchema).toEqual([
      { AttributeName: 'pk', KeyType: 'HASH' },
      { AttributeName: 'sk', KeyType: 'RANGE' },
    ]);
  });

  it("a tenant's stored response is out of reach of every other, in the table, in memory and by status", async () => {
    const ledger = onTable();
    const { call } = stage(ledger, async (event) => created(event.requestContext.authorizer.jwt.claims.sub), {
      ...transactional,
      cache: true,
    });
    const status = statusHandler({ ledger, tenant: jwtClaim('sub'), clock: still });
    const key = randomUUID();
    const statusFor = async (sub: string) => {
      const event = post({ method: 'GET', path: `/operations/${key}`, sub });
      return status({ ...event, rawQueryString: 'operation=POST%20/payments' });
    };
    await call(post({ key, sub: 'ann' }));
    expect((await statusFor('ann')).statusCode).toBe(200);
    const stranger = await statusFor('bob');
    expect(stranger.statusCode).toBe(404);
    expect(stranger.body).not.toContain(refOf(key, 'ann'));
    const other = await call(post({ key, sub: 'bob' }));
    expect([isReplay(other), other.body]).toEqual([false, 'bob']);
    expect((await call(post({ key, sub: 'ann' }))).body).toBe('ann');
  });
});

describe('many at once', () => {
  it('of nodes and processes that share only the table, one charges', async () => {
    const processes = await Promise.all([startProcess('answers'), startProcess('answers')]);
    const nodes = [wired(), wired()].map(({ client }) => paymentNode(client, table.tableName));
    for (let race = 0; race < 5; race += 1) {
      const order = randomUUID();
      const answers = (await Promise.all([
        ...processes.map(({ tell }) => tell(order)),
        ...nodes.map((pay) => pay(order)),
      ])) as Result[];
      expect(await chargesOf(table.client, table.tableName, order)).toBe(1);
      const won = answers.filter((answer) => answer.statusCode === 201 && !isReplay(answer));
      expect(won).toHaveLength(1);
      for (const answer of answers) {
        if (answer.statusCode === 201) expect(answer.body).toBe('"charged"');
        else expect(codeOf(answer)).toBe('in_progress');
      }
    }
  });

  it('a duplicate in flight is told in Retry-After when to come back, and then gets the result', async () => {
    const work = slow();
    const { call } = stage(onTable(), work.handler, transactional);
    const key = randomUUID();
    const first = call(post({ key }));
    await work.started;
    const duplicate = await call(post({ key }));
    expect(duplicate.statusCode).toBe(409);
    expect(duplicate.headers['Retry-After']).toMatch(/^[1-9]\d*$/);
    work.resume();
    await first;
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: '1' });
  });

  it('of two reservations held until both are on the wire, one runs and the other is told 409', async () => {
    const both = Promise.withResolvers<void>();
    let arrived = 0;
    const meet: Fault = async (deliver) => {
      arrived += 1;
      if (arrived === 2) both.resolve();
      await both.promise;
      return deliver();
    };
    const work = slow();
    const nodes = [1, 2].map(() => {
      const { client } = wired(only('PutItem', always(meet)));
      return stage(onTable(client), work.handler, transactional);
    });
    const key = randomUUID();
    const answers = nodes.map(({ call }) => call(post({ key })));
    const loser = await Promise.race(answers);
    work.resume();
    expect([loser.statusCode, codeOf(loser)]).toEqual([409, 'in_progress']);
    const statuses = (await Promise.all(answers)).map(({ statusCode }) => statusCode);
    expect(statuses.toSorted()).toEqual([201, 409]);
    expect(work.runs).toBe(1);
  });

  it('DynamoDB itself refuses the reservation of a key that is there, to the byte', async () => {
    const { client, wire } = wired();
    const { call } = stage(onTable(client), counter().handler, transactional);
    const key = randomUUID();
    await call(post({ key }));
    const [reservation] = wire.sent;
    expect(reservation?.name).toBe('PutItem');
    expect(reservation?.input.Item?.['pk']).toEqual({ S: refOf(key) });
    const stored = await rawRecord(refOf(key));
    const again = await reservation?.arrive();
    expect(again).toEqual({ status: 400, error: 'ConditionalCheckFailedException' });
    expect(await rawRecord(refOf(key))).toEqual(stored);
  });
});

describe('what needs a key', () => {
  it('a post without a key is answered 400, and nothing runs', async () => {
    const work = counter();
    const { call } = stage(onTable(), work.handler, transactional);
    const answer = await call(post({}));
    expect([answer.statusCode, codeOf(answer)]).toEqual([400, 'key_missing']);
    expect(work.runs).toBe(0);
  });

  it('no step of a flow is left out: each post and patch of a function is refused without a key', async () => {
    const work = counter();
    const { call } = stage(onTable(), work.handler, {
      ...transactional,
      operations: {
        'POST /orders': { inFlight: 'wait' },
        'POST /orders/{id}/payment': { inFlight: 'accept' },
      },
    });
    const steps = [
      post({ path: '/orders' }),
      { ...post({ path: '/orders/1/payment' }), routeKey: 'POST /orders/{id}/payment' },
      { ...post({ path: '/orders/1/parcel' }), routeKey: 'POST /orders/{id}/parcel' },
      { ...post({ path: '/orders/1', method: 'PATCH' }), routeKey: 'ANY /orders/{id}' },
      { ...post({ path: '/orders/1/notes' }), routeKey: '$default' },
      { ...alb({ httpMethod: 'post' }), headers: { 'content-type': 'application/json' } },
    ];
    for (const step of steps) expect(codeOf(await call(step))).toBe('key_missing');
    expect(work.runs).toBe(0);
  });

  it('methods that are idempotent by themselves need no key, and take none', async () => {
    const { client, wire } = wired();
    const work = counter();
    const { call } = stage(onTable(client), work.handler, transactional);
    const key = randomUUID();
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']) {
      for (const event of [post({ method }), post({ method, key }), post({ method, key })]) {
        expect((await call(event)).statusCode).toBe(201);
      }
    }
    expect(work.runs).toBe(15);
    expect(wire.takeNames()).toEqual([]);
  });
});

describe('failures', () => {
  it('after a crash between a charge and its record, a retry does not charge again', async () => {
    const { child, tell } = await startProcess('hangs');
    const order = randomUUID();
    expect(await tell(order)).toBe('charged');
    child.kill('SIGKILL');
    await next(child, 'exit');
    const pay = paymentNode(table.client, table.tableName, START + PAST_THE_LEASE_MS);
    for (const retry of [await pay(order), await pay(order)]) {
      expect([retry.statusCode, codeOf(retry)]).toEqual([409, 'outcome_unknown']);
    }
    expect(await chargesOf(table.client, table.tableName, order)).toBe(1);
  });

  it('with the store down nothing is done, and the same key works once it is back', async () => {
    const { clock, pass } = timeline(table);
    const { client, wire } = wired(always(neverArrived));
    const sleep = async (ms: number) => pass(Math.max(1, ms));
    const work = counter();
    const { call } = stage(dynamoDbLedger({ ...table, client, clock, sleep }), work.handler, {
      ...transactional,
      clock,
    });
    const key = randomUUID();
    const refused = await call(post({ key }));
    expect([refused.statusCode, codeOf(refused)]).toEqual([503, 'store_unavailable']);
    expect(work.runs).toBe(0);
    wire.follow(() => undefined);
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: '1' });
  });

  it('a 500 is not replayed where nothing took effect: the retry runs', async () => {
    const failed = { statusCode: 500, headers: {}, body: '"broken"' };
    const nothingRan = () => Promise.reject(new NotExecuted('the provider was never called'));
    for (const [options, failure] of [
      [transactional, async () => failed],
      [transactional, () => Promise.reject(new Error('broken'))],
      [opaque, nothingRan],
    ] as const) {
      const work = counter((run) => (run === 1 ? failure() : created(String(run))));
      const { call } = stage(onTable(), work.handler, options);
      const key = randomUUID();
      await call(post({ key })).catch(() => undefined);
      const retry = await call(post({ key }));
      expect([isReplay(retry), retry.statusCode, retry.body]).toEqual([false, 201, '2']);
      expect((await call(post({ key }))).body).toBe('2');
    }
  });

  it('a 500 of a handler whose effects nobody can see is neither replayed nor run again, but unknown', async () => {
    const work = counter(() => ({ statusCode: 500, headers: {}, body: '"broken"' }));
    const { call } = stage(onTable(), work.handler, opaque);
    const key = randomUUID();
    expect((await call(post({ key }))).body).toBe('"broken"');
    const retry = await call(post({ key }));
    expect([retry.statusCode, codeOf(retry)]).toEqual([409, 'outcome_unknown']);
    expect(work.runs).toBe(1);
  });

  it('a 500 before the first step has begun is not replayed either: the retry runs', async () => {
    const failed = { statusCode: 500, headers: {}, body: '"broken"' };
    const taken: number[] = [];
    let runs = 0;
    const { call } = stage<TransactWrite>(
      onTable(),
      async (_, { once }) => {
        runs += 1;
        if (runs === 1) return failed;
        await once.step('charge', () => void taken.push(runs));
        return created(String(runs));
      },
      { effects: 'steps', clock: still },
    );
    const key = randomUUID();
    expect((await call(post({ key }))).body).toBe('"broken"');
    const retry = await call(post({ key }));
    expect([isReplay(retry), retry.statusCode, retry.body]).toEqual([false, 201, '2']);
    expect(taken).toEqual([2]);
  });

  it('a retry after a kill goes on from the last recovery point, and repeats no step that is done', async () => {
    const { clock, pass, onTable: inTime } = timeline(table);
    const ran: string[] = [];
    const charged = new Set<string>();
    const node = (afterCharge: () => Promise<void>) =>
      stage<TransactWrite>(
        inTime(),
        async (_, { once }) => {
          await once.step('row', () => {
            ran.push('row');
            once.write({ Put: { TableName: table.tableName, Item: { pk: once.operationId, sk: 'row' } } });
          });
          const charge = await once.step('charge', async ({ key }) => {
            ran.push('charge');
            charged.add(key); // A provider that dedupes.
            await afterCharge();
            return key;
          });
          await once.effect('receipt', () => void ran.push('receipt'));
          return created(charge);
        },
        { effects: 'steps', clock },
      );
    const key = randomUUID();
    const killed = death();
    void node(killed.at).call(post({ key }));
    await killed.reached;
    pass(PAST_THE_LEASE_MS);
    const retry = await node(lives).call(post({ key }));
    expect(ran).toEqual(['row', 'charge', 'charge', 'receipt']);
    expect([retry.statusCode, [retry.body]]).toEqual([201, [...charged]]);
  });

  it('after a crash of an opaque handler, its outcome is found out and settled, and nothing is charged for it a second time', async () => {
    const { clock, pass, onTable: inTime } = timeline(table);
    const ledger = inTime() as Ledger<unknown>;
    const charges = new Map<string, string>();
    const killed = death();
    const resolver = ({ operationId }: { operationId: string }) => {
      const charge = charges.get(operationId);
      return charge ? executed(created(charge)) : notExecuted();
    };
    const options = { effects: 'opaque', resolver, clock } as const;
    const { call } = stage(
      ledger,
      async (_, { once }) => {
        charges.set(once.operationId, `"ch_${charges.size + 1}"`);
        await killed.at();
      },
      options,
    );
    const key = randomUUID();
    void call(post({ key }));
    await killed.reached;
    const { look } = sweeper({ ledger, ...options, log: () => {}, metrics: () => {} });
    const sweep = async () => look((await ledger.read(refOf(key))) as LedgerRecord, clock() + 60_000);
    pass(PAST_THE_LEASE_MS);
    expect(await sweep()).toBe('unknown');
    expect(codeOf(await call(post({ key })))).toBe('outcome_unknown');
    pass(defaultPolicy.reconcileBaseMs);
    expect(await sweep()).toBe('settled');
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: '"ch_1"' });
    expect(charges.size).toBe(1);
  });

  it('after a worker died between a charge and its note, the next one settles it, and nothing is charged twice', async () => {
    const ledger = onTable();
    const { call } = stage<TransactWrite>(
      ledger,
      async (_, { once }) => {
        once.emit({ type: 'charge', payload: { amount: 500 } });
        once.defer();
        return { statusCode: 202, headers: { location: '/payments/1' }, body: '"pending"' };
      },
      transactional,
    );
    const asked: string[] = [];
    const worker = (afterCharge: () => Promise<void>) =>
      dispatchStage(
        ledger as Ledger<unknown>,
        {
          charge: {
            dedupes: true,
            async deliver(_, { key }) {
              asked.push(key);
              await afterCharge();
              return delivered({ reference: key, response: created('"paid"') });
            },
          },
        },
        { time: { now: still() } },
      );
    const key = randomUUID();
    expect((await call(post({ key }))).body).toBe('"pending"');
    const record = await ledger.read(refOf(key));
    if (!record) throw new Error('there is no record');
    const killed = death();
    void worker(killed.at).batch([streamRecord(record)]);
    await killed.reached;
    expect((await call(post({ key }))).body).toBe('"pending"');
    expect(await worker(lives).batch([streamRecord(record)])).toEqual([]);
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: '"paid"' });
    expect(asked).toHaveLength(2);
    expect(new Set(asked).size).toBe(1); // To the provider they are one charge.
  });
});

describe('the life of a key', () => {
  it('a key that a crash left open is settled without its client, within minutes of its lease', async () => {
    const { clock, pass, onTable: inTime } = timeline(table);
    const ledger = inTime() as Ledger<unknown>;
    const killed = death();
    const { call } = stage(ledger, () => killed.at(), { effects: 'transactional', clock });
    const key = randomUUID();
    void call(post({ key }));
    await killed.reached;
    const quiet = { ledger, clock, log: () => {}, metrics: () => {} };
    const image = JSON.parse(JSON.stringify(await rawRecord(refOf(key))));
    const reserved = {
      Keys: { pk: { S: refOf(key) }, sk: { S: RECORD_SK } },
      NewImage: image,
      SequenceNumber: '1',
    };
    expect(await sentinel(quiet)({ Records: [{ dynamodb: reserved }] }, {})).toEqual({
      batchItemFailures: [],
    });
    const { handle } = sweeper(quiet);
    await handle({}, {});
    expect((await ledger.read(refOf(key)))?.status).toBe('in_progress');
    pass(PAST_THE_LEASE_MS);
    await handle({}, {});
    expect((await ledger.read(refOf(key)))?.status).toBe('failed_retryable');
  });

  it('the same request twice gets the same answer, the second time from the store', async () => {
    const { client, wire } = wired();
    const work = counter((run) => created(`{"payment": ${run}}`, { location: '/payments/1' }));
    const { call } = stage(onTable(client), work.handler, transactional);
    const key = randomUUID();
    const first = await call(post({ key }));
    expect(new Set(wire.takeNames())).toEqual(new Set(['PutItem', 'UpdateItem']));
    const second = await call(post({ key }));
    expect(new Set(wire.takeNames())).toEqual(new Set(['PutItem']));
    expect(second).toEqual({ ...first, headers: { ...first.headers, 'Idempotent-Replayed': 'true' } });
    expect(work.runs).toBe(1);
  });

  it('another body under a used key is answered with the status of the chosen preset', async () => {
    for (const [preset, status] of [
      ['ietf', 422],
      ['stripe', 400],
    ] as const) {
      const { call } = stage(onTable(), counter().handler, { ...transactional, preset });
      const key = randomUUID();
      await call(post({ key }));
      const other = await call(post({ key, body: { amount: 501 } }));
      expect([other.statusCode, codeOf(other)]).toEqual([status, 'key_reused']);
    }
  });

  it('after its expiry a key is openly a new operation, or none where the API or the client rules that out', async () => {
    const { clock, pass, onTable: inTime } = timeline(table);
    const operations: string[] = [];
    const on = (afterExpiry: 'execute' | 'gone') =>
      stage(
        inTime(),
        async (_, { once }) => {
          operations.push(once.operationId);
          return created();
        },
        { ...transactional, clock, afterExpiry },
      ).call;
    const [key, dated, gone] = [randomUUID(), randomUUID(), randomUUID()];
    const firstSent = { 'repeatability-first-sent': new Date(clock()).toUTCString() };
    await on('execute')(post({ key }));
    await on('execute')(post({ key: dated, headers: firstSent }));
    await on('gone')(post({ key: gone }));
    pass(DAY_MS + 2_000);
    expect((await on('execute')(post({ key: dated, headers: firstSent }))).statusCode).toBe(412);
    expect((await on('gone')(post({ key: gone }))).statusCode).toBe(410);
    expect(operations).toHaveLength(3);
    expect(isReplay(await on('execute')(post({ key })))).toBe(false);
    expect(new Set(operations).size).toBe(4);
  });

  it('only what is finished may be deleted, and not before its retention is over', async () => {
    const ledger = onTable();
    const never = Number.POSITIVE_INFINITY;
    const keptUntil = still() / 1_000 + defaultPolicy.retentionSeconds + schedule.ttlMarginSeconds;
    const endOf = async (key: string) => {
      const item = await rawRecord(refOf(key));
      return [item?.['status']?.S, Number(item?.[ledgerTable.ttlAttribute]?.N ?? never)];
    };

    const work = slow();
    const running = randomUUID();
    const first = stage(ledger, work.handler, transactional).call(post({ key: running }));
    await work.started;
    expect(await endOf(running)).toEqual(['in_progress', never]);
    work.resume();
    await first;
    expect(await endOf(running)).toEqual(['completed', keptUntil]);

    const broken = counter(() => ({ statusCode: 500, headers: {}, body: '' }));
    const [failed, unknown, accepted] = [randomUUID(), randomUUID(), randomUUID()];
    await stage(ledger, broken.handler, transactional).call(post({ key: failed }));
    expect(await endOf(failed)).toEqual(['failed_retryable', keptUntil]);
    await stage(ledger, broken.handler, opaque).call(post({ key: unknown }));
    expect(await endOf(unknown)).toEqual(['unknown', never]);

    const deferred = stage<TransactWrite>(
      ledger,
      async (_, { once }) => {
        once.emit({ type: 'charge', payload: {} });
        once.defer();
        return { statusCode: 202, headers: { location: '/refunds/1' }, body: '' };
      },
      transactional,
    );
    await deferred.call(post({ key: accepted }));
    expect(await endOf(accepted)).toEqual(['accepted', never]);
  });

  it('an expired item that nobody has deleted yet counts for nothing, and to its expiry for everything', async () => {
    const { clock, pass, onTable: inTime } = timeline(table);
    const work = counter();
    const { call } = stage(inTime(), work.handler, { ...transactional, clock });
    const key = randomUUID();
    await call(post({ key }));
    pass(DAY_MS);
    expect(isReplay(await call(post({ key })))).toBe(true);
    pass(defaultPolicy.skewMs + 1);
    expect((await rawRecord(refOf(key)))?.['status']?.S).toBe('completed');
    const fresh = await call(post({ key }));
    expect([isReplay(fresh), fresh.body]).toEqual([false, '2']);
  });
});

/** Without its index: TTL of DynamoDB Local removes nothing from a table that has one. */
async function tableWithTtl(TimeToLiveSpecification: TimeToLiveSpecification): Promise<string> {
  const TableName = `test-${randomUUID()}`;
  const { GlobalSecondaryIndexes: _, AttributeDefinitions = [], ...input } = createTableInput(TableName);
  const keys = AttributeDefinitions.slice(0, 2);
  await table.client.send(new CreateTableCommand({ ...input, AttributeDefinitions: keys }));
  onTestFinished(async () => void (await table.client.send(new DeleteTableCommand({ TableName }))));
  await table.client.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification }));
  return TableName;
}

describe('what the stack does for it', () => {
  const { ofState, ofService } = templates();

  it('expired items do get deleted, by the TTL that the stack turns on, and open ones do not', async () => {
    const tables = ofState.findResources('AWS::DynamoDB::GlobalTable', {
      Properties: { TimeToLiveSpecification: {} },
    });
    const [turnedOn] = Object.values(tables).map(({ Properties }) => Properties.TimeToLiveSpecification);
    expect(turnedOn).toEqual({ AttributeName: ledgerTable.ttlAttribute, Enabled: true });

    const longAgo = Date.now() - 3 * DAY_MS;
    const tableName = await tableWithTtl(turnedOn);
    const ledger = dynamoDbLedger({ tableName, client: table.client, clock: () => longAgo });
    const { call } = stage(ledger, counter().handler, { ...transactional, clock: () => longAgo });
    const [done, left] = [randomUUID(), randomUUID()];
    await call(post({ key: done }));
    const broken = counter(() => ({ statusCode: 500, headers: {}, body: '' }));
    await stage(ledger, broken.handler, { ...opaque, clock: () => longAgo }).call(post({ key: left }));
    await vi.waitUntil(async () => (await ledger.read(refOf(done))) === undefined, {
      timeout: 300_000,
      interval: 100,
    });
    expect(await ledger.read(refOf(left))).toMatchObject({ status: 'unknown' });
  });

  it('deleting them never holds up a request: no function may delete, and none ever asks to', async () => {
    const statements = Object.values(ofService.findResources('AWS::IAM::Policy')).flatMap(
      ({ Properties }) =>
        Properties.PolicyDocument.Statement as { readonly Action: string | readonly string[] }[],
    );
    const actions = statements.flatMap(({ Action }) => Action);
    expect(actions).toContain('dynamodb:PutItem');
    expect(actions.filter((action) => /delete|batchwrite|partiql|dynamodb:\*|^\*$/i.test(action))).toEqual(
      [],
    );

    const { client, wire } = wired();
    const { clock, pass } = timeline(table);
    const ledger = dynamoDbLedger({ ...table, client, clock });
    const { call } = stage(ledger, counter().handler, { ...transactional, clock });
    const key = randomUUID();
    for (const ms of [0, 1_000, 2 * DAY_MS]) {
      pass(ms);
      await call(post({ key }));
    }
    expect(new Set(wire.takeNames())).toEqual(new Set(['PutItem', 'UpdateItem']));
  });

  it('an alarm tells of a rise in duplicates and refusals, by what the functions really write', async () => {
    const lines: string[] = [];
    const write = (line: string) => void lines.push(line);
    const { call } = stage(onTable(), counter().handler, {
      ...transactional,
      metrics: emfSink(write),
      log: jsonLogSink(write),
    });
    const key = randomUUID();
    for (const amount of [500, 500, 501]) await call(post({ key, body: { amount } }));
    const written = lines.map((line) => JSON.parse(line));
    const metrics = written
      .filter(({ _aws }) => _aws)
      .flatMap(({ _aws }) => _aws.CloudWatchMetrics[0].Metrics.map(({ Name }: { Name: string }) => Name));

    const alarms = Object.values(ofService.findResources('AWS::CloudWatch::Alarm')).map((one) =>
      JSON.stringify(one),
    );
    const misuse = 'api.idempotency.reserve.key_misuse.count';
    expect(metrics).toContain(misuse);
    expect(alarms.filter((alarm) => alarm.includes(misuse))).toHaveLength(1);

    const [rule] = Object.values(ofService.findResources('AWS::CloudWatch::InsightRule'));
    const { Contribution } = JSON.parse(said(rule?.['Properties'].RuleBody));
    expect(Contribution.Keys).toEqual(['$.tenant']);
    const filters: readonly { Match: string; In: readonly string[] }[] = Contribution.Filters;
    const counted = written.filter((line) =>
      filters.every(({ Match, In }) => In.includes(line[Match.replace('$.', '')])),
    );
    expect(counted.map(({ decision }) => decision)).toEqual(['replay', 'misuse']);
    expect(alarms.filter((alarm) => alarm.includes('INSIGHT_RULE_METRIC'))).toHaveLength(1);
  });
});

describe('what can be seen', () => {
  it('duplicates are counted by what they got: a replay, a conflict, a refusal', async () => {
    const work = slow();
    const { call, measured } = stage(onTable(), work.handler, transactional);
    const key = randomUUID();
    const first = call(post({ key }));
    await work.started;
    await call(post({ key }));
    work.resume();
    await first;
    for (const amount of [500, 500, 501]) await call(post({ key, body: { amount } }));
    const total = (name: keyof Sample['metrics']) =>
      measured.reduce((sum, { metrics }) => sum + (metrics[name] ?? 0), 0);
    expect(total('reserve.created.count')).toBe(1);
    expect(total('reserve.in_progress.count')).toBe(1);
    expect(total('reserve.replay.count')).toBe(2);
    expect(total('reserve.key_misuse.count')).toBe(1);
  });

  it('duplicates can be told by tenant, without a metric for each', async () => {
    const lines: string[] = [];
    const { call } = stage(onTable(), counter().handler, {
      ...transactional,
      metrics: emfSink((line) => lines.push(line)),
    });
    const key = randomUUID();
    for (const sub of ['ann', 'bob', 'ann', 'ann', 'bob']) await call(post({ key, sub }));
    const said = lines.map((line) => JSON.parse(line));
    const replays = said.filter((line) => line['api.idempotency.reserve.replay.count'] === 1);
    expect(replays.map(({ tenant }) => tenant)).toEqual(['ann', 'ann', 'bob']);
    for (const { _aws } of said) expect(_aws.CloudWatchMetrics[0].Dimensions).toEqual([['operation']]);
  });
});

describe('many keys of one tenant', () => {
  it('who makes keys without end gets no new ones for a while, without a write, and its known keys and all others go on', async () => {
    const { client, wire } = wired();
    const ledger = onTable(client);
    const [sub, other, known] = [randomUUID(), randomUUID(), randomUUID()];
    await stage<TransactWrite>(ledger, async () => created(), transactional).call(post({ key: known, sub }));
    const { requests, batch, flagged } = quotaStage(ledger, { now: still() }, { newKeysPerMinute: 100 });
    await batch(...(await requests(sub, 101)));
    expect(flagged()).toEqual([[sub, 'new_keys']]);
    wire.takeNames();

    const work = counter();
    const { call } = stage<TransactWrite>(ledger, work.handler, { ...transactional, quota: true });
    const sprayed = await Promise.all(
      Array.from({ length: 20 }, () => call(post({ key: randomUUID(), sub }))),
    );
    expect(new Set(sprayed.map(({ statusCode }) => statusCode))).toEqual(new Set([429]));
    expect(new Set(wire.takeNames())).toEqual(new Set(['GetItem']));
    expect(isReplay(await call(post({ key: known, sub })))).toBe(true);
    expect((await call(post({ key: randomUUID(), sub: other }))).statusCode).toBe(201);
    expect(work.runs).toBe(1);
  });
});

describe('docs/contract.md', () => {
  const page = readFileSync('docs/contract.md', 'utf8');

  it('the published contract names the statuses of both presets and the retention', () => {
    const { ietf, stripe } = problems.key_reused.status;
    expect(page).toMatch(new RegExp(`^\\| \`key_reused\` +\\| ${ietf} +\\| ${stripe} +\\|`, 'm'));
    expect(page).toContain(`kept for ${defaultPolicy.retentionSeconds / 3_600} hours from completion`);
    expect(schedule.retentionMinSeconds).toBe(3_600);
    expect(page).toContain('never under one hour');
  });

  it('lists these tests and no others', ({ task }) => {
    const list = page.slice(page.indexOf('\n## What holds it\n'));
    const lines = [...list.matchAll(/^- (.+(?:\n {2}.+)*)/gm)].map(([, line]) =>
      `${line}`.replace(/\n */g, ' '),
    );
    const tests = task.file.tasks.flatMap((suite) => ('tasks' in suite ? suite.tasks : [suite]));
    const names = tests.filter(({ id }) => id !== task.id).map(({ name }) => name);
    expect(lines.toSorted()).toEqual(names.toSorted());
    expect(lines.filter((line) => /pending:|waits for/i.test(line))).toEqual([]);
  });
});
