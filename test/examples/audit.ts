import { auditor, type ProviderObject, protect } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const ledger = memoryLedger({ clock }); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const quiet = { clock, log: () => {}, metrics: () => {} };

/** What the provider has. Each object carries what it was given as metadata. */
const charges: ProviderObject[] = [];
const charge = (metadata: { operationRef?: string; operationId?: string } = {}) =>
  charges.push({ id: `ch_${charges.length + 1}`, at: now, state: 'succeeded', ...metadata });

const pay = protect(
  async (order: { id: string; charged: number }, { once }) => {
    const { operationRef, operationId } = once;
    for (let times = 0; times < order.charged; times += 1) charge({ operationRef, operationId });
    return { paid: order.id };
  },
  {
    ledger,
    operation: 'pay',
    tenant: () => 'shop-7',
    key: ({ id }) => id,
    effects: 'opaque',
    onUnknown: 'park',
    ...quiet,
  },
);

// #region auditor
/** The function behind a schedule, daily. */
const audit = auditor({
  ledger,
  operations: ['pay'], // Those that charge.
  async *provider({ from, to }) {
    // Page by page: for await (const page of pages({ created: { gte: from, lt: to } })) yield* page.map(…)
    yield* charges.filter(({ at }) => at >= from && at < to);
  },
  ...quiet,
});
// #endregion auditor

await pay({ id: 'order-1', charged: 1 });
await pay({ id: 'order-2', charged: 0 }); // Says that it is paid.
await pay({ id: 'order-3', charged: 2 });
charge(); // By somebody who went around the ledger.

now += 2 * 3_600_000;
const { listed, found, mismatches } = await audit({}, { getRemainingTimeInMillis: () => 60_000 });
console.log(`listed: ${JSON.stringify(listed)}, found: ${JSON.stringify(found)}`);
for (const { kind, operation, object } of mismatches)
  console.log(`${kind}: ${operation ?? 'nobody knows of'} ${object ?? 'has nothing'}`);
