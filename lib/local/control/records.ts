import { type AttributeValue, type DynamoDBClient, paginateScan } from '@aws-sdk/client-dynamodb';
import { isOpen, type LedgerRecord } from '../../core/record.ts';
import { recordOfImage } from '../../ledger/image.ts';
import { RECORD_SK } from '../../ledger/schema.ts';

/** What somebody who tries it out wants to see of a record. */
interface ShownRecord {
  readonly operationRef: string;
  readonly operation?: string;
  readonly tenant?: string;
  /** As in the table, or `unreadable`. */
  readonly status: string;
  readonly attempt?: number;
  /** Something is still to be done about it. */
  readonly open: boolean;
  readonly [time: `${string}At` | `${string}Until`]: string | undefined;
}

const TIMES = ['createdAt', 'lastRunAt', 'leaseUntil', 'acceptedAt', 'completedAt', 'expiresAt'] as const;

/** Every record of a ledger's table, oldest first. It reads the whole table, which on this machine is small. */
export async function shownRecords(
  client: DynamoDBClient,
  TableName: string,
): Promise<readonly ShownRecord[]> {
  const shown: ShownRecord[] = [];
  const records = { TableName, FilterExpression: 'sk = :record', ConsistentRead: true };
  const values = { ExpressionAttributeValues: { ':record': { S: RECORD_SK } } };
  for await (const { Items = [] } of paginateScan({ client }, { ...records, ...values })) {
    shown.push(...Items.map(shownItem));
  }
  return shown.toSorted((a, b) => (a['createdAt'] ?? '').localeCompare(b['createdAt'] ?? ''));
}

function shownItem(item: Record<string, AttributeValue>): ShownRecord {
  try {
    return shownRecord(recordOfImage(item));
  } catch {
    // A newer release wrote it, or somebody edited it: it is there, and nobody can say that it is settled.
    return { operationRef: item['pk']?.S ?? '', status: 'unreadable', open: true };
  }
}

function shownRecord(record: LedgerRecord): ShownRecord {
  const { pk: operationRef, operation, tenant, status, attempt } = record;
  const due = 'due' in record ? record.due : undefined;
  const accepted = 'accepted' in record ? record.accepted?.at : undefined;
  const known: Readonly<Record<string, unknown>> = { acceptedAt: accepted, ...record };
  const times = [
    ...TIMES.map((name) => [name, known[name]] as const),
    ['dueAt', due?.parkedAt === undefined ? due?.at : undefined] as const,
    ['parkedAt', due?.parkedAt] as const,
  ].flatMap(([name, at]) => (typeof at === 'number' ? [[name, new Date(at).toISOString()]] : []));
  return {
    ...{ operationRef, operation, tenant, status, attempt, open: isOpen(record) },
    ...Object.fromEntries(times),
  };
}
