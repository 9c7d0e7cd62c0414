import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RecordUnreadable } from '../../lib/core/errors.ts';
import {
  CURRENT_FINGERPRINT_VERSION,
  type FingerprintInput,
  fingerprint,
  fingerprintOf,
  fingerprintVersion,
} from '../../lib/core/fingerprint.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const charge: FingerprintInput = {
  method: 'POST',
  path: '/charges',
  query: [],
  contentType: 'application/json',
  headers: [],
  body: bytes('{"amount":100,"currency":"eur"}'),
};

const of = (change: Partial<FingerprintInput>): string => fingerprint({ ...charge, ...change });
const json = (text: string, contentType = 'application/json'): string =>
  of({ body: bytes(text), contentType });

describe('the same request', () => {
  it('may be written anew: spacing, member order, escapes and number forms do not count', () => {
    expect(json('{ "currency" : "\\u0065ur",\n"amount": 1.00E2 }')).toBe(fingerprint(charge));
  });

  it('may name its method in lower case', () => {
    expect(of({ method: 'post' })).toBe(fingerprint(charge));
  });

  it('may order its query parameters and counted headers differently', () => {
    expect(
      of({
        query: [
          ['b', '1'],
          ['a', '2'],
        ],
      }),
    ).toBe(
      of({
        query: [
          ['a', '2'],
          ['b', '1'],
        ],
      }),
    );
    expect(
      of({
        headers: [
          ['x-b', '1'],
          ['x-a', '2'],
        ],
      }),
    ).toBe(
      of({
        headers: [
          ['x-a', '2'],
          ['x-b', '1'],
        ],
      }),
    );
  });

  it('may write header names in any case, in any order', () => {
    expect(
      of({
        headers: [
          ['X-B', '1'],
          ['x-a', '2'],
        ],
      }),
    ).toBe(
      of({
        headers: [
          ['X-A', '2'],
          ['x-b', '1'],
        ],
      }),
    );
    expect(
      of({
        headers: [
          ['X-A', '1'],
          ['x-a', '2'],
        ],
      }),
    ).toBe(
      of({
        headers: [
          ['x-a', '1'],
          ['X-a', '2'],
        ],
      }),
    );
  });

  it.each([
    ['media type in capitals', 'Application/JSON'],
    ['charset', 'application/json; charset=utf-8'],
    ['charset in capitals', 'application/json;Charset=UTF-8'],
    ['charset in quotes', 'application/json ; charset="utf-8" '],
    ['empty parameter', 'application/json;'],
  ])('may spell its content type with another %s', (_, contentType) => {
    expect(of({ contentType })).toBe(fingerprint(charge));
  });

  it('may order and quote content type parameters differently', () => {
    expect(of({ contentType: 'text/plain; b="2;\\"x"; A=1' })).toBe(
      of({ contentType: 'text/plain;a="1";B="2;\\"\\x"' }),
    );
    expect(of({ contentType: 'text/plain; charset=UTF-8' })).toBe(
      of({ contentType: 'text/plain; charset=utf-8' }),
    );
  });

  it('may have an empty content type where it had none: proxies make one of the other', () => {
    expect(of({ contentType: '' })).toBe(of({ contentType: undefined }));
    expect(of({ contentType: ' ' })).toBe(of({ contentType: undefined }));
  });
});

describe('a changed request', () => {
  const changes: [string, Partial<FingerprintInput>][] = [
    ['nothing', {}],
    ['method', { method: 'PATCH' }],
    ['path', { path: '/charges/1' }],
    ['path, by case', { path: '/Charges' }],
    ['query', { query: [['a', 'b']] }],
    ['query value', { query: [['a', 'c']] }],
    ['query name, by case', { query: [['A', 'b']] }],
    ['query, divided elsewhere', { query: [['ab', '']] }],
    [
      'query, once more',
      {
        query: [
          ['a', 'b'],
          ['a', 'b'],
        ],
      },
    ],
    [
      'order of one query name',
      {
        query: [
          ['a', 'b'],
          ['a', 'c'],
        ],
      },
    ],
    [
      'order of one query name, turned',
      {
        query: [
          ['a', 'c'],
          ['a', 'b'],
        ],
      },
    ],
    ['header', { headers: [['a', 'b']] }],
    ['header value', { headers: [['a', 'B']] }],
    [
      'order of one header',
      {
        headers: [
          ['a', '1'],
          ['A', '2'],
        ],
      },
    ],
    [
      'order of one header, turned',
      {
        headers: [
          ['A', '2'],
          ['a', '1'],
        ],
      },
    ],
    ['content type parameter', { contentType: 'application/json; a=b' }],
    ['content type parameter value, by case', { contentType: 'application/json; a=B' }],
    ['charset that JSON does not imply', { contentType: 'application/json; charset=latin1' }],
    ['content type it cannot read', { contentType: 'application/json; a' }],
    ['content type it cannot read, either', { contentType: 'application/json; b' }],
    ['json content type', { contentType: 'application/vnd.api+json' }],
    ['missing content type', { contentType: undefined }],
    ['content type', { contentType: 'text/plain' }],
    ['content type, with a charset that counts there', { contentType: 'text/plain; charset=utf-8' }],
    ['empty body', { body: bytes('') }],
    ['null body', { body: bytes('null') }],
  ];

  it('is another request, whatever changed', () => {
    const seen = new Map<string, string>();
    for (const [what, change] of changes) {
      const print = of(change);
      expect(seen.get(print), what).toBeUndefined();
      seen.set(print, what);
    }
  });

  it('is another request when one part moves into another', () => {
    expect(of({ query: [['a', 'b']] })).not.toBe(of({ headers: [['a', 'b']] }));
    expect(of({ query: [['header', 'a']] })).not.toBe(of({ headers: [['query', 'a']] }));
    expect(of({ path: '/a', query: [['query', 'b']] })).not.toBe(of({ path: '/aquery', query: [['b', '']] }));
    expect(of({ contentType: 'a; b=c' })).not.toBe(of({ contentType: 'a', headers: [['b', 'c']] }));
    // Without a tag on each pair these two would be one sequence of parts.
    const posing = of({
      query: [
        ['media', 'text/plain'],
        ['unreadable', ''],
      ],
      contentType: undefined,
    });
    expect(posing).not.toBe(
      of({
        contentType: 'text/plain',
        headers: [
          ['media', ''],
          ['unreadable', ''],
        ],
      }),
    );
  });
});

describe('amounts', () => {
  it.each([
    ['beyond 2^53', '9007199254740992', '9007199254740993'],
    ['beyond 2^53, both rounded', '9007199254740993', '9007199254740991.9999999'],
    ['in the last cent of a large one', '100000000000000.01', '100000000000000.02'],
    ['in the eighteenth decimal', '0.1', '0.100000000000000001'],
    ['too small for a double', '0', '1e-400'],
    ['too large for a double', '1e400', '1e401'],
  ])('a changed amount %s is another request', (_, first, second) => {
    expect(json(`{"amount":${first}}`)).not.toBe(json(`{"amount":${second}}`));
  });

  it('an amount no double holds is the same request when it is retried byte for byte', () => {
    expect(json('{"amount":9007199254740993}')).toBe(json('{"amount":9007199254740993}'));
    expect(json('{"amount":9007199254740993}')).not.toBe(json('{"amount": 9007199254740993}'));
  });

  it('a changed decimal is always another request, and the same one never is', () => {
    const amount = fc.bigInt({ min: 0n, max: 10n ** 20n });
    fc.assert(
      fc.property(
        amount,
        fc.oneof(fc.bigInt({ min: -9n, max: 9n }), amount),
        fc.nat(6),
        (first, step, scale) => {
          const print = (value: bigint) => json(`{"amount":${value}e-${scale}}`);
          expect(print(first) === print(first + (first + step < 0n ? -step : step))).toBe(step === 0n);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

describe('a JSON body', () => {
  it('is canonical under any +json type, and by bytes under any other', () => {
    for (const type of [
      'application/json',
      'application/merge-patch+json; v=1',
      'APPLICATION/PROBLEM+JSON',
    ]) {
      expect(json('{"a":1,"b":2}', type)).toBe(json('{"b":2, "a":1}', type));
    }
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/json5',
      '',
      'application/jsonl',
    ]) {
      expect(json('{"a":1,"b":2}', type)).not.toBe(json('{"b":2, "a":1}', type));
    }
  });

  it('keeps names that differ by case or mean something to JavaScript', () => {
    expect(json('{"a":1,"A":2}')).toBe(json('{"A":2,"a":1}'));
    expect(json('{"a":1,"A":2}')).not.toBe(json('{"a":2,"A":1}'));
    expect(json('{"__proto__":{"amount":1}}')).not.toBe(json('{"__proto__":{"amount":2}}'));
  });

  it('with a duplicate name goes by its bytes, since parsers disagree on which one counts', () => {
    expect(json('{"amount":1,"amount":2}')).not.toBe(json('{"amount":2}'));
    expect(json('{"amount":1,"amount":2}')).not.toBe(json('{"amount":2,"amount":1}'));
    expect(json('{"amount":1,"amount":2}')).not.toBe(json('{"amount":1, "amount":2}'));
  });

  it('with a lone surrogate goes by its bytes', () => {
    expect(json('["\\ud800"]')).not.toBe(json('["\\ud801"]'));
    expect(json('["\\ud800"]')).not.toBe(json('["\\ufffd"]'));
  });

  it('nested 64 deep is canonical, and deeper goes by its bytes', () => {
    const nested = (levels: number, core: string) => `${'['.repeat(levels)}${core}${']'.repeat(levels)}`;
    expect(json(nested(64, '1'))).toBe(json(nested(64, ' 1')));
    expect(json(nested(65, '1'))).not.toBe(json(nested(65, ' 1')));
    expect(json(nested(100_000, '1'))).not.toBe(json(nested(100_000, '2')));
  });

  it('with a byte order mark goes by its bytes', () => {
    expect(json('\ufeff{"a":1}')).not.toBe(json('{"a":1}'));
    expect(json('\ufeff{"a":1}')).not.toBe(json('\ufeff{"a": 1}'));
  });

  it('that is not UTF-8 goes by its bytes', () => {
    const quoted = (...inner: number[]) => of({ body: Uint8Array.of(0x22, ...inner, 0x22) });
    expect(quoted(0xff)).not.toBe(quoted(0xfe));
    expect(quoted(0xff)).not.toBe(json('"\ufffd"'));
    expect(quoted(0xed, 0xa0, 0x80)).not.toBe(quoted(0xed, 0xa0, 0x81));
  });

  it('that is not JSON goes by its bytes', () => {
    expect(json('{"a":1')).not.toBe(json('{"a":1 '));
    expect(json('')).not.toBe(json(' '));
  });

  it('is read where it lies, also in the middle of a larger buffer', () => {
    const larger = bytes('xx{"amount":100,"currency":"eur"}xx');
    expect(of({ body: larger.subarray(2, -2) })).toBe(fingerprint(charge));
    expect(of({ body: Buffer.from(charge.body) })).toBe(fingerprint(charge));
  });
});

describe('any two requests', () => {
  const pairs = fc.array(
    fc.tuple(fc.constantFrom('a', 'b', 'query', ''), fc.constantFrom('', 'a', 'header', '\ud800')),
    {
      maxLength: 3,
    },
  );
  const anyInput: fc.Arbitrary<FingerprintInput> = fc.record({
    method: fc.constantFrom('POST', 'PATCH', 'PO'),
    path: fc.constantFrom('/', '/a', '', '\ud800', '\udc00', 'ST/'),
    query: pairs,
    contentType: fc.constantFrom(
      undefined,
      'application/json',
      'text/plain',
      'text/plain; a=a',
      'a=a; b',
      ';',
      '; a="',
    ),
    headers: pairs,
    body: fc.oneof(
      fc.constantFrom('', '1', '1.0', ' 1', '[1]', '{"a":1}', '{"a":1,"a":1}', 'json', 'bytes').map(bytes),
      fc.uint8Array({ maxLength: 4 }),
    ),
  });
  const byName = (list: FingerprintInput['query']) =>
    ['a', 'b', 'query', ''].map((name) => list.filter((pair) => pair[0] === name));
  const meaning = (input: FingerprintInput): string =>
    JSON.stringify([
      input.method,
      input.path,
      byName(input.query),
      input.contentType === ';' ? '' : (input.contentType ?? ''),
      byName(input.headers),
      input.contentType === 'application/json' &&
      /^( ?1|1.0)$/.test(Buffer.from(input.body).toString('latin1'))
        ? 'one'
        : [...input.body],
    ]);

  it('share a fingerprint exactly when they mean the same', () => {
    const seen = { same: 0, other: 0 };
    const changed = fc.tuple(
      anyInput,
      anyInput,
      fc.constantFrom(...(Object.keys(charge) as (keyof FingerprintInput)[])),
    );
    fc.assert(
      fc.property(changed, ([left, other, field]) => {
        for (const right of [other, { ...left, [field]: other[field] }]) {
          const same = meaning(left) === meaning(right);
          seen[same ? 'same' : 'other'] += 1;
          expect(fingerprint(left) === fingerprint(right)).toBe(same);
        }
      }),
      { numRuns: 5_000 },
    );
    expect(Math.min(seen.same, seen.other)).toBeGreaterThan(500);
  });

  it('never make it throw, whatever strings and bytes they consist of', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom(';', '=', '"', '\\', ' ', 'a', '/', '\ud800', '\n') }),
    );
    const anything = fc.record({
      method: text,
      path: text,
      query: fc.array(fc.tuple(text, text)),
      contentType: fc.oneof(
        fc.constant('application/json'),
        fc.constant(undefined),
        text,
        text.map((tail) => `a/b;${tail}`),
      ),
      headers: fc.array(fc.tuple(text, text)),
      body: fc.oneof(fc.uint8Array(), text.map(bytes), fc.json().map(bytes)),
    });
    fc.assert(
      fc.property(anything, (input) => {
        expect(fingerprint(input)).toMatch(/^v1:[\w-]{43}$/);
      }),
      { numRuns: 1_000 },
    );
  });

  it('are told apart in time when they are as large as Lambda takes them', () => {
    // Anything worse than linear would not come back before the test is given up.
    const body = bytes(`[${'{"amount":1.10,"b":"\\u0000"},'.repeat(200_000)}1]`);
    expect(of({ body })).not.toBe(of({ body: body.with(-2, 0x32) }));
    of({ contentType: `a/b; c="${'\\'.repeat(1_000_000)}` });
    of({ contentType: `a/b${'; '.repeat(500_000)}` });
  });
});

describe('versions', () => {
  const v2 = (input: FingerprintInput): string => `second:${input.path}`;
  const v1 = (input: FingerprintInput): string => fingerprint(input, 'v1').slice('v1:'.length);

  it('v1 is pinned, because a silent change would answer every open retry with 422', () => {
    expect(fingerprint(charge)).toBe('v1:TENoS62J1pcHSSRh1qFNADgC1-u8-0VuTt_X7iN_3_4');
    const everything: FingerprintInput = {
      method: 'patch',
      path: '/charges/\u00e9',
      query: [
        ['b', '2'],
        ['a', '1'],
      ],
      contentType: 'Text/Plain; b=2; A="1"; !',
      headers: [
        ['X-B', '2'],
        ['X-A', '1'],
      ],
      body: Uint8Array.of(0, 255),
    };
    expect(fingerprint(everything)).toBe('v1:aHD0VwPooYne2Q22MzogBOdT_6qX_rRs7ztvE2wFQjs');
  });

  it('are named by what is stored', () => {
    expect(CURRENT_FINGERPRINT_VERSION).toBe('v1');
    expect(fingerprintVersion(fingerprint(charge))).toBe('v1');
  });

  it.each(['v2:abc', 'v1', 'V1:abc', 'v11:abc', '', ':', 'constructor:abc', '__proto__:abc', 'toString:'])(
    '%j names none that is known',
    (stored) => {
      expect(fingerprintVersion(stored)).toBeUndefined();
      expect(() => fingerprintOf(charge).matches(stored)).toThrow(RecordUnreadable);
    },
  );

  it('a record that a newer release wrote is an error that says to roll forward', () => {
    expect(() => fingerprintOf(charge).matches('v2:abc')).toThrow(
      /version "v2".*reads v1: a newer release wrote the record\. Roll this deployment forward/,
    );
  });

  it('a request matches its own record and no other', () => {
    const print = fingerprintOf(charge);
    expect(print.current).toBe(fingerprint(charge));
    expect(print.matches(fingerprint(charge))).toBe(true);
    expect(print.matches(of({ path: '/refunds' }))).toBe(false);
    expect(print.matches('v1:')).toBe(false);
  });

  it('a record stored as v1 still matches after the current version became v2', () => {
    const stored = fingerprint(charge);
    const print = fingerprintOf(charge, { current: 'v2', digests: { v1, v2 } });
    expect(print.current).toBe('v2:second:/charges');
    expect(print.matches(stored)).toBe(true);
    expect(print.matches('v2:second:/charges')).toBe(true);
    const changed = fingerprintOf({ ...charge, body: bytes('{}') }, { current: 'v2', digests: { v1, v2 } });
    expect(changed.matches(stored)).toBe(false);
  });

  it('are computed when asked for, and once', () => {
    const computed: string[] = [];
    const counting = (version: string) => () => {
      computed.push(version);
      return version;
    };
    const print = fingerprintOf(charge, {
      current: 'v2',
      digests: { v1: counting('v1'), v2: counting('v2') },
    });
    expect(computed).toEqual([]);
    expect([print.current, print.current, print.matches('v2:v2')]).toEqual(['v2:v2', 'v2:v2', true]);
    expect(computed).toEqual(['v2']);
    expect([print.matches('v1:v1'), print.matches('v1:other')]).toEqual([true, false]);
    expect(computed).toEqual(['v2', 'v1']);
  });
});
