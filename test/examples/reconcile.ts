import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { executed, idempotent, jwtClaim, notExecuted, operator, scopePk, sweeper } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { clock, log: () => {}, metrics: () => {} };

/** A bank that cannot be asked to do a thing only once, but can be asked what it has done. */
const transfers = new Map<string, string>();

// #region operations
/** One declaration, given to the function and to what reconciles it. */
const operations = {
  'POST /transfers': {
    effects: 'opaque',
    resolver: async ({ operationId }: { operationId: string }) => {
      const transfer = transfers.get(operationId); // We gave it to the bank as our reference.
      return transfer ? executed({ statusCode: 201, body: `{"transfer":"${transfer}"}` }) : notExecuted();
    },
  },
} as const;
// #endregion operations

/** The function behind POST /transfers. */
const transfer = idempotent(
  async (event: APIGatewayProxyEventV2, { once }) => {
    const { answers } = JSON.parse(event.body ?? '');
    if (answers !== 'never') transfers.set(once.operationId, `tr_${transfers.size + 1}`);
    throw new Error('the bank did not answer in time'); // It may have made the transfer, or not.
  },
  { ledger, tenant: jwtClaim('sub'), onUnknown: 'park', operations, ...quiet },
);

/** The function behind a schedule, every minute. */
const { handle: sweep } = sweeper({ ledger, operations, ...quiet });

async function post(key: string, answers: 'late' | 'never'): Promise<string> {
  const event = {
    version: '2.0',
    routeKey: 'POST /transfers',
    rawPath: '/transfers',
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    requestContext: {
      domainName: 'api.example.com',
      http: { method: 'POST', path: '/transfers' },
      authorizer: { jwt: { claims: { sub: 'customer-7' } } },
    },
    body: JSON.stringify({ answers }),
  };
  try {
    const answer = await transfer(event as never, { getRemainingTimeInMillis: () => 10_000 } as never);
    const { statusCode, body } = answer as { statusCode: number; body: string };
    return `${statusCode} ${JSON.parse(body).code ?? body}`;
  } catch (error) {
    return `500 (${(error as Error).message})`;
  }
}

console.log(`transfer-1: ${await post('transfer-1', 'late')}`);
console.log(`transfer-2: ${await post('transfer-2', 'never')}`);
console.log(`transfer-1 again: ${await post('transfer-1', 'late')}`);

now += 60_000;
console.log(`a minute later: ${JSON.stringify((await sweep({}, {})).done)}`);
console.log(`transfer-1 again: ${await post('transfer-1', 'late')}`);
console.log(`transfer-2 again: ${await post('transfer-2', 'never')}`);

now += 120_000;
console.log(`two minutes later: ${JSON.stringify((await sweep({}, {})).done)}`);
const ref = scopePk({ tenant: 'customer-7', operation: 'POST /transfers', key: 'transfer-2' });
const { record } = await operator({ ledger, clock }).inspect(ref);
console.log(`transfer-2 is ${record?.status}: it may run`);
console.log(`transfers made: ${transfers.size}`);
