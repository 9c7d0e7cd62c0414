import { randomUUID } from 'node:crypto';
import { CreateTableCommand, type CreateTableCommandInput } from '@aws-sdk/client-dynamodb';
import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { afterAll, afterEach, beforeEach, describe, inject } from 'vitest';
import { goingOn } from '../../lambdas/runtime/go-on.ts';
import type { ApiAnswer } from '../../lambdas/service/answers.ts';
import { ordersHandler } from '../../lambdas/service/orders.ts';
import { paymentsHandler } from '../../lambdas/service/payments.ts';
import type { Provider } from '../../lambdas/service/provider.ts';
import { readsHandler } from '../../lambdas/service/reads.ts';
import { serviceDispatcher, serviceSweeper } from '../../lambdas/service/reconcile.ts';
import { dynamoDbRows, type Row, type Rows, requireSameEnd, rowPk } from '../../lambdas/service/rows.ts';
import { remembered } from '../../lambdas/service/secrets.ts';
import type { Service } from '../../lambdas/service/service.ts';
import { stripeProvider } from '../../lambdas/service/stripe-provider.ts';
import { transfersHandler } from '../../lambdas/service/transfers.ts';
import {
  backstop,
  createTableInput,
  dynamoDbLedger,
  jwtClaim,
  type LedgerRecord,
  scopePk,
  statusHandler,
} from '../../lib/index.ts';
import { memoryLedger } from '../../lib/testing/index.ts';
import { streamRecord } from '../reconcile/stage.ts';
import { localLedgerClient } from '../support/local-client.ts';
import { type StripeServer, stripeServer } from './stripe-server.ts';

export const START = Date.UTC(2030, 0, 15, 12);
export const MINUTE_MS = 60_000;

/** The service with its functions, as one deployment has them, on a clock that the test sets. */
export interface Stage {
  readonly stripe: StripeServer;
  readonly service: Service<unknown>;
  readonly time: { now: number };
  post(path: string, request: Request): Promise<Told>;
  get(path: string, tenant?: string): Promise<Told>;
  status(operation: string, key: string, tenant?: string): Promise<Told>;
  record(operation: string, key: string, tenant?: string): Promise<LedgerRecord>;
  /** What the table's stream brings to the dispatcher. */
  dispatch(operation: string, key: string): Promise<void>;
  /** What the schedules do: the backstop finds what nobody watches, the sweep moves what is due. */
  sweep(): Promise<Readonly<Record<string, number>>>;
  /** The functions use another provider from now on. */
  through(provider: (real: Provider) => Provider): void;
}

export interface Request {
  readonly key: string;
  readonly body?: unknown;
  readonly tenant?: string;
  readonly isBase64Encoded?: boolean;
}

export interface Told {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  // biome-ignore lint/suspicious/noExplicitAny: what came over the wire has no type.
  readonly body: any;
  readonly text: string;
}

export const ORDER = { customerId: 'cus_ann', amount: 1_250, currency: 'EUR', reference: 'invoice 7' };

const ARN = 'arn:aws:lambda:eu-central-1:111122223333:function:orders';
const tenantOf = jwtClaim('client_id');

/** What holds on one holds on the other. Every test has tables of its own: a sweep sees all that is in one. */
export function onBothLedgers(tests: (stage: () => Stage) => void): void {
  const client = localLedgerClient(inject('dynamoDbEndpoint'));
  afterAll(() => client.destroy());
  const services = {
    async memory(clock: () => number) {
      const rows = memoryRows();
      return { ledger: memoryLedger({ clock, commit: rows.commit }), rows };
    },
    async DynamoDB(clock: () => number) {
      const [tableName, rowsName] = [`test-${randomUUID()}`, `rows-${randomUUID()}`];
      await client.send(new CreateTableCommand(createTableInput(tableName)));
      await client.send(new CreateTableCommand(rowsTable(rowsName)));
      return { ledger: dynamoDbLedger({ tableName, client, clock }), rows: dynamoDbRows(rowsName, client) };
    },
  };
  describe.each(Object.entries(services))('on %s', (_, open) => {
    let current: Stage;
    beforeEach(async () => {
      const time = { now: START };
      const clock = () => time.now;
      const stripe = await stripeServer(clock);
      current = stageOf(stripe, time, (await open(clock)) as Pick<Service<unknown>, 'ledger' | 'rows'>);
    });
    afterEach(() => current.stripe.close());
    tests(() => current);
  });
}

function rowsTable(TableName: string): CreateTableCommandInput {
  return {
    TableName,
    KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
    AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }],
    BillingMode: 'PAY_PER_REQUEST',
  };
}

export function providerOf(stripe: Pick<StripeServer, 'url'>, timeoutMs = 10_000): Provider {
  const apiKey = remembered(async () => 'sk_test_123');
  return stripeProvider({ apiKey, baseUrl: stripe.url, timeoutMs });
}

function stageOf(
  stripe: StripeServer,
  time: { now: number },
  { ledger, rows }: Pick<Service<unknown>, 'ledger' | 'rows'>,
): Stage {
  const real = providerOf(stripe);
  let provider = real;
  const chosen: Provider = {
    charge: (...call) => provider.charge(...call),
    find: (...call) => provider.find(...call),
    read: (...call) => provider.read(...call),
    made: (...call) => provider.made(...call),
  };
  const clock = () => time.now;
  const sinks = { log: () => undefined, metrics: () => undefined };
  const service: Service<unknown> = { ledger, rows, provider: chosen, clock, sinks };
  const posts: Readonly<Record<string, ReturnType<typeof ordersHandler>>> = {
    '/payments': paymentsHandler(service, tenantOf),
    '/orders': ordersHandler(service, tenantOf),
    '/transfers': transfersHandler(service, tenantOf),
  };
  const reads = readsHandler(rows, tenantOf);
  const statuses = statusHandler({ ledger, tenant: tenantOf, clock });
  const dispatching = serviceDispatcher(service);
  const sweeping = serviceSweeper(service, async (_, event) => {
    await posts['/orders']?.(JSON.parse(Buffer.from(event).toString('utf8')), CONTEXT as Context);
  });
  const searching = goingOn(
    backstop({ ledger, clock, sleep: async () => undefined, ...sinks }),
    async () => undefined,
    { segment: 0 },
  );

  const stage: Stage = {
    ...{ stripe, service, time },
    async post(path, request) {
      const handler = posts[path];
      if (!handler) throw new TypeError(`There is no POST ${path}.`);
      return toldIn(await handler(eventOf('POST', path, path, request), CONTEXT as Context));
    },
    async get(path, tenant) {
      const [, collection, id] = path.split('/');
      const event = eventOf('GET', `/${collection}/{id}`, path, tenantIn(tenant), { id: id ?? '' });
      return toldIn(await reads(event));
    },
    async status(operation, key, tenant) {
      const query = `operation=${encodeURIComponent(operation)}`;
      const event = eventOf('GET', '/operations/{key}', `/operations/${key}`, tenantIn(tenant), { key });
      return toldIn((await statuses({ ...event, rawQueryString: query })) as ApiAnswer);
    },
    async record(operation, key, tenant = 'shop-7') {
      const record = await ledger.read(scopePk({ tenant, operation, key }));
      if (!record) throw new TypeError(`There is no record of ${operation} under ${key}.`);
      return record;
    },
    async dispatch(operation, key) {
      const record = streamRecord(await stage.record(operation, key));
      await dispatching.handle({ Records: [record] }, CONTEXT);
    },
    async sweep() {
      await searching({}, CONTEXT);
      return (await sweeping.handle({}, CONTEXT)).done;
    },
    through(other) {
      provider = other(real);
    },
  };
  return stage;
}

const CONTEXT = { getRemainingTimeInMillis: () => 25_000, invokedFunctionArn: ARN };

function tenantIn(tenant: string | undefined) {
  return tenant === undefined ? {} : { tenant };
}

/** What an HTTP API sends, in payload format 2.0. */
export function eventOf(
  method: string,
  route: string,
  path: string,
  { key, body, tenant = 'shop-7', isBase64Encoded = false }: Partial<Request>,
  pathParameters?: Record<string, string>,
): APIGatewayProxyEventV2 {
  const text = typeof body === 'string' || body === undefined ? body : JSON.stringify(body);
  return {
    version: '2.0',
    routeKey: `${method} ${route}`,
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json', ...(key !== undefined && { 'idempotency-key': key }) },
    ...(pathParameters && { pathParameters }),
    requestContext: {
      accountId: '111122223333',
      apiId: 'abc',
      domainName: 'abc.execute-api.eu-central-1.amazonaws.com',
      domainPrefix: 'abc',
      stage: '$default',
      requestId: randomUUID(),
      routeKey: `${method} ${route}`,
      time: '15/Jan/2030:12:00:00 +0000',
      timeEpoch: START,
      http: { method, path, protocol: 'HTTP/1.1', sourceIp: '192.0.2.1', userAgent: 'test' },
      authorizer: { jwt: { claims: { client_id: tenant }, scopes: null } },
    } as APIGatewayProxyEventV2['requestContext'],
    ...(text !== undefined && { body: text }),
    isBase64Encoded,
  };
}

export function toldIn({ statusCode, headers, body }: ApiAnswer): Told {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return {
    status: statusCode,
    headers: Object.fromEntries(named),
    body: body === '' ? undefined : JSON.parse(body),
    text: body,
  };
}

interface RowWrite {
  readonly row: Row;
  readonly over: 'nothing' | 'pending';
}

/** Rows in memory, for the ledger in memory. */
function memoryRows() {
  const stored = new Map<string, Row>();
  const pkOf = ({ kind, tenant, id }: Row) => rowPk(kind, tenant, id);
  const isRefused = ({ row, over }: RowWrite) => {
    const there = stored.get(pkOf(row));
    return there !== undefined && !(over === 'pending' && there.status === 'pending');
  };
  const rows: Rows<unknown> & { commit(writes: readonly unknown[]): undefined | [] } = {
    created: (row) => ({ row, over: 'nothing' }) satisfies RowWrite,
    ended: (row) => ({ row, over: 'pending' }) satisfies RowWrite,
    async end(row) {
      if (isRefused({ row, over: 'pending' })) requireSameEnd(stored.get(pkOf(row)), row);
      else stored.set(pkOf(row), row);
    },
    async read(kind, tenant, id) {
      return stored.get(rowPk(kind, tenant, id));
    },
    commit(writes) {
      const mine = writes as readonly RowWrite[];
      if (mine.some(isRefused))
        throw new TypeError('A row was refused; no test of the service expects that.');
      for (const { row } of mine) stored.set(pkOf(row), row);
      return undefined;
    },
  };
  return rows;
}
