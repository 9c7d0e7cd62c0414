import { createHmac } from 'node:crypto';
import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { executed, idempotent, jwtClaim, notExecuted, stripeSignature, undetermined, webhook } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { clock, log: () => {}, metrics: () => {} };

interface Payment {
  readonly id: string;
  readonly status: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A provider that makes payments and tells of them, but whose answers get lost today. */
const payments = new Map<string, Payment>();
const provider = {
  async pay(metadata: Payment['metadata']): Promise<Payment> {
    const id = `pi_${payments.size + 1}`;
    payments.set(id, { id, status: 'succeeded', metadata });
    throw new Error('no answer from the provider');
  },
  find: async (id: string) => payments.get(id),
};

/** The function behind POST /payments. */
const handler = idempotent(
  // #region metadata
  async (_: APIGatewayProxyEventV2, { once }) => {
    const { operationRef, operationId } = once;
    const payment = await provider.pay({ operationRef, operationId }); // Both come back with every event.
    return { statusCode: 201, body: JSON.stringify({ payment: payment.id }) };
  },
  // #endregion metadata
  { ledger, tenant: jwtClaim('sub'), onUnknown: 'park', ...quiet },
);

const readSecrets = async () => ['whsec_new', 'whsec_old']; // In AWS from Secrets Manager, kept for some minutes.

// #region webhook
interface PaymentEvent {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly object: { readonly id: string; readonly metadata?: Record<string, string> } };
}

/** The function behind POST /webhooks/stripe. */
const fromProvider = webhook({
  ledger,
  name: 'stripe',
  verify: stripeSignature({ secrets: readSecrets, clock }),
  types: ['payment_intent.succeeded', 'payment_intent.payment_failed', 'payment_intent.canceled'],
  subject: ({ data }: PaymentEvent) => ({
    operationRef: data.object.metadata?.['operationRef'],
    operationId: data.object.metadata?.['operationId'],
  }),
  // The event is a hint. What counts is what the provider says when it is asked.
  async fetch({ data }) {
    const payment = await provider.find(data.object.id);
    switch (payment?.status) {
      case 'succeeded':
        return executed({ statusCode: 201, body: JSON.stringify({ payment: payment.id }) });
      case 'requires_payment_method': // The card was declined: that is a result, too.
        return executed({ statusCode: 402, body: '{"error":"card_declined"}' });
      case 'canceled':
        return notExecuted();
      default: // It may still happen.
        return undetermined();
    }
  },
  ...quiet,
});
// #endregion webhook

async function post(key: string): Promise<string> {
  const event = {
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
    body: '{"amount":1250}',
  };
  try {
    const answer = await handler(event as never, { getRemainingTimeInMillis: () => 10_000 } as never);
    const { statusCode, body } = answer as { statusCode: number; body: string };
    return `${statusCode} ${JSON.parse(body).code ?? body}`;
  } catch (error) {
    return `500 (${(error as Error).message})`;
  }
}

/** What the provider sends, signed with one of the secrets. */
async function deliver(event: unknown, secret: string): Promise<string> {
  const body = JSON.stringify(event, null, 2);
  const time = Math.floor(now / 1_000);
  const digest = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
  const request = {
    version: '2.0',
    routeKey: 'POST /webhooks/stripe',
    rawPath: '/webhooks/stripe',
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'stripe-signature': `t=${time},v1=${digest}` },
    requestContext: {
      domainName: 'api.example.com',
      http: { method: 'POST', path: '/webhooks/stripe' },
    },
    body,
  };
  const { statusCode, body: answer } = await fromProvider(request, {
    getRemainingTimeInMillis: () => 10_000,
  });
  return `${statusCode} ${JSON.parse(answer).code ?? answer}`;
}

console.log(`payment: ${await post('payment-1')}`);
console.log(`payment again: ${await post('payment-1')}`);

now += 2_000;
const [payment] = payments.values();
const succeeded = { id: 'evt_1', type: 'payment_intent.succeeded', data: { object: payment } };
console.log(`an event signed by somebody else: ${await deliver(succeeded, 'whsec_guessed')}`);
console.log(`the provider's event: ${await deliver(succeeded, 'whsec_old')}`);
console.log(`the same event again: ${await deliver(succeeded, 'whsec_new')}`);
console.log(`payment again: ${await post('payment-1')}`);

const other = { id: 'evt_2', type: 'balance.available', data: { object: {} } };
console.log(`an event about something else: ${await deliver(other, 'whsec_new')}`);
console.log(`payments made: ${payments.size}`);
