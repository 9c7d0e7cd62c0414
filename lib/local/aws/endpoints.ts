import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { closed, listening } from '../loopback.ts';
import type { ObjectStore, Reporter } from '../ports.ts';
import {
  type AwsAnswer,
  AwsError,
  type AwsRequest,
  type Dialect,
  errorAnswer,
  NotRunHere,
  type Serve,
} from './answers.ts';
import { lambdaService, type NamedFunctions } from './lambda.ts';
import { s3Service } from './s3.ts';
import { secretsService } from './secrets.ts';

export interface AwsEndpointsOptions {
  readonly functions: NamedFunctions;
  readonly objects: ObjectStore;
  /** What each secret holds, by its ARN or its name. */
  readonly secrets: ReadonlyMap<string, string>;
  readonly report: Reporter;
  readonly clock: () => number;
}

export interface AwsEndpoints {
  readonly url: string;
  /**
   * For the functions' environment. It names all services: a client of one that is not here is told so by us, and never
   * gets as far as AWS.
   */
  readonly variables: { readonly AWS_ENDPOINT_URL: string };
  close(): Promise<void>;
}

interface Service {
  readonly serve: Serve;
  readonly dialect: Dialect;
}

/** More than any payload that is taken. */
const BODY_MAX_BYTES = 16 * 1024 * 1024;

/** A client may send on a connection just when we end it for being idle; it is longer than clients keep theirs. */
const KEEP_ALIVE_MS = 120_000;

/** The service is in the scope of the signature: `Credential=<key>/<day>/<region>/<service>/aws4_request`. */
const SCOPE = /Credential=[^,/]+\/[^,/]+\/[^,/]+\/([^,/]+)\/aws4_request/;

/** The services that functions call with the AWS SDK, at one address. Signatures are not checked: there are no credentials. */
export async function awsEndpoints(options: AwsEndpointsOptions): Promise<AwsEndpoints> {
  const { report, clock } = options;
  const services = new Map<string, Service>([
    ['lambda', { serve: lambdaService(options.functions), dialect: 'rest-json' }],
    ['secretsmanager', { serve: secretsService(options.secrets), dialect: 'json' }],
    ['s3', { serve: s3Service(options.objects), dialect: 's3' }],
  ]);

  async function handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const requestId = randomUUID();
    const name = SCOPE.exec(message.headers.authorization ?? '')?.[1] ?? 'an unsigned request';
    const service = services.get(name) ?? { serve: notHere(name), dialect: dialectOf(message) };
    const answer = await answerOf(service, message, requestId);
    response.writeHead(answer.status, { ...answer.headers, 'x-amzn-requestid': requestId });
    response.end(answer.body);
  }

  async function answerOf(
    { serve, dialect }: Service,
    message: IncomingMessage,
    requestId: string,
  ): Promise<AwsAnswer> {
    try {
      return await serve(await requestOf(message, requestId));
    } catch (error) {
      const known = error instanceof AwsError ? error : new AwsError(500, 'InternalFailure', String(error));
      if (!(error instanceof AwsError) || error instanceof NotRunHere) complain(known, requestId);
      return errorAnswer(dialect, known, requestId);
    }
  }

  function complain({ message, code }: AwsError, requestId: string): void {
    const fields = { requestId, code };
    report({ at: clock(), source: 'aws', level: 'error', kind: 'platform', message, fields });
  }

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (message, response) => {
    void handle(message, response).catch(() => response.destroy());
  });
  const { url } = await listening(server, 0);
  return {
    url,
    variables: { AWS_ENDPOINT_URL: url },
    close: () => closed(server),
  };
}

function notHere(service: string): Serve {
  return async ({ method, path, headers }) => {
    throw new NotRunHere(`${service} (${headers['x-amz-target'] ?? `${method} ${path}`})`);
  };
}

/** Of a service that we do not know: what its request looks like. */
function dialectOf({ headers }: IncomingMessage): Dialect {
  if (headers['x-amz-target'] !== undefined) return 'json';
  return headers['content-type']?.startsWith('application/x-www-form-urlencoded') ? 'query' : 'rest-json';
}

async function requestOf(message: IncomingMessage, requestId: string): Promise<AwsRequest> {
  const { method = 'GET', url = '/', headers } = message;
  const [path = '/', query = ''] = url.split(/\?(.*)/s);
  const body = await bodyOf(message);
  return { method, path, query: new URLSearchParams(query), headers, body, requestId };
}

/** Of a body that is too large the rest is read as well: a client that is still sending does not look for an answer. */
async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message) {
    bytes += chunk.length;
    if (bytes <= BODY_MAX_BYTES) chunks.push(chunk);
  }
  if (bytes <= BODY_MAX_BYTES) return Buffer.concat(chunks);
  throw new AwsError(413, 'RequestTooLargeException', `Requests are taken up to ${BODY_MAX_BYTES} bytes.`);
}
