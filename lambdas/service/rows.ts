import { ConditionalCheckFailedException, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBDocumentClient, GetCommand, PutCommand } from '@aws-sdk/lib-dynamodb';
import type { TransactWrite } from '../../lib/index.ts';
import type { ChargeRequest } from './requests.ts';

export type Kind = 'payment' | 'order' | 'transfer';

/** What the service itself knows of one charge. */
export interface Row extends Omit<ChargeRequest, 'paymentMethod'> {
  readonly kind: Kind | 'receipt';
  readonly tenant: string;
  readonly id: string;
  readonly operationRef: string;
  readonly status: 'pending' | 'succeeded' | 'declined' | 'rejected';
  /** Epoch milliseconds. */
  readonly createdAt: number;
  /** The provider's name for it. */
  readonly charge?: string;
  /** Why it was declined or rejected. */
  readonly code?: string;
  readonly receipt?: string;
}

/** Where rows are kept. What it returns as `W` joins a transaction of the ledger; the others act at once. */
export interface Rows<W> {
  /** A row that was not there. */
  created(row: Row): W;
  /** The end of a row that is pending or was not there. */
  ended(row: Row): W;
  /** The same at once. A row that has ended so before stays as it is. */
  end(row: Row): Promise<void>;
  read(kind: Row['kind'], tenant: string, id: string): Promise<Row | undefined>;
}

/** A row has ended in one way, and somebody says that it ended in another: neither may overwrite the other. */
export class RowEndedOtherwise extends Error {
  override readonly name = 'RowEndedOtherwise';
}

/**
 * The key of a row: its kind, its tenant and its id as a JSON array, so that no two rows share one whatever is in a
 * tenant's name, and so that a caller who guesses another's id still asks for a row of its own.
 */
export function rowPk(kind: Row['kind'], tenant: string, id: string): string {
  return JSON.stringify([kind, tenant, id]);
}

/** Constant across the attempts of an operation, and another when an expired key starts a new one. */
export function rowId(kind: Row['kind'], operationId: string): string {
  const prefix = { payment: 'pay', order: 'ord', transfer: 'trf', receipt: 'rcp' }[kind];
  return `${prefix}_${operationId}`;
}

/** Whether both say the same of how it ended. */
function sameEnd(left: Row, right: Row): boolean {
  return left.status === right.status && left.charge === right.charge && left.code === right.code;
}

const NEW = 'attribute_not_exists(pk)';
const OPEN = { '#status': 'status' };

/**
 * The service's own table, whose partition key is `pk`. Its client is not the ledger's: that one leaves all retrying to the
 * ledger, and here nobody else does it.
 */
export function dynamoDbRows(tableName: string, client: DynamoDBClient): Rows<TransactWrite> {
  const documents = DynamoDBDocumentClient.from(client, { marshallOptions: { removeUndefinedValues: true } });

  function itemOf(row: Row): Record<string, unknown> {
    const fields = Object.entries(row).filter(([, value]) => value !== undefined);
    return { pk: rowPk(row.kind, row.tenant, row.id), ...Object.fromEntries(fields) };
  }

  function ending(row: Row) {
    return {
      TableName: tableName,
      Item: itemOf(row),
      ConditionExpression: `${NEW} OR #status = :pending`,
      ExpressionAttributeNames: OPEN,
      ExpressionAttributeValues: { ':pending': 'pending' },
    };
  }

  async function read(kind: Row['kind'], tenant: string, id: string): Promise<Row | undefined> {
    const Key = { pk: rowPk(kind, tenant, id) };
    const { Item } = await documents.send(
      new GetCommand({ TableName: tableName, Key, ConsistentRead: true }),
    );
    if (!Item) return undefined;
    const { pk: _, ...row } = Item;
    return row as Row;
  }

  return {
    created: (row) => ({ Put: { TableName: tableName, Item: itemOf(row), ConditionExpression: NEW } }),
    ended: (row) => ({ Put: ending(row) }),
    async end(row) {
      try {
        await documents.send(new PutCommand(ending(row)));
      } catch (error) {
        if (!(error instanceof ConditionalCheckFailedException)) throw error;
        requireSameEnd(await read(row.kind, row.tenant, row.id), row); // Ours, whose answer was lost, or a faster one's.
      }
    },
    read,
  };
}

export function requireSameEnd(there: Row | undefined, row: Row): void {
  if (there && sameEnd(there, row)) return;
  throw new RowEndedOtherwise(
    `The ${row.kind} ${row.id} has ended as ${there?.status} (${there?.charge ?? there?.code}); it was now to end as ${row.status} (${row.charge ?? row.code}). An operator must compare it with the provider.`,
  );
}
