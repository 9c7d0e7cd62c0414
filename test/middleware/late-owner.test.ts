import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { InProgress, Unknown } from '../../lib/core/record.ts';
import { NotExecuted } from '../../lib/effects/errors.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotent } from '../../lib/middleware/idempotent.ts';
import { pkOf, post, stage } from './stage.ts';
import { clocked, created, START, slow } from './work.ts';

const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

afterEach(() => {
  vi.useRealTimers();
});

describe('a late owner', () => {
  it('answers from the record that another attempt completed, not from its own memory', async () => {
    const { clock, pass, ledger } = clocked();
    const work = slow((run) => created(`"attempt ${run}"`));
    const { call, measured } = stage(ledger, work.handler, { effects: 'transactional', clock });
    const key = randomUUID();
    const late = call(post({ key }));
    await work.started;
    pass(60_000);
    expect((await call(post({ key }))).body).toBe('"attempt 2"');
    work.resume();
    expect(await late).toMatchObject({ statusCode: 201, body: '"attempt 2"' });
    expect(measured.at(-1)?.metrics['fenced']).toBe(1);
  });

  it('that throws answers from that record as well: its own failure is not what became of the payment', async () => {
    const { clock, pass, ledger } = clocked();
    const work = slow((run) => {
      if (run === 1) throw new Error('the late one failed');
      return created();
    });
    const { call, measured, logged } = stage(ledger, work.handler, { effects: 'transactional', clock });
    const key = randomUUID();
    const late = call(post({ key }));
    await work.started;
    pass(60_000);
    expect((await call(post({ key }))).statusCode).toBe(201);
    work.resume();
    expect(await late).toMatchObject({ statusCode: 201, body: '"paid"' });
    expect(measured.at(-1)?.metrics).toEqual({ fenced: 1 });
    expect(logged.at(-1)).toMatchObject({ decision: 'fenced_replay', reason: 'Error' });
  });

  it('whose successor still runs is told so, not what it remembers', async () => {
    const { clock, pass, ledger } = clocked();
    const second = slow();
    const work = slow((run) => (run === 2 ? second.handler() : created()));
    const { call } = stage(ledger, work.handler, { effects: 'transactional', clock });
    const key = randomUUID();
    const late = call(post({ key }));
    await work.started;
    pass(60_000);
    const successor = call(post({ key }));
    await second.started;
    work.resume();
    expect(JSON.parse((await late).body)).toMatchObject({ code: 'in_progress', retry: 'same-key' });
    second.resume();
    expect((await successor).statusCode).toBe(201);
  });

  it('answers with what a resolver found, however alike its own answer is, and keeps nothing else in memory', async () => {
    const { clock, ledger } = clocked();
    const key = randomUUID();
    const reply = {
      status: 201,
      headers: [['content-type', 'text/plain']],
      body: new Uint8Array(Buffer.from('found')),
      base64: false,
    } as const;
    const handler = async () => {
      const mine = (await ledger.read(pkOf(key))) as InProgress;
      const due = { shard: 'due#0', at: START };
      const given = await ledger.markUnknown(mine, { now: START, errorCode: 'deadline', due });
      const expiry = { expiresAt: START + 86_400_000, ttl: START / 1_000 + 90_000 };
      await ledger.settle(given.record as Unknown, { to: 'completed', reply, now: START, ...expiry });
      return { statusCode: 201, headers: { 'content-type': 'text/plain' }, body: 'knows' };
    };
    const { call } = stage(ledger, handler, { ...opaque, cache: true, clock });
    const answers = [await call(post({ key })), await call(post({ key }))];
    expect(answers.map(({ body }) => body)).toEqual(['found', 'found']);
  });

  it('that was only given up knows better, and the record takes its word', async () => {
    const { clock, ledger } = clocked();
    const key = randomUUID();
    const handler = async () => {
      const mine = (await ledger.read(pkOf(key))) as InProgress;
      const due = { shard: 'due#0', at: START };
      await ledger.markUnknown(mine, { now: START, errorCode: 'deadline', due });
      return created();
    };
    const { call, measured } = stage(ledger, handler, { ...opaque, clock });
    expect((await call(post({ key }))).statusCode).toBe(201);
    expect(measured.at(-1)?.metrics).not.toHaveProperty('fenced');
    expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
  });

  it('with steps that was given up is not believed: its events could not come along', async () => {
    for (const [where, says] of [
      [
        { shard: 'due#0', at: START + 45_000 },
        { retry: 'same-key', retryAfter: 45 },
      ],
      [{ shard: 'parked#0', at: START, parkedAt: START }, { retry: 'never' }],
    ] as const) {
      const { clock, ledger } = clocked();
      const key = randomUUID();
      const { call } = stage(
        ledger,
        async (_, { once }) => {
          once.emit({ type: 'charged', payload: {} });
          const mine = (await ledger.read(pkOf(key))) as InProgress;
          await ledger.markUnknown(mine, { now: START, errorCode: 'open_effect', due: where });
          return created();
        },
        { effects: 'steps', onUnknown: 'park', clock },
      );
      const answer = await call(post({ key }));
      expect(JSON.parse(answer.body)).toMatchObject({ code: 'outcome_unknown', ...says });
      expect((await ledger.read(pkOf(key)))?.status).toBe('unknown');
    }
  });

  it('whose key is free again by now cannot say anything, and says to ask again', async () => {
    const { clock, pass, ledger } = clocked();
    const key = randomUUID();
    const handler = async () => {
      pass(60_000);
      const expiry = { expiresAt: clock() + 86_400_000, ttl: clock() / 1_000 + 90_000 };
      const target = { to: 'failed_retryable', now: clock(), errorCode: 'lapsed', skewMs: 0 } as const;
      await ledger.lapse((await ledger.read(pkOf(key))) as InProgress, { ...target, ...expiry });
      return created();
    };
    const { call } = stage(ledger, handler, { effects: 'transactional', clock });
    expect(JSON.parse((await call(post({ key }))).body)).toMatchObject({ code: 'store_unavailable' });
  });
});

describe('a handler near its deadline', () => {
  it('that says that nothing has happened frees its key, opaque as it is', async () => {
    vi.useFakeTimers();
    const ledger = memoryLedger();
    const { call } = stage(
      ledger,
      (_, { once }) =>
        new Promise((_resolve, reject) => {
          once.signal.addEventListener('abort', () => reject(new NotExecuted('not sent yet')));
        }),
      opaque,
    );
    const key = randomUUID();
    const stopped = expect(call(post({ key }), 10_000)).rejects.toThrow('not sent yet');
    await vi.advanceTimersByTimeAsync(9_250);
    await stopped;
    vi.useRealTimers();
    expect((await ledger.read(pkOf(key)))?.status).toBe('failed_retryable');
  });

  it('is not given up if it is transactional: nothing of it can have happened yet', async () => {
    vi.useFakeTimers();
    const ledger = memoryLedger();
    const work = slow();
    const { call, measured } = stage(ledger, work.handler, { effects: 'transactional' });
    const key = randomUUID();
    const running = call(post({ key }), 10_000);
    await vi.advanceTimersByTimeAsync(9_900);
    expect((await ledger.read(pkOf(key)))?.status).toBe('in_progress');
    work.resume();
    expect((await running).statusCode).toBe(201);
    vi.useRealTimers();
    expect(measured.flatMap(({ metrics }) => Object.keys(metrics))).not.toContain(
      'reconcile.scheduled.count',
    );
  });

  it('is given up and counted for reconciliation if it is opaque', async () => {
    vi.useFakeTimers();
    const work = slow();
    const { call, measured, logged } = stage(memoryLedger(), work.handler, opaque);
    const running = call(post({ key: randomUUID() }), 10_000);
    await vi.advanceTimersByTimeAsync(9_500);
    expect(measured.at(-1)?.metrics).toEqual({ 'reconcile.scheduled.count': 1 });
    expect(logged.at(-1)).toMatchObject({ level: 'warn', decision: 'given_up', attempt: 1 });
    work.resume();
    await running;
  });

  it('that cannot be called unknown goes on, and that is told', async () => {
    vi.useFakeTimers();
    const work = slow();
    const markUnknown = () => Promise.reject(new StoreUnavailable('silence'));
    const { call, logged } = stage({ ...memoryLedger(), markUnknown }, work.handler, opaque);
    const running = call(post({ key: randomUUID() }), 10_000);
    await vi.advanceTimersByTimeAsync(9_500);
    expect(logged.at(-1)).toMatchObject({ decision: 'give_up_failed', reason: 'StoreUnavailable' });
    work.resume();
    expect((await running).statusCode).toBe(201);
  });
});

describe('an attempt', () => {
  it('owns its key until the end of the function, and a margin for a write already on its way', async () => {
    const { clock, ledger } = clocked();
    const leases: unknown[] = [];
    const key = randomUUID();
    const { call } = stage(
      ledger,
      async () => {
        leases.push(((await ledger.read(pkOf(key))) as InProgress).leaseUntil);
        return created();
      },
      { effects: 'transactional', clock },
    );
    await call(post({ key }), 10_000);
    expect(leases).toEqual([START + 10_000 + 5_000]);
  });

  it('has as much time as API Gateway waits where the context does not say how much is left', async () => {
    const contexts = [{}, { getRemainingTimeInMillis: () => Number.NaN }, { getRemainingTimeInMillis: 5 }];
    for (const context of contexts) expect(await leaseMsIn(context)).toBe(29_000 + 5_000);
  });

  it('asks its context for the time as a method of it', async () => {
    class Runtime {
      readonly #leftMs = 7_000;
      getRemainingTimeInMillis() {
        return this.#leftMs;
      }
    }
    expect(await leaseMsIn(new Runtime())).toBe(7_000 + 5_000);
  });

  async function leaseMsIn(context: object): Promise<number> {
    const { clock, ledger } = clocked();
    const key = randomUUID();
    let leaseUntil = 0;
    const handler = idempotent(
      async () => {
        leaseUntil = ((await ledger.read(pkOf(key))) as InProgress).leaseUntil;
        return created();
      },
      { ledger, tenant: jwtClaim('sub'), log: () => {}, metrics: () => {}, ...opaque, clock },
    );
    await handler(post({ key }), context as never);
    return leaseUntil - START;
  }

  it('that failed is remembered for as long as its result would have been', async () => {
    const { clock, ledger } = clocked();
    const options = { effects: 'transactional', retentionSeconds: 7_200, clock } as const;
    const { call } = stage(ledger, () => Promise.reject(new Error('declined')), options);
    const key = randomUUID();
    await call(post({ key })).catch(() => undefined);
    expect(await ledger.read(pkOf(key))).toMatchObject({
      status: 'failed_retryable',
      expiresAt: START + 7_200_000,
    });
  });

  it('that failed says in its record how', async () => {
    const ends: readonly (readonly [errorCode: string, status: string, end: () => unknown])[] = [
      ['handler_threw', 'unknown', () => Promise.reject(new Error('timeout'))],
      ['not_executed', 'failed_retryable', () => Promise.reject(new NotExecuted('not sent'))],
      ['status_503', 'unknown', () => ({ statusCode: 503, headers: {}, body: '' })],
      ['status_429', 'failed_retryable', () => ({ statusCode: 429, headers: {}, body: '' })],
    ];
    for (const [errorCode, status, end] of ends) {
      const ledger = memoryLedger();
      const { call } = stage(ledger, async () => end(), opaque);
      const key = randomUUID();
      await call(post({ key })).catch(() => undefined);
      expect(await ledger.read(pkOf(key))).toMatchObject({ status, errorCode });
    }
  });
});
