import { randomUUID } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { limits } from '../../lib/core/limits.ts';
import { schedule } from '../../lib/core/policy.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { Quotas } from '../../lib/ledger/quotas.ts';
import { QuotaExceeded } from '../../lib/middleware/operation-errors.ts';
import { protect } from '../../lib/middleware/protect.ts';
import { protectBatch } from '../../lib/middleware/protect-batch.ts';
import { bothLedgers } from '../reconcile/stage.ts';
import { neverArrived, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';
import { post, type Result, stage } from './stage.ts';
import { counter, created, START, slow } from './work.ts';

const table = useTable();
const transactional = { effects: 'transactional', quota: true } as const;
const codeOf = ({ body }: Result): unknown => JSON.parse(body).code;
const isReplay = ({ headers }: Result) => headers['Idempotent-Replayed'] === 'true';

/** Turned away for so long from now on, as the sentinel would have it. */
async function flagged({ quotas }: Ledger<unknown>, tenant: string, now: number, ms = 60_000) {
  await quotas?.raise(tenant, { until: now + ms, reason: 'new_keys' }, now + ms);
}

describe.each(Object.entries(bothLedgers(table)))('on %s', (_, create) => {
  function world() {
    const time = { now: START };
    const clock = () => time.now;
    const ledger = create(clock);
    return { time, clock, ledger, sub: `tenant ${randomUUID()}`, key: randomUUID() };
  }

  it('a new key of a tenant that takes too many is answered 429, and is not used up', async () => {
    const { time, clock, ledger, sub, key } = world();
    await flagged(ledger, sub, START);
    const work = counter();
    const { call, logged, measured } = stage(ledger, work.handler, { ...transactional, clock });
    const refused = await call(post({ key, sub }));
    expect([refused.statusCode, codeOf(refused)]).toEqual([429, 'quota_exceeded']);
    expect(refused.headers['Retry-After']).toBe('60');
    expect(JSON.parse(refused.body)).toMatchObject({ retry: 'same-key', retryAfter: 60 });
    expect(await ledger.read(JSON.parse(refused.body).operationRef)).toBeUndefined();
    expect(logged).toMatchObject([{ decision: 'over_quota', level: 'info', tenant: sub }]);
    expect(measured).toMatchObject([{ tenant: sub, metrics: { 'reserve.over_quota.count': 1 } }]);
    time.now += 60_000;
    expect((await call(post({ key, sub }))).statusCode).toBe(201);
    expect(work.runs).toBe(1);
  });

  it('another tenant is not turned away with it', async () => {
    const { clock, ledger, sub, key } = world();
    await flagged(ledger, sub, START);
    const { call } = stage(ledger, async () => created(), { ...transactional, clock });
    expect((await call(post({ key, sub: `${sub}, the other` }))).statusCode).toBe(201);
    expect((await call(post({ key, sub }))).statusCode).toBe(429);
  });

  it('its known keys are answered as ever: from the record, while in flight, and after a failure', async () => {
    const { time, clock, ledger, sub } = world();
    const work = slow((run) => (run === 3 ? { statusCode: 503 } : created(String(run))));
    const { call } = stage(ledger, work.handler, { ...transactional, clock });
    const keys = { flying: randomUUID(), done: randomUUID(), failed: randomUUID() };
    const flying = call(post({ key: keys.flying, sub }));
    await work.started;
    await call(post({ key: keys.done, sub }));
    expect((await call(post({ key: keys.failed, sub }))).statusCode).toBe(503);
    await flagged(ledger, sub, START);
    time.now += schedule.quotaCacheMs;

    expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(429);
    expect(codeOf(await call(post({ key: keys.flying, sub })))).toBe('in_progress');
    const replay = await call(post({ key: keys.done, sub }));
    expect([replay.statusCode, replay.body, isReplay(replay)]).toEqual([201, '2', true]);
    expect(codeOf(await call(post({ key: keys.done, sub, body: { amount: 1 } })))).toBe('key_reused');
    const retried = await call(post({ key: keys.failed, sub }));
    expect([retried.statusCode, retried.body]).toEqual([201, '4']);
    work.resume();
    expect((await flying).statusCode).toBe(201);
    expect(work.runs).toBe(4);
  });

  it('an abandoned key of it is taken over, and an expired one is new', async () => {
    const { time, clock, ledger, sub, key } = world();
    const work = slow();
    const { call } = stage(ledger, work.handler, { ...transactional, clock });
    const lost = call(post({ key, sub }));
    await work.started;
    time.now += 60_000;
    await flagged(ledger, sub, time.now);
    const taken = await call(post({ key, sub }));
    expect([taken.statusCode, taken.body]).toEqual([201, '2']);
    work.resume();
    expect((await lost).body).toBe('2');
    time.now += 25 * 3_600_000;
    await flagged(ledger, sub, time.now);
    expect((await call(post({ key, sub }))).statusCode).toBe(429);
    expect(work.runs).toBe(2);
  });

  it('what is left of a flag is what a client is told to wait, a second at the least', async () => {
    const { time, clock, ledger, sub, key } = world();
    await flagged(ledger, sub, START, 30_000);
    const { call } = stage(ledger, async () => created(), { ...transactional, clock });
    const waits = async () => (await call(post({ key, sub }))).headers['Retry-After'];
    expect(await waits()).toBe('30');
    time.now += 10_500;
    expect(await waits()).toBe('20');
    time.now += 19_499;
    expect(await waits()).toBe('1');
    time.now += 1;
    expect((await call(post({ key, sub }))).statusCode).toBe(201);
  });

  it('a function is refused with an error that says when to call again, a message goes back to its queue', async () => {
    const { clock, ledger, sub } = world();
    await flagged(ledger, sub, START);
    const quiet = { log: () => {}, metrics: () => {}, clock };
    let runs = 0;
    const run = async () => {
      runs += 1;
    };
    const options = { ...transactional, ...quiet, ledger, operation: 'charge', tenant: () => sub };
    const charge = protect(run, { ...options, key: (order: { id: string }) => order.id });
    const refused = await charge({ id: randomUUID() }).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(QuotaExceeded);
    expect(refused).toMatchObject({ remedy: 'retry-same-key', retryAfterMs: 60_000 });
    const consume = protectBatch(run, { ...options, key: () => randomUUID() });
    const message = { messageId: 'm1', body: '{}', eventSource: 'aws:sqs', attributes: {} };
    const left = { getRemainingTimeInMillis: () => 10_000 };
    expect(await consume({ Records: [message] } as never, left as never)).toEqual({
      batchItemFailures: [{ itemIdentifier: 'm1' }],
    });
    expect(runs).toBe(0);
  });

  it('when the flag cannot be read, that is told, the request goes on, and the next ones do not ask', async () => {
    const { time, clock, ledger, sub } = world();
    let asked = 0;
    const flag: Quotas['flag'] = () => {
      asked += 1;
      throw new RangeError('no');
    };
    const down = { ...ledger, quotas: { ...ledger.quotas, flag } as Quotas };
    const { call, logged, measured } = stage(down, async () => created(), { ...transactional, clock });
    for (let request = 0; request < 3; request += 1) {
      expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(201);
    }
    expect(asked).toBe(1);
    expect(logged.filter(({ decision }) => decision === 'quota_unread')).toMatchObject([
      { level: 'error', tenant: sub, reason: 'RangeError' },
    ]);
    expect(measured.filter(({ metrics }) => metrics['store.error.count'])).toHaveLength(1);
    time.now += schedule.quotaCacheMs;
    await call(post({ key: randomUUID(), sub }));
    expect(asked).toBe(2);
  });

  it('a flag that was read is true until its end, whatever fails afterwards', async () => {
    const { time, clock, ledger, sub } = world();
    await flagged(ledger, sub, START);
    let up = true;
    const flag: Quotas['flag'] = async (...args) => {
      if (!up) throw new RangeError('no');
      return ledger.quotas?.flag(...args);
    };
    const shaky = { ...ledger, quotas: { ...ledger.quotas, flag } as Quotas };
    const { call } = stage(shaky, async () => created(), { ...transactional, clock });
    expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(429);
    up = false;
    time.now += 59_999;
    expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(429);
    time.now += 1;
    expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(201);
  });

  it('the flags of the tenants that were asked about last are remembered, and no others', async () => {
    const { clock, ledger, sub, time } = world();
    const asked: string[] = [];
    const flag: Quotas['flag'] = async (tenant) => {
      asked.push(tenant);
      return undefined;
    };
    const counting = { ...ledger, reserve: async () => held(), quotas: { ...ledger.quotas, flag } as Quotas };
    const held = (): never => {
      throw new RangeError('enough is known');
    };
    const { call } = stage(counting, async () => created(), { ...transactional, clock });
    const meet = (tenant: string) => call(post({ key: 'k', sub: tenant })).catch(() => undefined);
    for (let other = 0; other < limits.quotaTenants; other += 1) await meet(`${sub} ${other}`);
    await meet(`${sub} 0`);
    expect(asked).toHaveLength(limits.quotaTenants);
    await meet(sub);
    await meet(`${sub} ${limits.quotaTenants - 1}`);
    expect(asked).toHaveLength(limits.quotaTenants + 1);
    await meet(`${sub} 0`);
    expect(asked).toHaveLength(limits.quotaTenants + 2);
    time.now += schedule.quotaCacheMs;
    await meet(`${sub} 2`); // It was the next to be forgotten, and is the last now.
    await meet(`${sub} of late`);
    await meet(`${sub} 2`);
    expect(asked).toHaveLength(limits.quotaTenants + 4);
  });
});

describe('DynamoDB is called', () => {
  function wired() {
    const time = { now: START };
    const clock = () => time.now;
    const client = table.newClient();
    onTestFinished(() => client.destroy());
    const wire = wireOf(client);
    const sleep = async (ms: number) => {
      time.now += Math.max(1, ms);
    };
    const ledger = dynamoDbLedger({ ...table, client, clock, sleep });
    return { time, clock, wire, ledger, sub: `tenant ${randomUUID()}` };
  }

  it('once more for the first request of some seconds, and twice as ever for each of the others', async () => {
    const { time, clock, wire, ledger, sub } = wired();
    const { call } = stage(ledger, async () => created(), { ...transactional, clock });
    const fresh = async () => {
      await call(post({ key: randomUUID(), sub }));
      return wire.takeNames();
    };
    expect(await fresh()).toEqual(['GetItem', 'PutItem', 'UpdateItem']);
    expect(wire.sent[0]?.input).not.toHaveProperty('ConsistentRead');
    expect(await fresh()).toEqual(['PutItem', 'UpdateItem']);
    time.now += schedule.quotaCacheMs - 1;
    expect(await fresh()).toEqual(['PutItem', 'UpdateItem']);
    time.now += 1;
    expect(await fresh()).toEqual(['GetItem', 'PutItem', 'UpdateItem']);
  });

  it('once by requests of one tenant that come together', async () => {
    const { clock, wire, ledger, sub } = wired();
    const { call } = stage(ledger, async () => created(), { ...transactional, clock });
    await Promise.all(Array.from({ length: 5 }, () => call(post({ key: randomUUID(), sub }))));
    expect(wire.takeNames().filter((name) => name === 'GetItem')).toHaveLength(1);
  });

  it('without a write for who is turned away', async () => {
    const { clock, wire, ledger, sub } = wired();
    await flagged(ledger as Ledger<unknown>, sub, START);
    wire.takeNames();
    const { call } = stage(ledger, async () => created(), { ...transactional, clock });
    for (let request = 0; request < 2; request += 1) await call(post({ key: randomUUID(), sub }));
    expect(wire.takeNames()).toEqual(['GetItem', 'GetItem', 'GetItem']);
  });

  it('not at all for a quota that is off, as it is by default', async () => {
    const { clock, wire, ledger, sub } = wired();
    await flagged(ledger as Ledger<unknown>, sub, START);
    wire.takeNames();
    const { call } = stage(ledger, async () => created(), { effects: 'transactional', clock });
    expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(201);
    expect(wire.takeNames()).toEqual(['PutItem', 'UpdateItem']);
  });

  it('for a flag no longer than a moment: a read that is not answered costs the request that, and no more', async () => {
    const { time, clock, wire, ledger, sub } = wired();
    wire.follow(({ name }) => (name === 'GetItem' ? neverArrived : undefined));
    const { call, logged } = stage(ledger, async () => created(), { ...transactional, clock });
    expect((await call(post({ key: randomUUID(), sub }))).statusCode).toBe(201);
    expect(time.now - START).toBeLessThanOrEqual(schedule.quotaReadMs);
    expect(logged).toContainEqual(
      expect.objectContaining({ decision: 'quota_unread', reason: 'StoreUnavailable' }),
    );
  });
});

it('a ledger that does not count is refused at the start, where a quota is asked for', () => {
  const { quotas: _, ...own } = memoryLedger();
  const start = (quota: unknown) => () =>
    stage(own as Ledger<unknown>, async () => created(), { ...transactional, quota: quota as boolean });
  expect(start(true)).toThrow(
    'idempotency(): quota needs a ledger that counts keys, as dynamoDbLedger() and memoryLedger() do',
  );
  expect(start(false)).not.toThrow();
  expect(start({ newKeysPerMinute: 5 })).toThrow('expected true or false');
  const options = { ledger: own, operation: 'x', tenant: () => 't', key: () => 'k' } as never;
  expect(() => protect(async () => {}, { ...(options as object), quota: true } as never)).toThrow(
    'protect(): quota needs a ledger',
  );
});
