import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import {
  CreateTableCommand,
  DynamoDBClient,
  ListTablesCommand,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, describe, expect, inject, it } from 'vitest';
import { createTableInput } from '../../../lib/ledger/schema.ts';
import type { Report } from '../../../lib/local/ports.ts';
import { localClientConfig } from '../../../lib/local/store/client.ts';
import {
  type DynamoDbLocal,
  type DynamoDbLocalOptions,
  dynamoDbLocal,
} from '../../../lib/local/store/dynamodb-local.ts';
import { StoreNotOurs, StoreNotStarted } from '../../../lib/local/store/errors.ts';
import { releaseFolder } from '../../../lib/local/store/folder.ts';
import { freePort } from '../../../lib/local/store/port.ts';
import { storeProxy } from '../../../lib/local/store/store-proxy.ts';
import { realTimers } from '../../../lib/local/timers.ts';
import { commandOf, hasEnded, until, usersOf } from './processes.ts';

const folders = mkdtempSync(join(tmpdir(), 'oncekey-store-'));
afterAll(() => rmSync(folders, { recursive: true }));
const newFolder = () => mkdtempSync(join(folders, 'tables-'));

/** Whatever is named for the other tests, here it is about our own. */
const environment = { ...process.env, ONCEKEY_DYNAMODB_ENDPOINT: undefined };

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function start(options: Partial<DynamoDbLocalOptions> = {}) {
  const reports: Report[] = [];
  const store = await dynamoDbLocal({ environment, report: (one) => reports.push(one), ...options });
  ends.push(store.close);
  return { ...store, said: () => reports.map(({ message }) => message), port: portOf(store) };
}

const portOf = ({ endpoint }: DynamoDbLocal) => Number(new URL(endpoint).port);

function clientOf(endpoint: string): DynamoDBClient {
  const client = new DynamoDBClient({ ...localClientConfig(endpoint), maxAttempts: 1 });
  ends.push(() => client.destroy());
  return client;
}

const tablesOf = async (client: DynamoDBClient) => (await client.send(new ListTablesCommand())).TableNames;

async function javaOf(folder: string): Promise<number> {
  for (const pid of usersOf(folder)) if ((await commandOf(pid)).includes('DynamoDBLocal.jar')) return pid;
  throw new Error(`no Java uses ${folder}`);
}

describe('DynamoDB Local', () => {
  it('keeps every write that it acknowledged when it is restarted, or killed, in the midst of others', async () => {
    const folder = newFolder();
    const store = await start({ folder });
    const proxy = await storeProxy({
      target: store.endpoint,
      clock: Date.now,
      random: Math.random,
      timers: realTimers,
      report: () => {},
    });
    ends.push(proxy.close);
    await clientOf(store.endpoint).send(new CreateTableCommand(createTableInput('kept')));

    const acknowledged = new Set<string>();
    let [sent, over] = [0, false];
    const writer = async (client: DynamoDBClient) => {
      while (!over) {
        sent += 1;
        const pk = `item-${sent}`;
        const Item = { pk: { S: pk }, sk: { S: 'record' }, text: { S: 'x'.repeat(2_000) } };
        await client.send(new PutItemCommand({ TableName: 'kept', Item })).then(
          () => acknowledged.add(pk),
          () => {}, // Whether it was written is not known, and not asked.
        );
      }
    };
    const writers = Array.from({ length: 4 }, () => writer(clientOf(proxy.url)));
    const moreWrites = async () => {
      const enough = acknowledged.size + 50;
      await until(() => acknowledged.size >= enough);
    };
    await moreWrites();
    await store.restart();
    await moreWrites();
    store.kill('SIGKILL');
    await store.restart();
    await moreWrites();
    over = true;
    await Promise.all(writers);

    const reader = clientOf(store.endpoint);
    const stored = new Set<string | undefined>();
    let from: Record<string, never> | undefined;
    do {
      const page = await reader.send(new ScanCommand({ TableName: 'kept', ExclusiveStartKey: from }));
      for (const { pk } of page.Items ?? []) stored.add(pk?.S);
      from = page.LastEvaluatedKey as typeof from;
    } while (from);
    expect([...acknowledged].filter((pk) => !stored.has(pk))).toEqual([]);

    await store.close();
    const file = new DatabaseSync(join(folder, 'shared-local-instance.db'), { readOnly: true });
    expect(file.prepare('PRAGMA integrity_check').get()).toEqual({ integrity_check: 'ok' });
    file.close();
  });

  it('listens where it is told to, until it is stopped, and without a folder knows no table when it is back', async () => {
    const port = await freePort(0);
    const store = await start(port === undefined ? {} : { port });
    expect(store.port).toBe(port);
    const client = clientOf(store.endpoint);
    await client.send(new CreateTableCommand(createTableInput('forgotten')));
    expect(await tablesOf(client)).toEqual(['forgotten']);
    await store.stop();
    expect(await freePort(store.port)).toBe(store.port);
    await store.restart();
    expect(await tablesOf(client)).toEqual([]);
  });

  it('is ended also when it is silent', async () => {
    const folder = newFolder();
    const store = await start({ folder });
    const java = await javaOf(folder);
    store.kill('SIGSTOP');
    await store.restart();
    expect(await hasEnded(java)).toBe(true);
    expect(await tablesOf(clientOf(store.endpoint))).toEqual([]);
  });

  it('is gone when it is closed, also in the middle of a restart, and is not started again then', async () => {
    const folder = newFolder();
    const store = await start({ folder });
    const pids = usersOf(folder);
    expect(pids).toHaveLength(2);
    const restarted = expect(store.restart()).rejects.toThrow(/was closed, and is not started again/);
    await until(() => !pids.some((pid) => usersOf(folder).includes(pid)));
    await Promise.all([store.close(), store.close(), restarted]);
    expect(usersOf(folder)).toEqual([]);
    expect(await Promise.all(pids.map(hasEnded))).toEqual([true, true]);
    expect(await freePort(store.port)).toBe(store.port);
    await expect(store.restart()).rejects.toThrow(/was closed/);
    expect(store.said().filter((text) => text.includes('by itself'))).toEqual([]);
  });

  it('goes with its guard if somebody kills that one, is missed, and can be started again', async () => {
    const folder = newFolder();
    const store = await start({ folder });
    const java = await javaOf(folder);
    const [guard = 0] = usersOf(folder).filter((pid) => pid !== java);
    process.kill(guard, 'SIGKILL');
    await until(() => store.said().some((text) => text.includes('has ended by itself')));
    await until(() => hasEnded(java));
    await store.restart();
    expect(await tablesOf(clientOf(store.endpoint))).toEqual([]);
  });
});

describe('a folder', () => {
  it('is refused while another DynamoDB Local uses it, which goes on, and is free after that', async () => {
    const folder = newFolder();
    const first = await start({ folder });
    const used = new RegExp(`^The tables in ${folder} are in use by process \\d+: end that one`);
    await expect(start({ folder })).rejects.toThrow(used);
    expect(await tablesOf(clientOf(first.endpoint))).toEqual([]);
    await first.close();
    await start({ folder });
  });

  it('is taken over from a process that is gone', async () => {
    const folder = newFolder();
    const first = await start({ folder });
    const pids = usersOf(folder);
    await first.close();
    for (const pid of pids) writeFileSync(join(folder, `in-use-by-${pid}`), '');
    await start({ folder });
    expect(usersOf(folder).filter((pid) => pids.includes(pid))).toEqual([]);
  });

  it('is made, and one that cannot be is refused by its name', async () => {
    await start({ folder: join(newFolder(), 'new', 'one') });
    const file = join(newFolder(), 'file');
    writeFileSync(file, '');
    await expect(start({ folder: file })).rejects.toThrow(`The tables cannot be kept in ${file} (`);
    await expect(start({ folder: join(file, 'in-it') })).rejects.toBeInstanceOf(StoreNotStarted);
  });

  it('that is none has no claim to give up, and that is no fault', () => {
    const file = join(newFolder(), 'file');
    writeFileSync(file, '');
    expect(() => releaseFolder(file, process.pid)).not.toThrow();
    expect(() => releaseFolder(join(newFolder(), 'not-there'), process.pid)).not.toThrow();
  });
});

describe('a port', () => {
  it('that is taken is named', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    ends.push(() => other.close());
    await until(() => other.listening);
    const { port } = other.address() as { port: number };
    await expect(start({ port })).rejects.toThrow(
      `Port ${port}, where DynamoDB Local was to listen, is taken`,
    );
  });
});

describe('a DynamoDB that the environment names', () => {
  const naming = (endpoint: string) => ({
    environment: { ...environment, ONCEKEY_DYNAMODB_ENDPOINT: endpoint },
  });

  it('is used, and is nobody to end but its owner', async () => {
    const store = await start(naming(inject('dynamoDbEndpoint')));
    expect(store.endpoint).toBe(inject('dynamoDbEndpoint'));
    await expect(store.restart()).rejects.toBeInstanceOf(StoreNotOurs);
    await expect(store.stop()).rejects.toBeInstanceOf(StoreNotOurs);
    expect(() => store.kill('SIGKILL')).toThrow(StoreNotOurs);
    await store.close();
    expect(await tablesOf(clientOf(store.endpoint))).toBeInstanceOf(Array);
  });

  it('needs no Java', async () => {
    const named = naming(inject('dynamoDbEndpoint')).environment;
    const empty = newFolder();
    mkdirSync(join(empty, 'bin'));
    await start({ environment: { ...named, PATH: join(empty, 'bin') } });
  });

  it('must answer', async () => {
    const endpoint = `http://127.0.0.1:${await freePort(0)}`;
    await expect(start(naming(endpoint))).rejects.toThrow(
      `ONCEKEY_DYNAMODB_ENDPOINT is ${endpoint}, but no DynamoDB answers there.`,
    );
  });

  it('keeps its tables where it likes: a folder or a port of ours is refused', async () => {
    const named = naming(inject('dynamoDbEndpoint'));
    await expect(start({ ...named, folder: '/data' })).rejects.toThrow(/could use the folder \/data/);
    await expect(start({ ...named, port: 8_000 })).rejects.toThrow(/could use the port 8000/);
  });
});
