import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { idempotent, jwtClaim, operator, scopePk } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

const clock = () => Date.UTC(2030, 0, 15, 12);
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })

let runs = 0;
const handler = idempotent(
  async (_: APIGatewayProxyEventV2) => {
    runs += 1;
    return { statusCode: 201, headers: { location: '/customers/7' }, body: '{"name":"Ada"}' };
  },
  {
    ...{ ledger, tenant: jwtClaim('sub'), effects: 'transactional' },
    ...{ clock, log: () => {}, metrics: () => {} },
  },
);

async function post(key: string): Promise<string> {
  const event = {
    version: '2.0',
    routeKey: 'POST /customers',
    rawPath: '/customers',
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    requestContext: {
      domainName: 'api.example.com',
      http: { method: 'POST', path: '/customers' },
      authorizer: { jwt: { claims: { sub: 'shop-7' } } },
    },
    body: '{}',
  };
  const answer = await handler(event as never, { getRemainingTimeInMillis: () => 10_000 } as never);
  const { statusCode, headers, body } = answer as {
    statusCode: number;
    headers: Record<string, string>;
    body: string;
  };
  const erased = headers['Idempotency-Erased'];
  return `${statusCode} ${body || '(no body)'}${erased ? `, erased ${erased}` : ''}`;
}

console.log(`first: ${await post('customer-7')}`);
console.log(`again: ${await post('customer-7')}`);
const ref = scopePk({ tenant: 'shop-7', operation: 'POST /customers', key: 'customer-7' });

// #region erase
const { erase, inspect } = operator({ ledger, clock });
await erase(ref, { who: 'ada@example.com', why: 'erasure request 17' });
console.log(`again: ${await post('customer-7')}, run ${runs} time`);
for (const { who, move, why } of (await inspect(ref)).audits) console.log(`${who}: ${move}, because ${why}`);
// #endregion erase
