import { InvalidArgument } from '../core/errors.ts';
import type { EpochMs, Reply } from '../core/record.ts';
import { lowerCase } from './ascii.ts';

type Headers = Reply['headers'];

/**
 * What is kept of a response when nobody says otherwise: headers that describe the stored body or the thing it made,
 * and are as true on the day of the replay as on the first. Left out are those that describe the moment (`Date`,
 * trace and rate-limit headers), the caller (`Access-Control-Allow-Origin`, which outer CORS hooks set on replays
 * too) or the connection (`Content-Length`, which the gateway counts itself).
 */
export const defaultStoredHeaders: readonly string[] = [
  // How to read the bytes. Without the encoding a compressed body would be replayed as noise.
  ...['content-type', 'content-encoding', 'content-language', 'content-disposition'],
  // Which resource the request made or changed, in which version: what the client goes on with.
  ...['location', 'content-location', 'etag', 'last-modified', 'link'],
  // Who else may keep it. A handler that says so means every copy.
  ...['cache-control', 'vary'],
  // When to ask again: part of a 202, where it counts from the answer that carries it.
  'retry-after',
];

const CREDENTIAL =
  'it carries a credential of one caller at one moment, and a replay would hand it out again';
const CHALLENGE = 'it carries the nonce of one authentication, which a later one must not repeat';
const OWN = 'oncekey sets it on every answer, and a stored one would be wrong';

/** Whoever reads the table, or sends the same key, would get what these say. */
const NEVER_STORED: ReadonlyMap<string, string> = new Map([
  ['set-cookie', CREDENTIAL],
  ['set-cookie2', CREDENTIAL],
  ['cookie', CREDENTIAL],
  ['authorization', CREDENTIAL],
  ['proxy-authorization', CREDENTIAL],
  ['x-api-key', CREDENTIAL],
  ['x-amz-security-token', CREDENTIAL],
  ['www-authenticate', CHALLENGE],
  ['proxy-authenticate', CHALLENGE],
  ['authentication-info', CHALLENGE],
  ['proxy-authentication-info', CHALLENGE],
  ['idempotency-key', 'the raw key is not kept anywhere'],
  ['idempotent-replayed', OWN],
  ['idempotency-expires', OWN],
  ['idempotency-erased', OWN],
]);

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export function isHeaderName(name: string): boolean {
  return TOKEN.test(name);
}

/** Checked when options are, so that a forbidden name stops a deployment and not a payment. */
export function allowedHeaders(names: readonly string[]): ReadonlySet<string> {
  return new Set(names.map(allowedName));
}

function allowedName(name: unknown): string {
  if (typeof name !== 'string' || !isHeaderName(name) || name.includes('*')) {
    throw new InvalidArgument(
      'Stored headers are listed by name, such as "x-request-cost"; there are no patterns.',
    );
  }
  const why = NEVER_STORED.get(lowerCase(name));
  if (why !== undefined) {
    throw new InvalidArgument(`The header ${name} is never stored: ${why}. Take it off the list.`);
  }
  return lowerCase(name);
}

export function isStorable(name: string): boolean {
  return !NEVER_STORED.has(lowerCase(name));
}

/** The rest is answered to the first caller and then forgotten. */
export function storableHeaders(
  headers: Headers,
  allowList: readonly string[] = defaultStoredHeaders,
): Headers {
  const allowed = allowedHeaders(allowList);
  return headers.filter(([name]) => allowed.has(lowerCase(name)));
}

/** On the answer of the attempt that ran. Without an expiry, the outcome is not final yet. */
export function freshHeaders(headers: Headers, expiresAt?: EpochMs): Headers {
  return [...unmarked(headers), ...expiry(expiresAt), ...uncached(headers)];
}

/** On an answer from the record. */
export function replayHeaders(headers: Headers, expiresAt: EpochMs): Headers {
  return [...unmarked(headers), ['Idempotent-Replayed', 'true'], ...expiry(expiresAt), ...uncached(headers)];
}

/** Only oncekey knows whether an answer is a replay; a handler that says so is not believed. */
function unmarked(headers: Headers): Headers {
  const ours = new Set(['idempotent-replayed', 'idempotency-expires']);
  return headers.filter(([name]) => !ours.has(lowerCase(name)));
}

function expiry(at: EpochMs | undefined): Headers {
  return at === undefined ? [] : [['Idempotency-Expires', httpDate(at)]];
}

/** Answers to a POST are rarely cached, but a shared cache that does would answer another caller. */
function uncached(headers: Headers): Headers {
  return headers.some(([name]) => lowerCase(name) === 'cache-control') ? [] : [['Cache-Control', 'no-store']];
}

/** IMF-fixdate, which is what `toUTCString` is specified to print. Drops the milliseconds: never promises too much. */
function httpDate(at: EpochMs): string {
  const date = new Date(at);
  if (!(date.getUTCFullYear() <= 9_999 && at >= 0)) {
    throw new InvalidArgument('The expiry is not a time that HTTP can write; expected epoch milliseconds.');
  }
  return date.toUTCString();
}
