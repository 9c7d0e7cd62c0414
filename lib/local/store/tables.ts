import { isDeepStrictEqual } from 'node:util';
import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  type KeySchemaElement,
  ResourceInUseException,
  type TableDescription,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import type { TableModel } from '../model.ts';
import { realTimers, type Timers } from '../timers.ts';
import { StoreNotStarted, TableDiffers } from './errors.ts';

/** DynamoDB Local makes a table at once; another DynamoDB may take a minute. */
const ACTIVE_POLLS = 300;
const ACTIVE_POLL_MS = 200;

export interface CreateTablesOptions {
  /** Where the tables are kept, for whoever has to remove it. */
  readonly folder?: string;
  readonly timers?: Timers;
}

/**
 * Creates what is not there. Gives back the ARN of each table's stream, by the table's name.
 * A table that is there already is left as it is, and must be what the template describes.
 */
export async function createTables(
  client: DynamoDBClient,
  models: readonly TableModel[],
  options: CreateTablesOptions = {},
): Promise<ReadonlyMap<string, string>> {
  const streams = new Map<string, string>();
  for (const model of models) {
    await createIfAbsent(client, model);
    const table = await activeTable(client, model.name, options.timers ?? realTimers);
    requireSame(model, table, options.folder);
    await expireItems(client, model, options.folder);
    if (table.LatestStreamArn !== undefined) streams.set(model.name, table.LatestStreamArn);
  }
  return streams;
}

async function createIfAbsent(client: DynamoDBClient, { input }: TableModel): Promise<void> {
  try {
    await client.send(new CreateTableCommand(input));
  } catch (error) {
    if (!(error instanceof ResourceInUseException)) throw error;
  }
}

async function activeTable(client: DynamoDBClient, name: string, timers: Timers): Promise<TableDescription> {
  for (let polls = 0; polls < ACTIVE_POLLS; polls += 1) {
    const { Table } = await client.send(new DescribeTableCommand({ TableName: name }));
    if (Table && isActive(Table)) return Table;
    await new Promise<void>((resolve) => timers.after(ACTIVE_POLL_MS, resolve));
  }
  throw new StoreNotStarted(
    `The table ${name} was created, but did not become ACTIVE in ${(ACTIVE_POLLS * ACTIVE_POLL_MS) / 1_000} s. Start again.`,
  );
}

function isActive({ TableStatus, GlobalSecondaryIndexes = [] }: TableDescription): boolean {
  return (
    TableStatus === 'ACTIVE' && GlobalSecondaryIndexes.every(({ IndexStatus }) => IndexStatus === 'ACTIVE')
  );
}

/** DynamoDB refuses to enable what is enabled. */
async function expireItems(
  client: DynamoDBClient,
  model: TableModel,
  folder: string | undefined,
): Promise<void> {
  const { name, ttlAttribute } = model;
  const { TimeToLiveDescription } = await client.send(new DescribeTimeToLiveCommand({ TableName: name }));
  const { TimeToLiveStatus, AttributeName } = TimeToLiveDescription ?? {};
  const enabled =
    TimeToLiveStatus === 'ENABLED' || TimeToLiveStatus === 'ENABLING' ? AttributeName : undefined;
  if (enabled === ttlAttribute) return;
  if (enabled !== undefined) throw differs(model, 'TTL attribute', enabled, ttlAttribute, folder);
  const TimeToLiveSpecification = { AttributeName: ttlAttribute, Enabled: true };
  await client.send(new UpdateTimeToLiveCommand({ TableName: name, TimeToLiveSpecification }));
}

function requireSame(model: TableModel, table: TableDescription, folder: string | undefined): void {
  const [there, wanted] = [shapeOf(table), shapeOf(model.input)];
  for (const part of ['keys', 'indexes', 'stream'] as const) {
    if (isDeepStrictEqual(there[part], wanted[part])) continue;
    throw differs(model, part, there[part], wanted[part], folder);
  }
}

function differs(
  { name }: TableModel,
  part: string,
  there: unknown,
  wanted: unknown,
  folder: string | undefined,
): TableDiffers {
  const text = (value: unknown) => JSON.stringify(value) ?? 'none';
  const remedy =
    folder === undefined
      ? 'Delete the table, or start with an empty store.'
      : `Remove the folder ${folder}, or give another, and start again.`;
  return new TableDiffers(
    `The table ${name} is there with other ${part} than the template has: ${text(there)} instead of ${text(wanted)}. ${remedy}`,
  );
}

/** What makes two tables the same, in one order; a description and an input have the same names for it. */
function shapeOf(table: Pick<TableDescription, keyof TableDescription & keyof TableModel['input']>) {
  const { GlobalSecondaryIndexes = [], LocalSecondaryIndexes = [], StreamSpecification } = table;
  const types = new Map(
    table.AttributeDefinitions?.map(({ AttributeName, AttributeType }) => [AttributeName, AttributeType]),
  );
  const keysOf = (schema: readonly KeySchemaElement[] = []) =>
    schema.map(({ AttributeName, KeyType }) => `${KeyType} ${AttributeName} ${types.get(AttributeName)}`);
  const indexOf = ({ IndexName, KeySchema, Projection }: (typeof LocalSecondaryIndexes)[number]) => ({
    name: IndexName,
    keys: keysOf(KeySchema),
    projects: [Projection?.ProjectionType, ...(Projection?.NonKeyAttributes ?? []).toSorted()],
  });
  const byName = (one: { name: string | undefined }, other: { name: string | undefined }) =>
    String(one.name).localeCompare(String(other.name));
  return {
    keys: keysOf(table.KeySchema),
    indexes: {
      global: GlobalSecondaryIndexes.map(indexOf).toSorted(byName),
      local: LocalSecondaryIndexes.map(indexOf).toSorted(byName),
    },
    stream: StreamSpecification?.StreamEnabled ? StreamSpecification.StreamViewType : undefined,
  };
}
