import { validateHeaderName } from 'node:http';
import { type Fields, isFields, jsonIn } from '../fields.ts';
import type { Answer } from './answer.ts';

/** What the function returned cannot be sent. The message names the part that is wrong, and not what is in it. */
export class InvalidResult extends Error {
  override readonly name = 'InvalidResult';

  constructor(field: string) {
    super(
      `The response from the Lambda function doesn't match the format that API Gateway expects. Lambda body contains the wrong type for field "${field}"`,
    );
  }
}

/** These describe a connection, and the one to the client is the gateway's own; it counts the body itself, too. */
const OWN_HEADERS = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade'],
  ...['content-length', 'date', 'apigw-requestid'],
]);

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * Payload format 2.0. With a status code it is a response; anything else, an unparsable text included, is itself the body
 * of a 200. A text is that body without its quotes.
 */
export function readResult(payload: string): Answer {
  const result = jsonIn(payload);
  if (isFields(result) && 'statusCode' in result) return responseOf(result);
  const body = Buffer.from(typeof result === 'string' ? result : payload);
  return { status: 200, headers: [['content-type', 'application/json']], body };
}

function responseOf(result: Fields): Answer {
  const headers = [...headersOf(result['headers']), ...cookiesOf(result['cookies'])];
  const isTyped = headers.some(([name]) => name.toLowerCase() === 'content-type');
  return {
    status: statusOf(result['statusCode']),
    headers: isTyped ? headers : [...headers, ['content-type', 'text/plain; charset=utf-8']],
    body: bodyOf(result),
  };
}

/** A status in quotes is taken. 1xx is none: something must follow it. */
function statusOf(value: unknown): number {
  const status = typeof value === 'string' && /^\d{3}$/.test(value) ? Number(value) : value;
  if (typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 599) return status;
  throw new InvalidResult('statusCode');
}

function headersOf(map: unknown): Answer['headers'] {
  if (map === undefined || map === null) return [];
  if (!isFields(map)) throw new InvalidResult('headers');
  const headers = new Map<string, readonly [string, string]>();
  for (const [name, value] of Object.entries(map)) {
    if (value === null) continue;
    requireHeaderName(name);
    const key = name.toLowerCase();
    if (!OWN_HEADERS.has(key)) headers.set(key, [name, headerText(value, 'headers')]);
  }
  return [...headers.values()];
}

function cookiesOf(list: unknown): Answer['headers'] {
  if (list === undefined || list === null) return [];
  if (!Array.isArray(list)) throw new InvalidResult('cookies');
  return list.map((cookie: unknown) => {
    if (typeof cookie !== 'string') throw new InvalidResult('cookies');
    return ['set-cookie', headerText(cookie, 'cookies')];
  });
}

function requireHeaderName(name: string): void {
  try {
    validateHeaderName(name);
  } catch {
    throw new InvalidResult('headers');
  }
}

/** Node writes one byte for each character: what is beyond ASCII goes out as the bytes of UTF-8. */
function headerText(value: unknown, field: string): string {
  if (!['string', 'number', 'boolean'].includes(typeof value)) throw new InvalidResult(field);
  const text = String(value);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what a header must not have.
  if (/[\u0000-\u0008\u000a-\u001f\u007f]/.test(text)) throw new InvalidResult(field);
  return Buffer.from(text, 'utf8').toString('latin1');
}

function bodyOf({ body, isBase64Encoded }: Fields): Buffer {
  if (isBase64Encoded !== undefined && isBase64Encoded !== null && typeof isBase64Encoded !== 'boolean') {
    throw new InvalidResult('isBase64Encoded');
  }
  if (body === undefined || body === null) return Buffer.alloc(0);
  if (typeof body !== 'string') throw new InvalidResult('body');
  if (isBase64Encoded !== true) return Buffer.from(body);
  if (body.length % 4 !== 0 || !BASE64.test(body)) throw new InvalidResult('body');
  return Buffer.from(body, 'base64');
}
