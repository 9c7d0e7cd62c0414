import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
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

  it('is told if that is not a date', async () => {
    const { ledger, clock } = scene();
    const { call } = stage(ledger, created, { effects: 'transactional', clock });
    const odd = await call(post({ key: randomUUID(), headers: { 'repeatability-first-sent': 'yesterday' } }));
    expect(odd.statusCode).toBe(400);
    expect(JSON.parse(odd.body).errors).toEqual([
      { path: 'header.repeatability-first-sent', detail: expect.stringContaining('HTTP date') },
    ]);
  });
});
