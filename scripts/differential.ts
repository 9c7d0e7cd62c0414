/*
 * The long comparison of the two ledgers: npm run differential -- [--steps 100000] [--from 1]
 * Every episode has its own seed, so that a run that was stopped goes on with --from, and a failure runs again alone.
 */
import { randomUUID } from 'node:crypto';
import { parseArgs } from 'node:util';
import { CreateTableCommand } from '@aws-sdk/client-dynamodb';
import { createTableInput } from '../lib/ledger/schema.ts';
import { EPISODE_STEPS, movesNotSeen, runEpisodes, type Tally } from '../test/support/differential.ts';
import { startDynamoDb } from '../test/support/dynamodb-local.ts';
import { localLedgerClient } from '../test/support/local-client.ts';

const { values } = parseArgs({
  options: { steps: { type: 'string', default: '100000' }, from: { type: 'string', default: '1' } },
});
const episodes = Math.ceil(positive('steps') / EPISODE_STEPS);
const first = positive('from');

const { endpoint, close } = await startDynamoDb();
const client = localLedgerClient(endpoint);
const tableName = `differential-${randomUUID()}`;
await client.send(new CreateTableCommand(createTableInput(tableName)));

const tally: Tally = new Map();
let done = 0;
const seeds = Array.from({ length: episodes }, (_, index) => first + index);
const fault = await runEpisodes({ tableName, client }, seeds, tally, () => {
  done += 1;
  say(`\r${done * EPISODE_STEPS} of ${episodes * EPISODE_STEPS} steps   `);
});
if (fault) {
  say(`\n${fault}\nRun it again: npm run differential -- --from <its seed> --steps ${EPISODE_STEPS}\n`);
  await close();
  process.exit(1);
}
say(`\nAll agree; to go on from here: --from ${first + episodes}`);
await close();

const unseen = movesNotSeen(tally);
say(`\n${[...tally].map(([name, count]) => `${String(count).padStart(7)}  ${name}`).join('\n')}\n`);
if (unseen.length > 0) say(`Legal moves that never happened: ${unseen.join(', ')}\n`);
process.exit(unseen.length > 0 && episodes >= 20 ? 1 : 0);

function say(text: string): void {
  process.stdout.write(text);
}

function positive(name: 'steps' | 'from'): number {
  const number = Number(values[name]);
  if (Number.isSafeInteger(number) && number > 0) return number;
  say(`--${name} should be a whole number above 0, got ${values[name]}.\n`);
  process.exit(2);
}
