import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { protect } from '../../lib/middleware/protect.ts';
import { emfSink, type Sample } from '../../lib/observe/metrics.ts';
import { post, stage } from './stage.ts';
import { clocked, counter, created, slow } from './work.ts';

const transactional = { effects: 'transactional' } as const;
const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

/** The counts of the last sample; how long something took is looked at elsewhere. */
function counts(measured: readonly Sample[]): Record<string, number> {
  const entries = Object.entries(measured.at(-1)?.metrics ?? {});
  return Object.fromEntries(entries.filter(([name]) => !name.endsWith('_ms')));
}

describe('each request is counted as what became of it', () => {
  it('a new key, and its replay', async () => {
    const { call, measured } = stage(memoryLedger(), counter().handler);
    const key = randomUUID();
    await call(post({ key }));
    expect(counts(measured.slice(0, 1))).toEqual({ 'reserve.created.count': 1 });
    await call(post({ key }));
    expect(counts(measured)).toEqual({ 'reserve.replay.count': 1 });
  });

  it('a key with another body', async () => {
    const { call, measured, logged } = stage(memoryLedger(), counter().handler);
    const key = randomUUID();
    await call(post({ key }));
    await call(post({ key, body: { amount: 9 } }));
    expect(counts(measured)).toEqual({ 'reserve.key_misuse.count': 1 });
    expect(logged.at(-1)).toMatchObject({ level: 'info', decision: 'misuse' });
  });

  it('a duplicate of what is still being delivered', async () => {
    const { call, measured, logged } = stage(memoryLedger(), async (_, { once }) => {
      once.emit({ type: 'charge', payload: {} });
      once.defer();
      return { statusCode: 202, headers: { location: '/payments/1' }, body: '' };
    });
    const key = randomUUID();
    await call(post({ key }));
    expect(logged.at(-1)).toMatchObject({ level: 'info', decision: 'accepted' });
    await call(post({ key }));
    expect(counts(measured)).toEqual({ 'reserve.replay.count': 1 });
    expect(logged.at(-1)).toMatchObject({ level: 'info', decision: 'pending' });
  });

  it('a duplicate in flight', async () => {
    const work = slow();
    const { call, measured } = stage(memoryLedger(), work.handler);
    const key = randomUUID();
    const first = call(post({ key }));
    await work.started;
    await call(post({ key }));
    expect(counts(measured)).toEqual({ 'reserve.in_progress.count': 1 });
    work.resume();
    await first;
  });

  it('a second attempt after a failure', async () => {
    const work = counter((run) => (run === 1 ? Promise.reject(new Error('declined')) : created()));
    const { call, measured } = stage(memoryLedger(), work.handler);
    const key = randomUUID();
    await call(post({ key })).catch(() => undefined);
    await call(post({ key }));
    expect(measured.map(({ metrics }) => Object.keys(metrics)[0])).toEqual([
      'reserve.created.count',
      'reserve.failed_retry.count',
      'execute.latency_ms',
    ]);
  });

  it('an attempt that takes an abandoned one over', async () => {
    const { clock, pass, ledger } = clocked();
    const work = slow();
    const { call, measured } = stage(ledger, work.handler, { ...transactional, clock });
    const key = randomUUID();
    const abandoned = call(post({ key }));
    await work.started;
    pass(60_000);
    await call(post({ key }));
    const made = measured.flatMap(({ metrics }) => Object.keys(metrics)).filter((name) => /count/.test(name));
    expect(made).toEqual(['reserve.created.count', 'zombie_key.count']);
    work.resume();
    await abandoned;
  });

  it('an outcome that becomes unknown, and a request that finds it so', async () => {
    const work = counter(() => Promise.reject(new Error('timeout')));
    const { call, measured, logged } = stage(memoryLedger(), work.handler, opaque);
    const key = randomUUID();
    await call(post({ key })).catch(() => undefined);
    expect(counts(measured)).toEqual({ 'reconcile.scheduled.count': 1 });
    expect(logged.at(-1)).toMatchObject({ level: 'warn', decision: 'unknown', reason: 'Error' });
    await call(post({ key }));
    expect(counts(measured)).toEqual({ 'reserve.unknown.count': 1 });
  });

  it('a store that does not answer, or refuses', async () => {
    for (const error of [new StoreUnavailable('silence'), new StoreRefused('no permission')]) {
      const reserve = () => Promise.reject(error);
      const { call, measured, logged } = stage({ ...memoryLedger(), reserve }, counter().handler);
      expect((await call(post({ key: randomUUID() }))).statusCode).toBe(503);
      expect(counts(measured)).toEqual({ 'store.error.count': 1 });
      expect(logged).toMatchObject([{ level: 'error', decision: 'unavailable', reason: error.name }]);
    }
  });

  it('a failure that could not be written down', async () => {
    const release = () => Promise.reject(new StoreUnavailable('silence'));
    const { call, measured, logged } = stage({ ...memoryLedger(), release }, () =>
      Promise.reject(new Error('declined')),
    );
    await call(post({ key: randomUUID() })).catch(() => undefined);
    expect(counts(measured)).toEqual({ 'store.error.count': 1 });
    expect(logged.at(-1)).toMatchObject({ level: 'warn', decision: 'open', reason: 'Error' });
  });

  it('too little time, which is no failure of the store', async () => {
    const { call, measured, logged } = stage(memoryLedger(), counter().handler);
    expect((await call(post({ key: randomUUID() }), 999)).statusCode).toBe(503);
    expect(counts(measured)).toEqual({});
    expect(logged).toMatchObject([{ level: 'warn', decision: 'unavailable', reason: 'too_late' }]);
  });

  it('a refusal before there is a record: one line, and neither key nor tenant', async () => {
    const validate = () => [{ pointer: '#', detail: 'no' }];
    const { call, measured, logged } = stage(memoryLedger(), counter().handler, {
      ...transactional,
      validate,
    });
    await call(post({}));
    await call(post({ key: '"half' }));
    await call(post({ key: randomUUID() }));
    expect(logged.map(({ decision, tenant, operationRef }) => [decision, tenant, operationRef])).toEqual([
      ['key_missing', '-', '-'],
      ['key_malformed', '-', '-'],
      ['validation_failed', '-', '-'],
    ]);
    expect(measured).toEqual([]);
  });
});

describe('the time that it took', () => {
  it('to reserve, to run and to complete is told apart', async () => {
    const { clock, pass, ledger } = clocked();
    const { call, measured } = stage(
      {
        ...ledger,
        reserve(...args) {
          pass(30);
          return ledger.reserve(...args);
        },
        complete(...args) {
          pass(7);
          return ledger.complete(...args);
        },
      },
      async () => {
        pass(200);
        return created();
      },
      { ...transactional, clock },
    );
    const key = randomUUID();
    await call(post({ key }));
    await call(post({ key }));
    expect(measured.map(({ metrics }) => metrics)).toEqual([
      { 'reserve.created.count': 1, 'reserve.latency_ms': 30 },
      { 'execute.latency_ms': 200, 'complete.latency_ms': 7 },
      { 'reserve.replay.count': 1, 'reserve.latency_ms': 30 },
    ]);
  });
});

describe('what metrics are counted under', () => {
  const labels = async (paths: readonly string[], route: string, options = {}) => {
    const lines: string[] = [];
    const metrics = emfSink((line) => lines.push(line));
    const { call } = stage(memoryLedger(), counter().handler, { ...transactional, metrics, ...options });
    for (const path of paths) await call({ ...post({ key: randomUUID(), path }), routeKey: route });
    return [...new Set(lines.map((line) => JSON.parse(line).operation))];
  };
  const paths = ['/payments/1/refund', '/payments/2/refund', `/${'x'.repeat(2_000)}`];

  it('is the route, whatever the path', async () => {
    expect(await labels(paths, 'POST /payments/{id}/refund')).toEqual(['POST /payments/{id}/refund']);
  });

  it('is never a path that the caller chose: every new one would be a metric, and billed', async () => {
    expect(await labels(paths, '$default')).toEqual(['POST (any path)']);
  });

  it('is the path where the options name it, or what the resolver says', async () => {
    expect(await labels(['/pay', '/other'], '$default', { operations: { 'POST /pay': {} } })).toEqual([
      'POST /pay',
      'POST (any path)',
    ]);
    expect(await labels(paths, '$default', { operation: () => 'refund' })).toEqual(['refund']);
  });
});

describe('a listener that fails', () => {
  const fails = () => {
    throw new Error('the collector is away');
  };
  const rejects = (async () => fails()) as () => never;

  it('breaks no payment, leaves no key to an operator and no rejection unhandled', async () => {
    const unhandled: unknown[] = [];
    const listen = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', listen);
    for (const listener of [fails, rejects]) {
      const work = counter();
      const { call } = stage(memoryLedger(), work.handler, { ...opaque, log: listener, metrics: listener });
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(201);
      expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
      expect(work.runs).toBe(1);
    }
    await new Promise((resolve) => setImmediate(resolve));
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
  });

  it('breaks no call of a protected function', async () => {
    for (const listener of [fails, rejects]) {
      const charge = protect(async () => 'paid', {
        ...{ ledger: memoryLedger(), operation: 'charge', tenant: () => 'customer-1' },
        ...{ key: (id: string) => id, ...opaque, log: listener, metrics: listener },
      });
      expect([await charge('order-1'), await charge('order-1')]).toEqual(['paid', 'paid']);
    }
  });
});

describe('the breaker', () => {
  /** A store that fails as told, one word per request, and says how often it was asked. */
  const outage = (script: string) => {
    const { clock, pass, ledger } = clocked();
    let asked = 0;
    const { call } = stage(
      {
        ...ledger,
        reserve(...args) {
          asked += 1;
          return script[asked - 1] === 'x'
            ? Promise.reject(new StoreUnavailable('silence'))
            : ledger.reserve(...args);
        },
      },
      counter().handler,
      { ...transactional, clock },
    );
    const send = async () => (await call(post({ key: randomUUID() }))).statusCode;
    return { send, pass, call, asked: () => asked };
  };
  const sendAll = async (send: () => Promise<number>, times: number) => {
    const answers: number[] = [];
    for (let request = 0; request < times; request += 1) answers.push(await send());
    return answers;
  };

  it('counts failures in a row only: a success in between starts anew', async () => {
    const { send, asked } = outage('xxxx.xxxx.');
    expect(await sendAll(send, 10)).toEqual([503, 503, 503, 503, 201, 503, 503, 503, 503, 201]);
    expect(asked()).toBe(10);
  });

  it('says how long it stays open, and is no failure of the next five when it closes', async () => {
    const { send, pass, call, asked } = outage('xxxxxxxxx.');
    await sendAll(send, 5);
    pass(1_500);
    expect((await call(post({ key: randomUUID() }))).headers['Retry-After']).toBe('4');
    expect(asked()).toBe(5);
    pass(3_500);
    expect(await sendAll(send, 5)).toEqual([503, 503, 503, 503, 201]);
  });

  it('does not take a refusal for silence: each request is told', async () => {
    let asked = 0;
    const reserve = () => {
      asked += 1;
      return Promise.reject(new StoreRefused('no permission'));
    };
    const { call } = stage({ ...memoryLedger(), reserve }, counter().handler);
    for (let request = 0; request < 7; request += 1) await call(post({ key: randomUUID() }));
    expect(asked).toBe(7);
  });

  it('counts completions that were lost as well', async () => {
    let asked = 0;
    const memory = memoryLedger();
    const silence = () => Promise.reject(new StoreUnavailable('silence'));
    const { call } = stage(
      {
        ...memory,
        reserve(...args) {
          asked += 1;
          return asked > 1 ? silence() : memory.reserve(...args);
        },
        complete: silence,
        read: silence,
      },
      counter().handler,
    );
    for (let request = 0; request < 7; request += 1) await call(post({ key: randomUUID() }));
    expect(asked).toBe(5);
  });
});
