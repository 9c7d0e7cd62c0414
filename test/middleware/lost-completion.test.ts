import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { post, stage } from './stage.ts';

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

  it('does not mask the failure of a handler that threw', async () => {
    for (const failure of [new StoreUnavailable('silence'), new StoreRefused('no permission')]) {
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

describe('a late owner', () => {
  it('answers from the record that another attempt completed, not from its own memory', async () => {
    let now = 1_900_000_000_000;
    const ledger = memoryLedger({ clock: () => now });
    const options = { effects: 'transactional', clock: () => now } as const;
    let resume = (): void => {};
    const stuck = new Promise<void>((resolve) => {
      resume = resolve;
    });
    let runs = 0;
    const { call, measured } = stage(
      ledger,
      async () => {
        runs += 1;
        const mine = runs;
        if (mine === 1) await stuck;
        return { statusCode: 201, headers: {}, body: `"attempt ${mine}"` };
      },
      options,
    );
    const key = randomUUID();
    const late = call(post({ key }));
    while (runs === 0) await Promise.resolve();
    now += 60_000;
    expect((await call(post({ key }))).body).toBe('"attempt 2"');
    resume();
    expect(await late).toMatchObject({ statusCode: 201, body: '"attempt 2"' });
    expect(measured.at(-1)?.metrics['fenced']).toBe(1);
  });
});
