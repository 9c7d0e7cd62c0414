import { randomUUID } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { scopePk } from '../../lib/core/scope.ts';
import type { Preset, ProblemCode } from '../../lib/http/problem.ts';
import { problems } from '../../lib/http/problem-table.ts';
import { iamPrincipal, jwtClaim, type TenantResolver } from '../../lib/http/tenant.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import { alb, albMultiValue, functionUrl, httpApi, restApi } from '../http/events.ts';
import { quotaStage } from '../reconcile/quota-stage.ts';
import { always, neverArrived, type Plan, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';
import { type Result, stage } from './stage.ts';
import { created, timeline } from './work.ts';

/*
 * The published answers as clients get them, written down in full: whole events in, whole results out, through the
 * middleware and DynamoDB Local. A text that changes here changes for every client.
 */

const table = useTable();
const DOCS = 'https://developer.example.com/idempotency';
const DAY_MS = 86_400_000;

type Event = Record<string, unknown>;
type Options = Partial<IdempotencyOptions<TransactWrite>>;
type Call = (event: unknown, remainingMs?: number) => Promise<Result>;

/** One client with one key, and the function it calls. */
function scene(preset: Preset) {
  const key = randomUUID();
  const { clock, pass, onTable } = timeline(table);
  const ledger = onTable();
  const made = {
    preset,
    clock,
    pass,
    ledger,
    ref: scopePk({ tenant: 'user-17', operation: 'POST /payments/{id}/refund', key }),
    runs: 0,
    refund,
    protect,
    over,
  };
  return made;

  function refund({ headers = {}, ...changes }: Event & { headers?: Event } = {}): unknown {
    return received(httpApi({ ...changes, headers: { 'idempotency-key': `"${key}"`, ...headers } }));
  }

  function protect(
    options: Options = {},
    handler: () => Promise<unknown> = async () => created(),
    store: Ledger<TransactWrite> = ledger,
  ): Call {
    const counted = () => {
      made.runs += 1;
      return handler();
    };
    return stage(store, counted, { effects: 'transactional', preset, docsBase: DOCS, clock, ...options })
      .call;
  }

  /** The same table over a wire that breaks as planned. Waiting for it takes time, but not ours. */
  function over(plan: Plan): Ledger<TransactWrite> {
    const client = table.newClient();
    onTestFinished(() => client.destroy());
    wireOf(client, plan);
    return dynamoDbLedger({ ...table, client, clock, sleep: async (ms) => pass(Math.max(1, ms)) });
  }
}

type Scene = ReturnType<typeof scene>;

/** What Lambda hands over is JSON: nothing in it is undefined. */
function received(event: Event): unknown {
  return JSON.parse(JSON.stringify(event));
}

interface Row {
  readonly code: ProblemCode;
  readonly when: string;
  readonly ietf: number;
  readonly stripe: number;
  readonly title: string;
  readonly detail: string;
  readonly retry: 'same-key' | 'fix-request' | 'never';
  readonly retryAfter?: number;
  /** Whether it names the operation; before the request is understood there is none. */
  readonly named: boolean;
  readonly errors?: readonly object[];
  readonly error: { readonly type: string; readonly code: string };
  /** How often the handler ran, this request and all before it. */
  readonly runs: number;
  answer(scene: Scene): Promise<unknown>;
}

const invalid = (code: string) => ({ type: 'invalid_request_error', code });
const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

const malformed = {
  code: 'key_malformed',
  ietf: 400,
  stripe: 400,
  title: 'Idempotency-Key is malformed',
  retry: 'fix-request',
  named: false,
  error: invalid('key_malformed'),
  runs: 0,
} as const;

const withKey =
  (value: string) =>
  ({ protect, refund }: Scene) =>
    protect()(refund({ headers: { 'idempotency-key': value } }));

const unavailable = {
  code: 'store_unavailable',
  ietf: 503,
  stripe: 503,
  title: 'The request cannot be confirmed right now',
  detail:
    'The outcome of this request could not be recorded or read. Send the same request with the same key again later: it will not take effect twice.',
  retry: 'same-key',
  retryAfter: 1,
  named: true,
  error: { type: 'api_error', code: 'store_unavailable' },
} as const;

const ROWS: readonly Row[] = [
  {
    code: 'key_missing',
    when: 'there is no key',
    ietf: 400,
    stripe: 400,
    title: 'Idempotency-Key is missing',
    detail:
      'Idempotency-Key: received no header; expected one. Write the header once, as Idempotency-Key: "<key>".',
    retry: 'fix-request',
    named: false,
    error: invalid('key_missing'),
    runs: 0,
    answer: ({ protect, refund }) => protect()(refund({ headers: { 'idempotency-key': undefined } })),
  },
  {
    ...malformed,
    when: 'the key is empty',
    detail:
      'Idempotency-Key: received an empty value; expected a key. Write the header once, as Idempotency-Key: "<key>".',
    answer: withKey(''),
  },
  {
    ...malformed,
    when: 'its quote does not close',
    detail:
      'Idempotency-Key: received an opening quote without a closing one in 9 characters; expected a string that ends with an unescaped double quote. Write the header once, as Idempotency-Key: "<key>".',
    answer: withKey('"order-17'),
  },
  {
    ...malformed,
    when: 'a gateway joined two of them',
    detail:
      'Idempotency-Key: received an unquoted comma at character 9, which is how proxies join a repeated header; expected one key without a comma. Write the header once, as Idempotency-Key: "<key>".',
    answer: withKey('order-17,order-18'),
  },
  {
    ...malformed,
    when: 'it is too long',
    detail:
      'Idempotency-Key: received a key of 256 characters; expected at most 255. Write the header once, as Idempotency-Key: "<key>".',
    answer: withKey('k'.repeat(256)),
  },
  {
    ...malformed,
    when: 'it is shorter than the API allows',
    detail:
      'Idempotency-Key: received a key of 8 characters; expected at least 16: a short key is easily used twice, a UUID is not. Write the header once, as Idempotency-Key: "<key>".',
    answer: ({ protect, refund }) =>
      protect({ minKeyLength: 16 })(refund({ headers: { 'idempotency-key': 'order-17' } })),
  },
  {
    ...malformed,
    when: 'it has no quotes where they are a must',
    detail:
      'Idempotency-Key: received a Token: text without quotes; expected a String in double quotes (RFC 9651). Write the header once, double quotes included, as Idempotency-Key: "<key>".',
    answer: ({ protect, refund }) =>
      protect({ keyMode: 'ietf' })(refund({ headers: { 'idempotency-key': 'order-17' } })),
  },
  {
    code: 'validation_failed',
    when: 'the request is wrong in several places',
    ietf: 400,
    stripe: 400,
    title: 'The request is not valid',
    detail:
      'This request was not executed, and its key was not used up. Correct what `errors` lists; the corrected request may carry the same key.',
    retry: 'fix-request',
    named: false,
    errors: [
      {
        path: 'header.repeatability-first-sent',
        detail: 'Expected one HTTP date, such as Sun, 06 Nov 1994 08:49:37 GMT.',
      },
      { pointer: '#/amount', detail: 'must be positive' },
      { path: 'query.expand', detail: 'is unknown' },
    ],
    error: invalid('validation_failed'),
    runs: 0,
    answer({ protect, refund }) {
      const validate = () => [
        { pointer: '#/amount', detail: 'must be positive' },
        { path: 'query.expand', detail: 'is unknown' },
      ];
      return protect({ validate })(refund({ headers: { 'repeatability-first-sent': 'yesterday' } }));
    },
  },
  {
    code: 'in_progress',
    when: 'the first request still runs',
    ietf: 409,
    stripe: 409,
    title: 'A request with this Idempotency-Key is in progress',
    detail:
      'The first request with this key is still running. Send the same request with the same key again later to get its result.',
    retry: 'same-key',
    retryAfter: 1,
    named: true,
    error: { type: 'idempotency_error', code: 'idempotency_key_in_use' },
    runs: 1,
    answer: (scene) => duplicateInFlight(scene, 'reject'),
  },
  {
    code: 'outcome_unknown',
    when: 'an earlier attempt may have taken effect',
    ietf: 409,
    stripe: 409,
    title: 'The outcome of this request is not known yet',
    detail:
      'An earlier attempt with this key may have taken effect, and it is being found out whether it did. Send the same request with the same key again later.',
    retry: 'same-key',
    retryAfter: 30,
    named: true,
    error: { type: 'api_error', code: 'outcome_unknown' },
    runs: 1,
    async answer({ protect, refund }) {
      const call = protect(opaque, () => Promise.reject(new Error('the provider did not answer')));
      await expect(call(refund())).rejects.toThrow('the provider did not answer');
      return call(refund());
    },
  },
  {
    code: 'outcome_unknown',
    when: 'only an operator can tell any more',
    ietf: 409,
    stripe: 409,
    title: 'The outcome of this request is not known yet',
    detail:
      'An earlier attempt with this key may have taken effect, and only an operator can find out. Do not send it again under any key: ask for support and name the operationRef.',
    retry: 'never',
    named: true,
    error: { type: 'api_error', code: 'outcome_unknown' },
    runs: 1,
    async answer({ protect, refund, ledger, ref, clock }) {
      const call = protect(opaque, () => Promise.reject(new Error('the provider did not answer')));
      await expect(call(refund())).rejects.toThrow('the provider did not answer');
      const record = await ledger.read(ref);
      if (record?.status !== 'unknown') throw new Error(`expected an unknown record, got ${record?.status}`);
      await ledger.watch(record, { shard: dueShard(ref, 'parked'), at: clock(), parkedAt: clock() });
      return call(refund());
    },
  },
  {
    code: 'key_reused',
    when: 'the key was used with another body',
    ietf: 422,
    stripe: 400,
    title: 'Idempotency-Key was used for another request',
    detail:
      'This key was first used with another request. To retry that one, send its original body under this key. Only a different, new action takes a new key.',
    retry: 'fix-request',
    named: true,
    error: { type: 'idempotency_error', code: 'key_reused' },
    runs: 1,
    async answer({ protect, refund }) {
      const call = protect();
      await call(refund());
      return call(refund({ body: '{"amount":9900,"currency":"EUR"}' }));
    },
  },
  {
    code: 'key_expired',
    when: 'its result is past its retention, and the policy is gone',
    ietf: 410,
    stripe: 400,
    title: 'The result under this Idempotency-Key has expired',
    detail:
      'This key was used before, and its result is no longer kept. Its request may have taken effect: look up the resource it was about. It was not executed again.',
    retry: 'never',
    named: true,
    error: invalid('key_expired'),
    runs: 1,
    async answer({ protect, refund, pass }) {
      const call = protect({ afterExpiry: 'gone' });
      await call(refund());
      pass(DAY_MS + 1_001);
      return call(refund());
    },
  },
  {
    code: 'request_too_old',
    when: 'it was first sent longer ago than results are kept',
    ietf: 412,
    stripe: 400,
    title: 'The request was first sent too long ago',
    detail:
      'By its Repeatability-First-Sent header, this request was first sent outside the time for which results are kept. An earlier attempt may have taken effect: look up the resource it was about. It was not executed now.',
    retry: 'never',
    named: true,
    error: invalid('request_too_old'),
    runs: 0,
    answer({ protect, refund, clock }) {
      const firstSent = new Date(clock() - DAY_MS - 2_000).toUTCString();
      return protect()(refund({ headers: { 'repeatability-first-sent': firstSent } }));
    },
  },
  {
    ...unavailable,
    when: 'the store is down',
    runs: 0,
    answer: ({ protect, refund, over }) => protect({}, undefined, over(always(neverArrived)))(refund()),
  },
  {
    ...unavailable,
    when: 'the store has been down for five requests',
    retryAfter: 5,
    runs: 0,
    async answer({ protect, refund, over }) {
      const call = protect({}, undefined, over(always(neverArrived)));
      for (let request = 0; request < 5; request += 1) await call(refund());
      return call(refund());
    },
  },
  {
    ...unavailable,
    when: 'there is too little time left to start',
    runs: 0,
    answer: ({ protect, refund }) => protect()(refund(), 999),
  },
  {
    ...unavailable,
    when: 'the store is gone after the handler has succeeded',
    runs: 1,
    answer: ({ protect, refund, over }) =>
      protect(
        {},
        undefined,
        over(({ name }) => (name === 'PutItem' ? undefined : neverArrived)),
      )(refund()),
  },
  {
    code: 'quota_exceeded',
    when: 'the key is new and its tenant has left too many open',
    ietf: 429,
    stripe: 429,
    title: 'Too many requests',
    detail: 'This request was not executed. Send it with the same key again later.',
    retry: 'same-key',
    retryAfter: 60,
    named: true,
    error: { type: 'rate_limit_error', code: 'rate_limit' },
    runs: 0,
    async answer({ ledger, clock, protect, refund }) {
      const { hanging, batch } = quotaStage(ledger, { now: clock() }, { openKeys: 1 });
      const { changes } = await hanging('user-17', 2);
      await batch(...changes);
      return protect({ quota: true })(refund());
    },
  },
];

/** Sent from inside the first request, so that it is in flight for certain. */
async function duplicateInFlight(
  { protect, refund }: Scene,
  inFlight: 'reject' | 'accept',
): Promise<unknown> {
  let duplicate: Result | undefined;
  const call: Call = protect({ inFlight }, async () => {
    duplicate = await call(refund());
    return created();
  });
  await call(refund());
  return duplicate;
}

/** With its body as the client parses it. */
function parsed(answer: unknown) {
  const { body, ...rest } = answer as Result;
  return { ...rest, body: JSON.parse(body) };
}

const documented = (code: ProblemCode) => `<${DOCS}#${code}>; rel="describedby"`;

function expectedOf(row: Row, { preset, ref }: Scene) {
  const { code, title, detail, retry, retryAfter, errors, error, named } = row;
  const status = row[preset];
  return {
    statusCode: status,
    headers: {
      'Content-Type': 'application/problem+json',
      'Cache-Control': 'no-store',
      Link: documented(code),
      ...(retryAfter !== undefined && { 'Retry-After': String(retryAfter) }),
    },
    isBase64Encoded: false,
    body: {
      type: `${DOCS}#${code}`,
      title,
      status,
      detail,
      code,
      retry,
      ...(retryAfter !== undefined && { retryAfter }),
      ...(named && { operationRef: ref }),
      ...(errors && { errors }),
      ...(preset === 'stripe' && { error: { ...error, message: detail } }),
    },
  };
}

describe.each(['ietf', 'stripe'] as const)('in the %s preset', (preset) => {
  it.each(ROWS)('$code, when $when', async (row) => {
    const there = scene(preset);
    expect(parsed(await row.answer(there))).toStrictEqual(expectedOf(row, there));
    expect(there.runs).toBe(row.runs);
  });

  it('in_progress is a 202 and no problem, where the policy is accept', async () => {
    const there = scene(preset);
    expect(parsed(await duplicateInFlight(there, 'accept'))).toStrictEqual({
      statusCode: 202,
      headers: {
        'Content-Type': 'application/json',
        'Cache-Control': 'no-store',
        Link: documented('in_progress'),
        'Retry-After': '1',
      },
      isBase64Encoded: false,
      body: {
        code: 'in_progress',
        detail:
          'The first request with this key is still running. Send the same request with the same key again later to get its result.',
        retry: 'same-key',
        retryAfter: 1,
        operationRef: there.ref,
      },
    });
    expect(there.runs).toBe(1);
  });
});

it('every code has its rows', () => {
  const codes = new Set(ROWS.map(({ code }) => code));
  expect([...codes].toSorted()).toEqual(Object.keys(problems).toSorted());
});

type Headers = Readonly<Record<string, readonly string[]>>;

interface Gateway {
  readonly gateway: string;
  readonly tenant: TenantResolver;
  /** The event with the header as this gateway hands it over, by how often the client sent it. */
  event(keys: readonly string[], changes?: Event): Event;
  /** Where this gateway looks for the headers of an answer. */
  carry(headers: Headers): object;
  /** What is said about a header that was sent twice. A load balancer may keep the last one only, and nobody can tell. */
  readonly twice?: string;
  readonly ref: (key: string) => string;
}

const mapped = (headers: Headers, keep: (values: readonly string[]) => boolean = () => true) =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, values]) => (keep(values) ? [[name, values.join(', ')]] : [])),
  );
const inOneMap = (headers: Headers) => ({ headers: mapped(headers) });
const inArrays = (headers: Headers) => ({ multiValueHeaders: headers });
const inBothMaps = (headers: Headers) => {
  const repeated = Object.entries(headers).filter(([, values]) => values.length > 1);
  return {
    headers: mapped(headers, ({ length }) => length === 1),
    ...(repeated.length > 0 && { multiValueHeaders: Object.fromEntries(repeated) }),
  };
};

const refOf = (tenant: string, operation: string) => (key: string) => scopePk({ tenant, operation, key });
const JOINED = 'an unquoted comma at character 37, which is how proxies join a repeated header';
const ONE_KEY = 'one key without a comma';

const GATEWAYS: readonly Gateway[] = [
  {
    gateway: 'an HTTP API',
    tenant: jwtClaim('sub'),
    event: (keys, changes) =>
      httpApi({ ...changes, headers: { 'idempotency-key': keys.length > 0 ? keys.join(',') : undefined } }),
    carry: inOneMap,
    twice: `received ${JOINED}; expected ${ONE_KEY}.`,
    ref: refOf('user-17', 'POST /payments/{id}/refund'),
  },
  {
    gateway: 'a REST API',
    tenant: jwtClaim('sub'),
    event: (keys, changes) =>
      restApi({
        ...changes,
        headers: { 'Idempotency-Key': keys.at(-1) },
        multiValueHeaders: { 'Idempotency-Key': keys.length > 0 ? keys : undefined },
      }),
    carry: inBothMaps,
    twice: 'received the header 2 times; expected it once, even if all its values are equal.',
    ref: refOf('b9a2c3d4-0000-4000-8000-1234567890ab', 'POST /payments/{id}/refund'),
  },
  {
    gateway: 'a load balancer',
    tenant: () => 'acme',
    event: (keys, changes) => alb({ ...changes, headers: { 'idempotency-key': keys.at(-1) } }),
    carry: inOneMap,
    ref: refOf('acme', 'POST /payments/pay_1/refund'),
  },
  {
    gateway: 'a load balancer with multi-value headers',
    tenant: () => 'acme',
    event: (keys, changes) =>
      albMultiValue({
        ...changes,
        multiValueHeaders: { 'idempotency-key': keys.length > 0 ? keys : undefined },
      }),
    carry: inArrays,
    twice: 'received the header 2 times; expected it once, even if all its values are equal.',
    ref: refOf('acme', 'POST /payments/pay_1/refund'),
  },
  {
    gateway: 'a function URL',
    tenant: iamPrincipal(),
    event: (keys, changes) =>
      functionUrl({
        ...changes,
        headers: { 'idempotency-key': keys.length > 0 ? keys.join(',') : undefined },
      }),
    carry: inOneMap,
    twice: `received ${JOINED}; expected ${ONE_KEY}.`,
    ref: refOf('arn:aws:iam::111122223333:user/billing', 'PATCH /payments/pay_1/refund'),
  },
];

describe.each(GATEWAYS)('behind $gateway', ({ tenant, event, carry, twice, ref }) => {
  const refund = (keys: readonly string[], changes?: Event) => received(event(keys, changes));

  /** A problem in the shape of this gateway, whatever is in its body. */
  const inShape = (status: number, code: ProblemCode, retryAfter?: string) => ({
    statusCode: status,
    ...carry({
      'Content-Type': ['application/problem+json'],
      'Cache-Control': ['no-store'],
      Link: [documented(code)],
      ...(retryAfter !== undefined && { 'Retry-After': [retryAfter] }),
    }),
    isBase64Encoded: false,
  });

  it('a result and its replay arrive with the headers where it looks for them', async () => {
    const { clock, ledger, protect } = scene('ietf');
    const call = protect({ tenant }, async () => ({
      statusCode: 201,
      headers: { location: '/refunds/1' },
      multiValueHeaders: { vary: ['accept', 'origin'] },
      body: '{"refund":1}',
    }));
    const key = randomUUID();
    const headers = {
      location: ['/refunds/1'],
      vary: ['accept', 'origin'],
      'Idempotency-Expires': [new Date(clock() + DAY_MS).toUTCString()],
      'Cache-Control': ['no-store'],
    };
    const body = { body: '{"refund":1}', isBase64Encoded: false };
    expect(await call(refund([key]))).toStrictEqual({ statusCode: 201, ...carry(headers), ...body });
    expect((await ledger.read(ref(key)))?.status).toBe('completed');

    const encoded = Buffer.from('{"currency":"EUR", "amount":1250}').toString('base64');
    const replay = await call(refund([key], { body: encoded, isBase64Encoded: true }));
    const replayed = carry({ ...headers, 'Idempotent-Replayed': ['true'] });
    expect(replay).toStrictEqual({ statusCode: 201, ...replayed, ...body });
  });

  it('problems arrive with the headers where it looks for them', async () => {
    const { protect } = scene('ietf');
    const key = randomUUID();
    let duplicate: unknown;
    const call: Call = protect({ tenant }, async () => {
      duplicate = await call(refund([key]));
      return created();
    });
    const { body: missing, ...missingShape } = parsed(await call(refund([])));
    expect(missingShape).toStrictEqual(inShape(400, 'key_missing'));
    expect(missing).toMatchObject({ status: 400, code: 'key_missing', retry: 'fix-request' });

    await call(refund([key]));
    const { body: running, ...runningShape } = parsed(duplicate);
    expect(runningShape).toStrictEqual(inShape(409, 'in_progress', '1'));
    expect(running).toMatchObject({ status: 409, code: 'in_progress', operationRef: ref(key) });

    const { body: reused, ...reusedShape } = parsed(await call(refund([key], { body: '{"amount":1}' })));
    expect(reusedShape).toStrictEqual(inShape(422, 'key_reused'));
    expect(reused).toMatchObject({ status: 422, code: 'key_reused', operationRef: ref(key) });
  });

  if (twice === undefined) return;
  it('a key that was sent twice is refused, whatever it made of the two', async () => {
    const there = scene('ietf');
    const key = randomUUID();
    const { statusCode, body } = parsed(await there.protect({ tenant })(refund([key, key])));
    expect(statusCode).toBe(400);
    expect(body).toMatchObject({ code: 'key_malformed', detail: expect.stringContaining(twice) });
    expect(there.runs).toBe(0);
  });
});
