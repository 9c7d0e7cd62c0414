import { Duration } from 'aws-cdk-lib';
import type { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import {
  CfnEventSourceMapping,
  type CfnEventSourceMappingProps,
  type Function as LambdaFunction,
} from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { RECORD_SK } from '../ledger/schema.ts';
import type { IdempotencyLedger } from './ledger.ts';
import { onObjects, statement } from './statement.ts';

export interface StreamReading {
  readonly batchSize: number;
  /** How long Lambda collects before it invokes. */
  readonly window: Duration;
  readonly parallelBatches: number;
  readonly retries: number;
  /** What of a new image must be there, beside that it is a record. One of these is enough; none: every record. */
  readonly images: readonly object[];
}

/** Streams keep a day; what is older than this has gone to the bucket, or is about to be lost to the reader. */
const MAX_AGE = Duration.hours(23);

export const sentinelReading: StreamReading = {
  batchSize: 1_000,
  window: Duration.seconds(60),
  parallelBatches: 1,
  /** From a second up to a minute apart: a store that is away for minutes is back by then, and nothing waits for hours. */
  retries: 10,
  images: [],
};

export const dispatchReading: StreamReading = {
  /** Each may take as long as a provider takes to answer. */
  batchSize: 10,
  window: Duration.seconds(0),
  parallelBatches: 10,
  /** The event stays on its record, and the sweep takes it up from there. */
  retries: 3,
  // An outbox that is not yet delivered: the record has no TTL. Most completions have none, and wake nobody.
  images: [
    { status: { S: ['accepted'] } },
    { status: { S: ['completed'] }, ttl: { N: [{ exists: false }] } },
  ],
};

/** Lets a function read the ledger's stream; what it fails on for good ends up as an object in the ledger's bucket. */
export function readStream(
  scope: Construct,
  id: string,
  ledger: IdempotencyLedger,
  target: LambdaFunction,
  reading: StreamReading,
): CfnEventSourceMapping {
  for (const one of readingStatements(ledger)) target.addToRolePolicy(one);
  const keeping = onObjects(scope, `${id}Failures`, target, failureStatements(ledger));
  const mapping = new CfnEventSourceMapping(scope, id, mappingOf(ledger, target.functionName, reading));
  mapping.node.addDependency(target.role ?? target, keeping); // Lambda refuses a mapping whose function may not read yet.
  return mapping;
}

export function mappingOf(
  { table, failedBatches }: IdempotencyLedger,
  functionName: string,
  { batchSize, window, parallelBatches, retries, images }: StreamReading,
): CfnEventSourceMappingProps {
  const filters = (images.length > 0 ? images : [undefined]).map((image) => ({ pattern: changeOf(image) }));
  return {
    functionName,
    eventSourceArn: String(table.tableStreamArn),
    startingPosition: 'TRIM_HORIZON',
    batchSize,
    maximumBatchingWindowInSeconds: window.toSeconds(),
    parallelizationFactor: parallelBatches,
    bisectBatchOnFunctionError: true,
    functionResponseTypes: ['ReportBatchItemFailures'],
    maximumRetryAttempts: retries,
    maximumRecordAgeInSeconds: MAX_AGE.toSeconds(),
    destinationConfig: { onFailure: { destination: failedBatches.bucketArn } },
    filterCriteria: { filters },
  };
}

export function readingStatements({ table }: IdempotencyLedger): PolicyStatement[] {
  const reads = ['dynamodb:DescribeStream', 'dynamodb:GetRecords', 'dynamodb:GetShardIterator'];
  return [
    statement(reads, [String(table.tableStreamArn)]),
    statement(['dynamodb:ListStreams'], ['*']), // AWS knows no resource for it.
    ...(table.encryptionKey
      ? [statement(['kms:Decrypt', 'kms:GenerateDataKey'], [table.encryptionKey.keyArn])]
      : []),
  ];
}

export function failureStatements({ failedBatches }: IdempotencyLedger): PolicyStatement[] {
  return [
    statement(['s3:PutObject'], [failedBatches.arnForObjects('*')]),
    statement(['s3:ListBucket'], [failedBatches.bucketArn]),
  ];
}

/** Bodies, audit entries and quota counters share the table; nobody is woken for them. */
function changeOf(image: object | undefined): string {
  return JSON.stringify({
    dynamodb: { Keys: { sk: { S: [RECORD_SK] } }, ...(image && { NewImage: image }) },
  });
}
