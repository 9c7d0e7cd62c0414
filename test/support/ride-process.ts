/*
 * One process that takes a ride, for tests that kill it. It prints `at <point>` and stays there, or prints the answer.
 * Time is what it is told.
 */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { post, stage } from '../middleware/stage.ts';
import { localLedgerClient } from './local-client.ts';
import { pointed } from './points.ts';
import { rideHandler } from './ride.ts';
import { filedProviders, stayingAt } from './stay.ts';

export interface RideProcess {
  readonly endpoint: string;
  readonly tableName: string;
  readonly key: string;
  readonly now: number;
  /** Where the providers keep what they did. */
  readonly folder: string;
  /** Where to stay. */
  readonly stayAt?: string;
}

const { endpoint, tableName, key, now, folder, stayAt } = JSON.parse(process.argv[2] ?? '{}') as RideProcess;

const at = stayingAt(stayAt);
const clock = () => now;
const client = localLedgerClient(endpoint);
const ledger = pointed(dynamoDbLedger({ tableName, client, clock }), at);
const ran = (step: string) => appendFileSync(join(folder, 'ran'), `${step}\n`);
const handler = rideHandler(tableName, filedProviders(folder), at, ran);
const { call } = stage(ledger, handler, { effects: 'steps', clock });
const { statusCode, body } = await call(post({ key }));
process.stdout.write(`${JSON.stringify({ statusCode, body: JSON.parse(body) })}\n`);
client.destroy();
