/*
 * One process that runs a DynamoDB Local, for tests that end it in every way there is. It prints what it has started once
 * that is up, stays, and throws when it gets a SIGUSR2.
 */
import { spawn } from 'node:child_process';
import { dynamoDbLocal } from '../../lib/local/store/dynamodb-local.ts';

export interface StoreProcess {
  readonly folder: string;
  /** Starts a child, after DynamoDB Local and in a group of its own, which lives on without us. */
  readonly withChild?: boolean;
}

export interface StartedStore {
  readonly endpoint: string;
  readonly childPid?: number | undefined;
}

const { folder, withChild } = JSON.parse(process.argv[2] ?? '{}') as StoreProcess;
const environment = { ...process.env, ONCEKEY_DYNAMODB_ENDPOINT: undefined };
const { endpoint } = await dynamoDbLocal({ folder, environment, report: () => {} });
const child = withChild
  ? spawn(process.execPath, ['-e', 'setInterval(() => {}, 60_000)'], { detached: true, stdio: 'ignore' })
  : undefined;
process.on('SIGUSR2', () => {
  throw new Error('a mistake that nobody catches');
});
const started: StartedStore = { endpoint, childPid: child?.pid };
process.stdout.write(`${JSON.stringify(started)}\n`);
