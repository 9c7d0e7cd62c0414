/*
 * One process that delivers a record's events, for tests that kill it: a charge at a provider that dedupes, then a receipt
 * through one that does not. It prints `at <point>` and stays there, or prints what it did. Time is what it is told.
 */
import { delivered } from '../../lib/effects/deliveries.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import { localLedgerClient } from './local-client.ts';
import { pointed } from './points.ts';
import { filedProviders, stayingAt } from './stay.ts';

export interface DispatchProcess {
  readonly endpoint: string;
  readonly tableName: string;
  readonly pk: string;
  readonly now: number;
  /** Where the providers keep what they did. */
  readonly folder: string;
  /** Where to stay. */
  readonly stayAt?: string;
}

const { endpoint, tableName, pk, now, folder, stayAt } = JSON.parse(
  process.argv[2] ?? '{}',
) as DispatchProcess;

const at = stayingAt(stayAt);
const clock = () => now;
const client = localLedgerClient(endpoint);
const ledger = pointed(dynamoDbLedger({ tableName, client, clock }), at);
const { charge, send } = filedProviders(folder);

const through = (name: string, dedupes: boolean, ask: (key: string) => Promise<string>) => ({
  dedupes,
  async deliver(_: unknown, { key }: { readonly key: string }) {
    await at(`before the ${name}`);
    const reference = await ask(key);
    await at(`after the ${name}`);
    return delivered({ reference, response: { statusCode: 201, body: `"${reference}"` } });
  },
});

const deliveries = { charge: through('charge', true, charge), receipt: through('receipt', false, send) };
const { redrive } = dispatcher({ ledger, deliveries, clock, log: () => {}, metrics: () => {} });
process.stdout.write(`${await redrive(pk, now + 30_000)}\n`);
client.destroy();
