import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { idempotent, jwtClaim } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait for a lease.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })

/** A payment provider that dedupes by the key it is given, as Stripe does. */
const charged = new Map<string, string>();
async function charge(key: string, cents: number): Promise<string> {
  const known = charged.has(key);
  console.log(`  provider: ${known ? 'this key was charged before' : `takes ${cents} cents`}`);
  if (!known) charged.set(key, `ch_${charged.size + 1}`);
  return charged.get(key) ?? '';
}

/** A mail service that does not: asked twice, it sends twice. */
let mails = 0;
async function mailReceipt(chargeId: string): Promise<void> {
  mails += 1;
  console.log(`  mail: receipt for ${chargeId}`);
}

/** The function as it is deployed. `afterCharge` is where our first process will lose its power. */
const deploy = (afterCharge: () => Promise<void>) =>
  idempotent(
    async (event: APIGatewayProxyEventV2, { once }) => {
      const { from, to } = JSON.parse(event.body ?? '');

      // 1. Our own row, and the note that it is there, in one transaction.
      const ride = await once.step('ride', () => {
        console.log('  step ride');
        once.write({ Put: { TableName: 'rides', Item: { id: once.operationId, from, to } } });
        return { cents: 1850 };
      });

      // 2. A provider that dedupes: after a crash it is asked again, with the same key.
      const payment = await once.step('charge', async ({ key }) => {
        console.log('  step charge');
        const id = await charge(key, ride.cents);
        await afterCharge();
        return { id };
      });

      // 3. One that does not: the intent is written first, and it is asked once.
      await once.effect('receipt', async () => {
        console.log('  effect receipt');
        await mailReceipt(payment.id);
      });

      return { statusCode: 201, body: JSON.stringify({ charge: payment.id }) };
    },
    { ledger, tenant: jwtClaim('sub'), effects: 'steps', clock, log: () => {}, metrics: () => {} },
  );

/** What API Gateway sends for POST /rides. */
const request = () =>
  ({
    version: '2.0',
    routeKey: 'POST /rides',
    rawPath: '/rides',
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'idempotency-key': 'ride-7c1d' },
    requestContext: {
      http: { method: 'POST', path: '/rides' },
      authorizer: { jwt: { claims: { sub: 'rider-7' } } },
    },
    body: '{"from":"harbour","to":"station"}',
  }) as unknown as APIGatewayProxyEventV2;

async function send(what: string, handler: ReturnType<typeof deploy>): Promise<void> {
  console.log(what);
  const answer = await handler(request(), { getRemainingTimeInMillis: () => 10_000 } as never);
  const { statusCode, headers, body } = answer as { statusCode: number; headers?: object; body: string };
  const { code } = JSON.parse(body);
  const replayed = headers && 'Idempotent-Replayed' in headers ? ' (replayed)' : '';
  console.log(`  → ${statusCode} ${code ?? body}${replayed}`);
}

await new Promise<void>((died) => {
  const dies = deploy(() => {
    console.log('  the process dies');
    died();
    return new Promise(() => {}); // It never comes back.
  });
  void send('The rider asks for a ride', dies);
});

const alive = deploy(async () => {});
await send('The app tries again at once', alive);
now += 20_000; // The lease of the dead process has passed.
await send('The app tries again later', alive);
await send('The app asks once more', alive);
console.log(`charges: ${charged.size}, rows: ${ledger.written.length}, receipts: ${mails}`);
