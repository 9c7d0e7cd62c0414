import { EVENT_MAX_BYTES, LATER_EVENT_MAX_BYTES } from '../functions/limits.ts';
import { LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';
import type { Functions, Invoked } from '../ports.ts';
import { type AwsAnswer, AwsError, type AwsRequest, NotRunHere, type Serve } from './answers.ts';

/** With their names: a dry run asks only for that. */
export interface NamedFunctions extends Functions {
  readonly names: readonly string[];
}

const INVOCATIONS = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/;
const LATEST = '$LATEST';

/** https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html */
export function lambdaService(functions: NamedFunctions): Serve {
  return async (request) => {
    const [, encoded] = INVOCATIONS.exec(request.path) ?? [];
    if (request.method !== 'POST' || encoded === undefined) {
      throw new NotRunHere(`${request.method} ${request.path} of Lambda`);
    }
    refuseOptions(request);
    const name = functionIn(decodeURIComponent(encoded), request.query.get('Qualifier'));
    const event = eventIn(request);
    const type = request.headers['x-amz-invocation-type'] ?? 'RequestResponse';
    return invoke(name, event, String(type));
  };

  async function invoke(name: string, event: string, type: string): Promise<AwsAnswer> {
    if (!functions.names.includes(name)) throw notFound(name);
    switch (type) {
      case 'RequestResponse':
        return answerOf(await functions.invoke(name, within(event, EVENT_MAX_BYTES, type)));
      case 'Event':
        functions.invokeLater(name, within(event, LATER_EVENT_MAX_BYTES, type));
        return { status: 202 };
      case 'DryRun':
        return { status: 204 };
      default:
        throw new AwsError(400, 'InvalidParameterValueException', `There is no invocation type ${type}.`);
    }
  }
}

function answerOf(invoked: Invoked): AwsAnswer {
  if (invoked.kind === 'throttled') {
    const details = { Reason: 'ConcurrentInvocationLimitExceeded' };
    throw new AwsError(429, 'TooManyRequestsException', 'Rate Exceeded.', details);
  }
  const failed = invoked.kind === 'failed' && { 'x-amz-function-error': 'Unhandled' };
  const headers = { 'content-type': 'application/json', 'x-amz-executed-version': LATEST, ...failed };
  return { status: 200, headers, body: invoked.payload };
}

/** The name alone, `account:function:name` or the whole ARN, each perhaps with a version behind. */
function functionIn(identifier: string, qualifier: string | null): string {
  const parts = identifier.split(':');
  const [name = '', version = qualifier ?? LATEST] = parts.slice(parts.indexOf('function') + 1);
  if (version !== LATEST) throw notFound(`${name}:${version}`);
  return name;
}

function notFound(name: string): AwsError {
  const arn = `arn:aws:lambda:${LOCAL_REGION}:${LOCAL_ACCOUNT}:function:${name}`;
  return new AwsError(404, 'ResourceNotFoundException', `Function not found: ${arn}`);
}

function eventIn({ body }: AwsRequest): string {
  if (body.length === 0) return '{}';
  const event = body.toString('utf8');
  try {
    JSON.parse(event);
    return event;
  } catch {
    const message = 'Could not parse request body into json.';
    throw new AwsError(400, 'InvalidRequestContentException', message);
  }
}

function within(event: string, maxBytes: number, type: string): string {
  const bytes = Buffer.byteLength(event);
  if (bytes <= maxBytes) return event;
  const message = `${bytes} byte payload is too large for the ${type} invocation type (limit ${maxBytes} bytes)`;
  throw new AwsError(413, 'RequestTooLargeException', message);
}

/** What would be given up silently. */
function refuseOptions({ headers }: AwsRequest): void {
  if (headers['x-amz-log-type'] === 'Tail') throw new NotRunHere('LogType: Tail of Lambda');
  if (headers['x-amz-client-context']) throw new NotRunHere('ClientContext of Lambda');
}
