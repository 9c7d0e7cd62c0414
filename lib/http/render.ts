import { isUtf8 } from 'node:buffer';
import type { Reply } from '../core/record.ts';
import { lowerCase } from './ascii.ts';
import type { HttpRequest } from './neutral.ts';

/** What the gateway that sent the request takes as an answer. */
export interface RenderedReply {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly multiValueHeaders?: Readonly<Record<string, readonly string[]>>;
  readonly cookies?: readonly string[];
  readonly body: string;
  readonly isBase64Encoded: boolean;
}

export function renderReply(
  reply: Reply,
  request: Pick<HttpRequest, 'source' | 'multiValueHeaders'>,
): RenderedReply {
  // Bytes that are no text would come out of a string changed, so they go as base64 whatever the reply says.
  const base64 = reply.base64 || !isUtf8(reply.body);
  return {
    statusCode: reply.status,
    ...renderHeaders(reply.headers, request),
    body: Buffer.from(reply.body).toString(base64 ? 'base64' : 'utf8'),
    isBase64Encoded: base64,
  };
}

type RenderedHeaders = Pick<RenderedReply, 'headers' | 'multiValueHeaders' | 'cookies'>;

function renderHeaders(
  headers: Reply['headers'],
  { source, multiValueHeaders }: Pick<HttpRequest, 'source' | 'multiValueHeaders'>,
): RenderedHeaders {
  const groups = grouped(headers);
  const cookies = groups.filter(isCookie).flatMap(([, values]) => values);
  const others = groups.filter((group) => !isCookie(group));
  switch (source) {
    case 'http-api':
    case 'function-url':
      return { headers: joined(others), ...(cookies.length > 0 ? { cookies } : {}) };
    case 'rest-api': {
      // Single ones where outer hooks look for them; a gateway merges both maps.
      const repeated = groups.filter(([, values]) => values.length > 1);
      const single = groups.filter(([, values]) => values.length === 1);
      return {
        headers: joined(single),
        ...(repeated.length > 0 ? { multiValueHeaders: Object.fromEntries(repeated) } : {}),
      };
    }
    case 'alb':
      if (multiValueHeaders) return { multiValueHeaders: Object.fromEntries(groups) };
      // Cookies cannot be joined by commas. Under names in different cases several get through, as handlers know.
      return { headers: { ...joined(others), ...Object.fromEntries(headers.filter(isCookie)) } };
    default:
      return source satisfies never;
  }
}

type Group = [name: string, values: string[]];

/** By name in any case, in the order and the spelling of the first. */
function grouped(headers: Reply['headers']): Group[] {
  const groups = new Map<string, Group>();
  for (const [name, value] of headers) {
    const group = groups.get(lowerCase(name));
    if (group) group[1].push(value);
    else groups.set(lowerCase(name), [name, [value]]);
  }
  return [...groups.values()];
}

function isCookie([name]: readonly [string, ...unknown[]]): boolean {
  return lowerCase(name) === 'set-cookie';
}

/** RFC 9110 5.3: several lines of one header mean the same as one line with commas. */
function joined(groups: readonly Group[]): Record<string, string> {
  return Object.fromEntries(groups.map(([name, values]) => [name, values.join(', ')]));
}
