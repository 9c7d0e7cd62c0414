import { localLedgerClient } from '../support/local-client.ts';
import { paymentNode } from './payment-node.ts';

/* A payment node in a process of its own: told an order, it answers with the answer; or it hangs after the charge. */

const [endpoint = '', tableName = '', fate] = process.argv.slice(2);
const pay = paymentNode(localLedgerClient(endpoint), tableName, undefined, async () => {
  if (fate !== 'hangs') return;
  process.send?.('charged');
  await new Promise(() => {});
});

process.on('message', async (order: string) => process.send?.(await pay(order)));
process.once('disconnect', () => process.exit());
process.send?.('ready');
