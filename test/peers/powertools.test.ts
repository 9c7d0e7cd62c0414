import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import { DynamoDBPersistenceLayer } from '@aws-lambda-powertools/idempotency/dynamodb';
import { makeHandlerIdempotent } from '@aws-lambda-powertools/idempotency/middleware';
import { CreateTableCommand, DeleteTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import middy from '@middy/core';
import httpCors from '@middy/http-cors';
import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  inject,
  it,
  type TestContext,
  vi,
} from 'vitest';
import { localClientConfig } from '../../lib/local/store/client.ts';
import { counter as counted, slow as stopped } from '../middleware/work.ts';
import { always, neverArrived, only, responseLost, times, wireOf } from '../support/faults.ts';

/*
 * The scenarios of `held.test.ts` against the published @aws-lambda-powertools/idempotency: why the lines are on the
 * list. When a release mends one, its test is skipped, and the line can be struck.
 */

const PACKAGE = new URL(
  '../../node_modules/@aws-lambda-powertools/idempotency/package.json',
  import.meta.url,
);
const { version } = JSON.parse(readFileSync(PACKAGE, 'utf8')) as { version: string };

const TableName = `powertools-${randomUUID()}`;
const newClient = () => new DynamoDBClient(localClientConfig(inject('dynamoDbEndpoint')));
const client = newClient();

beforeAll(async () => {
  await client.send(
    new CreateTableCommand({
      TableName,
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      BillingMode: 'PAY_PER_REQUEST',
    }),
  );
});
afterAll(async () => {
  await client.send(new DeleteTableCommand({ TableName }));
  client.destroy();
});
beforeEach(() => {
  vi.stubEnv('AWS_REGION', 'local');
  vi.stubEnv('POWERTOOLS_TRACE_ENABLED', 'false');
  vi.spyOn(console, 'warn').mockImplementation(() => {});
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

interface Event {
  readonly key: string;
  amount?: number;
  path?: string;
}
type Config = ConstructorParameters<typeof IdempotencyConfig>[0];
type Handler = (event: Event) => Promise<unknown>;
/** As the peer types what it wraps, and what it returns. */
type AnyFunction = (...args: unknown[]) => Promise<unknown>;

/** Each test has its own prefix, so that a record is shared only where the scenario shares it. */
function parts(config: Config, awsSdkV3Client = client) {
  return {
    persistenceStore: new DynamoDBPersistenceLayer({ tableName: TableName, awsSdkV3Client }),
    config: new IdempotencyConfig(config),
    keyPrefix: randomUUID(),
  };
}

function asMiddleware(options: ReturnType<typeof parts>): middy.MiddlewareObj<unknown, unknown> {
  return makeHandlerIdempotent(options) as middy.MiddlewareObj<unknown, unknown>;
}

/** What a caller sees: the answer, or the name of the error. */
type Seen = unknown;

function withMiddy(handler: Handler, config: Config = { eventKeyJmesPath: 'key' }, store = client) {
  const lambda = middy<unknown, unknown>()
    .use(asMiddleware(parts(config, store)))
    .handler(handler as never);
  return (event: object, remainingMs = 10_000): Promise<Seen> =>
    seen(lambda(event, { getRemainingTimeInMillis: () => remainingMs } as never));
}

function wrapped(handler: Handler, config: Config = { eventKeyJmesPath: 'key' }, store = client) {
  const protectedHandler = makeIdempotent(handler as AnyFunction, parts(config, store));
  return (event: object, remainingMs = 10_000): Promise<Seen> =>
    seen(protectedHandler(event, { getRemainingTimeInMillis: () => remainingMs }));
}

function seen(answer: Promise<unknown>): Promise<Seen> {
  return answer.catch((error: Error) => error.name);
}

const BUSY = 'IdempotencyAlreadyInProgressError';
const STORE = 'IdempotencyPersistenceLayerError';

/** The lease of a call with so little time left is over after this pause. */
const SHORT_MS = 1;
const pastTheLease = () => pause(5);

/** Theirs answers with the number of the run itself. */
const itself = (run: number): unknown => run;
const counter = (end = itself) => counted(end);
const slow = (end = itself) => stopped(end);

interface Judgement<T> {
  /** Whether the line is held, in whatever way: a release may mend it differently than we would. */
  readonly sound: (observed: T) => boolean;
  /** What this library shows instead. */
  readonly peer: T;
}

function documents<T>(context: Pick<TestContext, 'skip'>, observed: T, { sound, peer }: Judgement<T>): void {
  if (sound(observed)) context.skip(`mended in ${version}`);
  expect(observed).toEqual(peer);
}

describe(`Powertools ${version}`, () => {
  it('1: a rejected duplicate deletes the live lock, and a third caller executes', async (context) => {
    const work = slow();
    const call = withMiddy(work.handler);
    const event = { key: randomUUID() };
    const first = call(event);
    await work.started;
    const others = [await call(event), await call(event)];
    work.resume();
    await first;
    documents(
      context,
      { others, runs: work.runs },
      {
        sound: ({ runs }) => runs === 1,
        peer: { others: [BUSY, 2], runs: 2 },
      },
    );
  });

  it('2: a payload mismatch deletes the completed record', async (context) => {
    const work = counter();
    const call = withMiddy(work.handler, { eventKeyJmesPath: 'key', payloadValidationJmesPath: 'amount' });
    const key = randomUUID();
    const answers = [];
    for (const amount of [1, 2, 1]) answers.push(await call({ key, amount }));
    documents(context, answers, {
      sound: ([, , again]) => again === 1,
      peer: [1, 'IdempotencyValidationError', 2],
    });
  });

  it("3: a late owner overwrites its successor's result", async (context) => {
    const work = slow();
    const call = wrapped(work.handler);
    const event = { key: randomUUID() };
    const late = call(event, SHORT_MS);
    await work.started;
    await pastTheLease();
    const successor = await call(event);
    work.resume();
    await late;
    documents(
      context,
      { successor, replay: await call(event) },
      {
        sound: ({ successor, replay }) => successor === replay,
        peer: { successor: 2, replay: 1 },
      },
    );
  });

  it("4: a late owner that throws deletes its successor's record: three executions", async (context) => {
    const work = slow((run) => (run === 1 ? Promise.reject(new Error('late')) : run));
    const call = wrapped(work.handler);
    const event = { key: randomUUID() };
    const late = call(event, SHORT_MS);
    await work.started;
    await pastTheLease();
    await call(event);
    work.resume();
    await late;
    documents(
      context,
      { third: await call(event), runs: work.runs },
      {
        sound: ({ runs }) => runs === 2,
        peer: { third: 3, runs: 3 },
      },
    );
  });

  it('5: a retention shorter than the run makes a live lock look expired: two executions', async (context) => {
    const work = slow();
    const call = wrapped(work.handler, { eventKeyJmesPath: 'key', expiresAfterSeconds: 1 });
    const event = { key: randomUUID() };
    const first = call(event, 60_000);
    await work.started;
    const later = Date.now() + 3_000;
    vi.spyOn(Date, 'now').mockImplementation(() => later);
    const second = await call(event, 60_000);
    work.resume();
    await first;
    documents(
      context,
      { second, runs: work.runs },
      {
        sound: ({ runs }) => runs === 1,
        peer: { second: 2, runs: 2 },
      },
    );
  });

  it("6: the framework's early timeout deletes the reservation although the side effect finishes", async (context) => {
    const work = slow();
    const lambda = middy<unknown, unknown>({ timeoutEarlyInMillis: 9_995 })
      .use(asMiddleware(parts({ eventKeyJmesPath: 'key' })))
      .handler(work.handler);
    const event = { key: randomUUID() };
    const call = () => seen(lambda(event, { getRemainingTimeInMillis: () => 10_000 } as never));
    const first = await call();
    work.resume();
    await call();
    documents(
      context,
      { first, runs: work.runs },
      {
        sound: ({ runs }) => runs === 1,
        peer: { first: 'TimeoutError', runs: 2 },
      },
    );
  });

  it('7: a remaining time of 0 locks the key until its TTL', async (context) => {
    const work = slow();
    const call = wrapped(work.handler);
    const event = { key: randomUUID() };
    const killed = call(event, 0);
    await Promise.race([work.started, killed]);
    const later = Date.now() + 15 * 60_000;
    vi.spyOn(Date, 'now').mockImplementation(() => later);
    const retry = await call(event);
    work.resume();
    await killed;
    documents(context, retry, { sound: (answer) => answer !== BUSY, peer: BUSY });
  });

  it('8: one lost response locks the caller out of its own key: zero executions', async (context) => {
    const lossy = newClient();
    wireOf(lossy, only('PutItem', times(1, responseLost)));
    const work = counter();
    const call = wrapped(work.handler, { eventKeyJmesPath: 'key' }, lossy);
    const answer = await call({ key: randomUUID() });
    lossy.destroy();
    documents(
      context,
      { answer, runs: work.runs },
      {
        sound: ({ runs }) => runs === 1,
        peer: { answer: BUSY, runs: 0 },
      },
    );
  });

  it('11: a handler that mutates the event completes another record', async (context) => {
    let runs = 0;
    const call = withMiddy(async (event) => {
      runs += 1;
      event.amount = 0;
      return runs;
    }, {});
    const key = randomUUID();
    const first = await call({ key, amount: 500 });
    const later = Date.now() + 20_000;
    vi.spyOn(Date, 'now').mockImplementation(() => later);
    const retry = await call({ key, amount: 500 });
    documents(context, { first, retry }, { sound: () => runs === 1, peer: { first: 1, retry: 2 } });
  });

  it('12: a shared prefix: parallel calls complete under the key of another', async (context) => {
    const { persistenceStore } = parts({});
    const charge = slow(() => 'charged');
    const as = (fn: () => Promise<unknown>, keyPrefix: string) =>
      makeIdempotent(fn as AnyFunction, { persistenceStore, keyPrefix });
    const prefix = randomUUID();
    const charging = as(charge.handler, `${prefix}-charge`);
    const refunding = as(async () => 'refunded', `${prefix}-refund`);
    const event = { key: randomUUID() };
    const charged = seen(charging(event));
    await charge.started;
    await seen(refunding(event));
    charge.resume();
    await charged;
    documents(context, await seen(refunding(event)), {
      sound: (answer) => answer === 'refunded',
      peer: 'charged',
    });
  });

  it.for<[string, Config, object]>([
    ['an empty', { eventKeyJmesPath: 'key' }, { key: '' }],
    ['a missing', { eventKeyJmesPath: '[user, order]' }, {}],
  ])("13: %s key is a key: one caller receives another's response", async ([, config, event], context) => {
    const call = wrapped(async ({ path }) => path, config);
    await call({ ...event, path: 'of ann' });
    const other = await call({ ...event, path: 'of bob' });
    documents(context, other, { sound: (answer) => answer !== 'of ann', peer: 'of ann' });
  });

  it('14: the same key on /refund replays /charge', async (context) => {
    const call = withMiddy(async ({ path }) => path);
    const key = randomUUID();
    const answers = [await call({ key, path: '/charge' }), await call({ key, path: '/refund' })];
    documents(context, answers, {
      sound: ([, refund]) => refund !== '/charge',
      peer: ['/charge', '/charge'],
    });
  });

  it('15: a header in another case is no key: the request runs again', async (context) => {
    const work = counter();
    const call = withMiddy(work.handler, { eventKeyJmesPath: 'headers."idempotency-key"' });
    const key = randomUUID();
    await call({ headers: { 'idempotency-key': key } });
    await call({ headers: { 'Idempotency-Key': key } });
    documents(context, work.runs, { sound: (runs) => runs === 1, peer: 2 });
  });

  const answersTo = async (...texts: string[]) => {
    const call = wrapped(counter().handler, {});
    const answers = [];
    for (const text of texts) answers.push(await call(JSON.parse(text) as object));
    return answers;
  };

  it('18: the order of members matters where names differ only in case', async (context) => {
    const answers = await answersTo('{"a":1,"A":2}', '{"A":2,"a":1}');
    documents(context, answers, { sound: ([one, other]) => one === other, peer: [1, 2] });
  });

  it('18: a member named __proto__ is not seen: two payloads are one', async (context) => {
    const [one, other] = ['{"n":1,"__proto__":{"amount":1}}', '{"n":1,"__proto__":{"amount":2}}'] as const;
    documents(context, await answersTo(one, other), { sound: ([, second]) => second !== 1, peer: [1, 1] });
  });

  it('19: a changed amount beyond 2^53 replays', async (context) => {
    const call = withMiddy(counter().handler, { eventKeyJmesPath: 'powertools_json(body)' });
    const order = randomUUID();
    const pay = (amount: string) => call({ body: `{"order":"${order}","amount":${amount}}` });
    const answers = [await pay('9007199254740992'), await pay('9007199254740993')];
    documents(context, answers, { sound: ([, second]) => second !== 1, peer: [1, 1] });
  });

  it.for<[string, unknown]>([
    ['a Date', new Date(0)],
    ['NaN', Number.NaN],
    ['400 KB', 'x'.repeat(410 * 1024)],
  ])('21: a success that is %s fails after the side effect, and is stuck', async ([, result], context) => {
    const work = counter(() => result);
    const call = wrapped(work.handler);
    const event = { key: randomUUID() };
    const answers = [await call(event), await call(event)];
    documents(
      context,
      { answers, runs: work.runs },
      {
        sound: ({ answers: [, retry], runs }) => retry !== BUSY && runs <= 1,
        peer: { answers: [STORE, BUSY], runs: 1 },
      },
    );
  });

  it('21, 22: in Middy it is not stuck but released: the retry executes again', async (context) => {
    const work = counter(() => ({ at: new Date(0) }));
    const call = withMiddy(work.handler);
    const event = { key: randomUUID() };
    const answers = [await call(event), await call(event)];
    documents(
      context,
      { answers, runs: work.runs },
      {
        sound: ({ runs }) => runs <= 1,
        peer: { answers: [STORE, STORE], runs: 2 },
      },
    );
  });

  it('21: in Middy a handler that returns nothing runs on every retry', async (context) => {
    const work = counter(() => undefined);
    const call = withMiddy(work.handler);
    const event = { key: randomUUID() };
    await call(event);
    await call(event);
    documents(context, work.runs, { sound: (runs) => runs <= 1, peer: 2 });
  });

  it('25: a returned 500 is stored and replayed', async (context) => {
    const work = counter((run) => ({ statusCode: run === 1 ? 500 : 201 }));
    const call = withMiddy(work.handler);
    const event = { key: randomUUID() };
    await call(event);
    const retry = (await call(event)) as { statusCode?: number };
    documents(context, retry.statusCode, { sound: (status) => status !== 500, peer: 500 });
  });

  it('27: a replay skips outer hooks: its CORS headers are missing', async (context) => {
    const lambda = middy<unknown, unknown>()
      .use(httpCors({ origins: ['https://shop.example'] }) as middy.MiddlewareObj<unknown, unknown>)
      .use(asMiddleware(parts({ eventKeyJmesPath: 'key' })))
      .handler((async () => ({ statusCode: 201, headers: {}, body: '' })) as never);
    const event = {
      version: '2.0',
      key: randomUUID(),
      requestContext: { http: { method: 'POST' } },
      headers: { Origin: 'https://shop.example' },
    };
    const allowed = async () => {
      const answer = await lambda(structuredClone(event), {
        getRemainingTimeInMillis: () => 10_000,
      } as never);
      const { headers } = answer as { headers: Record<string, string> };
      return headers['Access-Control-Allow-Origin'];
    };
    const origins = [await allowed(), await allowed()];
    const shop = 'https://shop.example';
    documents(context, origins, { sound: ([, replay]) => replay === shop, peer: [shop, undefined] });
  });

  it('28: the warm cache holds the object of the caller: mutation poisons replays', async (context) => {
    const call = wrapped(async () => ({ paid: true }), { eventKeyJmesPath: 'key', useLocalCache: true });
    const event = { key: randomUUID() };
    const mine = (await call(event)) as { paid: boolean };
    mine.paid = false;
    const { paid } = (await call(event)) as { paid: boolean };
    documents(context, paid, { sound: (replayed) => replayed, peer: false });
  });

  it('33: after a timeout the operation is executed again', async (context) => {
    const work = slow();
    const call = wrapped(work.handler);
    const event = { key: randomUUID() };
    const killed = call(event, SHORT_MS);
    await work.started;
    await pastTheLease();
    await call(event);
    const { runs } = work;
    work.resume();
    await killed;
    documents(context, runs, { sound: (executions) => executions === 1, peer: 2 });
  });

  it("35: a cleanup that fails masks the handler's error", async (context) => {
    const away = newClient();
    wireOf(away, only('DeleteItem', always(neverArrived)));
    const declined = Object.assign(new Error('card declined'), { name: 'CardDeclined' });
    const call = wrapped(() => Promise.reject(declined), { eventKeyJmesPath: 'key' }, away);
    const answer = await call({ key: randomUUID() });
    away.destroy();
    documents(context, answer, { sound: (name) => name !== STORE, peer: STORE });
  });
});
