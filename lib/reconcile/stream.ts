import type { AttributeValue, DynamoDBRecord } from 'aws-lambda';
import type { EpochMs, Status } from '../core/record.ts';
import { RECORD_SK } from '../ledger/schema.ts';

/** One change of a ledger record, as far as its reader needs to trust it: the rest is read from the table. */
export interface RecordChange {
  readonly pk: string;
  readonly sequenceNumber: string;
  readonly before: Status | undefined;
  readonly after: Status | undefined;
  /** It has events to be delivered. */
  readonly hasOutbox: boolean;
  /** It had events that were not all delivered. */
  readonly hadOutbox: boolean;
  /** It is where the sweep looks already. */
  readonly isDue: boolean;
  readonly image: unknown;
  /** Whose it is; unknown of an image that is damaged. */
  readonly tenant: string | undefined;
  readonly operation: string | undefined;
  /** Set where an operation begins: not for a later attempt of it, and not for what is noted on one that runs. */
  readonly begun: { readonly operationId: string; readonly at: EpochMs } | undefined;
}

export const OPEN: ReadonlySet<Status | undefined> = new Set(['in_progress', 'accepted', 'unknown'] as const);

/** The changes of records in a batch; bodies, audit items and whatever else shares the table are none. */
export function recordChanges(event: unknown): RecordChange[] {
  const records: unknown =
    typeof event === 'object' && event !== null && 'Records' in event ? event.Records : undefined;
  return Array.isArray(records) ? records.flatMap(recordChange) : [];
}

function recordChange({ dynamodb }: DynamoDBRecord): RecordChange[] {
  const { Keys, NewImage, OldImage, SequenceNumber } = dynamodb ?? {};
  const pk = textOf(Keys?.['pk']);
  if (pk === undefined || SequenceNumber === undefined || textOf(Keys?.['sk']) !== RECORD_SK) return [];
  return [
    {
      pk,
      sequenceNumber: SequenceNumber,
      before: textOf(OldImage?.['status']) as Status | undefined,
      after: textOf(NewImage?.['status']) as Status | undefined,
      hasOutbox: NewImage?.['outbox'] !== undefined,
      hadOutbox: OldImage?.['outbox'] !== undefined,
      isDue: NewImage?.['dueShard'] !== undefined,
      image: NewImage,
      tenant: textOf(NewImage?.['tenant'] ?? OldImage?.['tenant']),
      operation: textOf(NewImage?.['operation'] ?? OldImage?.['operation']),
      begun: begunIn(NewImage, textOf(OldImage?.['operationId'])),
    },
  ];
}

type Image = Readonly<Record<string, AttributeValue>>;

/** An operation keeps its id through all its attempts; an expired key that is used again begins another one. */
function begunIn(image: Image | undefined, operationBefore: string | undefined): RecordChange['begun'] {
  const operationId = textOf(image?.['operationId']);
  const at = Number(numberOf(image?.['createdAt']));
  if (operationId === undefined || operationId === operationBefore || !Number.isFinite(at)) return undefined;
  return { operationId, at };
}

function numberOf(value: AttributeValue | undefined): string | undefined {
  return value && 'N' in value ? value.N : undefined;
}

function textOf(value: AttributeValue | undefined): string | undefined {
  return value && 'S' in value ? value.S : undefined;
}
