import type { _Record as SdkRecord } from '@aws-sdk/client-dynamodb-streams';
import type { StreamMappingModel } from '../../../lib/local/model.ts';
import type { BatchRules } from '../../../lib/local/streams/batches.ts';
import { type StreamRecord, streamRecord } from '../../../lib/local/streams/record.ts';

export const STREAM_ARN =
  'arn:aws:dynamodb:ddblocal:000000000000:table/ledger/stream/2030-01-15T11:00:00.000';

export const mapping: StreamMappingModel = {
  name: 'Sentinel',
  tableName: 'ledger',
  functionName: 'sentinel',
  batchSize: 10,
  windowMs: 0,
  parallelBatches: 1,
  bisects: false,
  reportsItemFailures: false,
  retries: Number.POSITIVE_INFINITY,
  maxAgeMs: Number.POSITIVE_INFINITY,
  filters: [],
  startAt: 'TRIM_HORIZON',
  onFailure: { bucket: 'failures' },
};

export const rules: BatchRules = { ...mapping, firstPauseMs: 1_000, longestPauseMs: 60_000 };

export interface Change {
  readonly item?: string;
  readonly status?: string;
  /** Epoch ms. */
  readonly at?: number;
  /** Of something that makes it large. */
  readonly bytes?: number;
}

/** As the SDK hands it over. Sequence numbers are text and of different lengths, as the real ones are. */
export function sdkRecord(number: number, { item = 'a', status = 'new', at = 0, bytes = 0 }: Change = {}) {
  return {
    eventID: `event-${number}`,
    eventName: 'INSERT',
    eventVersion: '1.1',
    eventSource: 'aws:dynamodb',
    awsRegion: 'ddblocal',
    dynamodb: {
      ApproximateCreationDateTime: new Date(at),
      Keys: { pk: { S: item }, sk: { S: 'record' } },
      NewImage: {
        pk: { S: item },
        sk: { S: 'record' },
        status: { S: status },
        more: { S: 'x'.repeat(bytes) },
      },
      SequenceNumber: String(number),
      SizeBytes: 26,
      StreamViewType: 'NEW_AND_OLD_IMAGES',
    },
  } satisfies SdkRecord;
}

/** One that arrived exactly when it says so. */
export function change(number: number, of: Change = {}): StreamRecord {
  return streamRecord(sdkRecord(number, of), STREAM_ARN, of.at ?? 0);
}

export function changes(...numbers: number[]): StreamRecord[] {
  return numbers.map((number) => change(number));
}

export function numbersOf(records: readonly StreamRecord[]): number[] {
  return records.map(({ sequenceNumber }) => Number(sequenceNumber));
}
