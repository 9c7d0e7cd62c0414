import type { IncomingMessage } from 'node:http';
import { cookiesIn, forwardedLines, headerLines, joinedHeaders } from './request-headers.ts';

/** A request as everything here wants to know it, once it is given its name. */
export interface Received {
  readonly requestId: string;
  readonly traceId: string;
  readonly at: number;
  readonly method: string;
  readonly protocol: string;
  readonly sourceIp: string;
  readonly port: number;
  readonly host: string;
  /** As sent: also what the function does not get to see. */
  readonly headers: ReadonlyMap<string, string>;
  /** As the function gets them. */
  readonly forwarded: ReadonlyMap<string, string>;
  readonly cookies: readonly string[];
}

export function received(request: IncomingMessage, at: number, random: () => number): Received {
  const lines = headerLines(request);
  const headers = joinedHeaders(lines);
  const { method = 'GET', httpVersion, socket } = request;
  return {
    requestId: randomBytes(11, random).toString('base64'),
    traceId: traceId(headers.get('x-amzn-trace-id'), at, random),
    at,
    method,
    protocol: `HTTP/${httpVersion}`,
    sourceIp: (socket.remoteAddress ?? '').replace(/^::ffff:/, ''),
    port: socket.localPort ?? 0,
    host: (headers.get('host') ?? '').replace(/:\d+$/, ''),
    headers,
    forwarded: joinedHeaders(forwardedLines(lines)),
    cookies: cookiesIn(lines),
  };
}

/** A trace that the client has begun goes on. */
function traceId(sent: string | undefined, at: number, random: () => number): string {
  if (sent?.includes('Root=')) return sent;
  const seconds = Math.floor(at / 1_000)
    .toString(16)
    .padStart(8, '0');
  return `Root=1-${seconds}-${randomBytes(12, random).toString('hex')}`;
}

function randomBytes(length: number, random: () => number): Buffer {
  return Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)));
}
