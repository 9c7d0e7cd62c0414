import { OncekeyError } from '../core/errors.ts';

/** Where an on-failure object lies. */
export interface FailedObject {
  readonly bucket: string;
  readonly key: string;
  readonly versionId?: string;
}

/** A batch that Lambda gave up on, as the mapping's S3 destination keeps it. */
export interface FailedBatch {
  /** Of the function that failed. */
  readonly functionArn: string;
  readonly streamArn: string | undefined;
  /** Lambda's reason, such as `RetryAttemptsExhausted`. */
  readonly condition: string | undefined;
  readonly records: readonly unknown[];
}

/** An object that cannot be redriven as it is: no later try will do better. Its code goes to the log. */
export class UnusableObject extends OncekeyError {
  override readonly remedy = 'fix-deployment';
  readonly code: string;

  constructor(code: string, message: string, cause?: unknown) {
    super(message, cause);
    this.code = code;
  }
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * The objects that an event announces: S3's own notification, or EventBridge's. Only S3's own has its keys encoded as in a
 * query; EventBridge passes them as they are.
 */
export function objectsIn(event: unknown): FailedObject[] {
  const { Records: records, source, detail } = fieldsOf(event);
  const notified = Array.isArray(records) ? records.map((record) => fieldsOf(record)['s3']) : [detail];
  const isS3 = Array.isArray(records) ? records.length > 0 : source === 'aws.s3';
  const objects = notified.map((one) => objectIn(fieldsOf(one), Array.isArray(records)));
  if (isS3 && objects.every((object) => object !== undefined)) return objects;
  throw new UnusableObject(
    'not_an_object_event',
    'redriver() was invoked with an event that names no S3 object; expected a notification of the bucket, or EventBridge\'s "Object Created".',
  );
}

function objectIn({ bucket, object }: Fields, encoded: boolean): FailedObject | undefined {
  const { name } = fieldsOf(bucket);
  const { key, versionId, 'version-id': bridgedVersion } = fieldsOf(object);
  if (typeof name !== 'string' || typeof key !== 'string') return undefined;
  const version = versionId ?? bridgedVersion;
  return {
    bucket: name,
    key: encoded ? decodedKey(key) : key,
    ...(typeof version === 'string' && { versionId: version }),
  };
}

function decodedKey(key: string): string {
  try {
    return decodeURIComponent(key.replaceAll('+', ' '));
  } catch {
    return key; // Not encoded, then; reading it will tell.
  }
}

/** What Lambda writes for a failed batch. Other destinations get the same without `payload`: where to look for a day. */
export function failedBatchIn(text: string): FailedBatch {
  const { requestContext, payload, DDBStreamBatchInfo: info } = fieldsOf(parsed(text, 'The object'));
  const { functionArn, condition } = fieldsOf(requestContext);
  if (typeof functionArn !== 'string') {
    throw new UnusableObject(
      'not_a_failed_batch',
      'The object is no record of a failed invocation: it has no requestContext.functionArn. Keep the bucket for the on-failure destination alone.',
    );
  }
  if (payload === undefined || payload === null || payload === '') {
    throw new UnusableObject(
      'no_payload',
      'The object has no payload, so the failed records are not in it. Only a destination in S3 is given them; what is open is found by backstop().',
    );
  }
  const { Records: records } = fieldsOf(
    typeof payload === 'string' ? parsed(payload, 'Its payload') : payload,
  );
  if (!Array.isArray(records) || records.length === 0) {
    throw new UnusableObject('no_records', 'The payload has no Records; expected a batch of a stream.');
  }
  const { streamArn } = fieldsOf(info);
  return { functionArn, streamArn: textOf(streamArn), condition: textOf(condition), records };
}

/** arn:aws:lambda:region:account:function:NAME, perhaps with a version or an alias behind. */
export function functionNameIn(functionArn: string): string {
  return functionArn.split(':')[6] ?? functionArn;
}

/**
 * What the handler says it could not do. As Lambda reads it: an identifier that names none of the records means all of
 * them, since nobody knows which.
 */
export function failuresOf(records: readonly unknown[], response: unknown): readonly unknown[] {
  const { batchItemFailures } = fieldsOf(response);
  if (!Array.isArray(batchItemFailures)) return [];
  const named = new Set(batchItemFailures.map((failure) => fieldsOf(failure)['itemIdentifier']));
  const failed = records.filter((record) => named.has(sequenceNumberOf(record)));
  const known = new Set(failed.map(sequenceNumberOf));
  return [...named].every((name) => name !== undefined && known.has(name)) ? failed : records;
}

function sequenceNumberOf(record: unknown): unknown {
  return fieldsOf(fieldsOf(record)['dynamodb'])['SequenceNumber'];
}

function parsed(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Without the cause: V8 quotes the text, which holds what clients sent.
    throw new UnusableObject('not_json', `${what} is not JSON. It may be cut off, or compressed on the way.`);
  }
}

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
