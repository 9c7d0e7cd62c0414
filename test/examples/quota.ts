import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { idempotent, jwtClaim, operator, scopePk, sentinel } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { clock, log: () => {}, metrics: () => {} };
const pay = async () => ({ statusCode: 201, body: '{"paid":true}' });

// #region quota
/** The function behind POST /payments: asks whether its caller has taken too many keys. */
const payments = idempotent(pay, {
  ledger,
  tenant: jwtClaim('sub'),
  effects: 'transactional',
  quota: true,
  ...quiet,
});

/** The function on the table's stream: counts them. */
const watch = sentinel({ ledger, quota: { newKeysPerMinute: 600, openKeys: 100 }, ...quiet });
// #endregion quota

async function post(sub: string, key: string): Promise<string> {
  const event = {
    version: '2.0',
    routeKey: 'POST /payments',
    rawPath: '/payments',
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    requestContext: {
      domainName: 'api.example.com',
      http: { method: 'POST', path: '/payments' },
      authorizer: { jwt: { claims: { sub } } },
    },
    body: '{"amount":500}',
  } as unknown as APIGatewayProxyEventV2;
  const answer = await payments(event as never, { getRemainingTimeInMillis: () => 10_000 } as never);
  const { statusCode, headers, body } = answer as {
    statusCode: number;
    headers: Record<string, string>;
    body: string;
  };
  const wait = headers['Retry-After'];
  const replayed = headers['Idempotent-Replayed'] ? ' (replayed)' : '';
  return `${statusCode} ${JSON.parse(body).code ?? body}${wait ? `, Retry-After ${wait}` : ''}${replayed}`;
}

/** There is no stream in memory, so here is what DynamoDB's would show of one request. */
async function streamed(sub: string, key: string) {
  const pk = scopePk({ tenant: sub, operation: 'POST /payments', key });
  const { record } = await operator({ ledger, clock }).inspect(pk);
  if (!record) return [];
  const { tenant, operation, operationId, createdAt } = record;
  const item = {
    tenant: { S: tenant },
    operation: { S: operation },
    operationId: { S: operationId },
    attempt: { N: '1' },
    createdAt: { N: String(createdAt) },
  };
  const [reserved, done] = ['in_progress', 'completed'].map((status) => ({ ...item, status: { S: status } }));
  const Keys = { pk: { S: pk }, sk: { S: 'record' } };
  return [
    { dynamodb: { Keys, NewImage: reserved, SequenceNumber: `${key}-1` } },
    { dynamodb: { Keys, OldImage: reserved, NewImage: done, SequenceNumber: `${key}-2` } },
  ];
}

const keys = Array.from({ length: 900 }, (_, index) => `retry-${index}`);
console.log('a client makes a new key for every retry, 900 in a minute:');
for (const key of keys) await post('customer-7', key);
const Records = (await Promise.all(keys.map((key) => streamed('customer-7', key)))).flat();

now += 5_000; // The batch came, and what the function remembers of its callers is five seconds old.
await watch({ Records }, { getRemainingTimeInMillis: () => 60_000 });
console.log(`its next new key: ${await post('customer-7', 'order-1')}`);
console.log(`a key it has used: ${await post('customer-7', 'retry-0')}`);
console.log(`another customer: ${await post('customer-8', 'order-1')}`);

now += 90_000;
console.log(`90 seconds later: ${await post('customer-7', 'order-1')}`);
