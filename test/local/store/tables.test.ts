import { randomUUID } from 'node:crypto';
import {
  CreateTableCommand,
  type CreateTableCommandInput,
  DeleteTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type GlobalSecondaryIndex,
  type KeySchemaElement,
  type Projection,
  PutItemCommand,
  ScanCommand,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { createTableInput } from '../../../lib/ledger/schema.ts';
import type { TableModel } from '../../../lib/local/model.ts';
import { TableDiffers } from '../../../lib/local/store/errors.ts';
import { createTables } from '../../../lib/local/store/tables.ts';
import { localLedgerClient } from '../../support/local-client.ts';
import { handTimers } from './hand-timers.ts';
import { until } from './processes.ts';

const client = localLedgerClient(inject('dynamoDbEndpoint'));
const made: string[] = [];
afterEach(async () => {
  for (const TableName of made.splice(0))
    await client.send(new DeleteTableCommand({ TableName })).catch(() => {});
});

type Input = CreateTableCommandInput;
type Index = GlobalSecondaryIndex;

const definition = (AttributeName: string, AttributeType: 'S' | 'N' = 'S') => ({
  AttributeName,
  AttributeType,
});
const KEYS = [definition('pk'), definition('sk')];

const hash = (AttributeName: string): KeySchemaElement => ({ AttributeName, KeyType: 'HASH' });
const range = (AttributeName: string): KeySchemaElement => ({ AttributeName, KeyType: 'RANGE' });

/** The ledger's, unless something is changed. */
function modelOf(changes: Partial<Input> = {}, ttlAttribute?: string): TableModel {
  const name = `table-${randomUUID()}`;
  made.push(name);
  const input = { ...createTableInput(name), ...changes, TableName: name };
  const arn = `arn:aws:dynamodb:us-east-1:000000000000:table/${name}`;
  return { name, arn, input, ...(ttlAttribute !== undefined && { ttlAttribute }) };
}

/** The ledger's index, unless something is changed. */
function indexOf(changes: Partial<Index> = {}): Index {
  const [due] = createTableInput('any').GlobalSecondaryIndexes ?? [];
  if (!due) throw new Error('the ledger has no index any more');
  return { ...due, ...changes };
}

const plain: Partial<Input> = {
  AttributeDefinitions: [definition('pk')],
  KeySchema: [hash('pk')],
  GlobalSecondaryIndexes: undefined,
  StreamSpecification: undefined,
};

const tableOf = async (TableName: string) =>
  (await client.send(new DescribeTableCommand({ TableName }))).Table;
const ttlOf = async (TableName: string) =>
  (await client.send(new DescribeTimeToLiveCommand({ TableName }))).TimeToLiveDescription;

describe('the tables of a template', () => {
  it('are created with their keys, indexes, stream and TTL', async () => {
    const [ledger, rows] = [modelOf({}, 'ttl'), modelOf(plain)];
    const streams = await createTables(client, [ledger, rows]);
    const { KeySchema, GlobalSecondaryIndexes, LatestStreamArn } = (await tableOf(ledger.name)) ?? {};
    expect(KeySchema).toEqual(ledger.input.KeySchema);
    expect(GlobalSecondaryIndexes).toMatchObject(ledger.input.GlobalSecondaryIndexes ?? []);
    expect(await ttlOf(ledger.name)).toEqual({ TimeToLiveStatus: 'ENABLED', AttributeName: 'ttl' });
    expect((await ttlOf(rows.name))?.TimeToLiveStatus).toBe('DISABLED');
    expect(LatestStreamArn).toMatch(/^arn:/);
    expect([...streams]).toEqual([[ledger.name, LatestStreamArn]]);
  });

  it('that are there already stay, with all that is in them', async () => {
    const model = modelOf({}, 'ttl');
    const first = await createTables(client, [model]);
    const Item = { pk: { S: 'kept' }, sk: { S: 'record' } };
    await client.send(new PutItemCommand({ TableName: model.name, Item }));
    const added = modelOf();
    const second = await createTables(client, [model, added]);
    expect(second.get(model.name)).toBe(first.get(model.name));
    expect(second.get(added.name)).toMatch(/^arn:/);
    expect((await client.send(new ScanCommand({ TableName: model.name }))).Items).toEqual([Item]);
  });

  it('are the same in whatever order a description lists them', async () => {
    const Projection: Projection = { ProjectionType: 'INCLUDE', NonKeyAttributes: ['b', 'a'] };
    const indexes = ['one', 'two'].map((IndexName) => indexOf({ IndexName, Projection }));
    const model = modelOf({ GlobalSecondaryIndexes: indexes });
    await createTables(client, [model]);
    const AttributeDefinitions = model.input.AttributeDefinitions?.toReversed();
    const turned = { ...model.input, AttributeDefinitions, GlobalSecondaryIndexes: indexes.toReversed() };
    await expect(createTables(client, [{ ...model, input: turned }])).resolves.toBeInstanceOf(Map);
  });

  it('that got a TTL since then have it enabled', async () => {
    const model = modelOf();
    await createTables(client, [model]);
    await createTables(client, [{ ...model, ttlAttribute: 'ttl' }]);
    expect(await ttlOf(model.name)).toEqual({ TimeToLiveStatus: 'ENABLED', AttributeName: 'ttl' });
  });
});

describe('a table of the same name', () => {
  const shard = definition('dueShard');
  const local = { ...indexOf(), KeySchema: [hash('pk'), range('dueAt')] };
  const differences: Readonly<Record<string, readonly [string, Partial<Input>]>> = {
    'other types of its keys': [
      'keys',
      { AttributeDefinitions: [definition('pk'), definition('sk', 'N'), shard, definition('dueAt', 'N')] },
    ],
    'no index': ['indexes', { GlobalSecondaryIndexes: undefined, AttributeDefinitions: KEYS }],
    'an index with other keys': [
      'indexes',
      {
        GlobalSecondaryIndexes: [indexOf({ KeySchema: [hash('dueShard')] })],
        AttributeDefinitions: [...KEYS, shard],
      },
    ],
    'an index that projects more': [
      'indexes',
      { GlobalSecondaryIndexes: [indexOf({ Projection: { ProjectionType: 'ALL' } })] },
    ],
    'an index of another kind': [
      'indexes',
      {
        GlobalSecondaryIndexes: undefined,
        LocalSecondaryIndexes: [local],
        AttributeDefinitions: [...KEYS, definition('dueAt', 'N')],
      },
    ],
    'no stream': ['stream', { StreamSpecification: undefined }],
    'a stream of less': [
      'stream',
      { StreamSpecification: { StreamEnabled: true, StreamViewType: 'KEYS_ONLY' } },
    ],
  };

  it.each(Object.entries(differences))(
    'with %s is refused, and the folder to remove is named',
    async (_, [part, change]) => {
      const model = modelOf();
      await client.send(new CreateTableCommand({ ...model.input, ...change }));
      const refused = createTables(client, [model], { folder: '/home/me/tables' });
      await expect(refused).rejects.toBeInstanceOf(TableDiffers);
      await expect(refused).rejects.toThrow(
        `The table ${model.name} is there with other ${part} than the template has`,
      );
      await expect(refused).rejects.toThrow(
        /Remove the folder \/home\/me\/tables, or give another, and start again\.$/,
      );
    },
  );

  it('with another TTL attribute, or one that is not wanted any more, is refused', async () => {
    const model = modelOf({}, 'ttl');
    await createTables(client, [model]);
    const other = createTables(client, [{ ...model, ttlAttribute: 'expires' }]);
    await expect(other).rejects.toThrow(
      /other TTL attribute than the template has: "ttl" instead of "expires"/,
    );
    const { ttlAttribute: _, ...without } = model;
    await expect(createTables(client, [without])).rejects.toThrow(/"ttl" instead of none\. Delete the table/);
  });
});

describe('a table that takes its time', () => {
  it('is waited for until it and its indexes are active', async () => {
    const model = modelOf();
    const timers = handTimers();
    const states: Partial<TableDescription>[] = [
      { TableStatus: 'CREATING' },
      { GlobalSecondaryIndexes: [{ ...indexOf(), IndexStatus: 'CREATING' }] },
    ];
    const slow = localLedgerClient(inject('dynamoDbEndpoint'));
    slow.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        const { Table } = result.output as { Table?: TableDescription };
        const state = Table && states.shift();
        return state ? { ...result, output: { ...result.output, Table: { ...Table, ...state } } } : result;
      },
      { step: 'initialize' },
    );
    const created = createTables(slow, [model], { timers });
    for (const left of [1, 0]) {
      await until(() => timers.waiting.length === 1);
      expect(states).toHaveLength(left);
      timers.fire();
    }
    expect((await created).size).toBe(1);
    slow.destroy();
  });
});
