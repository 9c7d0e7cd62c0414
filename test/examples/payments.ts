import middy from '@middy/core';
import { idempotency, jwtClaim } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let charges = 0;

const handler = middy()
  .use(
    idempotency({
      ledger: memoryLedger(), // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
      tenant: jwtClaim('sub'), // Whose keys these are; never taken from the body.
      effects: 'transactional', // Every change goes through once.write, and commits with the response.
      log: () => {},
      metrics: () => {},
    }),
  )
  .handler(async (_event, { once }) => {
    charges += 1;
    once.write({ Put: { TableName: 'payments', Item: { id: once.operationId, amount: 500 } } });
    return { statusCode: 201, headers: { location: `/payments/${charges}` }, body: `{"charge":${charges}}` };
  });

/** What API Gateway sends for POST /payments. */
const post = (key: string, body: string) => ({
  version: '2.0',
  routeKey: 'POST /payments',
  rawPath: '/payments',
  rawQueryString: '',
  headers: { 'content-type': 'application/json', 'idempotency-key': key },
  requestContext: {
    domainName: 'api.example.com',
    http: { method: 'POST', path: '/payments' },
    authorizer: { jwt: { claims: { sub: 'customer-7' } } },
  },
  body,
});

async function send(key: string, body: string): Promise<void> {
  const context = { getRemainingTimeInMillis: () => 10_000 };
  const answer = await handler(post(key, body), context as never);
  const { statusCode, headers, body: text } = answer as { statusCode: number; headers: object; body: string };
  const replayed = 'Idempotent-Replayed' in headers ? ' (replayed)' : '';
  const { code } = JSON.parse(text);
  console.log(`${statusCode} ${code ?? text}${replayed}`);
}

await send('"order-1842"', '{"amount": 500, "currency": "EUR"}');
await send('order-1842', '{ "currency":"EUR", "amount":500 }');
await send('order-1842', '{"amount": 900, "currency": "EUR"}');
await send('', '{"amount": 500}');
console.log(`charges: ${charges}`);
