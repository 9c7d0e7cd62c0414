import { createHash } from 'node:crypto';
import { LOCAL_ACCOUNT, LOCAL_REGION, type StreamMappingModel } from '../model.ts';
import type { Batch } from './batch.ts';
import { payloadOf } from './batches.ts';
import { accountArn } from './record.ts';

/** Where a batch comes from, and when it was given up. */
export interface FailedFrom {
  readonly model: Pick<StreamMappingModel, 'name' | 'functionName'>;
  readonly streamArn: string;
  readonly shardId: string;
  readonly now: number;
  readonly newId: () => string;
}

/** What Lambda writes to a destination in S3, and where. */
export function failedObject(
  batch: Batch,
  from: FailedFrom,
): { readonly key: string; readonly body: string } {
  return { key: keyOf(from), body: JSON.stringify(bodyOf(batch, from)) };
}

function keyOf({ model, shardId, now, newId }: FailedFrom): string {
  const [date = '', time = ''] = secondOf(now).split('T');
  const day = date.replaceAll('-', '/');
  return `aws/lambda/${mappingId(model.name)}/${shardId}/${day}/${date}T${time.replaceAll(':', '.')}-${newId()}`;
}

function bodyOf(batch: Batch, { model, streamArn, shardId, now, newId }: FailedFrom): object {
  const { records, givenUp, invocations, functionError } = batch;
  const [first, last] = [records[0], records.at(-1)];
  const response = { statusCode: 200, executedVersion: '$LATEST', ...(functionError && { functionError }) };
  return {
    requestContext: {
      requestId: newId(),
      functionArn: `arn:aws:lambda:${LOCAL_REGION}:${LOCAL_ACCOUNT}:function:${model.functionName}`,
      condition: givenUp,
      approximateInvokeCount: invocations,
    },
    ...(invocations > 0 && { responseContext: response }),
    version: '1.0',
    timestamp: new Date(now).toISOString(),
    DDBStreamBatchInfo: {
      shardId,
      startSequenceNumber: first?.sequenceNumber,
      endSequenceNumber: last?.sequenceNumber,
      approximateArrivalOfFirstRecord: first && `${secondOf(first.arrivedAt)}Z`,
      approximateArrivalOfLastRecord: last && `${secondOf(last.arrivedAt)}Z`,
      batchSize: records.length,
      streamArn: accountArn(streamArn),
    },
    payload: payloadOf(batch),
  };
}

/** A mapping keeps its id over restarts, so that what it gave up stays in one place. */
function mappingId(name: string): string {
  const hex = createHash('sha256').update(name).digest('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join(
    '-',
  );
}

function secondOf(at: number): string {
  return new Date(at).toISOString().slice(0, 19);
}
