import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { delivered, dispatcher, idempotent, jwtClaim, redriver, scopePk } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

const ledger = memoryLedger(); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { log: () => {}, metrics: () => {} };

const orders = idempotent(
  async (_: APIGatewayProxyEventV2, { once }) => {
    once.emit({ type: 'pack', payload: { order: 7 } });
    return { statusCode: 201, body: '{"order":7}' };
  },
  { ledger, tenant: jwtClaim('sub'), effects: 'transactional', ...quiet },
);
const packed: string[] = [];
const dispatch = dispatcher({
  ledger,
  deliveries: {
    pack: {
      dedupes: true,
      deliver: async (_, { key }) => {
        packed.push(key);
        return delivered({ reference: 'pk_7' });
      },
    },
  },
  ...quiet,
});

/** The bucket that is the on-failure destination of the stream's mappings. */
const bucket = new Map<string, string>();
const textOf = async (key: string) => bucket.get(key) ?? '';

// #region redriver
/** The function behind the bucket's notifications: does again what another has given up on. */
const redrive = redriver({
  // With S3: (await s3.send(new GetObjectCommand({ Bucket: bucket, Key: key }))).Body.transformToString()
  read: async ({ key }) => textOf(key),
  handlers: { 'ledger-dispatch': dispatch.handle },
  ...quiet,
});
// #endregion redriver

/** An order, whose change in the table the dispatch function was given and failed on until Lambda gave up. */
const event = {
  version: '2.0',
  routeKey: 'POST /orders',
  rawPath: '/orders',
  rawQueryString: '',
  headers: { 'content-type': 'application/json', 'idempotency-key': 'order-7' },
  requestContext: {
    domainName: 'api.example.com',
    http: { method: 'POST', path: '/orders' },
    authorizer: { jwt: { claims: { sub: 'customer-7' } } },
  },
  body: '{}',
};
await orders(event as never, { getRemainingTimeInMillis: () => 10_000 } as never);
const pk = scopePk({ tenant: 'customer-7', operation: 'POST /orders', key: 'order-7' });
const change = {
  eventName: 'MODIFY',
  dynamodb: {
    Keys: { pk: { S: pk }, sk: { S: 'record' } },
    NewImage: { status: { S: 'completed' }, outbox: { L: [] } },
    SequenceNumber: '100',
  },
};
bucket.set(
  'aws/lambda/batch-1',
  JSON.stringify({
    requestContext: {
      functionArn: 'arn:aws:lambda:eu-central-1:123456789012:function:ledger-dispatch',
      condition: 'RetryAttemptsExhausted',
    },
    payload: JSON.stringify({ Records: [change] }),
  }),
);
const notification = {
  Records: [{ s3: { bucket: { name: 'on-failure' }, object: { key: 'aws/lambda/batch-1' } } }],
};
const context = { getRemainingTimeInMillis: () => 60_000 };
console.log(`packed before: ${packed.length}`);
console.log(`redriven: ${JSON.stringify(await redrive(notification, context))}, packed: ${packed.length}`);
console.log(`redriven: ${JSON.stringify(await redrive(notification, context))}, packed: ${packed.length}`);
