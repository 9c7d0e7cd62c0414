import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { delivered, dispatcher, idempotent, jwtClaim, operator, scopePk, sweeper } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { clock, log: () => {}, metrics: () => {} };
const operations = {
  'POST /transfers': { effects: 'opaque', onUnknown: 'park' },
  'POST /orders': { effects: 'transactional' },
} as const;

/** The functions. The bank answers nobody today, and the warehouse is closed at first. */
const handler = idempotent(
  async ({ routeKey }: APIGatewayProxyEventV2, { once }) => {
    if (routeKey === 'POST /transfers') throw new Error('the bank did not answer');
    once.emit({ type: 'pack', payload: { order: 7 } });
    return { statusCode: 201, body: '{"order":7}' };
  },
  { ledger, tenant: jwtClaim('sub'), onUnknown: 'park', operations, ...quiet },
);
let open = false;
const warehouse = dispatcher({
  ledger,
  deliveries: {
    pack: {
      dedupes: true,
      deliver: async () => {
        if (!open) throw Object.assign(new Error('closed'), { code: 'ECONNREFUSED' });
        return delivered({ reference: 'pk_7' });
      },
    },
  },
  ...quiet,
});
const { handle: sweep } = sweeper({ ledger, operations, dispatcher: warehouse, ...quiet });

async function post(route: string, key: string): Promise<string> {
  const path = route.split(' ')[1];
  const event = {
    version: '2.0',
    routeKey: route,
    rawPath: path,
    rawQueryString: '',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    requestContext: {
      domainName: 'api.example.com',
      http: { method: 'POST', path },
      authorizer: { jwt: { claims: { sub: 'customer-7' } } },
    },
    body: '{}',
  };
  try {
    const answer = await handler(event as never, { getRemainingTimeInMillis: () => 10_000 } as never);
    const { statusCode, headers, body } = answer as { statusCode: number; headers: object; body: string };
    const { code, retry } = JSON.parse(body);
    const replayed = 'Idempotent-Replayed' in headers ? ' (replayed)' : '';
    return code ? `${statusCode} ${code}, retry ${retry}` : `${statusCode} ${body}${replayed}`;
  } catch (error) {
    return `500 (${(error as Error).message})`;
  }
}

/** Hours of sweeping, a minute at a time. */
async function hours(count: number): Promise<void> {
  for (let minutes = 0; minutes < count * 60; minutes += 1) {
    now += 60_000;
    await sweep({}, {});
  }
}

const said = console.log;
said(`transfer: ${await post('POST /transfers', 'transfer-1')}`);
said(`order: ${await post('POST /orders', 'order-7')}`);
const orderRef = scopePk({ tenant: 'customer-7', operation: 'POST /orders', key: 'order-7' });
await warehouse.redrive(orderRef, now + 30_000); // In AWS the table's stream starts this.
await hours(6);

// #region look
const { list, inspect, settleExecuted, settleNotExecuted, redrive } = operator({ ledger, operations, clock });
for (const record of await list({ parked: true })) {
  const error = 'due' in record ? record.due?.error : undefined;
  if (record.status === 'unreadable') said(`${record.pk} cannot be read: ${record.reason}`);
  else said(`${record.operation} is ${record.status}, attempt ${record.attempt}, last error: ${error}`);
}
// #endregion look
const transfer = 'POST /transfers';
const transferRef = scopePk({ tenant: 'customer-7', operation: transfer, key: 'transfer-1' });
said(`transfer again: ${await post(transfer, 'transfer-1')}`);

// #region settle
const ada = { who: 'ada@example.com', why: 'the bank statement of 15 January shows it as tr_1' };
await settleExecuted(transferRef, ada, { statusCode: 201, body: '{"transfer":"tr_1"}' });
said(`transfer again: ${await post(transfer, 'transfer-1')}`);
const refusal = await settleNotExecuted(transferRef, ada).catch((error: Error) => error.message);
said(String(refusal).replace(transferRef, '…'));
// #endregion settle

// #region redrive
open = true; // The warehouse is back.
await redrive(orderRef, { who: 'ada@example.com', why: 'the warehouse was closed until 18:00' });
said(`the next sweep: ${JSON.stringify((await sweep({}, {})).done)}`);
const { record, audits } = await inspect(orderRef);
said(`order is ${record?.status}; records that are open: ${(await list()).length}`);
for (const { who, move, why } of audits) said(`${who}: ${move}, because ${why}`);
// #endregion redrive
