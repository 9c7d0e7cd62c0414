import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { DynamoDBClient, ListTablesCommand } from '@aws-sdk/client-dynamodb';
import type { Report, Reporter } from '../ports.ts';
import { localClientConfig } from './client.ts';
import { StoreNotOurs, StoreNotStarted } from './errors.ts';
import { type GuardedJava, guardedJava } from './guarded-java.ts';
import { ENDPOINT_VARIABLE, type Environment, jarFolder, requireJava } from './java.ts';
import { freePort } from './port.ts';

/** Another process may take a free port between our probe and Java's bind: the next one then. */
const LAUNCHES = 3;

/** Java comes up in a second or two, and in ten times as long where it shares its cores. */
const READY_POLLS = 300;
const READY_POLL_MS = 100;
const READY_REQUEST_MS = 2_000;

export interface DynamoDbLocalOptions {
  /** Where the tables are kept; without one they are in memory, and gone with the process. */
  readonly folder?: string;
  /** Any free one, if none is given. */
  readonly port?: number;
  readonly environment: Environment;
  readonly report: Reporter;
  readonly clock?: () => number;
}

export interface DynamoDbLocal {
  readonly endpoint: string;
  /** Ends it, if it runs, and starts it again on the same port. Without a folder the tables are gone. */
  restart(): Promise<void>;
  /** Ends it, so that nothing listens on its port until it is restarted. */
  stop(): Promise<void>;
  /** As somebody at a terminal would; does not wait for what comes of it. SIGSTOP makes it silent, SIGCONT wakes it up. */
  kill(signal: NodeJS.Signals): void;
  close(): Promise<void>;
}

/**
 * The DynamoDB that the environment names, or else a DynamoDB Local of our own, which is gone when we are, however we end.
 * Java binds all interfaces of the machine and cannot be told otherwise; what it is asked for is asked on 127.0.0.1.
 */
export async function dynamoDbLocal(options: DynamoDbLocalOptions): Promise<DynamoDbLocal> {
  const given = options.environment[ENDPOINT_VARIABLE];
  if (given) return somebodyElses(given, options);
  await requireJava(options.environment);
  return ownDynamoDb(options, jarFolder());
}

async function somebodyElses(endpoint: string, options: DynamoDbLocalOptions): Promise<DynamoDbLocal> {
  for (const name of ['folder', 'port'] as const) {
    if (options[name] === undefined) continue;
    throw new StoreNotStarted(
      `${ENDPOINT_VARIABLE} is ${endpoint}, so nothing is started that could use the ${name} ${options[name]}: unset the variable, or give no ${name}.`,
    );
  }
  if (!(await answers(endpoint))) {
    throw new StoreNotStarted(`${ENDPOINT_VARIABLE} is ${endpoint}, but no DynamoDB answers there.`);
  }
  const notOurs = () =>
    new StoreNotOurs(
      `The DynamoDB at ${endpoint} was named by ${ENDPOINT_VARIABLE}: only its owner can end it.`,
    );
  return {
    endpoint,
    restart: () => Promise.reject(notOurs()),
    stop: () => Promise.reject(notOurs()),
    kill() {
      throw notOurs();
    },
    close: async () => {},
  };
}

async function ownDynamoDb(options: DynamoDbLocalOptions, jar: string): Promise<DynamoDbLocal> {
  const { environment, clock = Date.now } = options;
  const folder = options.folder === undefined ? {} : { folder: resolve(options.folder) };

  const tell = (level: Report['level'], kind: Report['kind'], message: string) =>
    options.report({ at: clock(), source: 'store', level, kind, message });

  let current: { readonly java: GuardedJava; asked: boolean } | undefined;
  let closed = false;
  let turn: Promise<void> = Promise.resolve();

  /** False if Java ended, or said nothing for so long that it never will. */
  async function launch(port: number): Promise<boolean> {
    const say = (line: string) => tell('warn', 'log', line);
    const java = guardedJava({ jarFolder: jar, port, ...folder }, environment, say);
    const launched = { java, asked: true };
    current = launched;
    if (!(await comesUp(java, endpointOn(port)))) {
      await java.end();
      const refusal = java.refusal();
      if (refusal !== undefined) throw new StoreNotStarted(refusal);
      return false;
    }
    launched.asked = closed;
    java.ended.then(() => {
      if (!launched.asked)
        tell('error', 'platform', 'DynamoDB Local has ended by itself; its own messages are above.');
    });
    return true;
  }

  async function firstLaunch(): Promise<number> {
    for (let launches = 0; launches < LAUNCHES; launches += 1) {
      const port = await requirePort(options.port ?? 0);
      if (await launch(port)) return port;
    }
    throw new StoreNotStarted(
      `DynamoDB Local did not come up in ${LAUNCHES} launches; its own messages are above.`,
    );
  }

  /** Ending and starting take seconds: whoever asks for the next thing meanwhile has it done after. */
  function inTurn(act: () => Promise<void>): Promise<void> {
    const done = turn.then(act);
    turn = done.catch(() => {});
    return done;
  }

  async function end(): Promise<void> {
    if (!current) return;
    current.asked = true;
    await current.java.end();
  }

  const port = await firstLaunch();

  function requireOpen(): void {
    if (closed) throw new StoreNotStarted('DynamoDB Local was closed, and is not started again.');
  }

  async function restart(): Promise<void> {
    await end();
    requireOpen();
    await requirePort(port);
    const isUp = await launch(port);
    requireOpen();
    if (!isUp) {
      throw new StoreNotStarted(
        `DynamoDB Local did not come up again on port ${port}; its own messages are above.`,
      );
    }
    tell('info', 'platform', `DynamoDB Local was started again on port ${port}.`);
  }

  return {
    endpoint: endpointOn(port),
    restart: () => inTurn(restart),
    stop: () => inTurn(end),
    kill(signal) {
      if (!current) return;
      current.asked ||= signal !== 'SIGSTOP' && signal !== 'SIGCONT';
      current.java.kill(signal);
    },
    async close() {
      closed = true;
      await end(); // Also of what is only coming up: whoever leaves does not wait for that.
      await inTurn(end);
    },
  };
}

const endpointOn = (port: number) => `http://127.0.0.1:${port}`;

async function requirePort(wanted: number): Promise<number> {
  const port = await freePort(wanted);
  if (port !== undefined) return port;
  throw new StoreNotStarted(
    `Port ${wanted}, where DynamoDB Local was to listen, is taken: end the process that has it, or give another port.`,
  );
}

async function comesUp(java: GuardedJava, endpoint: string): Promise<boolean> {
  for (let polls = 0; polls < READY_POLLS && !java.hasEnded(); polls += 1) {
    if (await answers(endpoint)) return !java.hasEnded();
    await pause(READY_POLL_MS);
  }
  return false;
}

async function answers(endpoint: string): Promise<boolean> {
  const requestHandler = { requestTimeout: READY_REQUEST_MS, throwOnRequestTimeout: true };
  const client = new DynamoDBClient({ ...localClientConfig(endpoint), requestHandler, maxAttempts: 1 });
  try {
    await client.send(new ListTablesCommand({ Limit: 1 }));
    return true;
  } catch {
    return false;
  } finally {
    client.destroy();
  }
}
