import type { CreateTableCommandInput } from '@aws-sdk/client-dynamodb';
import { limits } from '../core/limits.ts';

/** The table, described once: for the stack that deploys it and for the tests that create it. */
export const ledgerTable = {
  partitionKey: 'pk',
  sortKey: 'sk',
  ttlAttribute: 'ttl',
  streamViewType: 'NEW_AND_OLD_IMAGES',
  /** Sparse: only leftovers, unknown records and undelivered outboxes carry its attributes. */
  dueIndex: { name: 'due', partitionKey: 'dueShard', sortKey: 'dueAt', projection: 'KEYS_ONLY' },
} as const;

export const RECORD_SK = 'record';

/** Zero-padded, so that DynamoDB returns chunks in order. */
export function chunkSk(set: string, index: number): string {
  return `${chunkSkPrefix(set)}${String(index).padStart(3, '0')}`;
}

export function chunkSkPrefix(set: string): string {
  return `${CHUNK_SK_PREFIX}${set}#`;
}

/** All that was ever stored beside a record, whichever attempt or delivery it was of. */
export const CHUNK_SK_PREFIX = 'body#';

export const AUDIT_SK_PREFIX = 'audit#';

/** In the order of time; the id tells two of one moment apart. */
export function auditSk(at: number, id: string): string {
  return `${AUDIT_SK_PREFIX}${new Date(at).toISOString()}#${id}`;
}

/** Of a tenant, under `quotaPk`: its count of a minute, the names of its open records, and whether it is turned away. */
export const QUOTA_OPEN_SK = 'open';
export const QUOTA_FLAG_SK = 'flag';

export function quotaMinuteSk(minute: number): string {
  return `new#${new Date(minute).toISOString()}`;
}

/** Which shard of the index a record belongs to. The pk is already a hash, so its first bits spread evenly. */
export function dueShard(pk: string, kind: 'due' | 'parked' = 'due'): string {
  const bits = Buffer.from(pk, 'base64url')[0] ?? 0;
  return `${kind}#${bits % limits.dueShards}`;
}

/** All of them: what the sweep asks for. */
export function dueShards(kind: 'due' | 'parked' = 'due'): readonly string[] {
  return Array.from({ length: limits.dueShards }, (_, shard) => `${kind}#${shard}`);
}

export function createTableInput(tableName: string): CreateTableCommandInput {
  const { partitionKey, sortKey, dueIndex } = ledgerTable;
  return {
    TableName: tableName,
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [
      { AttributeName: partitionKey, AttributeType: 'S' },
      { AttributeName: sortKey, AttributeType: 'S' },
      { AttributeName: dueIndex.partitionKey, AttributeType: 'S' },
      { AttributeName: dueIndex.sortKey, AttributeType: 'N' },
    ],
    KeySchema: [
      { AttributeName: partitionKey, KeyType: 'HASH' },
      { AttributeName: sortKey, KeyType: 'RANGE' },
    ],
    GlobalSecondaryIndexes: [
      {
        IndexName: dueIndex.name,
        KeySchema: [
          { AttributeName: dueIndex.partitionKey, KeyType: 'HASH' },
          { AttributeName: dueIndex.sortKey, KeyType: 'RANGE' },
        ],
        Projection: { ProjectionType: dueIndex.projection },
      },
    ],
    StreamSpecification: { StreamEnabled: true, StreamViewType: ledgerTable.streamViewType },
  };
}
