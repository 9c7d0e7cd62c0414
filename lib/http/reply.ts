import type { Reply } from '../core/record.ts';
import { lowerCase } from './ascii.ts';
import { fromBase64 } from './base64.ts';
import { UnstorableReply } from './errors.ts';
import { isHeaderName } from './headers.ts';
import { kindOf } from './kind.ts';
import type { EventSource } from './neutral.ts';

type Header = Reply['headers'][number];
type Result = Readonly<Record<string, unknown>>;

/**
 * What a handler returned, as the gateway would have read it. Where a gateway would refuse a result that can only
 * mean one thing (an array in `headers`, a status in quotes), it is taken: the handler's work is already done.
 */
export function readReply(result: unknown, source: EventSource): Reply {
  if (!isJson(result)) throw unstorable(`it is ${kindOf(result)}`);
  if (isResult(result) && result['statusCode'] !== undefined) {
    return {
      status: statusOf(result['statusCode']),
      headers: headersOf(result),
      ...bodyOf(result),
    };
  }
  switch (source) {
    case 'http-api':
    case 'function-url':
      return inferred(result);
    case 'rest-api':
    case 'alb':
      throw unstorable(`it is ${kindOf(result)} without a statusCode, which this gateway needs`);
    default:
      return source satisfies never;
  }
}

/** Whether a status can be the last word: not "come later", "slower", "not finished", or "something broke". */
export function isFinal(status: number): boolean {
  return status < 500 && ![202, 408, 425, 429].includes(status);
}

/** Done, and nothing to say about it. */
export const noContent: Reply = { status: 204, headers: [], body: new Uint8Array(), base64: false };

/** What a request that is worked on later is answered with now: 202, and where to look. */
export function isAcceptance({ status, headers }: Pick<Reply, 'status' | 'headers'>): boolean {
  return status === 202 && headers.some(([name]) => lowerCase(name) === 'location');
}

function unstorable(why: string): UnstorableReply {
  return new UnstorableReply(
    `The handler's result is no HTTP response: ${why}. Return { statusCode, headers, body }, with the body as a string.`,
  );
}

/** Lambda sends what JSON makes of a result: nothing of a function, `{}` of a Map or an unawaited promise. */
function isJson(result: unknown): boolean {
  if (typeof result !== 'object')
    return ['string', 'boolean'].includes(typeof result) || Number.isFinite(result);
  const kind = kindOf(result);
  if (kind === 'an object' || kind === 'an array') return true;
  return (
    kind !== 'bytes' && kind !== 'a stream' && typeof (result as Result | null)?.['toJSON'] === 'function'
  );
}

function isResult(result: unknown): result is Result {
  return typeof result === 'object' && result !== null && !Array.isArray(result);
}

/** Format 2.0: a result without a status is the body of a 200, as JSON, or as it is if that is a string. */
function inferred(result: unknown): Reply {
  const text = jsonOf(result);
  const body = text.startsWith('"') ? String(JSON.parse(text)) : text;
  const headers: Header[] = [['content-type', 'application/json']];
  return { status: 200, headers, body: new Uint8Array(Buffer.from(body)), base64: false };
}

function jsonOf(result: unknown): string {
  let text: unknown;
  try {
    text = JSON.stringify(result);
  } catch {
    // The reason would quote the result.
  }
  if (typeof text === 'string') return text;
  throw unstorable(`it is ${kindOf(result)} that has no JSON (a cycle, a BigInt, or nested too deep)`);
}

/** 1xx are not final. A status in quotes is what older AWS samples return, and gateways take it. */
function statusOf(value: unknown): number {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  if (typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599) return status;
  const what = typeof value === 'number' ? value : kindOf(value);
  throw unstorable(`statusCode is ${what}, expected a number from 200 to 599`);
}

/** API Gateway merges both maps, and a value that is in both counts once. */
function headersOf(result: Result): Header[] {
  const headers = [...pairsIn('multiValueHeaders', result['multiValueHeaders'])];
  const single = pairsIn('headers', result['headers']);
  const cookies = valuesIn('cookies', result['cookies']).map((value): Header => ['set-cookie', value]);
  for (const header of [...single, ...cookies]) {
    if (!headers.some((known) => isSame(known, header))) headers.push(header);
  }
  return headers;
}

function isSame([name, value]: Header, [otherName, otherValue]: Header): boolean {
  return value === otherValue && lowerCase(name) === lowerCase(otherName);
}

function pairsIn(field: string, map: unknown): Header[] {
  if (map === null || map === undefined) return [];
  if (!isResult(map)) throw unstorable(`${field} is ${kindOf(map)}, expected an object`);
  return Object.entries(map).flatMap(([name, value]) => {
    if (!isHeaderName(name)) throw unstorable(`a name in ${field} is not a header name`);
    return valuesIn(`the header ${name}`, value).map((text): Header => [name, text]);
  });
}

function valuesIn(what: string, value: unknown): string[] {
  const values = Array.isArray(value) ? value : [value];
  return values.filter((each) => each !== null && each !== undefined).map((each) => textOf(what, each));
}

function textOf(what: string, value: unknown): string {
  if (!['string', 'boolean'].includes(typeof value) && !Number.isFinite(value)) {
    throw unstorable(`${what} is ${kindOf(value)}, expected a string`);
  }
  const text = String(value);
  if (/[\r\n\0]/.test(text)) throw unstorable(`${what} has a line break or a NUL in it`);
  return text;
}

function bodyOf({ body, isBase64Encoded }: Result): Pick<Reply, 'body' | 'base64'> {
  const base64 = isBase64Encoded === true;
  if (body === null || body === undefined) return { body: new Uint8Array(), base64 };
  if (typeof body !== 'string') throw unstorable(`the body is ${kindOf(body)}; ${inWords(kindOf(body))}`);
  if (!base64) return { body: new Uint8Array(Buffer.from(body)), base64 };
  const bytes = fromBase64(body);
  if (!bytes) throw unstorable('isBase64Encoded is true, and the body is not base64');
  return { body: bytes, base64 };
}

function inWords(kind: string): string {
  if (kind === 'bytes') return "encode it with toString('base64') and set isBase64Encoded";
  return kind === 'a stream' ? 'read it to its end first' : 'stringify it with JSON.stringify';
}
