import { auditor, backstop, type Ledger, NotExecuted, operator, type ProviderObject, protect } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

const MINUTE = 60_000;
let now = Date.UTC(2030, 0, 15, 12); // A clock of our own, so that nobody has to wait.
const clock = () => now;
const quiet = { clock, log: () => {}, metrics: () => {} };
const context = { getRemainingTimeInMillis: () => 60_000 };
const said = console.log;

/** A table with point-in-time recovery: it remembers each write, and can be made again as of any moment. */
type Writes = { readonly at: number; readonly write: (table: Ledger<unknown>) => Promise<unknown> }[];
function recoverable(table: Ledger<unknown>, writes: Writes): Ledger<unknown> {
  const methods = Object.entries(table).map(([name, method]) => {
    const write = (on: Ledger<unknown>, args: readonly unknown[]) =>
      on[name as 'read'](...(args as [string]));
    const call = (...args: unknown[]) => {
      writes.push({ at: now, write: (on) => write(on, args) });
      return write(table, args);
    };
    return [name, typeof method === 'function' ? call : method];
  });
  return Object.fromEntries(methods);
}
async function restoredTo(moment: number, writes: Writes): Promise<Ledger<unknown>> {
  const [table, later] = [memoryLedger<unknown>({ clock }), now];
  for (const { at, write } of writes.filter((one) => one.at <= moment)) {
    now = at;
    await write(table);
  }
  now = later;
  return table;
}

/** The provider is not restored. It keeps what it was given as metadata. */
type Charge = ProviderObject & { readonly order: string };
const charges: Charge[] = [];
const refund = (charge: Charge) =>
  charges.splice(charges.indexOf(charge), 1, { ...charge, state: 'refused' });
let restorePoint = 0;
let declines = true;
const payments = (ledger: Ledger<unknown>) =>
  protect(
    async (order: string, { once: { operationRef, operationId } }) => {
      if (order === 'order-3' && declines) throw new NotExecuted('the bank was closed');
      if (order === 'order-2') restorePoint = now;
      now += 1_000;
      const id = `ch_${charges.length + 1}`;
      charges.push({ id, order, at: now, state: 'succeeded', operationRef, operationId });
      return { order, charge: id };
    },
    {
      ledger,
      operation: 'pay',
      tenant: () => 'shop-7',
      key: (order: string) => order,
      effects: 'opaque',
      onUnknown: 'park',
      ...quiet,
    },
  );

const writes: Writes = [];
const pay = payments(recoverable(memoryLedger({ clock }), writes));
await pay('order-1');
await pay('order-3').catch((error: Error) => said(`order-3: ${error.message}`));
declines = false;
await pay('order-2'); // The table will be restored to a moment in the middle of this.
await pay('order-3');
await pay('order-4');
now += MINUTE;
const closed = now; // 1. Nobody writes any more.
said(`${charges.length} orders are paid`);

now += 40 * MINUTE;
const ledger = await restoredTo(restorePoint, writes); // 2. As of order-2.

// #region find
await backstop({ ledger, ...quiet })({}, context); // 3. From here on, what is open is listed.
const audit = auditor({
  ledger,
  operations: ['pay'],
  provider: ({ from, to }) => charges.filter(({ at }) => at >= from && at < to),
  ...quiet,
});
const window = { from: restorePoint - 60 * MINUTE, to: closed };
const { found, mismatches } = await audit(window, context); // 4.
said(`audit: ${JSON.stringify(found)}`);
// #endregion find

// #region settle
const { list, settleExecuted } = operator({ ledger, clock });
async function settle(operationRef: string, { id, order }: Charge): Promise<void> {
  const by = { who: 'ada@example.com', why: `restored to 12:00; the provider has it as ${id}` };
  const { status } = await settleExecuted(operationRef, by, { order, charge: id }); // As `pay` would have answered.
  said(`${order} is ${status}`);
}
for (const { kind, operationRef, object } of mismatches) {
  const charge = charges.find(({ id }) => id === object);
  said(`${kind}: ${object}, ${charge?.order}`);
  if (charge && kind === 'charge_without_record')
    refund(charge); // 5. Nobody can settle what is not there.
  else if (charge && operationRef) await settle(operationRef, charge);
}
for (const { pk, status } of await list()) {
  const charge = charges.find(({ operationRef }) => operationRef === pk); // 6. What the audit calls open, too.
  said(`one is ${status}, and the provider has ${charge?.id ?? 'nothing'}`);
  if (charge) await settle(pk, charge);
}
said(`audit again: ${JSON.stringify((await audit(window, context)).found)}`); // 7.
// #endregion settle

const again = payments(ledger); // 8. Writes are open.
for (const order of ['order-1', 'order-2', 'order-3', 'order-4'])
  said(`${order} again: ${JSON.stringify(await again(order))}`);
const paid = charges.filter(({ state }) => state === 'succeeded');
said(`4 orders, ${paid.length} charges: ${paid.map(({ id }) => id).join(', ')}`);
