import { randomUUID } from 'node:crypto';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import type { Reply } from '../../lib/core/record.ts';
import { WritesRefused } from '../../lib/effects/errors.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { pkOf, post, stage } from './stage.ts';
import { START } from './work.ts';

afterEach(() => {
  vi.useRealTimers();
});

const created = async () => ({ statusCode: 201, headers: {}, body: '"paid"' });
const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

/** The store takes the completing write, or does not, and then says nothing. */
function silentAfter(write: 'happened' | 'did not happen', reads: 'answer' | 'are silent'): Ledger<unknown> {
  const ledger = memoryLedger();
  const silence = () => Promise.reject(new StoreUnavailable('silence'));
  return {
    ...ledger,
    async complete(...args) {
      if (write === 'happened') await ledger.complete(...args);
      return silence();
    },
    read: reads === 'answer' ? ledger.read : silence,
  };
}

describe('a store that falls silent after the handler has succeeded', () => {
  for (const options of [{ effects: 'transactional' } as const, opaque]) {
    it(`never makes the caller believe what the record may not say (${options.effects})`, async () => {
      for (const write of ['happened', 'did not happen'] as const) {
        const { call, measured } = stage(silentAfter(write, 'are silent'), created, options);
        const answer = await call(post({ key: randomUUID() }));
        expect(answer.statusCode).toBe(503);
        expect(JSON.parse(answer.body)).toMatchObject({ code: 'store_unavailable', retry: 'same-key' });
        expect(measured.at(-1)?.metrics['store.error.count']).toBe(1);
      }
    });

    it(`is asked again, and the record answers (${options.effects})`, async () => {
      const { call } = stage(silentAfter('happened', 'answer'), created, options);
      expect(await call(post({ key: randomUUID() }))).toMatchObject({ statusCode: 201, body: '"paid"' });
    });

    it(`leaves the record in progress if the write was lost (${options.effects})`, async () => {
      let runs = 0;
      const { call } = stage(
        silentAfter('did not happen', 'answer'),
        async () => {
          runs += 1;
          return created();
        },
        options,
      );
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(503);
      expect((await call(post({ key }))).statusCode).toBe(409);
      expect(runs).toBe(1);
    });
  }

  for (const options of [{ effects: 'transactional' } as const, opaque]) {
    it(`is given up in time to say so before Lambda ends the function (${options.effects})`, async () => {
      let now = START;
      const clock = () => now;
      const asked: string[] = [];
      /** Takes all the time that it is given, and says nothing. */
      const silence = (what: string, until: number | undefined) => {
        asked.push(what);
        now = Math.max(now, until ?? Number.POSITIVE_INFINITY);
        return Promise.reject(new StoreUnavailable('silence'));
      };
      const ledger: Ledger<unknown> = {
        ...memoryLedger({ clock }),
        complete: (_mine, _outcome, _writes, call) => silence('complete', call?.until),
        read: (_pk, call) => silence('read', call?.until),
      };
      const { call } = stage(ledger, created, { ...options, clock });
      const answer = await call(post({ key: randomUUID() }), 1_500);
      expect(answer.statusCode).toBe(503);
      expect(asked).toEqual(['complete', 'read']);
      expect(START + 1_500 - now, 'is left to answer').toBe(100);
    });

    it(`is asked for a second more by a handler that ended after its deadline (${options.effects})`, async () => {
      let now = START;
      const clock = () => now;
      const memory = memoryLedger({ clock });
      let until: number | undefined;
      const { call } = stage(
        {
          ...memory,
          complete: (mine, outcome, writes, call) => {
            until = call?.until;
            return memory.complete(mine, outcome, writes, call);
          },
        },
        async () => {
          now += 12_000;
          return created();
        },
        { ...options, clock },
      );
      expect((await call(post({ key: randomUUID() }), 10_000)).statusCode).toBe(201);
      expect(until).toBe(START + 13_000);
    });

    it(`or refuses, or fails in a way of its own, is not believed either (${options.effects})`, async () => {
      for (const failure of [new StoreRefused('no permission'), new TypeError('fetch failed')]) {
        const memory = memoryLedger();
        const complete = () => Promise.reject(failure);
        const { call, logged } = stage({ ...memory, complete }, created, options);
        const key = randomUUID();
        const answer = await call(post({ key }));
        expect(answer.statusCode).toBe(503);
        expect(JSON.parse(answer.body)).toMatchObject({ code: 'store_unavailable', retry: 'same-key' });
        expect(logged.at(-1)).toMatchObject({ level: 'warn', decision: 'unavailable' });
        expect((await memory.read(pkOf(key)))?.status, 'left to reconciliation').toBe('in_progress');
      }
    });
  }

  it('does not hold up a handler that ends while the watch on its deadline waits for it', async () => {
    vi.useFakeTimers();
    const gate = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const markUnknown = () => {
      asked.resolve();
      return new Promise<never>(() => {});
    };
    const { call } = stage(
      { ...memoryLedger(), markUnknown },
      async () => {
        await gate.promise;
        return created();
      },
      opaque,
    );
    const running = call(post({ key: randomUUID() }), 10_000);
    await vi.advanceTimersByTimeAsync(9_500);
    await asked.promise;
    gate.resolve();
    expect((await running).statusCode).toBe(201);
  });

  it('or refuses, does not mask what the handler wanted to write and could not', async () => {
    for (const failure of [new StoreUnavailable('silence'), new TypeError('fetch failed')]) {
      const refuses = memoryLedger({
        commit: (writes) =>
          writes.map((write, index) => ({
            ...{ write, index, code: 'ConditionalCheckFailed' },
            ...{ message: undefined, item: undefined },
          })),
      });
      const release = () => Promise.reject(failure);
      const { call, logged } = stage({ ...refuses, release }, async (_, { once }) => {
        once.write({ seat: 1 });
        return created();
      });
      await expect(call(post({ key: randomUUID() }))).rejects.toBeInstanceOf(WritesRefused);
      expect(logged).toContainEqual(
        expect.objectContaining({ level: 'error', decision: 'open', reason: failure.name }),
      );
    }
  });

  it('and took the completion, but does not hand out its body, is not answered for', async () => {
    for (const options of [{ effects: 'transactional' } as const, opaque]) {
      const reply = () => Promise.reject(new StoreUnavailable('silence'));
      const { call } = stage({ ...silentAfter('happened', 'answer'), reply }, created, options);
      expect((await call(post({ key: randomUUID() }))).statusCode).toBe(503);
    }
  });

  it('does not mask the failure of a handler that threw', async () => {
    for (const failure of [
      new StoreUnavailable('silence'),
      new StoreRefused('no permission'),
      new TypeError('fetch failed'),
    ]) {
      const release = () => Promise.reject(failure);
      const { call } = stage({ ...memoryLedger(), release }, () =>
        Promise.reject(new Error('card declined')),
      );
      await expect(call(post({ key: randomUUID() }))).rejects.toThrow('card declined');
    }
  });

  it('and took all the time to reserve does not start the handler, and leaves the key free', async () => {
    let now = 1_900_000_000_000;
    let slow = true;
    let runs = 0;
    const memory = memoryLedger({ clock: () => now });
    const { call } = stage(
      {
        ...memory,
        async reserve(...args) {
          const reserved = await memory.reserve(...args);
          if (slow) now += 9_500;
          return reserved;
        },
      },
      async () => {
        runs += 1;
        return created();
      },
      { effects: 'transactional', clock: () => now },
    );
    const key = randomUUID();
    expect((await call(post({ key }), 10_000)).statusCode).toBe(503);
    expect(runs).toBe(0);
    slow = false;
    expect((await call(post({ key }), 10_000)).statusCode).toBe(201);
    expect(runs).toBe(1);
  });

  it('is asked for three seconds at most before anything runs, and never for the time to answer in', async () => {
    const until: number[] = [];
    const reserve: Ledger<unknown>['reserve'] = (_reservation, _policy, call) => {
      until.push((call?.until ?? 0) - START);
      return Promise.reject(new StoreUnavailable('silence'));
    };
    const options = { effects: 'transactional', clock: () => START } as const;
    const { call } = stage({ ...memoryLedger(), reserve }, created, options);
    for (const remainingMs of [10_000, 2_000, 1_000]) await call(post({ key: randomUUID() }), remainingMs);
    expect(until).toEqual([3_000, 1_500, 500]);
  });

  it('turns callers away at once after five failures in a row, and lets them in again after five seconds', async () => {
    let now = 1_900_000_000_000;
    let asked = 0;
    const ledger = memoryLedger({ clock: () => now });
    let silent = true;
    const { call } = stage(
      {
        ...ledger,
        reserve(...args) {
          asked += 1;
          return silent ? Promise.reject(new StoreUnavailable('silence')) : ledger.reserve(...args);
        },
      },
      created,
      { effects: 'transactional', clock: () => now },
    );
    for (let request = 0; request < 8; request += 1) {
      expect((await call(post({ key: randomUUID() }))).statusCode).toBe(503);
    }
    expect(asked).toBe(5);
    silent = false;
    now += 5_000;
    expect((await call(post({ key: randomUUID() }))).statusCode).toBe(201);
  });
});

describe('a retention function', () => {
  const nonsense: Readonly<Record<string, (reply: Reply) => number>> = {
    'returns no number': () => Number.NaN,
    'returns less than an hour': () => 60,
    'returns a time': () => Date.UTC(2030, 0),
    throws: ({ body }) => JSON.parse(Buffer.from(body).toString()).ttl.seconds,
  };
  for (const [what, retentionSeconds] of Object.entries(nonsense)) {
    it(`that ${what} costs nobody a payment: the default is kept, and it is told`, async () => {
      const clock = () => START;
      const ledger = memoryLedger({ clock });
      const { call, logged } = stage(ledger, created, { ...opaque, retentionSeconds, clock });
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(201);
      expect(await ledger.read(pkOf(key))).toMatchObject({
        status: 'completed',
        expiresAt: START + 86_400_000,
      });
      expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
      expect(logged.map(({ decision }) => decision)).toContain('retention_refused');
    });
  }

  it('decides by the response', async () => {
    const clock = () => START;
    const ledger = memoryLedger({ clock });
    const retentionSeconds = ({ status }: Reply) => (status === 201 ? 7_200 : 3_600);
    const { call } = stage(ledger, created, { ...opaque, retentionSeconds, clock });
    const key = randomUUID();
    await call(post({ key }));
    expect(await ledger.read(pkOf(key))).toMatchObject({ expiresAt: START + 7_200_000 });
  });
});

describe('duplicates that wait', () => {
  it('for less time than they would are told 409, and do not count as failures of the store', async () => {
    let now = 1_900_000_000_000;
    const clock = () => now;
    const sleep = async (ms: number) => {
      now += ms;
    };
    let finish = (): void => {};
    const gate = new Promise<void>((resolve) => {
      finish = resolve;
    });
    let runs = 0;
    const { call } = stage(
      memoryLedger({ clock }),
      async () => {
        runs += 1;
        if (runs === 1) await gate;
        return created();
      },
      { effects: 'transactional', inFlight: 'wait', clock, sleep },
    );
    const key = randomUUID();
    const first = call(post({ key }), 600_000);
    while (runs === 0) await Promise.resolve();
    const answers: number[] = [];
    for (let request = 0; request < 5; request += 1)
      answers.push((await call(post({ key }), 3_000)).statusCode);
    answers.push((await call(post({ key: randomUUID() }))).statusCode);
    finish();
    await first;
    expect(answers).toEqual([409, 409, 409, 409, 409, 201]);
  });
});
