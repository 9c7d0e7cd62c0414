import type { AttributeValue, _Record as SdkRecord } from '@aws-sdk/client-dynamodb-streams';
import { LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';

/** One change of a table, as Lambda passes it on. */
export interface StreamRecord {
  readonly sequenceNumber: string;
  /** Whose change it is: all changes of one item stay in order. */
  readonly item: string;
  /** When the stream got it, epoch ms. */
  readonly arrivedAt: number;
  /** What filters look at. */
  readonly event: object;
  /** The same as JSON, and its size in a request. */
  readonly text: string;
  readonly bytes: number;
}

/** DynamoDB Local tells the minute in which a change was made, where DynamoDB tells the second. */
const ROUNDED_MS = 60_000;

/** What the SDK makes of an event name that it does not know; DynamoDB Local has one for what TTL removes. */
const UNKNOWN_NAME = 'UNKNOWN_TO_SDK_VERSION';

const TTL_REMOVED = {
  eventName: 'REMOVE',
  userIdentity: { type: 'Service', principalId: 'dynamodb.amazonaws.com' },
} as const;

export function streamRecord(record: SdkRecord, streamArn: string, readAt: number): StreamRecord {
  const { dynamodb: change = {} } = record;
  const createdAt = change.ApproximateCreationDateTime?.getTime() ?? readAt;
  const event = eventOf(record, streamArn);
  const text = JSON.stringify(event);
  return {
    sequenceNumber: change.SequenceNumber ?? '',
    item: JSON.stringify(Object.entries(imageOf(change.Keys ?? {})).sort(([a], [b]) => (a < b ? -1 : 1))),
    // By rounding alone nothing is too old, or older than a mapping that starts at the latest.
    arrivedAt: Math.min(readAt, createdAt + ROUNDED_MS - 1),
    event,
    text,
    bytes: Buffer.byteLength(text),
  };
}

function eventOf({ dynamodb: change = {}, ...record }: SdkRecord, streamArn: string): object {
  const { ApproximateCreationDateTime: createdAt, Keys, NewImage, OldImage } = change;
  return {
    eventID: record.eventID,
    eventName: record.eventName,
    eventVersion: record.eventVersion,
    eventSource: 'aws:dynamodb',
    awsRegion: LOCAL_REGION,
    dynamodb: {
      ...(createdAt && { ApproximateCreationDateTime: createdAt.getTime() / 1_000 }),
      ...(Keys && { Keys: imageOf(Keys) }),
      ...(NewImage && { NewImage: imageOf(NewImage) }),
      ...(OldImage && { OldImage: imageOf(OldImage) }),
      SequenceNumber: change.SequenceNumber,
      SizeBytes: change.SizeBytes,
      StreamViewType: change.StreamViewType,
    },
    eventSourceARN: accountArn(streamArn),
    ...identityOf(record.userIdentity),
    ...(String(record.eventName) === UNKNOWN_NAME && TTL_REMOVED),
  };
}

/** Lambda writes its names small, unlike the stream's API. */
function identityOf(identity: SdkRecord['userIdentity']): object {
  return identity ? { userIdentity: { type: identity.Type, principalId: identity.PrincipalId } } : {};
}

/** DynamoDB Local has a Region of its own, which no other ARN in an environment knows. */
export function accountArn(streamArn: string): string {
  const [arn, partition, service, , , ...resource] = streamArn.split(':');
  return [arn, partition, service, LOCAL_REGION, LOCAL_ACCOUNT, ...resource].join(':');
}

type Image = Readonly<Record<string, AttributeValue>>;

function imageOf(image: Image): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(image).map(([name, value]) => [name, shownValue(value)]));
}

/** Numbers stay text, as the stream has them; what is binary becomes text. */
function shownValue(value: AttributeValue): unknown {
  if (value.B !== undefined) return { B: base64(value.B) };
  if (value.BS !== undefined) return { BS: value.BS.map(base64) };
  if (value.L !== undefined) return { L: value.L.map(shownValue) };
  if (value.M !== undefined) return { M: imageOf(value.M) };
  // The stream of DynamoDB Local leaves out the type of an empty map, and of nothing else that is empty.
  return Object.keys(value).length === 0 ? { M: {} } : value;
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
