import type { Shift, Shown } from '../core/pairing.ts';
import type { Status } from '../core/record.ts';
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
  return [{ pk, sequenceNumber: SequenceNumber, before, after, image: NewImage }];
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
