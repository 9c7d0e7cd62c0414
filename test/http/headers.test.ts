import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import {
  allowedHeaders,
  defaultStoredHeaders,
  freshHeaders,
  replayHeaders,
  storableHeaders,
} from '../../lib/http/headers.ts';

const NEVER = [
  ...['Set-Cookie', 'set-cookie', 'SET-COOKIE2', 'Cookie', 'Authorization', 'Proxy-Authorization'],
  ...['WWW-Authenticate', 'Proxy-Authenticate', 'Authentication-Info', 'Proxy-Authentication-Info'],
  ...['Idempotency-Key', 'Idempotent-Replayed', 'Idempotency-Expires'],
];
const EXPIRES = Date.UTC(2024, 2, 14, 15, 9, 22, 999);

describe('stored headers are an allow-list', () => {
  it('keeps what a client goes on with, in its order and spelling, every value of it (PEERS 29)', () => {
    const kept = [
      ['Content-Type', 'application/json'],
      ['Location', '/payments/1'],
      ['ETag', '"v1"'],
      ['link', '<a>'],
      ['Link', '<b>'],
      ['Cache-Control', 'private'],
      ['Retry-After', '3'],
    ] as const;
    expect(storableHeaders(kept)).toEqual(kept);
  });

  it('forgets the rest: moments, callers, connections, credentials (PEERS 24)', () => {
    const dropped = [
      'Set-Cookie',
      'set-cookie',
      'Authorization',
      'Date',
      'X-Amzn-Trace-Id',
      'X-RateLimit-Remaining',
      'Access-Control-Allow-Origin',
      'Content-Length',
      'Idempotent-Replayed',
    ];
    expect(storableHeaders(dropped.map((name) => [name, 'x'] as const))).toEqual([]);
  });

  it('takes the operation’s own list instead, in any case', () => {
    const headers = [
      ['x-cost', '3'],
      ['Content-Type', 'a/b'],
    ] as const;
    expect(storableHeaders(headers, ['X-Cost'])).toEqual([['x-cost', '3']]);
    expect(storableHeaders(headers, [])).toEqual([]);
  });

  it.each(NEVER)('%s can never be on it', (name) => {
    expect(() => allowedHeaders(['content-type', name])).toThrow(InvalidArgument);
    expect(() => allowedHeaders([name])).toThrow(`The header ${name} is never stored: `);
    expect(() => storableHeaders([], [name])).toThrow(InvalidArgument);
  });

  it.each(['*', 'x-*', '', 'a b', 'a:', 'x\r\n', 7 as unknown as string, undefined as unknown as string])(
    '%j is no header name',
    (name) => {
      expect(() => allowedHeaders([name])).toThrow(InvalidArgument);
    },
  );

  it('the default list is one that may be written down', () => {
    expect([...allowedHeaders(defaultStoredHeaders)]).toEqual(defaultStoredHeaders);
  });
});

describe('an answer says what it is', () => {
  it('a replay: that it is one, until when, and that nobody keeps it', () => {
    expect(replayHeaders([['ETag', '"v1"']], EXPIRES)).toEqual([
      ['ETag', '"v1"'],
      ['Idempotent-Replayed', 'true'],
      ['Idempotency-Expires', 'Thu, 14 Mar 2024 15:09:22 GMT'],
      ['Cache-Control', 'no-store'],
    ]);
  });

  it('the first answer: until when, and that nobody keeps it', () => {
    expect(freshHeaders([['ETag', '"v1"']], EXPIRES)).toEqual([
      ['ETag', '"v1"'],
      ['Idempotency-Expires', 'Thu, 14 Mar 2024 15:09:22 GMT'],
      ['Cache-Control', 'no-store'],
    ]);
  });

  it('an answer that is not final has no expiry', () => {
    expect(freshHeaders([])).toEqual([['Cache-Control', 'no-store']]);
  });

  it.each(['Cache-Control', 'cache-control', 'CACHE-CONTROL'])('%s of the handler stands', (name) => {
    const headers = [[name, 'max-age=60']] as const;
    expect(freshHeaders(headers)).toEqual(headers);
    expect(replayHeaders(headers, EXPIRES).filter(([key]) => key.toLowerCase() === 'cache-control')).toEqual(
      headers,
    );
  });

  it.each(['Idempotent-Replayed', 'idempotent-replayed', 'IDEMPOTENCY-EXPIRES'])(
    'a handler cannot say it itself: %s (PEERS 31)',
    (name) => {
      const said = [[name, 'forged']] as const;
      expect(JSON.stringify([freshHeaders(said), freshHeaders(said, EXPIRES)])).not.toContain('forged');
      expect(JSON.stringify(replayHeaders(said, EXPIRES))).not.toContain('forged');
      expect(freshHeaders([['Idempotent-Replayed', 'true']], EXPIRES).map(([key]) => key)).not.toContain(
        'Idempotent-Replayed',
      );
    },
  );

  it('the expiry is an IMF-fixdate and never later than the record’s', () => {
    const IMF_FIXDATE =
      /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT$/;
    fc.assert(
      fc.property(fc.integer({ min: 0, max: Date.UTC(9999, 11, 31) }), (at) => {
        const [[, date] = ['', '']] = freshHeaders([], at);
        expect(date).toMatch(IMF_FIXDATE);
        expect(at - Date.parse(date)).toBeGreaterThanOrEqual(0);
        expect(at - Date.parse(date)).toBeLessThan(1_000);
      }),
    );
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY, -1, 9e15, 253402300800000])('%d is no expiry', (at) => {
    expect(() => replayHeaders([], at)).toThrow(InvalidArgument);
  });

  it('what was given is not changed', () => {
    const headers = Object.freeze([Object.freeze(['Idempotent-Replayed', 'x'] as const)]);
    replayHeaders(headers, EXPIRES);
    expect(headers).toEqual([['Idempotent-Replayed', 'x']]);
  });
});
