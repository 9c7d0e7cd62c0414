import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { delivered, dispatcher, idempotent, jwtClaim, refused, scopePk } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait for a pause.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const operations = { 'POST /payments': { retentionSeconds: 7 * 86_400 } }; // Both sides are given the same.
const quiet = { clock, log: () => {}, metrics: () => {} };

interface Payment {
  readonly order: string;
  readonly cents: number;
  readonly card: string;
}

/** The function behind POST /payments. The row, the event and the 202 are one transaction. */
const pay = idempotent(
  async (event: APIGatewayProxyEventV2, { once }) => {
    const { order, cents, card }: Payment = JSON.parse(event.body ?? '');
    once.write({ Put: { TableName: 'payments', Item: { id: once.operationId, order, cents } } });
    once.emit({ type: 'charge.requested', payload: { order, cents, card } });
    once.defer();
    return { statusCode: 202, headers: { location: `/payments/${order}` }, body: '{"state":"pending"}' };
  },
  { ledger, tenant: jwtClaim('sub'), effects: 'transactional', operations, ...quiet },
);

/** The function behind the table's stream. */
const { handle, redrive } = dispatcher({
  ledger,
  operations,
  deliveries: {
    'charge.requested': {
      dedupes: true, // The provider does the same thing once, given the same key.
      async deliver({ payload }, { key, attempt }) {
        const { order, cents, card } = payload as Payment;
        console.log(`  try ${attempt}`);
        const charge = await charged(key, cents, card);
        if (charge.declined) return refused({ response: { statusCode: 402, body: '{"error":"declined"}' } });
        const headers = { location: `/payments/${order}` };
        const response = { statusCode: 201, headers, body: `{"charge":"${charge.id}"}` };
        return delivered({ reference: charge.id, response });
      },
    },
  },
  ...quiet,
});

/** A payment provider that dedupes by the key it is given, as Stripe does. */
const charges = new Map<string, string>();
let answersLost = 0;
async function charged(key: string, cents: number, card: string) {
  if (card === 'tok_declined') {
    console.log('  provider: declines the card');
    return { declined: true, id: '' };
  }
  const known = charges.get(key);
  const id = known ?? `ch_${charges.size + 1}`;
  charges.set(key, id);
  console.log(`  provider: ${known ? 'took that before' : `takes ${cents} cents`}`);
  if (card === 'tok_unlucky' && answersLost++ === 0) {
    console.log('  its answer is lost');
    throw new Error('socket hang up');
  }
  return { declined: false, id };
}

/** What API Gateway sends for POST /payments. */
const request = (payment: Payment) =>
  ({
    version: '2.0',
    routeKey: 'POST /payments',
    rawPath: '/payments',
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'idempotency-key': payment.order },
    requestContext: {
      http: { method: 'POST', path: '/payments' },
      authorizer: { jwt: { claims: { sub: 'shop-7' } } },
    },
    body: JSON.stringify(payment),
  }) as unknown as APIGatewayProxyEventV2;

const context = { getRemainingTimeInMillis: () => 30_000 };

async function send(what: string, payment: Payment): Promise<void> {
  const answer = await pay(request(payment), context as never);
  const { statusCode, headers, body } = answer as { statusCode: number; headers: object; body: string };
  const replayed = 'Idempotent-Replayed' in headers ? ' (replayed)' : '';
  console.log(`${what}\n  → ${statusCode} ${body}${replayed}`);
}

const refOf = ({ order: key }: Payment) => scopePk({ tenant: 'shop-7', operation: 'POST /payments', key });

/** What the table's stream brings to the dispatcher once the transaction has been committed. */
async function stream(payment: Payment, what = 'The stream brings the event'): Promise<void> {
  console.log(what);
  const Keys = { pk: { S: refOf(payment) }, sk: { S: 'record' } };
  const OldImage = { status: { S: 'in_progress' } };
  const NewImage = { status: { S: 'accepted' }, outbox: { L: [] } }; // The rest is read from the table.
  await handle({ Records: [{ dynamodb: { Keys, OldImage, NewImage, SequenceNumber: '1' } }] }, context);
}

const ann = { order: 'order-1', cents: 500, card: 'tok_visa' };
await send('Ann pays', ann);
await send('Ann asks how it went', ann);
await stream(ann);
await stream(ann, 'The stream brings it again');
await send('Ann asks again', ann);

const ben = { order: 'order-2', cents: 900, card: 'tok_declined' };
await send('\nBen pays', ben);
await stream(ben);
await send('Ben asks how it went', ben);

const cleo = { order: 'order-3', cents: 700, card: 'tok_unlucky' };
await send('\nCleo pays', cleo);
await stream(cleo);
await send('Cleo asks how it went', cleo);
now += 60_000;
console.log('A minute later it is tried again');
console.log(`  ${await redrive(refOf(cleo), now + 30_000)}`);
await send('Cleo asks again', cleo);

console.log(`\ncharges: ${charges.size}, rows: ${ledger.written.length}`);
