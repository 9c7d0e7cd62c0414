import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import type { Reply } from '../../lib/core/record.ts';
import {
  type ProblemCode,
  type ProblemDetails,
  pointerTo,
  problem,
  stillRunning,
} from '../../lib/http/problem.ts';
import { parkedDetail, problems } from '../../lib/http/problem-table.ts';

const DOCS = 'https://developer.example.com/idempotency';
const REF = 'pk-1';

/** DESIGN.md §6, written down a second time: statuses, what to do, what to wait, and Stripe's words for it. */
interface Row {
  code: ProblemCode;
  details: ProblemDetails[ProblemCode];
  ietf: number;
  stripe: number;
  retry: string;
  retryAfter?: number;
  error: { type: string; code: string };
}

const invalid = (code: string) => ({ type: 'invalid_request_error', code });
const TABLE: Row[] = [
  {
    code: 'key_missing',
    details: {},
    ietf: 400,
    stripe: 400,
    retry: 'fix-request',
    error: invalid('key_missing'),
  },
  {
    code: 'key_malformed',
    details: {},
    ietf: 400,
    stripe: 400,
    retry: 'fix-request',
    error: invalid('key_malformed'),
  },
  {
    code: 'in_progress',
    details: { retryAfterMs: 1_000 },
    ietf: 409,
    stripe: 409,
    retry: 'same-key',
    retryAfter: 1,
    error: { type: 'idempotency_error', code: 'idempotency_key_in_use' },
  },
  {
    code: 'outcome_unknown',
    details: { retryAfterMs: 30_001 },
    ietf: 409,
    stripe: 409,
    retry: 'same-key',
    retryAfter: 31,
    error: { type: 'api_error', code: 'outcome_unknown' },
  },
  {
    code: 'outcome_unknown',
    details: { parked: true },
    ietf: 409,
    stripe: 409,
    retry: 'never',
    error: { type: 'api_error', code: 'outcome_unknown' },
  },
  {
    code: 'key_reused',
    details: {},
    ietf: 422,
    stripe: 400,
    retry: 'fix-request',
    error: { type: 'idempotency_error', code: 'key_reused' },
  },
  { code: 'key_expired', details: {}, ietf: 410, stripe: 400, retry: 'never', error: invalid('key_expired') },
  {
    code: 'request_too_old',
    details: {},
    ietf: 412,
    stripe: 400,
    retry: 'never',
    error: invalid('request_too_old'),
  },
  {
    code: 'store_unavailable',
    details: { retryAfterMs: 5_000 },
    ietf: 503,
    stripe: 503,
    retry: 'same-key',
    retryAfter: 5,
    error: { type: 'api_error', code: 'store_unavailable' },
  },
  {
    code: 'quota_exceeded',
    details: { retryAfterMs: 60_000 },
    ietf: 429,
    stripe: 429,
    retry: 'same-key',
    retryAfter: 60,
    error: { type: 'rate_limit_error', code: 'rate_limit' },
  },
  {
    code: 'validation_failed',
    details: { errors: [{ pointer: '#/amount', detail: 'must be positive' }] },
    ietf: 400,
    stripe: 400,
    retry: 'fix-request',
    error: invalid('validation_failed'),
  },
];

const bodyOf = (reply: Reply) => JSON.parse(Buffer.from(reply.body).toString());

describe.each(['ietf', 'stripe'] as const)('in the %s preset', (preset) => {
  it.each(TABLE)('$code ($details) has exactly these headers and this body', (row) => {
    const { code, details, retry, retryAfter } = row;
    const parked = 'parked' in details;
    const detail = parked ? parkedDetail : problems[code].detail;
    const reply = problem(code, { ...details, operationRef: REF }, preset, DOCS);
    expect(reply.status).toBe(row[preset]);
    expect(reply.base64).toBe(false);
    expect(reply.headers).toEqual([
      ['Content-Type', 'application/problem+json'],
      ['Cache-Control', 'no-store'],
      ['Link', `<${DOCS}#${code}>; rel="describedby"`],
      ...(retryAfter === undefined ? [] : [['Retry-After', String(retryAfter)]]),
    ]);
    expect(bodyOf(reply)).toStrictEqual({
      type: `${DOCS}#${code}`,
      title: problems[code].title,
      status: row[preset],
      detail,
      code,
      retry,
      ...(retryAfter === undefined ? {} : { retryAfter }),
      operationRef: REF,
      ...('errors' in details ? { errors: details.errors } : {}),
      ...(preset === 'stripe' ? { error: { ...row.error, message: detail } } : {}),
    });
  });

  it('without a record there is no reference to one', () => {
    expect(bodyOf(problem('key_missing', {}, preset))).not.toHaveProperty('operationRef');
  });

  it('validation lists every fault, in the body and elsewhere', () => {
    const errors = [
      { pointer: '#/amount', detail: 'must be positive' },
      { pointer: '#/items/0/sku', detail: 'is unknown' },
      { path: 'query.limit', detail: 'must be a number' },
    ];
    expect(bodyOf(problem('validation_failed', { errors }, preset)).errors).toEqual(errors);
  });

  it('the reason for an unreadable key is passed on', () => {
    const detail = 'Idempotency-Key: received an empty value; expected a key.';
    expect(bodyOf(problem('key_malformed', { detail }, preset)).detail).toBe(detail);
  });
});

it('every code of the table is tested, and the table has no other', () => {
  expect(Object.keys(problems).toSorted()).toEqual([...new Set(TABLE.map(({ code }) => code))].toSorted());
});

describe('no text tells a program to mint a new key for work that may have run (promise 6)', () => {
  const texts = [
    ...Object.entries(problems).map(([code, { title, detail }]) => [code, `${title}. ${detail}`]),
    ['parked', parkedDetail],
  ];
  const MINTING = /\b(new|another|other|different|fresh|second|unused)\b[^.]*\bkey\b/i;

  it.each(texts.filter(([code]) => code !== 'key_reused'))('%s does not mention one', (_, text) => {
    expect(text?.replace('used for another request', '')).not.toMatch(MINTING);
  });

  it('key_reused asks for the original body first, and a new key for a new action only', () => {
    const { detail } = problems.key_reused;
    expect(detail).toContain('send its original body under this key');
    expect(detail.match(new RegExp(MINTING, 'gi'))).toEqual(['different, new action takes a new key']);
    expect(detail).toContain('Only a different, new action takes a new key.');
  });

  it.each(['in_progress', 'outcome_unknown', 'store_unavailable', 'quota_exceeded'] as const)(
    '%s says to keep the key',
    (code) => {
      expect(problems[code].detail).toContain('with the same key again');
    },
  );

  it('parked says to send it under no key', () => {
    expect(parkedDetail).toContain('Do not send it again under any key');
  });
});

describe('Retry-After', () => {
  it.each([
    [0, 1],
    [-5, 1],
    [1, 1],
    [1_000, 1],
    [1_001, 2],
    [3_600_000, 3_600],
  ])('%i ms is %i s: never early, never now', (retryAfterMs, expected) => {
    const reply = problem('in_progress', { retryAfterMs }, 'ietf');
    expect(new Map(reply.headers).get('Retry-After')).toBe(String(expected));
    expect(bodyOf(reply).retryAfter).toBe(expected);
  });
});

describe('the policy accept answers 202', () => {
  const reply = stillRunning({ retryAfterMs: 1_500, operationRef: REF }, DOCS);

  it('with the news as plain JSON', () => {
    expect(reply.status).toBe(202);
    expect(reply.headers).toEqual([
      ['Content-Type', 'application/json'],
      ['Cache-Control', 'no-store'],
      ['Link', `<${DOCS}#in_progress>; rel="describedby"`],
      ['Retry-After', '2'],
    ]);
    expect(bodyOf(reply)).toStrictEqual({
      code: 'in_progress',
      detail: problems.in_progress.detail,
      retry: 'same-key',
      retryAfter: 2,
      operationRef: REF,
    });
  });
});

describe('links lead to the documentation', () => {
  it.each([
    [
      undefined,
      'https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header#key_missing',
    ],
    ['https://docs.example.com/api', 'https://docs.example.com/api#key_missing'],
    ['https://docs.example.com/problems/', 'https://docs.example.com/problems/key_missing'],
    ['https://docs.example.com/api#', 'https://docs.example.com/api#key_missing'],
    ['https://docs.example.com/?code=', 'https://docs.example.com/?code=key_missing'],
    ['http://localhost:3000/', 'http://localhost:3000/key_missing'],
  ])('%s', (base, type) => {
    expect(bodyOf(problem('key_missing', {}, 'ietf', base)).type).toBe(type);
  });

  it.each([
    '',
    'docs',
    '/problems',
    'ftp://x/',
    'https://',
    'https://a b/',
    'https://[x/',
    'https://x/>; rel="next"',
    'https://x/\r\nSet-Cookie: a',
  ])('%j is refused', (base) => {
    expect(() => problem('key_missing', {}, 'ietf', base)).toThrow(InvalidArgument);
    expect(() => stillRunning({ retryAfterMs: 1 }, base)).toThrow(InvalidArgument);
  });
});

describe('a pointer into the body', () => {
  it.each<[PropertyKey[], string]>([
    [[], '#'],
    [['amount'], '#/amount'],
    [['items', 0, 'price'], '#/items/0/price'],
    [['a/b', 'c~d', '~1'], '#/a~1b/c~0d/~01'],
    [['grün', 'a b', '%'], '#/gr%C3%BCn/a%20b/%25'],
    [[''], '#/'],
    [['\ud800'], '#/%EF%BF%BD'],
  ])('%j is %s', (path, pointer) => {
    expect(pointerTo(path)).toBe(pointer);
  });
});
