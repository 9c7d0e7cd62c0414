import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import type { CloudModel } from './model.ts';
import type { Opened } from './opened.ts';
import type { PlaceOf } from './places.ts';
import type { Reporter } from './ports.ts';
import { localClientConfig } from './store/client.ts';
import type { DynamoDbLocal } from './store/dynamodb-local.ts';
import { type StoreProxy, storeProxy } from './store/store-proxy.ts';
import { createTables } from './store/tables.ts';
import { realTimers } from './timers.ts';

export interface Storage {
  /** Past the faults: for whoever looks at what is really there. */
  readonly client: DynamoDBClient;
  readonly streams: DynamoDBStreamsClient;
  /** By the table's name. */
  readonly streamArns: ReadonlyMap<string, string>;
  /** What the functions are given in place of DynamoDB. */
  readonly proxy: StoreProxy;
}

/** The tables of the stacks, and the network that leads to them. */
export async function openStorage(
  store: DynamoDbLocal,
  { tables }: CloudModel,
  { report, place, opened }: { readonly report: Reporter; readonly place: PlaceOf; readonly opened: Opened },
): Promise<Storage> {
  const client = new DynamoDBClient(localClientConfig(store.endpoint));
  const streams = new DynamoDBStreamsClient({ ...localClientConfig(store.endpoint), maxAttempts: 1 });
  await opened.keep({
    async close() {
      client.destroy();
      streams.destroy();
    },
  });
  const streamArns = await createTables(client, tables, place('store'));
  const network = { clock: Date.now, random: Math.random, timers: realTimers, report };
  const proxy = await opened.keep(storeProxy({ target: store.endpoint, ...network }));
  return { client, streams, streamArns, proxy };
}
