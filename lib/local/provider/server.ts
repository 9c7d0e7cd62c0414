import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { InvalidArgument } from '../../core/errors.ts';
import { closed, listening } from '../loopback.ts';
import { goneFrom, type Pauses } from '../pauses.ts';
import type { ApiRequest, Reply } from './api.ts';
import { invalidRequest, type Refusal } from './refusal.ts';
import { API_VERSION } from './wire.ts';

export interface ApiServer {
  readonly url: string;
  close(): Promise<void>;
}

export interface ApiServerOptions {
  readonly port: number;
  readonly newRequestId: () => string;
  readonly answer: (request: ApiRequest) => Promise<Reply>;
  readonly refuse: (refusal: Refusal) => Reply;
  /** Whatever went wrong that is nobody's request's fault. */
  readonly failed: (error: unknown) => Reply;
  readonly log: (request: ApiRequest, status: number | undefined, isReplay: boolean) => void;
  readonly waits: Pauses;
}

/** Far above fifty metadata values of 500 characters. */
const BODY_MAX_BYTES = 1_000_000;

/** Above the minute for which clients keep an idle connection: whoever closes it first must not be the one that is written to. */
const KEEP_ALIVE_MS = 75_000;

export async function apiServer(options: ApiServerOptions): Promise<ApiServer> {
  const server = createServer((message, response) => void serve(message, response, options));
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  const { url } = await listening(server, options.port).catch((cause: unknown) => {
    throw new InvalidArgument(
      `The payment provider cannot listen on port ${options.port}: ${String(cause)}. Give another port, or none for any that is free.`,
      cause,
    );
  });
  return { url, close: () => closed(server) };
}

async function serve(message: IncomingMessage, response: ServerResponse, options: ApiServerOptions) {
  const body = await bodyOf(message).catch(() => undefined);
  // The client went away before it had said what it wants.
  if (body === undefined) return;
  const request = requestOf(message, body, options.newRequestId());
  const reply = await replyTo(request, options);
  if (reply.kind === 'silence') {
    options.log(request, undefined, false);
    await silence(response, reply.heldMs, options.waits);
  } else {
    options.log(request, reply.status, reply.isReplay ?? false);
    send(response, request, reply);
  }
}

async function replyTo(request: ApiRequest, { answer, refuse, failed }: ApiServerOptions): Promise<Reply> {
  if (Buffer.byteLength(request.body) > BODY_MAX_BYTES) {
    return refuse(invalidRequest(`A request has up to ${BODY_MAX_BYTES} bytes.`));
  }
  return answer(request).catch(failed);
}

/** One byte too many is enough to know. */
async function bodyOf(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    if (size <= BODY_MAX_BYTES) chunks.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(chunks).toString('utf8');
}

function requestOf(message: IncomingMessage, body: string, id: string): ApiRequest {
  const { method = '', url = '/', headers } = message;
  const [path = '/', ...query] = url.split('?');
  const { 'idempotency-key': key, 'stripe-version': version } = headers;
  return {
    ...{ id, method, path, body, query: query.join('?') },
    contentType: headers['content-type'],
    authorization: headers.authorization,
    idempotencyKey: Array.isArray(key) ? key.join(', ') : key,
    version: typeof version === 'string' ? version : undefined,
  };
}

function send(
  response: ServerResponse,
  { id, idempotencyKey, version = API_VERSION }: ApiRequest,
  { status, body, original, isReplay }: Extract<Reply, { kind: 'answer' }>,
): void {
  if (response.destroyed) return;
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    'cache-control': 'no-cache, no-store',
    'request-id': id,
    'stripe-version': version,
    ...(idempotencyKey && { 'idempotency-key': idempotencyKey }),
    ...(original !== undefined && { 'original-request': original }),
    ...(isReplay && { 'idempotent-replayed': 'true' }),
    ...(status === 401 && { 'www-authenticate': 'Basic realm="Stripe"' }),
    // Another try of the same key meets the same 500, and soon no longer the same conflict.
    ...(status >= 500 && { 'stripe-should-retry': 'false' }),
    ...(status === 409 && { 'stripe-should-retry': 'true' }),
  });
  response.end(body);
}

/** Until the client gives up, or it has been long enough. */
async function silence(response: ServerResponse, heldMs: number, waits: Pauses): Promise<void> {
  if (response.destroyed) return;
  await waits.pause(heldMs, goneFrom(response));
  response.destroy();
}
