import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { Reply } from '../../lib/core/record.ts';
import { UnstorableReply } from '../../lib/http/errors.ts';
import { readReply } from '../../lib/http/reply.ts';
import type { EventSource } from '../../lib/http/request.ts';

const SOURCES: EventSource[] = ['http-api', 'function-url', 'rest-api', 'alb'];
const SHORTHAND: EventSource[] = ['http-api', 'function-url'];
const bytes = (text: string) => new Uint8Array(Buffer.from(text));

function refusalOf(result: unknown, source: EventSource): UnstorableReply {
  try {
    readReply(result, source);
  } catch (error) {
    expect(error).toBeInstanceOf(UnstorableReply);
    return error as UnstorableReply;
  }
  throw new Error('It was read.');
}

describe.each(SOURCES)('a response to %s', (source) => {
  it.each<[string, unknown, Reply]>([
    [
      'with everything',
      {
        statusCode: 201,
        headers: { 'Content-Type': 'application/json', Location: '/payments/1', ETag: '"v1"' },
        body: '{"id":1}',
        isBase64Encoded: false,
      },
      {
        status: 201,
        headers: [
          ['Content-Type', 'application/json'],
          ['Location', '/payments/1'],
          ['ETag', '"v1"'],
        ],
        body: bytes('{"id":1}'),
        base64: false,
      },
    ],
    [
      'with a status alone',
      { statusCode: 204 },
      { status: 204, headers: [], body: bytes(''), base64: false },
    ],
    [
      'with nulls',
      { statusCode: 200, headers: null, multiValueHeaders: null, cookies: null, body: null },
      { status: 200, headers: [], body: bytes(''), base64: false },
    ],
    [
      'with a status in quotes',
      { statusCode: '404', body: 'no' },
      { status: 404, headers: [], body: bytes('no'), base64: false },
    ],
    [
      'in base64',
      { statusCode: 200, body: 'AP8=', isBase64Encoded: true },
      { status: 200, headers: [], body: Uint8Array.of(0, 255), base64: true },
    ],
    [
      'empty, in base64',
      { statusCode: 200, body: '', isBase64Encoded: true },
      { status: 200, headers: [], body: bytes(''), base64: true },
    ],
    [
      'in base64url without padding',
      { statusCode: 200, body: '_-8', isBase64Encoded: true },
      { status: 200, headers: [], body: Uint8Array.of(255, 239), base64: true },
    ],
    [
      'in Unicode',
      { statusCode: 200, body: '\uFEFFgrüße 🎉' },
      { status: 200, headers: [], body: bytes('\uFEFFgrüße 🎉'), base64: false },
    ],
    [
      'with numbers, booleans and nothing as header values',
      {
        statusCode: 200,
        headers: { 'Retry-After': 3, 'X-Live': false, 'X-Zero': 0, 'X-None': null, 'X-Void': undefined },
      },
      {
        status: 200,
        headers: [
          ['Retry-After', '3'],
          ['X-Live', 'false'],
          ['X-Zero', '0'],
        ],
        body: bytes(''),
        base64: false,
      },
    ],
    [
      'with multi-value headers; a pair in both maps counts once, another value is added',
      {
        statusCode: 200,
        multiValueHeaders: { Link: ['<a>', '<b>', '<b>'], Vary: ['Origin'] },
        headers: { link: '<b>', Vary: 'Accept' },
      },
      {
        status: 200,
        headers: [
          ['Link', '<a>'],
          ['Link', '<b>'],
          ['Link', '<b>'],
          ['Vary', 'Origin'],
          ['Vary', 'Accept'],
        ],
        body: bytes(''),
        base64: false,
      },
    ],
    [
      'with one header in two spellings and one value',
      { statusCode: 200, headers: { 'Content-Type': 'text/plain', 'content-type': 'text/plain' } },
      { status: 200, headers: [['Content-Type', 'text/plain']], body: bytes(''), base64: false },
    ],
    [
      'with a list where a value is expected, and a value where a list is',
      { statusCode: 200, headers: { Link: ['<a>', '<b>'] }, multiValueHeaders: { Vary: 'Origin' } },
      {
        status: 200,
        headers: [
          ['Vary', 'Origin'],
          ['Link', '<a>'],
          ['Link', '<b>'],
        ],
        body: bytes(''),
        base64: false,
      },
    ],
    [
      'with cookies',
      { statusCode: 200, cookies: ['a=1', 'b=2'], headers: { 'Set-Cookie': 'a=1' } },
      {
        status: 200,
        headers: [
          ['Set-Cookie', 'a=1'],
          ['set-cookie', 'b=2'],
        ],
        body: bytes(''),
        base64: false,
      },
    ],
    [
      'with a header that every object has',
      { statusCode: 200, headers: JSON.parse('{"__proto__":"x"}') },
      { status: 200, headers: [['__proto__', 'x']], body: bytes(''), base64: false },
    ],
  ])('%s', (_, result, reply) => {
    expect(readReply(result, source)).toEqual(reply);
  });

  it.each([
    ['nothing', undefined, 'undefined'],
    ['null', null, 'null'],
    ['a function', () => ({ statusCode: 200 }), 'a function'],
    ['a symbol', Symbol('secret'), 'a symbol'],
    ['a BigInt', 10n, 'a bigint'],
    ['NaN', Number.NaN, 'NaN'],
    ['a stream', Readable.from(['secret']), 'a stream'],
    ['a web stream', new ReadableStream(), 'a stream'],
    ['a generator', (async function* () {})(), 'a stream'],
    ['bytes', Buffer.from('secret'), 'bytes'],
    ['an array buffer', new ArrayBuffer(3), 'bytes'],
    ['a promise, not awaited', Promise.resolve({ statusCode: 200 }), 'a Promise'],
    ['a Map', new Map([['statusCode', 200]]), 'a Map'],
    ['a fetch response', new Response('secret'), 'a Response'],
    ['an error, returned', new Error('secret'), 'an Error'],
  ])('%s is refused by its kind', (_, result, kind) => {
    const { message, remedy } = refusalOf(result, source);
    expect(message).toContain(`no HTTP response: it is ${kind}`);
    expect(message).not.toContain('secret');
    expect(remedy).toBe('fix-code');
  });

  it.each([
    [99, '99'],
    [100, '100'],
    [199, '199'],
    [600, '600'],
    [200.5, '200.5'],
    [-200, '-200'],
    [Number.NaN, 'NaN'],
    ['200x', 'a string'],
    ['', 'a string'],
    [' 200', 'a string'],
    ['0200', 'a string'],
    [null, 'null'],
    [true, 'a boolean'],
    [{}, 'an object'],
    [[200], 'an array'],
    [200n, 'a bigint'],
  ])('status %s is refused: it is %s', (statusCode, what) => {
    expect(refusalOf({ statusCode, body: 'secret' }, source).message).toContain(
      `statusCode is ${what}, expected`,
    );
  });

  it.each([200, 204, 418, 599])('status %i is taken', (statusCode) => {
    expect(readReply({ statusCode }, source).status).toBe(statusCode);
  });

  it.each([
    [{ id: 'secret' }, 'an object', 'stringify it'],
    [['secret'], 'an array', 'stringify it'],
    [7, 'a number', 'stringify it'],
    [true, 'a boolean', 'stringify it'],
    [Buffer.from('secret'), 'bytes', "encode it with toString('base64')"],
    [Readable.from(['secret']), 'a stream', 'read it to its end'],
    [() => 'secret', 'a function', 'stringify it'],
  ])('a body that is no string is refused, with what to do: %s', (body, kind, fix) => {
    const { message } = refusalOf({ statusCode: 200, body }, source);
    expect(message).toContain(`the body is ${kind}; ${fix}`);
    expect(message).not.toContain('secret');
  });

  it.each([
    ['base64 that is none', { body: 'secret!', isBase64Encoded: true }, 'the body is not base64'],
    ['headers as a list', { headers: ['secret'] }, 'headers is an array'],
    ['headers as text', { multiValueHeaders: 'secret' }, 'multiValueHeaders is a string'],
    ['an object as a value', { headers: { 'X-A': { b: 'secret' } } }, 'the header X-A is an object'],
    ['a function as a value', { headers: { 'X-A': () => 'secret' } }, 'the header X-A is a function'],
    [
      'a number HTTP cannot write',
      { headers: { 'X-A': Number.POSITIVE_INFINITY } },
      'the header X-A is a number',
    ],
    [
      'a line break in a value',
      { headers: { 'X-A': 'secret\r\nSet-Cookie: x' } },
      'the header X-A has a line break',
    ],
    ['a NUL in a value', { headers: { 'X-A': 'secret\0' } }, 'the header X-A has a line break or a NUL'],
    ['a line break in a cookie', { cookies: ['secret\n'] }, 'cookies has a line break'],
    ['a name with a colon', { headers: { 'X: secret': 'a' } }, 'not a header name'],
    ['an empty name', { headers: { '': 'a' } }, 'not a header name'],
  ])('%s is refused', (_, part, why) => {
    const { message } = refusalOf({ statusCode: 200, ...part }, source);
    expect(message).toContain(why);
    expect(message).not.toContain('secret');
  });
});

describe('a result without a status', () => {
  it.each<[string, unknown, string]>([
    ['an object', { id: 1, note: 'grüße' }, '{"id":1,"note":"grüße"}'],
    [
      'an object that has a body and headers',
      { headers: { a: 'b' }, body: 'x' },
      '{"headers":{"a":"b"},"body":"x"}',
    ],
    ['an object whose status is undefined', { statusCode: undefined, id: 1 }, '{"id":1}'],
    [
      'an object with members named like a stream’s',
      { pipe: 'x', getReader: 1 },
      '{"pipe":"x","getReader":1}',
    ],
    [
      'an instance',
      new (class Payment {
        id = 1;
      })(),
      '{"id":1}',
    ],
    ['an empty object', {}, '{}'],
    ['an array', [1, 'a'], '[1,"a"]'],
    ['a string, as it is', 'Hello from Lambda!', 'Hello from Lambda!'],
    ['a string that needs escapes, as it is', '"quoted"\n\\', '"quoted"\n\\'],
    ['an empty string', '', ''],
    ['a number', 42, '42'],
    ['false', false, 'false'],
    ['a date', new Date(0), '1970-01-01T00:00:00.000Z'],
  ])('is the JSON body of a 200 in format 2.0: %s', (_, result, body) => {
    for (const source of SHORTHAND) {
      expect(readReply(result, source)).toEqual({
        status: 200,
        headers: [['content-type', 'application/json']],
        body: bytes(body),
        base64: false,
      });
    }
  });

  it.each([{ id: 'secret' }, 'secret', ['secret'], 7, true, {}])('is refused elsewhere: %j', (result) => {
    for (const source of ['rest-api', 'alb'] as const) {
      const { message } = refusalOf(result, source);
      expect(message).toContain('without a statusCode');
      expect(message).not.toContain('secret');
    }
  });

  it('is refused if JSON cannot write it', () => {
    const loop: Record<string, unknown> = { name: 'secret' };
    loop['self'] = loop;
    const deep = JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    for (const result of [loop, { amount: 1n }, { toJSON: () => undefined }, deep]) {
      expect(refusalOf(result, 'http-api').message).not.toContain('secret');
    }
  });
});

it('a reply shares no memory with the result', () => {
  const { body } = readReply({ statusCode: 200, body: 'abc' }, 'alb');
  expect(body.buffer.byteLength).toBe(3);
});
