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
  ScanCommand,
  TransactWriteCommand,
  type TransactWriteCommandInput,
  UpdateCommand,
} from '@aws-sdk/lib-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { AuditWindow } from '../core/audit.ts';
import { eachOf } from '../core/each-of.ts';
import { InvalidArgument, StoreUnavailable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { schedule } from '../core/policy.ts';
import type {
  EpochMs,
  EpochSeconds,
  InProgress,
  LedgerRecord,
  Reply,
  StoredBody,
  StoredRequest,
  StoredResponse,
} from '../core/record.ts';
import {
  compressedEvent,
  compressedReply,
  compressedResult,
  packBody,
  replyOf,
  responseOf,
  type StoredBytes,
  sealed,
  storedBytes,
  unpackBody,
  unreadable,
} from './body.ts';
import { type Change, type Clause, conditionOf, type countUpdateOf } from './expression.ts';
import { decode, decodeAudit, encode, type Item, type ItemVersions } from './item.ts';
import type { AuditEntry, DuePage, RequestToKeep, ScanPage, Segment, Until, WriteRefusal } from './ledger.ts';
import {
  AUDIT_SK_PREFIX,
  auditSk,
  CHUNK_SK_PREFIX,
  chunkSk,
  chunkSkPrefix,
  ledgerTable,
  RECORD_SK,
} from './schema.ts';
import { refusal, retryPauseMs, storeCaller, tooManyWrites } from './store-call.ts';

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

/** Time ends the loop long before; this is for a clock that stands still. */
const SEAL_TRIES = 100;

/** How long a body's chunks are kept, and up to which size it needs none. */
interface Kept {
  readonly ttl?: EpochSeconds;
  readonly openEnded?: boolean;
  readonly inlineMaxBytes?: number;
}

/** Which records a scan lets through. */
interface Filter {
  readonly text: string;
  readonly names: Readonly<Record<string, string>>;
  readonly values: Readonly<Record<string, unknown>>;
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

  /** The effect has happened, so a key service that is throttled is asked again for as long as the store would be. */
  async function sealedIfAsked(pk: string, plain: StoredBytes, until: EpochMs): Promise<StoredBytes> {
    if (!seals) return plain;
    for (let tries = 0; ; tries += 1) {
      try {
        return sealed(plain, await seals.seal(plain.bytes, pk));
      } catch (cause) {
        const pauseMs = retryPauseMs(tries, random);
        if (clock() + pauseMs >= until || tries >= SEAL_TRIES) {
          throw new StoreUnavailable('The body could not be sealed, so it was not stored.', cause);
        }
        await sleep(pauseMs);
      }
    }
  }

  async function opened(pk: string, stored: StoredBody, chunks: readonly Uint8Array[]): Promise<Uint8Array> {
    const bytes = storedBytes(pk, stored, chunks);
    if (!stored.sealed) return unpackBody(pk, stored, bytes);
    if (!seals) throw unreadable(pk, 'it is sealed, and this ledger was given nothing to open it with');
    try {
      return unpackBody(pk, stored, await seals.open(bytes, pk));
    } catch (cause) {
      throw unreadable(pk, 'its seal does not open', cause);
    }
  }

  /** Chunks are written before what points at them, and kept longer than it. */
  async function storeBody(
    pk: string,
    plain: StoredBytes,
    owner: string,
    kept: Kept,
    until: EpochMs,
  ): Promise<StoredBody> {
    const { ttl = 0, openEnded = false, inlineMaxBytes } = kept;
    const bytes = await sealedIfAsked(pk, plain, until);
    const { stored, set, chunks } = packBody(bytes, owner, openEnded, inlineMaxBytes);
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
      await unlessLost(send((abortSignal) => documents.send(new PutCommand(input), { abortSignal }), until));
    });
    return stored;
  }

  async function fetchBody(pk: string, stored: StoredBody, until: EpochMs): Promise<Uint8Array> {
    if ('inline' in stored.body) return opened(pk, stored, []);
    const items = await itemsBeside(pk, chunkSkPrefix(stored.body.set), until);
    const chunks = items.flatMap(({ body }) => (body instanceof Uint8Array ? [body] : []));
    return opened(pk, stored, chunks);
  }

  /** What is kept beside a record, in order. */
  async function itemsBeside(
    pk: string,
    prefix: string,
    until: EpochMs,
    filter: object = {},
  ): Promise<Item[]> {
    const items: Item[] = [];
    let from: Item | undefined;
    do {
      const input = {
        TableName: tableName,
        ConsistentRead: true,
        KeyConditionExpression: '#pk = :pk AND begins_with(#sk, :prefix)',
        ExpressionAttributeNames: { '#pk': 'pk', '#sk': 'sk' },
        ExpressionAttributeValues: { ':pk': pk, ':prefix': prefix },
        ExclusiveStartKey: from,
        ...filter,
      };
      const page = await send(
        (abortSignal) => documents.send(new QueryCommand(input), { abortSignal }),
        until,
      );
      items.push(...(page.Items ?? []));
      from = page.LastEvaluatedKey;
    } while (from);
    return items;
  }

  /** A page of the whole table: what is read is paid for, whether the filter lets it through or not. */
  async function scan(
    { index, of }: Segment,
    filter: Filter,
    limit: number,
    from: string | undefined,
    until: EpochMs,
  ): Promise<ScanPage> {
    const input = {
      TableName: tableName,
      Segment: index,
      TotalSegments: of,
      Limit: limit,
      FilterExpression: `#sk = :record AND ${filter.text}`,
      ProjectionExpression: '#pk',
      ExpressionAttributeNames: { '#pk': 'pk', '#sk': 'sk', ...filter.names },
      ExpressionAttributeValues: { ':record': RECORD_SK, ...filter.values },
      ExclusiveStartKey: from === undefined ? undefined : (JSON.parse(from) as Item),
    };
    const page = await send((abortSignal) => documents.send(new ScanCommand(input), { abortSignal }), until);
    return {
      pks: (page.Items ?? []).map(({ pk }) => String(pk)),
      next: page.LastEvaluatedKey && JSON.stringify(page.LastEvaluatedKey),
    };
  }

  const keyOf = (pk: string) => ({ pk, sk: RECORD_SK });

  const updateInput = (pk: string, change: Change) =>
    ({
      TableName: tableName,
      Key: keyOf(pk),
      ...change,
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
    }) as const;

  async function wipeChunk(
    key: { readonly pk: string; readonly sk: unknown },
    recordClauses: readonly Clause[],
    clauses: readonly Clause[],
    until: EpochMs,
  ): Promise<boolean> {
    const record = { TableName: tableName, Key: keyOf(key.pk), ...conditionOf(recordClauses) };
    const { ExpressionAttributeNames, ...condition } = conditionOf(clauses);
    const chunk = {
      TableName: tableName,
      Key: key,
      UpdateExpression: 'REMOVE #body',
      ...condition,
      ExpressionAttributeNames: { ...ExpressionAttributeNames, '#body': 'body' },
    };
    const input = {
      ClientRequestToken: randomUUID(),
      TransactItems: [{ ConditionCheck: record }, { Update: chunk }],
    };
    try {
      await send((abortSignal) => documents.send(new TransactWriteCommand(input), { abortSignal }), until);
    } catch (error) {
      if (!(error instanceof TransactionCanceledException)) throw error;
      const [own, theirs] = error.CancellationReasons ?? [];
      if (own?.Code === 'ConditionalCheckFailed') return false;
      if (theirs?.Code !== 'ConditionalCheckFailed') throw refusal(`${theirs?.Code}`, error); // Else its TTL was faster.
    }
    return true;
  }

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

    /** Both or neither: nothing is changed by hand without a trace, and no trace is of what did not happen. */
    async updateWithAudit(
      pk: string,
      change: Change,
      audit: AuditEntry,
      until: EpochMs,
    ): Promise<Lost | undefined> {
      const { at, id, ...entry } = audit;
      const ttl = Math.ceil(at / 1_000) + schedule.openEndedSeconds;
      const Item = { pk, sk: auditSk(at, id), v: versions.writes, at, id, ...entry, ttl };
      const lost = await this.transact(pk, change, [{ Put: { TableName: tableName, Item } }], until);
      if (lost && 'reasons' in lost) throw refusal('a refused audit entry', lost);
      return lost;
    },

    /**
     * Takes the bytes out of every chunk beside the record, of whichever attempt: one that lost left its body there as well.
     * Nothing in a chunk's name tells whose it is, so each is written together with a look at the record: a key that has
     * started anew since keeps what is stored for it. One after another, since two of these would conflict about the record.
     * Says whether the record stayed as it was.
     */
    async wipe(
      pk: string,
      recordClauses: readonly Clause[],
      clauses: readonly Clause[],
      until: EpochMs,
    ): Promise<boolean> {
      const withBytes = {
        FilterExpression: 'attribute_exists(#body)',
        ProjectionExpression: '#sk',
        ExpressionAttributeNames: { '#pk': 'pk', '#sk': 'sk', '#body': 'body' },
      };
      for (const { sk } of await itemsBeside(pk, CHUNK_SK_PREFIX, until, withBytes)) {
        if (!(await wipeChunk({ pk, sk }, recordClauses, clauses, until))) return false;
      }
      return true;
    },

    async audits(pk: string, until: EpochMs): Promise<AuditEntry[]> {
      return (await itemsBeside(pk, AUDIT_SK_PREFIX, until)).map(decodeAudit);
    },

    /** Of an item that is no record. `lost` is the item that failed the condition. */
    async count(
      key: { readonly pk: string; readonly sk: string },
      change: ReturnType<typeof countUpdateOf>,
      until: EpochMs,
    ): Promise<{ readonly won: Item } | { readonly lost: Item | undefined }> {
      const input = {
        TableName: tableName,
        Key: key,
        ...change,
        ReturnValues: 'ALL_NEW',
        ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      } as const;
      try {
        const command = () => new UpdateCommand(input);
        const { Attributes } = await send((abortSignal) => documents.send(command(), { abortSignal }), until);
        return { won: Attributes ?? {} };
      } catch (error) {
        if (!(error instanceof ConditionalCheckFailedException)) throw error;
        return { lost: error.Item && unmarshall(error.Item) };
      }
    },

    /** At half the price of a read that is up to date. */
    async glance(
      key: { readonly pk: string; readonly sk: string },
      until: EpochMs,
    ): Promise<Item | undefined> {
      const input = { TableName: tableName, Key: key };
      const asked = send((abortSignal) => documents.send(new GetCommand(input), { abortSignal }), until);
      return (await asked).Item;
    },

    async get(pk: string, until: EpochMs): Promise<LedgerRecord | undefined> {
      const command = () => new GetCommand({ TableName: tableName, Key: keyOf(pk), ConsistentRead: true });
      const { Item } = await send((abortSignal) => documents.send(command(), { abortSignal }), until);
      return Item && decode(Item, versions);
    },

    async store(
      pk: string,
      reply: Reply,
      owner: string,
      kept: Kept,
      until: EpochMs,
    ): Promise<StoredResponse> {
      return responseOf(reply, await storeBody(pk, compressedReply(reply), owner, kept, until));
    },

    async fetch(pk: string, response: StoredResponse, until: EpochMs): Promise<Reply> {
      return replyOf(response, await fetchBody(pk, response, until));
    },

    /** A short result stays text, which an operator can read on the item. */
    async storeResult(
      pk: string,
      name: string,
      text: string,
      owner: string,
      until: EpochMs,
    ): Promise<string | StoredBody> {
      const inlineMaxBytes = limits.inlineNoteMaxBytes;
      if (!seals && Buffer.byteLength(text) <= inlineMaxBytes) return text;
      const kept = { openEnded: true, inlineMaxBytes };
      return storeBody(pk, compressedResult(name, text), owner, kept, until);
    },

    async fetchResult(pk: string, result: string | StoredBody, until: EpochMs): Promise<string> {
      if (typeof result === 'string') return result;
      return Buffer.from(await fetchBody(pk, result, until)).toString('utf8');
    },

    /** Always on the record: chunks would have to be there before anybody knows who gets the key. */
    async keptRequest(
      pk: string,
      request: RequestToKeep | undefined,
      until: EpochMs,
    ): Promise<StoredRequest | undefined> {
      const event = request && compressedEvent(request.event);
      if (!event) return undefined;
      const { stored } = packBody(await sealedIfAsked(pk, event, until), '', false, Number.POSITIVE_INFINITY);
      return { function: request.function, event: stored };
    },

    async openedRequest(
      pk: string,
      request: StoredRequest | undefined,
      until: EpochMs,
    ): Promise<RequestToKeep | undefined> {
      return request && { function: request.function, event: await fetchBody(pk, request.event, until) };
    },

    unwatched(segment: Segment, limit: number, from: string | undefined, until: EpochMs): Promise<ScanPage> {
      const filter: Filter = {
        text: 'attribute_not_exists(#due) AND (#status IN (:progress, :accepted, :unknown) OR attribute_exists(#outbox))',
        names: { '#due': 'dueShard', '#status': 'status', '#outbox': 'outbox' },
        values: { ':progress': 'in_progress', ':accepted': 'accepted', ':unknown': 'unknown' },
      };
      return scan(segment, filter, limit, from, until);
    },

    completedIn(
      window: AuditWindow,
      operations: readonly string[],
      limit: number,
      from: string | undefined,
      until: EpochMs,
    ): Promise<ScanPage> {
      const named = Object.fromEntries(
        operations.map((operation, index) => [`:operation${index}`, operation]),
      );
      const filter: Filter = {
        text: `#status = :completed AND #at >= :from AND #at < :to AND #operation IN (${Object.keys(named).join(', ')})`,
        names: { '#status': 'status', '#at': 'completedAt', '#operation': 'operation' },
        values: { ':completed': 'completed', ':from': window.from, ':to': window.to, ...named },
      };
      return scan({ index: 0, of: 1 }, filter, limit, from, until);
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
