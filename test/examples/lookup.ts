import { createHmac, timingSafeEqual } from 'node:crypto';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { executed, idempotent, jwtClaim, notExecuted, webhook } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { clock, log: () => {}, metrics: () => {} };

/** A bank that carries no metadata, and whose answer to a capture gets lost. */
const captured = new Set<string>();
const bank = {
  authorise: async () => ({ id: 'auth_1' }),
  async capture(id: string): Promise<{ id: string }> {
    captured.add(id);
    throw new Error('no answer from the bank');
  },
};

/** The function behind POST /captures. */
const handler = idempotent(
  // #region handler
  async (_: APIGatewayProxyEventV2, { once }) => {
    const { operationRef } = once;
    const { id } = await once.step('authorise', async () => {
      const authorisation = await bank.authorise();
      const Item = { pk: `bank#${authorisation.id}`, operationRef };
      once.write({ Put: { TableName: 'references', Item } }); // Saved with the step: both, or neither.
      return authorisation;
    });
    const capture = await once.effect('capture', () => bank.capture(id));
    return { statusCode: 201, body: JSON.stringify(capture) };
  },
  // #endregion handler
  { ledger, tenant: jwtClaim('sub'), effects: 'steps', onUnknown: 'park', ...quiet },
);

/** Reads the table of references. */
async function operationRefOf(id: string): Promise<string | undefined> {
  const writes = ledger.written as { Put: { Item: { pk: string; operationRef: string } } }[];
  return writes.find(({ Put }) => Put.Item.pk === `bank#${id}`)?.Put.Item.operationRef;
}

// #region lookup
const fromBank = webhook({
  ledger,
  name: 'bank',
  verify: ({ headers, body }) => {
    const expected = createHmac('sha256', 'secret').update(body).digest();
    const given = Buffer.from(headers.get('x-bank-signature')?.[0] ?? '', 'hex');
    return given.length === expected.length && timingSafeEqual(given, expected);
  },
  event: ({ body }) => JSON.parse(Buffer.from(body).toString()) as { id: string; type: string; auth: string },
  subject: async ({ auth }) => ({ operationRef: await operationRefOf(auth) }),
  fetch: async ({ auth }) => (captured.has(auth) ? executed({ id: auth }) : notExecuted()),
  ...quiet,
});
// #endregion lookup

const post = (path: string, headers: object, body: object) => ({
  version: '2.0',
  routeKey: `POST ${path}`,
  rawPath: path,
  rawQueryString: '',
  headers: { 'content-type': 'application/json', ...headers },
  requestContext: {
    domainName: 'api.example.com',
    http: { method: 'POST', path },
    authorizer: { jwt: { claims: { sub: 'customer-7' } } },
  },
  body: JSON.stringify(body),
});
const context = { getRemainingTimeInMillis: () => 10_000 } as never;
const capture = post('/captures', { 'idempotency-key': 'capture-1' }, { amount: 1250 });
const said = async (answer: Promise<unknown>) => {
  const { statusCode, body } = (await answer) as { statusCode: number; body: string };
  return `${statusCode} ${JSON.parse(body).code ?? body}`;
};

await handler(capture as never, context).catch((error: Error) => console.log(`capture: ${error.message}`));
console.log(`capture again: ${await said(handler(capture as never, context))}`);
const event = { id: 'n-1', type: 'captured', auth: 'auth_1' };
const signature = createHmac('sha256', 'secret').update(JSON.stringify(event)).digest('hex');
const notice = post('/webhooks/bank', { 'x-bank-signature': signature }, event);
console.log(`the bank's notice: ${await said(fromBank(notice, context))}`);
now += 5_000;
console.log(`capture again: ${await said(handler(capture as never, context))}`);
