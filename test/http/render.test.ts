import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Reply } from '../../lib/core/record.ts';
import { renderReply } from '../../lib/http/render.ts';
import { readReply } from '../../lib/http/reply.ts';
import type { EventSource } from '../../lib/http/request.ts';

interface Gateway {
  source: EventSource;
  multiValueHeaders: boolean;
}

const GATEWAYS: Gateway[] = [
  { source: 'http-api', multiValueHeaders: false },
  { source: 'function-url', multiValueHeaders: false },
  { source: 'rest-api', multiValueHeaders: true },
  { source: 'alb', multiValueHeaders: false },
  { source: 'alb', multiValueHeaders: true },
];

const reply = (part: Partial<Reply>): Reply => ({
  status: 200,
  headers: [],
  body: new Uint8Array(),
  base64: false,
  ...part,
});

const LINKS: Reply = reply({
  headers: [
    ['Link', '<a>'],
    ['ETag', '"v1"'],
    ['Link', '<b>'],
    ['link', '<c>'],
    ['Set-Cookie', 'a=1'],
    ['set-cookie', 'b=2'],
  ],
});

describe('headers go where the gateway looks for them', () => {
  it.each(['http-api', 'function-url'] as const)(
    '%s: one map, repeated ones joined, cookies apart',
    (source) => {
      expect(renderReply(LINKS, { source, multiValueHeaders: false })).toEqual({
        statusCode: 200,
        headers: { Link: '<a>, <b>, <c>', ETag: '"v1"' },
        cookies: ['a=1', 'b=2'],
        body: '',
        isBase64Encoded: false,
      });
    },
  );

  it('REST API: single ones in one map, repeated ones in the other', () => {
    expect(renderReply(LINKS, { source: 'rest-api', multiValueHeaders: true })).toEqual({
      statusCode: 200,
      headers: { ETag: '"v1"' },
      multiValueHeaders: { Link: ['<a>', '<b>', '<c>'], 'Set-Cookie': ['a=1', 'b=2'] },
      body: '',
      isBase64Encoded: false,
    });
  });

  it('ALB: one map, and several cookies under names in different cases', () => {
    expect(renderReply(LINKS, { source: 'alb', multiValueHeaders: false })).toEqual({
      statusCode: 200,
      headers: { Link: '<a>, <b>, <c>', ETag: '"v1"', 'Set-Cookie': 'a=1', 'set-cookie': 'b=2' },
      body: '',
      isBase64Encoded: false,
    });
  });

  it('ALB with multi-value headers: all of them there, since it reads no others', () => {
    expect(renderReply(LINKS, { source: 'alb', multiValueHeaders: true })).toEqual({
      statusCode: 200,
      multiValueHeaders: { Link: ['<a>', '<b>', '<c>'], ETag: ['"v1"'], 'Set-Cookie': ['a=1', 'b=2'] },
      body: '',
      isBase64Encoded: false,
    });
  });

  it.each(GATEWAYS)('$source $multiValueHeaders: without any, nothing is made up', (gateway) => {
    const rendered = renderReply(reply({ status: 204 }), gateway);
    const none =
      gateway.source === 'alb' && gateway.multiValueHeaders ? { multiValueHeaders: {} } : { headers: {} };
    expect(rendered).toEqual({ statusCode: 204, ...none, body: '', isBase64Encoded: false });
  });

  it.each(GATEWAYS)('$source $multiValueHeaders: a name that every object has survives', (gateway) => {
    const rendered = renderReply(reply({ headers: [['__proto__', 'x']] }), gateway);
    expect(JSON.stringify(rendered)).toContain('"__proto__":');
  });
});

describe('a body that is no text goes as base64 whatever the reply says (PEERS 23)', () => {
  it.each(GATEWAYS)('$source $multiValueHeaders', (gateway) => {
    const rendered = renderReply(reply({ body: Uint8Array.of(0xff, 0xfe) }), gateway);
    expect(rendered).toMatchObject({ body: '//4=', isBase64Encoded: true });
  });
});

describe.each(GATEWAYS)('a replay through $source (multi values: $multiValueHeaders)', (gateway) => {
  const roundTrip = (result: unknown) => renderReply(readReply(result, gateway.source), gateway);
  const binary = Buffer.from(Uint8Array.from({ length: 256 }, (_, index) => index)).toString('base64');

  it.each<
    [
      string,
      { statusCode: number; headers?: Record<string, string>; body?: string; isBase64Encoded?: boolean },
    ]
  >([
    [
      'JSON, spaces and order kept',
      { statusCode: 201, headers: { 'content-type': 'application/json' }, body: '{ "b": 1,\n "a" : 2 }' },
    ],
    [
      'Unicode',
      { statusCode: 200, headers: { 'content-type': 'text/plain' }, body: 'grüße 🎉 \u0000 \uFEFF' },
    ],
    ['a byte order mark first', { statusCode: 200, headers: {}, body: '\uFEFF{}' }],
    ['empty', { statusCode: 200, headers: {}, body: '' }],
    ['204', { statusCode: 204 }],
    [
      'binary',
      {
        statusCode: 200,
        headers: { 'Content-Type': 'application/pdf' },
        body: binary,
        isBase64Encoded: true,
      },
    ],
    [
      'ETag and Location',
      { statusCode: 201, headers: { ETag: 'W/"v1"', Location: '/payments/1' }, body: '{}' },
    ],
  ])('is what the handler returned: %s', (_, result) => {
    const rendered = roundTrip(result);
    expect(rendered.statusCode).toBe(result.statusCode);
    expect(rendered.body).toBe(result.body ?? '');
    expect(rendered.isBase64Encoded).toBe(result.isBase64Encoded ?? false);
    const headers = rendered.multiValueHeaders
      ? Object.fromEntries(Object.entries(rendered.multiValueHeaders).map(([name, [value]]) => [name, value]))
      : rendered.headers;
    expect(headers).toEqual(result.headers ?? {});
  });

  const name = fc.constantFrom('Link', 'ETag', 'x-a', 'Vary', 'Content-Type', '__proto__', 'constructor');
  const value = fc.string({ unit: 'grapheme-ascii', minLength: 1, maxLength: 8 });
  const headers = fc.uniqueArray(fc.tuple(name, value), {
    selector: ([key]) => key.toLowerCase(),
    maxLength: 5,
  });
  const text = fc.tuple(fc.string({ unit: 'grapheme', maxLength: 64 }), fc.constant(false));
  const base64 = fc.tuple(
    fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes).toString('base64')),
    fc.constant(true),
  );
  const result = fc
    .record({ statusCode: fc.integer({ min: 200, max: 599 }), headers, body: fc.oneof(text, base64) })
    .map(({ body: [body, isBase64Encoded], headers: pairs, statusCode }) => ({
      statusCode,
      headers: Object.fromEntries(pairs),
      body,
      isBase64Encoded,
    }));

  it('is byte for byte what the handler returned', () => {
    fc.assert(
      fc.property(result, (returned) => {
        const rendered = roundTrip(returned);
        expect(rendered.body).toBe(returned.body);
        expect(rendered.isBase64Encoded).toBe(returned.isBase64Encoded);
        expect(rendered.statusCode).toBe(returned.statusCode);
      }),
      { numRuns: 500 },
    );
  });

  it('is rendered the same however often it is read again, and survives JSON as Lambda sends it', () => {
    const many = fc.dictionary(name, fc.array(value, { minLength: 1, maxLength: 3 }), { maxKeys: 4 });
    const cookies = fc.array(fc.constantFrom('a=1', 'b=2', 'c=3, d'), { maxLength: 3 });
    fc.assert(
      fc.property(result, many, cookies, (returned, multiValueHeaders, given) => {
        const first = roundTrip({ ...returned, multiValueHeaders, cookies: given });
        const sent = JSON.parse(JSON.stringify(first));
        expect(roundTrip(sent)).toEqual(sent);
      }),
      { numRuns: 500 },
    );
  });

  it('is rendered from what the ledger holds exactly as from what the handler returned', () => {
    fc.assert(
      fc.property(result, (returned) => {
        const read = readReply(returned, gateway.source);
        const stored: Reply = {
          ...read,
          headers: read.headers.map(([key, each]) => [key, each]),
          body: read.body.slice(),
        };
        expect(renderReply(stored, gateway)).toEqual(renderReply(read, gateway));
      }),
    );
  });
});

it('a 5 MB body takes milliseconds, not its square', () => {
  const body = 'é'.repeat(2_500_000);
  const gateway: Gateway = { source: 'rest-api', multiValueHeaders: true };
  expect(renderReply(readReply({ statusCode: 200, body }, 'rest-api'), gateway).body).toBe(body);
});
