import type { Shift, Shown } from '../core/pairing.ts';
import type { EpochMs, Status } from '../core/record.ts';
import { RECORD_SK } from '../ledger/schema.ts';

/** What is told of one side of a change, as far as its reader needs to trust it: the rest is read from the table. */
interface Side extends Shown {
  /** It has events that are not all delivered. */
  readonly hasOutbox: boolean;
}

/** One change of a ledger record. */
export interface RecordChange extends Shift {
  readonly sequenceNumber: string;
  readonly before: Side | undefined;
  readonly after: Side | undefined;
  readonly image: unknown;
  /** Whose it is; unknown of an image that is damaged. */
  readonly tenant: string | undefined;
  readonly operation: string | undefined;
  /** Set where an operation begins: not for a later attempt of it, and not for what is noted on one that runs. */
  readonly begun: { readonly operationId: string; readonly at: EpochMs } | undefined;
}

const OPEN: ReadonlySet<Status> = new Set(['in_progress', 'accepted', 'unknown'] as const);

/** Its outcome, or the delivery of its events, is still to come. */
export function showsOpen(side: Side | undefined): boolean {
  return side !== undefined && (side.hasOutbox || OPEN.has(side.status));
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The changes of records in a batch; bodies, audit items and whatever else shares the table are none. Goes by what the
 * images show and not by the event's name: DynamoDB Local has one of its own for what TTL removes. Never throws: a record
 * that cannot be understood would come again with all that stand behind it.
 */
export function recordChanges(event: unknown): RecordChange[] {
  const { Records: records } = fieldsOf(event);
  return Array.isArray(records) ? records.flatMap(recordChange) : [];
}

function recordChange(record: unknown): RecordChange[] {
  const { Keys, NewImage, OldImage, SequenceNumber } = fieldsOf(fieldsOf(record)['dynamodb']);
  const keys = fieldsOf(Keys);
  const pk = textOf(keys['pk']);
  if (pk === undefined || typeof SequenceNumber !== 'string' || textOf(keys['sk']) !== RECORD_SK) return [];
  const [before, after] = [sideOf(OldImage), sideOf(NewImage)];
  return [
    {
      ...{ pk, sequenceNumber: SequenceNumber, before, after, image: NewImage },
      tenant: textOf(fieldsOf(NewImage)['tenant']) ?? textOf(fieldsOf(OldImage)['tenant']),
      operation: textOf(fieldsOf(NewImage)['operation']) ?? textOf(fieldsOf(OldImage)['operation']),
      begun: begunIn(fieldsOf(NewImage), after?.operationId, before?.operationId),
    },
  ];
}

/** An operation keeps its id through all its attempts; an expired key that is used again begins another one. */
function begunIn(image: Fields, operationId = '', operationBefore = ''): RecordChange['begun'] {
  const at = numberOf(image['createdAt']);
  if (operationId === '' || operationId === operationBefore || at === undefined) return undefined;
  return { operationId, at };
}

/** An image without an operation or an attempt is damaged; it is told of all the same, so that somebody looks at it. */
function sideOf(image: unknown): Side | undefined {
  const fields = fieldsOf(image);
  const status = textOf(fields['status']);
  if (status === undefined) return undefined;
  return {
    status: status as Status,
    operationId: textOf(fields['operationId']) ?? '',
    attempt: numberOf(fields['attempt']) ?? 0,
    isDue: fields['dueShard'] !== undefined,
    hasOutbox: fields['outbox'] !== undefined,
  };
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function textOf(value: unknown): string | undefined {
  const { S } = fieldsOf(value);
  return typeof S === 'string' ? S : undefined;
}

function numberOf(value: unknown): number | undefined {
  const { N } = fieldsOf(value);
  const number = typeof N === 'string' ? Number(N) : Number.NaN;
  return Number.isSafeInteger(number) ? number : undefined;
}
