import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import { pkOf, post, type Result, stage } from './stage.ts';
import { clocked, counter, created, START, slow } from './work.ts';

const transactional = { effects: 'transactional' } as const;
const codeOf = ({ body }: Result): unknown => JSON.parse(body).code;

function counted(options: Partial<IdempotencyOptions>, end?: Parameters<typeof counter>[0]) {
  const work = counter(end);
  const ledger = memoryLedger();
  return { ...stage(ledger, work.handler, { ...transactional, ...options }), work, ledger };
}

describe('the key', () => {
  it('is read as the mode says', async () => {
    const key = randomUUID();
    const ietf = counted({ keyMode: 'ietf' });
    expect(codeOf(await ietf.call(post({ key })))).toBe('key_malformed');
    expect((await ietf.call(post({ key: `"${key}"` }))).statusCode).toBe(201);
    const bare = counted({ keyMode: 'bare' });
    await bare.call(post({ key }));
    expect((await bare.call(post({ key: `"${key}"` }))).headers).not.toHaveProperty('Idempotent-Replayed');
    expect([ietf.work.runs, bare.work.runs]).toEqual([1, 2]);
  });

  it('is refused if it is shorter than asked for', async () => {
    const { call, work } = counted({ minKeyLength: 16 });
    expect(codeOf(await call(post({ key: 'k'.repeat(15) })))).toBe('key_malformed');
    expect(work.runs).toBe(0);
    expect((await call(post({ key: 'k'.repeat(16) }))).statusCode).toBe(201);
  });
});

describe('what a request asks for', () => {
  it('includes the headers that were named, in any case, and no others', async () => {
    const { call, work } = counted({ fingerprintHeaders: ['X-Account'] });
    const key = randomUUID();
    const from = (account: string, trace: string) =>
      call(post({ key, headers: { 'x-account': account, 'x-trace': trace } }));
    await from('a', '1');
    expect((await from('a', '2')).headers['Idempotent-Replayed']).toBe('true');
    expect(codeOf(await from('b', '1'))).toBe('key_reused');
    expect(work.runs).toBe(1);
  });

  it('includes the content type', async () => {
    const { call } = counted({});
    const key = randomUUID();
    await call(post({ key }));
    expect(codeOf(await call(post({ key, headers: { 'content-type': 'text/plain' } })))).toBe('key_reused');
  });
});

describe('what is stored', () => {
  it('has the headers that were named, and the first caller gets all', async () => {
    const headers = { 'X-Request-Cost': '3', 'x-trace': 'abc', location: '/payments/1' };
    const { call } = counted({ storedHeaders: ['x-request-cost'] }, () => created('{}', headers));
    const key = randomUUID();
    expect((await call(post({ key }))).headers).toMatchObject(headers);
    const replay = await call(post({ key }));
    expect(replay.headers).toMatchObject({ 'X-Request-Cost': '3', 'Idempotent-Replayed': 'true' });
    expect(replay.headers).not.toHaveProperty('x-trace');
    expect(replay.headers).not.toHaveProperty('location');
  });
});

describe('the operation', () => {
  it('is what the resolver says: a key belongs to it on every path, with its own policy', async () => {
    const { call, ledger } = counted({
      operation: ({ path }) => (path.startsWith('/pay') ? 'pay' : 'refund'),
      operations: { pay: { retentionSeconds: 7_200 } },
      clock: () => START,
    });
    const key = randomUUID();
    await call(post({ key, path: '/pay/1' }));
    expect(codeOf(await call(post({ key, path: '/pay/2' })))).toBe('key_reused');
    expect((await call(post({ key, path: '/refund/1' }))).statusCode).toBe(201);
    const expiryOf = async (operation: string) =>
      ((await ledger.read(scopePk({ tenant: 'tenant-1', operation, key }))) as { expiresAt?: number })
        ?.expiresAt;
    expect(await expiryOf('pay')).toBe(START + 7_200_000);
    expect(await expiryOf('refund')).toBe(START + 86_400_000);
  });

  it('without a name does not run: nobody shares an empty one', async () => {
    for (const nothing of ['', '  ', undefined, 5]) {
      const { call, work } = counted({ operation: (() => nothing) as () => string });
      await expect(call(post({ key: randomUUID() }))).rejects.toThrow(InvalidArgument);
      await expect(call(post({ key: randomUUID() }))).rejects.toThrow(/The operation resolver returned/);
      expect(work.runs).toBe(0);
    }
  });
});

describe('an operation', () => {
  it("does not run under the name of a provider's events, which no quota counts", async () => {
    const { call, work } = counted({ operation: () => 'WEBHOOK bank' });
    await expect(call(post({ key: randomUUID() }))).rejects.toThrow(/does not begin with WEBHOOK/);
    expect(work.runs).toBe(0);
  });
});

describe('the tenant', () => {
  it('that is only the text of a missing one does not run: callers would share their keys', async () => {
    for (const nothing of ['undefined', 'null', 'NaN', '[object Object]', ' ']) {
      const { call, work } = counted({ tenant: () => nothing });
      await expect(call(post({ key: randomUUID() }))).rejects.toThrow(/found no tenant/);
      expect(work.runs).toBe(0);
    }
  });
});

describe('a validation', () => {
  it('that returns anything but a list of faults is a mistake, and nothing runs', async () => {
    for (const result of [true, 'amount is missing', { valid: false }]) {
      const { call, work } = counted({ validate: (() => result) as never });
      await expect(call(post({ key: randomUUID() }))).rejects.toThrow(
        /validate returned .*; expected a list/,
      );
      expect(work.runs).toBe(0);
    }
  });

  it('that returns nothing has found nothing', async () => {
    const { call } = counted({ validate: () => undefined });
    expect((await call(post({ key: randomUUID() }))).statusCode).toBe(201);
  });
});

describe('an option of one operation', () => {
  it('that is there without a value does not hide the one of all', async () => {
    const { clock, pass, ledger } = clocked();
    const work = counter();
    const operations = { 'POST /payments': { afterExpiry: undefined } } as never;
    const { call } = stage(ledger, work.handler, {
      ...{ ...transactional, afterExpiry: 'gone', operations, clock },
    });
    const key = randomUUID();
    await call(post({ key }));
    pass(86_402_000);
    expect(codeOf(await call(post({ key })))).toBe('key_expired');
    expect(work.runs).toBe(1);
  });
});

describe('a deferred answer', () => {
  it("keeps the handler's own Retry-After, once, for its caller and every duplicate", async () => {
    const { call } = stage(memoryLedger(), async (_, { once }) => {
      once.emit({ type: 'charge', payload: {} });
      once.defer();
      return { statusCode: 202, headers: { location: '/payments/1', 'retry-after': '30' }, body: '' };
    });
    const key = randomUUID();
    for (const { headers } of [await call(post({ key })), await call(post({ key }))]) {
      const given = Object.entries(headers).filter(([name]) => name.toLowerCase() === 'retry-after');
      expect(given).toEqual([['retry-after', '30']]);
    }
  });
});

describe('duplicates that wait', () => {
  /** Whatever can go on without time passing has gone on. */
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  /** Each sleep ends when the test lets that much time pass, as it would by a clock on the wall. */
  function sleepers() {
    const { clock, pass, ledger } = clocked();
    const asleep = new Set<{ readonly until: number; wake(): void }>();
    const slept: number[] = [];
    return {
      clock,
      ledger,
      asleep,
      slept,
      sleep(ms: number) {
        slept.push(ms);
        return new Promise<void>((wake) => {
          asleep.add({ until: clock() + ms, wake });
        });
      },
      /** To when the next one wakes up. */
      async next() {
        const at = Math.min(...[...asleep].map(({ until }) => until));
        pass(at - clock());
        for (const sleeper of [...asleep].filter(({ until }) => until <= at)) {
          asleep.delete(sleeper);
          sleeper.wake();
        }
        await settled();
      },
    };
  }

  it("a hundred at once get the winner's response before their time is over, from one execution", async () => {
    const { clock, ledger, asleep, sleep, next } = sleepers();
    const work = slow(() => created('"won"'));
    const wait = { inFlight: 'wait', waitMs: 2_000 } as const;
    const { call } = stage(ledger, work.handler, { ...transactional, ...wait, clock, sleep });
    const key = randomUUID();
    const answeredAt: number[] = [];
    const answers = Promise.all(
      Array.from({ length: 100 }, async () => {
        const answer = await call(post({ key }));
        answeredAt.push(clock());
        return answer;
      }),
    );
    await work.started;
    while (clock() < START + 500) await next();
    expect(asleep.size).toBe(99);
    work.resume();
    while (answeredAt.length < 1) await settled(); // The winner; the others have not looked again yet.
    expect(asleep.size).toBe(99);
    while (answeredAt.length < 100) await next();
    const replies = await answers;
    expect(work.runs).toBe(1);
    expect(new Set(replies.map(({ statusCode, body }) => `${statusCode} ${body}`))).toEqual(
      new Set(['201 "won"']),
    );
    expect(replies.filter(({ headers }) => headers['Idempotent-Replayed'] === 'true')).toHaveLength(99);
    expect(Math.max(...answeredAt)).toBeLessThan(START + 2_000);
  });

  it('for a winner that takes longer look ever less often, and are told 409 exactly when their time is over', async () => {
    const { clock, ledger, sleep, slept, next } = sleepers();
    const work = slow();
    const wait = { inFlight: 'wait', waitMs: 2_000 } as const;
    const { call } = stage(ledger, work.handler, { ...transactional, ...wait, clock, sleep });
    const key = randomUUID();
    const first = call(post({ key }));
    await work.started;
    let over = 0;
    const second = call(post({ key })).finally(() => {
      over = clock();
    });
    await settled();
    while (over === 0) await next();
    expect(codeOf(await second)).toBe('in_progress');
    expect(over).toBe(START + 2_000);
    expect(slept).toEqual([50, 100, 200, 400, 800, 450]);
    work.resume();
    expect((await first).statusCode).toBe(201);
    expect((await ledger.read(pkOf(key)))?.attempt).toBe(1);
  });
});
