import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { InvalidArgument, RecordUnreadable, StoreUnavailable } from '../../lib/core/errors.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { statusHandler } from '../../lib/middleware/status-handler.ts';
import { post, stage } from './stage.ts';

const START = 1_900_000_000_000;

function scene() {
  let now = START;
  const clock = () => now;
  const ledger = memoryLedger({ clock });
  const status = statusHandler({ ledger, tenant: jwtClaim('sub'), clock });
  return {
    ledger,
    clock,
    setNow(next: number) {
      now = next;
    },
    async ask(key: string, sub = 'tenant-1', query = 'operation=POST%20/payments') {
      const event = post({ method: 'GET', path: `/operations/${encodeURIComponent(key)}`, sub });
      const answer = await status({ ...event, rawQueryString: query });
      return { ...answer, json: JSON.parse(answer.body) };
    },
  };
}

describe('the status of an operation', () => {
  it('is told to its owner: state, times, and what to do next', async () => {
    const { ledger, clock, ask } = scene();
    const { call } = stage(ledger, async () => ({ statusCode: 201, headers: {}, body: '' }), {
      effects: 'transactional',
      clock,
    });
    const key = randomUUID();
    await call(post({ key }));
    const { statusCode, json } = await ask(key);
    expect(statusCode).toBe(200);
    expect(json).toMatchObject({
      state: 'completed',
      operation: 'POST /payments',
      attempt: 1,
      createdAt: '2030-03-17T17:46:40.000Z',
      expiresAt: '2030-03-18T17:46:40.000Z',
      retry: 'same-key',
    });
    expect(JSON.stringify(json)).not.toContain(key);
  });

  it('of another tenant is not found, exactly as one that never was', async () => {
    const { ledger, clock, ask } = scene();
    const { call } = stage(ledger, async () => ({ statusCode: 201, headers: {}, body: '' }), {
      effects: 'transactional',
      clock,
    });
    const key = randomUUID();
    await call(post({ key }));
    const theirs = await ask(key, 'tenant-2');
    expect(theirs.statusCode).toBe(404);
    expect(theirs).toEqual(await ask(randomUUID()));
  });

  it('that is unknown says so, and after parking that it must not be sent again', async () => {
    const { ledger, clock, ask } = scene();
    const { call } = stage(ledger, () => Promise.reject(new Error('timeout')), {
      effects: 'opaque',
      onUnknown: 'park',
      clock,
    });
    const key = randomUUID();
    await call(post({ key })).catch(() => undefined);
    const { json } = await ask(key);
    expect(json).toMatchObject({ state: 'unknown', retry: 'same-key', retryAfter: 30 });
    const record = await ledger.read(json.operationRef);
    if (record?.status !== 'unknown') throw new Error('expected an unknown record');
    await ledger.watch(record, { shard: 'parked#1', at: START, parkedAt: START });
    expect((await ask(key)).json).toMatchObject({ state: 'unknown', retry: 'never' });
  });

  it('is gone once it has expired, whether or not the item is', async () => {
    const { ledger, clock, ask, setNow } = scene();
    const { call } = stage(ledger, async () => ({ statusCode: 201, headers: {}, body: '' }), {
      effects: 'transactional',
      clock,
    });
    const key = randomUUID();
    await call(post({ key }));
    setNow(START + 86_400_000 + 1_001);
    expect((await ask(key)).statusCode).toBe(404);
  });

  it('is asked for by operation, and says how', async () => {
    const { ask } = scene();
    const { statusCode, json } = await ask(randomUUID(), 'tenant-1', '');
    expect(statusCode).toBe(400);
    expect(json.detail).toContain('?operation=POST%20/payments');
  });
});

describe('the status handler', () => {
  const ledger = memoryLedger();
  const options = { ledger, tenant: jwtClaim('sub') };
  const get = (path: string, headers = {}) => ({
    ...post({ method: 'GET', path, headers }),
    rawQueryString: 'operation=POST%20/payments',
  });

  it('takes a key that does not fit into a path from the header', async () => {
    const { call } = stage(ledger, async () => ({ statusCode: 201, headers: {}, body: '' }));
    const status = statusHandler(options);
    for (const key of ['order/17', '50%25off', '50%off']) {
      await call(post({ key }));
      const found = await status(get('/operations', { 'idempotency-key': key }));
      expect(found.statusCode, key).toBe(200);
    }
  });

  it('finds a key with a percent sign whether or not the gateway has decoded the path', async () => {
    const status = statusHandler(options);
    await stage(ledger, async () => ({ statusCode: 201, headers: {}, body: '' })).call(
      post({ key: '10%off' }),
    );
    for (const path of ['/operations/10%25off', '/operations/10%off']) {
      expect((await status(get(path))).statusCode, path).toBe(200);
    }
  });

  it('shows nothing without a tenant', async () => {
    const nobody = { ...options, tenant: () => undefined };
    await expect(statusHandler(nobody)(get('/operations/a'))).rejects.toThrow(/found no tenant/);
  });

  it('asks a tenant that asks too often to wait, and reads nothing for it; another one is not kept waiting', async () => {
    let [now, reads] = [0, 0];
    const read = async () => {
      reads += 1;
      return undefined;
    };
    const throttle = { perSecond: 1, burst: 2 };
    const status = statusHandler({ ...options, ledger: { read }, throttle, clock: () => now });
    const ask = async (sub?: string) =>
      status({
        ...post({ method: 'GET', path: '/operations/a', ...(sub && { sub }) }),
        rawQueryString: 'operation=POST%20/a',
      });
    expect([(await ask()).statusCode, (await ask()).statusCode]).toEqual([404, 404]);
    const refused = await ask();
    expect(refused.statusCode).toBe(429);
    expect(refused.headers).toMatchObject({ 'Retry-After': '1' });
    expect(JSON.parse(String(refused.body))).toMatchObject({ code: 'too_many_requests', retryAfter: 1 });
    expect(reads).toBe(2);
    expect((await ask('tenant-2')).statusCode).toBe(404);
    now += 1_000;
    expect((await ask()).statusCode).toBe(404);
  });

  it('does not find a key that could never have been used', async () => {
    expect((await statusHandler(options)(get('/operations/'))).statusCode).toBe(404);
  });

  it('reads keys as the operation was told to', async () => {
    const bare = { ...options, keyMode: 'bare' } as const;
    const { call } = stage(ledger, async () => ({ statusCode: 201, headers: {}, body: '' }), {
      effects: 'transactional',
      keyMode: 'bare',
    });
    const key = `"${randomUUID()}"`;
    await call(post({ key }));
    const asked = get('/operations', { 'idempotency-key': key });
    expect((await statusHandler(bare)(asked)).statusCode).toBe(200);
    expect((await statusHandler(options)(asked)).statusCode).toBe(404);
  });

  it('answers 503 while the store does not, or cannot be read', async () => {
    const docsBase = 'https://docs.shop.example/problems/';
    for (const error of [new StoreUnavailable('silence'), new RecordUnreadable('from the future')]) {
      const read = () => Promise.reject(error);
      const answer = await statusHandler({ ...options, ledger: { read }, docsBase })(get('/operations/a'));
      expect(answer.statusCode).toBe(503);
      expect(JSON.parse(answer.body)).toMatchObject({
        type: `${docsBase}store_unavailable`,
        code: 'store_unavailable',
        retry: 'same-key',
      });
    }
  });

  const wrong: readonly (readonly [options: unknown, says: RegExp])[] = [
    [null, /statusHandler\(\) takes an object of options; received null/],
    [{ ...options, ledger: undefined }, /statusHandler\(\) needs ledger/],
    [{ ...options, ledger: {} }, /statusHandler\(\) needs ledger/],
    [{ ...options, tenant: 'sub' }, /statusHandler\(\) needs tenant/],
    [{ ...options, keymode: 'bare' }, /statusHandler\(\) has no option keymode\. Did you mean keyMode\?/],
    [{ ...options, keyMode: 'uuid' }, /keyMode is "uuid"; expected one of auto, ietf, bare/],
    [{ ...options, preset: 'paypal' }, /preset is "paypal"/],
    [{ ...options, throttle: { perSecond: 5 } }, /throttle is .*expected \{ perSecond, burst \}/],
    [{ ...options, throttle: { perSecond: 0, burst: 1 } }, /perSecond is 0/],
    [{ ...options, throttle: { persecond: 1, burst: 1 } }, /throttle has no option persecond/],
    [{ ...options, clock: 5 }, /clock is 5; expected a function/],
    [{ ...options, docsBase: 'docs' }, /docsBase, the base of the documentation links/],
  ];
  for (const [given, says] of wrong) {
    it(`refuses options that are wrong, saying what to write: ${says}`, () => {
      expect(() => statusHandler(given as never)).toThrow(InvalidArgument);
      expect(() => statusHandler(given as never)).toThrow(says);
    });
  }
});

describe('a request that says when it was first sent', () => {
  const created = async () => ({ statusCode: 201, headers: {}, body: '' });
  const sentAt = (at: number) => ({ 'repeatability-first-sent': new Date(at).toUTCString() });

  it('does not run once results of that age are no longer kept', async () => {
    const { ledger, clock } = scene();
    const { call } = stage(ledger, created, { effects: 'transactional', clock });
    const old = await call(post({ key: randomUUID(), headers: sentAt(START - 86_400_000 - 2_000) }));
    expect(old.statusCode).toBe(412);
    expect(JSON.parse(old.body)).toMatchObject({ code: 'request_too_old', retry: 'never' });
    const young = await call(post({ key: randomUUID(), headers: sentAt(START - 86_400_000) }));
    expect(young.statusCode).toBe(201);
  });

  it('does not run after an hour where a function says how long results are kept: it may say as little', async () => {
    const { ledger, clock, setNow } = scene();
    const retentionSeconds = () => 3_600;
    const { call } = stage(ledger, created, { effects: 'transactional', retentionSeconds, clock });
    const key = randomUUID();
    expect((await call(post({ key, headers: sentAt(START) }))).statusCode).toBe(201);
    setNow(START + 2 * 3_600_000);
    expect((await call(post({ key, headers: sentAt(START) }))).statusCode).toBe(412);
  });

  it('is still answered from a record that is there, however old it is', async () => {
    const { ledger, clock, setNow } = scene();
    const { call } = stage(ledger, created, { effects: 'transactional', clock });
    const key = randomUUID();
    setNow(START + 80_000_000);
    await call(post({ key, headers: sentAt(START) }));
    setNow(START + 90_000_000);
    const late = await call(post({ key, headers: sentAt(START) }));
    expect(late.headers['Idempotent-Replayed']).toBe('true');
  });

  it('may be as much older as clocks may differ, and no more', async () => {
    const { ledger, clock } = scene();
    const { call } = stage(ledger, created, { effects: 'transactional', retentionSeconds: 7_200, clock });
    const at = (ageMs: number) => call(post({ key: randomUUID(), headers: sentAt(START - ageMs) }));
    expect((await at(7_201_000)).statusCode).toBe(201);
    expect((await at(7_202_000)).statusCode).toBe(412);
  });

  it('is told if that is not one HTTP date', async () => {
    const { ledger, clock } = scene();
    const { call } = stage(ledger, created, { effects: 'transactional', clock });
    const date = sentAt(START)['repeatability-first-sent'];
    for (const odd of [
      'yesterday',
      '2030-03-17T17:46:40Z',
      `${date}, ${date}`,
      'Xxx, 06 Nov 1994 08:49:37 GMT',
    ]) {
      const answer = await call(post({ key: randomUUID(), headers: { 'repeatability-first-sent': odd } }));
      expect(answer.statusCode, odd).toBe(400);
      expect(JSON.parse(answer.body).errors).toEqual([
        { path: 'header.repeatability-first-sent', detail: expect.stringContaining('HTTP date') },
      ]);
    }
  });

  it('is told if it says so twice, where the event keeps the two apart', async () => {
    const { ledger, clock } = scene();
    const options = { effects: 'transactional', tenant: () => 'tenant-1', clock } as const;
    const { call } = stage(ledger, created, options);
    const date = sentAt(START)['repeatability-first-sent'];
    const twice = await call({
      ...{ requestContext: { elb: { targetGroupArn: 'arn' } }, httpMethod: 'POST', path: '/payments' },
      multiValueHeaders: { 'idempotency-key': [randomUUID()], 'repeatability-first-sent': [date, date] },
      ...{ multiValueQueryStringParameters: {}, body: '{}', isBase64Encoded: false },
    });
    expect(JSON.parse(twice.body)).toMatchObject({ code: 'validation_failed', errors: [{}] });
  });
});
