import { UnsupportedEvent } from '../errors.ts';
import { kindOf } from '../kind.ts';
import { type Fields, isFields } from './fields.ts';

interface Kind {
  readonly is: string;
  readonly matches: (event: Fields, context: Fields) => boolean;
  readonly instead: string;
}

const BATCH = 'Wrap the function in protectBatch, which takes the key from each message.';
const EACH =
  'Call a function wrapped in protect for each of its records, and select the key from the record.';
const PLAIN = 'Wrap the function in protect, and select the key from its argument.';
const NOT_A_WRITE = 'It is no write of a client; give it a function of its own, without idempotency().';

/** Only the gateway writes the top level of an event, so no client can pass its request off as one of these. */
const KINDS: readonly Kind[] = [
  { is: 'an SQS batch', matches: (event) => sourceOf(event) === 'aws:sqs', instead: BATCH },
  { is: 'an SNS notification', matches: (event) => sourceOf(event) === 'aws:sns', instead: EACH },
  { is: 'a DynamoDB stream batch', matches: (event) => sourceOf(event) === 'aws:dynamodb', instead: EACH },
  { is: 'a Kinesis batch', matches: (event) => sourceOf(event) === 'aws:kinesis', instead: EACH },
  { is: 'an S3 notification', matches: (event) => sourceOf(event) === 'aws:s3', instead: EACH },
  { is: 'an SES message', matches: (event) => sourceOf(event) === 'aws:ses', instead: EACH },
  { is: 'a Kafka batch', matches: (event) => /kafka/i.test(sourceOf(event)), instead: EACH },
  { is: 'an Amazon MQ batch', matches: (event) => /^aws:r?mq$/.test(sourceOf(event)), instead: EACH },
  { is: 'a Lambda@Edge request', matches: (event) => 'cf' in firstRecord(event), instead: NOT_A_WRITE },
  {
    is: 'a scheduled event',
    matches: (event) => event['detail-type'] === 'Scheduled Event',
    instead: PLAIN,
  },
  {
    is: 'an EventBridge event',
    matches: (event) => typeof event['detail-type'] === 'string' && 'detail' in event,
    instead: BATCH,
  },
  {
    is: 'an API Gateway authorizer request',
    matches: (event) => 'methodArn' in event || 'routeArn' in event,
    instead: NOT_A_WRITE,
  },
  {
    is: 'a WebSocket event',
    matches: (_, context) => typeof context['connectionId'] === 'string' && 'eventType' in context,
    instead: PLAIN,
  },
  {
    is: 'a VPC Lattice request',
    matches: (event, context) => 'raw_path' in event || 'serviceNetworkArn' in context,
    instead: PLAIN,
  },
  {
    is: 'an AppSync request',
    matches: ({ info }) => isFields(info) && ('fieldName' in info || 'channel' in info),
    instead: PLAIN,
  },
  { is: 'a CloudWatch Logs batch', matches: (event) => 'awslogs' in event, instead: PLAIN },
  { is: 'a Firehose batch', matches: (event) => 'deliveryStreamArn' in event, instead: PLAIN },
  { is: 'a Cognito trigger', matches: (event) => 'triggerSource' in event, instead: NOT_A_WRITE },
  {
    is: 'a CloudFormation request',
    matches: (event) => 'ResourceProperties' in event,
    instead: NOT_A_WRITE,
  },
];

/** The kind of event this is, if it is one we know and cannot take. */
export function unsupportedKind(event: Fields): UnsupportedEvent | undefined {
  const context = isFields(event['requestContext']) ? event['requestContext'] : {};
  const kind = KINDS.find(({ matches }) => matches(event, context));
  return kind && unsupported(kind.is, kind.instead);
}

/** Whatever is left was sent by a caller of Invoke, a state machine, or EventBridge Scheduler. */
export function directInvocation(event: unknown): UnsupportedEvent {
  const [first] = Array.isArray(event) ? event : [];
  const known = isFields(first) ? unsupportedKind(first) : undefined;
  return known ?? unsupported(`a direct invocation with ${kindOf(event)}`, PLAIN);
}

function unsupported(is: string, instead: string): UnsupportedEvent {
  return new UnsupportedEvent(
    `idempotency() takes HTTP requests (API Gateway HTTP or REST API, ALB, function URL); this is ${is}. ${instead}`,
  );
}

/** SNS spells it with a capital; Kafka and MQ have it on the event itself. */
function sourceOf(event: Fields): string {
  const record = firstRecord(event);
  const source = record['eventSource'] ?? record['EventSource'] ?? event['eventSource'];
  return typeof source === 'string' ? source : '';
}

function firstRecord(event: Fields): Fields {
  const [first] = Array.isArray(event['Records']) ? event['Records'] : [];
  return isFields(first) ? first : {};
}
