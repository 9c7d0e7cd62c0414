import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type AttributeValue,
  ConditionalCheckFailedException,
  DynamoDBClient,
  type DynamoDBClientConfig,
  TransactionCanceledException,
} from '@aws-sdk/client-dynamodb';
import {
  DynamoDBDocumentClient,
  GetCommand,
  PutCommand,
  QueryCommand,
  TransactWriteCommand,
  type TransactWriteCommandInput,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import { InvalidArgument } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { schedule } from '../core/policy.ts';
import type {
  EpochMs,
  EpochSeconds,
  InProgress,
  LedgerRecord,
  Reply,
  StoredResponse,
} from '../core/record.ts';
import { compressed, packReply, type StoredBytes, storedBytes, unpackReply, unreadable } from './body.ts';
import { type Change, type Clause, conditionOf } from './expression.ts';
import { decode, encode, type Item, type ItemVersions } from './item.ts';
import type { DuePage, Until, WriteRefusal } from './ledger.ts';
import { chunkSk, chunkSkPrefix, ledgerTable, RECORD_SK } from './schema.ts';
import { refusal, storeCaller, tooManyWrites } from './store-call.ts';

/** One of the caller's own writes, as `@aws-sdk/lib-dynamodb` takes it. */
export type TransactWrite = NonNullable<TransactWriteCommandInput['TransactItems']>[number];

/** What passes through here is the body alone; the record's name is to be bound to it as associated data. */
export interface BodySeals {
  seal(body: Uint8Array, operationRef: string): Uint8Array | Promise<Uint8Array>;
  open(sealed: Uint8Array, operationRef: string): Uint8Array | Promise<Uint8Array>;
}

export interface TableOptions {
  readonly tableName: string;
  /** From `ledgerClient()`: the SDK must not retry by itself. */
  readonly client: DynamoDBClient;
  /** Encrypts stored bodies with a key of the caller's own. Bodies stored before stay readable. */
  readonly seals?: BodySeals;
  readonly clock?: () => EpochMs;
  readonly random?: () => number;
  readonly sleep?: (ms: number) => Promise<void>;
}

/** A DynamoDB client that leaves retrying to the ledger and does not wait for a lost packet. */
export function ledgerClient(config: DynamoDBClientConfig = {}): DynamoDBClient {
  const { connectTimeoutMs, requestTimeoutMs } = schedule;
  return new DynamoDBClient({
    requestHandler: {
      connectionTimeout: connectTimeoutMs,
      requestTimeout: requestTimeoutMs,
      throwOnRequestTimeout: true,
    },
    ...config,
    maxAttempts: 1,
  });
}

/** The condition failed; this is the record that failed it. */
interface Lost {
  readonly record: LedgerRecord | undefined;
}

type Refused = { readonly reasons: readonly WriteRefusal<TransactWrite>[] };

/** The ledger's table as its moves use it: conditional writes of records, chunked bodies, the due index. */
export function openTable(options: TableOptions, versions: ItemVersions, chunkClauses: readonly Clause[]) {
  const { tableName, client, seals, clock = Date.now, random = Math.random, sleep = pause } = options;
  const documents = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });
  const call = storeCaller({ clock, random, sleep, requestTimeoutMs: schedule.requestTimeoutMs });
  let checked: Promise<void> | undefined;

  async function send<T>(ask: (abortSignal: AbortSignal) => Promise<T>, until: EpochMs): Promise<T> {
    checked ??= requireSingleAttempt(client);
    await checked;
    return call(ask, until);
  }

  /** Turns the exception of a failed condition into a result; anything else stays an exception. */
  async function unlessLost<T>(write: Promise<T>): Promise<{ won: T } | Lost> {
    try {
      return { won: await write };
    } catch (error) {
      if (!(error instanceof ConditionalCheckFailedException)) throw error;
      return { record: recordIn(error.Item) };
    }
  }

  /** Exceptions carry the item in DynamoDB's own notation; the document client does not translate those. */
  function recordIn(item: Record<string, AttributeValue> | undefined): LedgerRecord | undefined {
    return item && decode(unmarshall(item), versions);
  }

  async function stored(pk: string, reply: Reply): Promise<StoredBytes> {
    const plain = compressed(reply);
    if (!seals) return plain;
    return { ...plain, bytes: new Uint8Array(await seals.seal(plain.bytes, pk)), sealed: true };
  }

  async function opened(pk: string, response: StoredResponse, chunks: readonly Uint8Array[]): Promise<Reply> {
    const bytes = storedBytes(pk, response, chunks);
    if (!response.sealed) return unpackReply(pk, response, bytes);
    if (!seals) throw unreadable(pk, 'it is sealed, and this ledger was given nothing to open it with');
    try {
      return unpackReply(pk, response, await seals.open(bytes, pk));
    } catch (cause) {
      throw unreadable(pk, 'its seal does not open', cause);
    }
  }

  const keyOf = (pk: string) => ({ pk, sk: RECORD_SK });

  const updateInput = (pk: string, change: Change) =>
    ({
      TableName: tableName,
      Key: keyOf(pk),
      ...change,
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    }) as const;

  return {
    clock,

    /** When to give up: the caller's end, the budget, and (for those who claim the key) their own lease. */
    until(call: Until | undefined, leaseUntil = Number.POSITIVE_INFINITY): EpochMs {
      return Math.min(call?.until ?? clock() + schedule.storeBudgetMs, leaseUntil);
    },

    async put(record: InProgress, clauses: readonly Clause[], until: EpochMs): Promise<Lost | undefined> {
      const Item = {
        ...keyOf(record.pk),
        v: versions.writes,
        ...encode(record),
        ...(record.effects === 'steps' && { steps: {} }),
      };
      const input = {
        TableName: tableName,
        Item,
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
        ...conditionOf(clauses),
      } as const;
      const put = await unlessLost(
        send((abortSignal) => documents.send(new PutCommand(input), { abortSignal }), until),
      );
      return 'won' in put ? undefined : put;
    },

    async update(pk: string, change: Change, until: EpochMs): Promise<Lost | undefined> {
      const input = updateInput(pk, change);
      const update = await unlessLost(
        send((abortSignal) => documents.send(new UpdateCommand(input), { abortSignal }), until),
      );
      return 'won' in update ? undefined : update;
    },

    async updateAndReturn(pk: string, change: Change, until: EpochMs): Promise<{ won: LedgerRecord } | Lost> {
      const input = { ...updateInput(pk, change), ReturnValues: 'ALL_NEW' } as const;
      const update = await unlessLost(
        send((abortSignal) => documents.send(new UpdateCommand(input), { abortSignal }), until),
      );
      return 'won' in update ? { won: decode(update.won.Attributes ?? {}, versions) } : update;
    },

    /** The record's update and the caller's writes, all or nothing. One token for all tries of the same call. */
    async transact(
      pk: string,
      change: Change,
      writes: readonly TransactWrite[],
      until: EpochMs,
    ): Promise<Lost | Refused | undefined> {
      if (writes.length >= limits.transactionMaxItems) {
        throw tooManyWrites(writes.length);
      }
      const input = {
        ClientRequestToken: randomUUID(),
        TransactItems: [{ Update: updateInput(pk, change) }, ...writes],
      };
      try {
        await send((abortSignal) => documents.send(new TransactWriteCommand(input), { abortSignal }), until);
        return undefined;
      } catch (error) {
        if (!(error instanceof TransactionCanceledException)) throw error;
        // The record first: if it moved on, perhaps by our own lost try, the caller's items failed only because of that.
        const [own, ...theirs] = error.CancellationReasons ?? [];
        if (own?.Code === 'ConditionalCheckFailed') return { record: recordIn(own.Item) };
        if (own?.Code !== undefined && own.Code !== 'None')
          throw refusal(`${own.Code}: ${own.Message}`, error);
        return {
          reasons: writes.map((write, index) => ({
            write,
            index,
            code: theirs[index]?.Code ?? 'None',
            message: theirs[index]?.Message,
            item: theirs[index]?.Item && unmarshall(theirs[index].Item),
          })),
        };
      }
    },

    async get(pk: string, until: EpochMs): Promise<LedgerRecord | undefined> {
      const command = () => new GetCommand({ TableName: tableName, Key: keyOf(pk), ConsistentRead: true });
      const { Item } = await send((abortSignal) => documents.send(command(), { abortSignal }), until);
      return Item && decode(Item, versions);
    },

    /** Chunks are written before the status that points at them, and kept longer than it. */
    async store(
      pk: string,
      reply: Reply,
      owner: string,
      kept: { readonly ttl?: EpochSeconds; readonly openEnded?: boolean },
      until: EpochMs,
    ): Promise<StoredResponse> {
      const { ttl = 0, openEnded = false } = kept;
      const { response, set, chunks } = packReply(reply, owner, openEnded, await stored(pk, reply));
      const lastingUntil = openEnded ? Math.ceil(clock() / 1_000) + schedule.openEndedSeconds : 0;
      const items = chunks.map((body, index) => ({
        pk,
        sk: chunkSk(set, index),
        v: versions.writes,
        body,
        ttl: Math.max(ttl, lastingUntil) + schedule.chunkMarginSeconds,
      }));
      await eachOf(items, limits.chunkConcurrency, async (Item: Item) => {
        const input = { TableName: tableName, Item, ...conditionOf(chunkClauses) };
        // A chunk that is there already is ours, from a try whose answer got lost: its key carries our name.
        await unlessLost(
          send((abortSignal) => documents.send(new PutCommand(input), { abortSignal }), until),
        );
      });
      return response;
    },

    async fetch(pk: string, response: StoredResponse, until: EpochMs): Promise<Reply> {
      if ('inline' in response.body) return opened(pk, response, []);
      const chunks: Uint8Array[] = [];
      let from: Item | undefined;
      do {
        const input = {
          TableName: tableName,
          ConsistentRead: true,
          KeyConditionExpression: '#pk = :pk AND begins_with(#sk, :prefix)',
          ExpressionAttributeNames: { '#pk': 'pk', '#sk': 'sk' },
          ExpressionAttributeValues: { ':pk': pk, ':prefix': chunkSkPrefix(response.body.set) },
          ExclusiveStartKey: from,
        };
        const page = await send(
          (abortSignal) => documents.send(new QueryCommand(input), { abortSignal }),
          until,
        );
        for (const { body } of page.Items ?? []) if (body instanceof Uint8Array) chunks.push(body);
        from = page.LastEvaluatedKey;
      } while (from);
      return opened(pk, response, chunks);
    },

    async due(
      shard: string,
      before: EpochMs,
      limit: number,
      from: string | undefined,
      until: EpochMs,
    ): Promise<DuePage> {
      const { name, partitionKey, sortKey } = ledgerTable.dueIndex;
      const input = {
        TableName: tableName,
        IndexName: name,
        KeyConditionExpression: '#shard = :shard AND #at <= :before',
        ExpressionAttributeNames: { '#shard': partitionKey, '#at': sortKey },
        ExpressionAttributeValues: { ':shard': shard, ':before': before },
        Limit: limit,
        ExclusiveStartKey: from === undefined ? undefined : (JSON.parse(from) as Item),
      };
      const page = await send(
        (abortSignal) => documents.send(new QueryCommand(input), { abortSignal }),
        until,
      );
      return {
        entries: (page.Items ?? []).map((item) => ({ pk: String(item['pk']), at: Number(item['dueAt']) })),
        next: page.LastEvaluatedKey && JSON.stringify(page.LastEvaluatedKey),
      };
    },
  };
}

async function requireSingleAttempt(client: DynamoDBClient): Promise<void> {
  const attempts = await client.config.maxAttempts();
  if (attempts === 1) return;
  throw new InvalidArgument(
    `The DynamoDB client given to the ledger makes ${attempts} attempts per call. Make it with ledgerClient(), or with maxAttempts: 1: the ledger retries by itself, and a try that the SDK sends after the lease could reserve a key that nobody then works on.`,
  );
}

async function eachOf<T>(
  items: readonly T[],
  concurrency: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = items.values();
  const workers = Array.from({ length: Math.min(concurrency, items.length) }, async () => {
    for (const item of queue) await work(item);
  });
  await Promise.all(workers);
}
