import { afterEach, describe, expect, it, vi } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { AttemptOvertaken, NotExecuted } from '../../lib/effects/errors.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { post, stage, type TestHandler } from '../middleware/stage.ts';
import { boom, counted, doors, errorOf, HANDED_BACK_MS, LAPSE_MS, place, REMAINING_MS } from './doors.ts';

const never = (): Promise<never> => new Promise(() => {});

afterEach(() => {
  vi.useRealTimers();
});

describe.each(doors)('a throw behind $name', (door) => {
  it('before any step says that nothing ran: the next call runs at once', async () => {
    const { run, status } = place(door);
    await run(boom);
    expect(await status()).toBe('failed_retryable');
    expect(await run((once) => once.step('one', () => 1))).toEqual({ result: 1 });
  });

  for (const [what, fail] of Object.entries({
    'an error': boom,
    // Of this attempt, perhaps; but not of its steps.
    NotExecuted: () => {
      throw new NotExecuted('the stock is empty');
    },
  })) {
    it(`after a step (${what}) hands the lease back and keeps the recovery points, without a TTL`, async () => {
      const { run, pass, record } = place(door);
      const one = counted(1);
      await run(async (once) => {
        await once.step('one', one);
        fail();
      });
      expect(await record()).toMatchObject({ status: 'in_progress', due: { shard: expect.any(String) } });
      expect(await record()).not.toHaveProperty('ttl');
      expect((await record())?.steps.get('one')).toMatchObject({ state: 'done', result: '1' });
      pass(HANDED_BACK_MS);
      expect(await run((once) => once.step('one', one))).toEqual({ result: 1 });
      expect(one.calls).toHaveLength(1);
    });
  }

  it('of a step itself is after it began: its effect may have happened', async () => {
    const { run, pass, record } = place(door);
    await run((once) => once.step('one', boom));
    expect(await record()).toMatchObject({ status: 'in_progress', steps: new Map() });
    pass(HANDED_BACK_MS);
    await run(boom); // Before any step of its own: but an earlier attempt had begun one.
    expect(await record()).toMatchObject({ status: 'in_progress', attempt: 2 });
    expect(await record()).not.toHaveProperty('ttl');
  });
});

describe('a status that a handler returns', () => {
  const respond = (statusCode: number, first: boolean): TestHandler<unknown> => {
    return async (_, { once }) => {
      if (first) await once.step('one', () => 1);
      return { statusCode, headers: {}, body: `"${statusCode}"` };
    };
  };
  const at = async (statusCode: number, stepFirst: boolean) => {
    let now = 1_900_000_000_000;
    const ledger = memoryLedger({ clock: () => now });
    const options = { effects: 'steps', clock: () => now } as const;
    const answer = await stage(ledger, respond(statusCode, stepFirst), options).call(post({ key: 'k' }));
    const record = await ledger.read(scopePk({ tenant: 'tenant-1', operation: 'POST /payments', key: 'k' }));
    now += HANDED_BACK_MS;
    const next = await stage(ledger, respond(201, stepFirst), options).call(post({ key: 'k' }));
    return { answer, record, next };
  };

  for (const status of [500, 503, 429, 408, 425]) {
    it(`of ${status} is answered, and after a step the lease is handed back; without one it failed`, async () => {
      const after = await at(status, true);
      expect(after.answer).toMatchObject({ statusCode: status, body: `"${status}"` });
      expect(after.record).toMatchObject({ status: 'in_progress' });
      expect(after.record).not.toHaveProperty('ttl');
      expect(after.record?.steps.has('one')).toBe(true);
      expect(after.next.statusCode).toBe(201);
      const before = await at(status, false);
      expect(before.record).toMatchObject({ status: 'failed_retryable' });
      expect(before.next.statusCode).toBe(201);
    });
  }

  for (const status of [201, 400, 402, 422]) {
    it(`of ${status} is stored and replayed`, async () => {
      const { answer, record, next } = await at(status, true);
      expect(record).toMatchObject({ status: 'completed' });
      expect(answer.statusCode).toBe(status);
      expect(next).toMatchObject({ statusCode: status, headers: { 'Idempotent-Replayed': 'true' } });
    });
  }

  it('of a deferring handler that left out a recorded step is not stored either', async () => {
    let now = 1_900_000_000_000;
    const ledger = memoryLedger({ clock: () => now });
    const options = { effects: 'steps', clock: () => now } as const;
    await stage(ledger, respond(500, true), options).call(post({ key: 'k' }));
    now += HANDED_BACK_MS;
    const { call } = stage(
      ledger,
      async (_, { once }) => {
        once.emit({ type: 'made', payload: 1 });
        once.defer();
        return { statusCode: 202, headers: { location: '/rides/1' }, body: '' };
      },
      options,
    );
    await expect(call(post({ key: 'k' }))).rejects.toThrow(/one is recorded, and the handler ended without/);
  });

  it('once.defer() inside a step is refused', async () => {
    const { call } = stage(memoryLedger(), (_, { once }) => once.step('one', () => once.defer()), {
      effects: 'steps',
    });
    await expect(call(post({ key: 'k' }))).rejects.toThrow(/once\.defer was called inside the step one/);
  });
});

describe.each(doors)('the memory of providers, behind $name', (door) => {
  const choices = { dedupeWindowMs: 60_000 };
  // The attempt may send a request until its lease ends, so that is what must be within the window.
  const last = 60_000 - REMAINING_MS - 5_000;

  it('ends with dedupeWindowMs: past it nothing is sent again, and the outcome is unknown', async () => {
    for (const [waited, told] of [
      [last, { result: 1 }],
      [last + 1, { code: 'outcome_unknown' }],
    ] as const) {
      const { run, pass, record } = place(door);
      const one = counted((call) => (call === 1 ? boom() : 1));
      await run((once) => once.step('one', one), choices);
      pass(waited);
      expect(await run((once) => once.step('one', one), choices)).toEqual(told);
      expect(one.calls).toHaveLength('result' in told ? 2 : 1);
      if ('code' in told) {
        expect(await record()).toMatchObject({ status: 'unknown', errorCode: 'dedupe_window_over' });
      }
    }
  });

  it('does not count while nothing had begun', async () => {
    const { run, pass } = place(door);
    await run(boom, choices);
    pass(last + 1);
    await run((once) => once.step('one', boom), choices);
    pass(last);
    expect(await run((once) => once.step('one', () => 1), choices)).toEqual({ result: 1 });
  });
});

describe.each(doors)('no step is started behind $name', (door) => {
  it('after the lease by the clock, whatever the timers say, and the handler cannot hide it', async () => {
    for (const kind of ['step', 'effect'] as const) {
      const { run, deploy, pass, record } = place(door);
      const late = counted(1);
      const { call, measured } = deploy(async (once) => {
        await once.step('one', () => {
          pass(LAPSE_MS);
          return 1;
        });
        await once[kind]('late', late).catch((error) => expect(error).toBeInstanceOf(AttemptOvertaken));
        return 'done';
      });
      expect(await call()).toEqual({ code: 'in_progress' });
      expect(measured.some(({ metrics }) => 'fenced' in metrics)).toBe(false); // The record is still its own.
      expect(late.calls).toEqual([]);
      expect((await record())?.steps.has('late')).toBe(false);
      expect(
        await run(async (once) => [await once.step('one', boom), await once.step('two', () => 2)]),
      ).toEqual({ result: [1, 2] });
    }
    expect.assertions(12);
  });

  it('to the very millisecond', async () => {
    const leaseMs = REMAINING_MS + 5_000;
    for (const [ms, runs] of [
      [leaseMs - 1, 1],
      [leaseMs, 0],
    ] as const) {
      const { run, pass } = place(door);
      const late = counted(1);
      await run((once) => {
        pass(ms);
        return once.step('late', late);
      });
      expect(late.calls).toHaveLength(runs);
    }
  });

  it('after writing an intent that took all the time there was', async () => {
    const here = place(door);
    const slow = {
      ...here.ledger,
      async openStep(...args: Parameters<typeof here.ledger.openStep>) {
        const opened = await here.ledger.openStep(...args);
        here.pass(LAPSE_MS);
        return opened;
      },
    };
    const late = counted(1);
    expect(await here.deploy((once) => once.effect('late', late), {}, slow).call()).toEqual({
      code: 'in_progress',
    });
    expect(late.calls).toEqual([]);
    expect(await here.run((once) => once.effect('late', late))).toEqual({ code: 'outcome_unknown' });
  });

  it('after the signal has aborted, and the handler cannot hide it', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { run, pass, status } = place(door);
    const late = counted(1);
    const told = await run(async (once) => {
      await once.step('one', () => 1);
      vi.advanceTimersByTime(REMAINING_MS);
      expect(once.signal.aborted).toBe(true);
      await once.step('late', late).catch(() => undefined);
      return 'done';
    });
    expect(errorOf(told)).toMatchObject({ message: expect.stringContaining('is about to end') });
    expect(late.calls).toEqual([]);
    expect(await status()).toBe('in_progress');
    pass(HANDED_BACK_MS);
    expect(await run((once) => once.step('one', boom))).toEqual({ result: 1 });
  });

  it('while one hangs that nobody awaits: its attempt keeps the lease, and the next waits for its end', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    for (const kind of ['step', 'effect'] as const) {
      const { run, deploy, pass, status } = place(door);
      const told = deploy(async (once) => {
        void once[kind]('hangs', never);
        return 'done';
      }).call();
      await vi.advanceTimersByTimeAsync(REMAINING_MS);
      expect(errorOf(await told)).toMatchObject({
        message: expect.stringMatching(/ended while its step hangs was running; await every step/),
      });
      const next = () => run((once) => once[kind]('hangs', () => 'well'));
      pass(HANDED_BACK_MS);
      expect(await next()).toEqual({ code: kind === 'step' ? 'in_progress' : 'outcome_unknown' });
      pass(LAPSE_MS);
      expect(await next()).toEqual(kind === 'step' ? { result: 'well' } : { code: 'outcome_unknown' });
      expect(await status()).toBe(kind === 'step' ? 'completed' : 'unknown');
    }
  });
});

describe.each(doors)('a store behind $name that falls silent', (door) => {
  for (const wrote of [true, false]) {
    it(`at a step (it ${wrote ? 'took' : 'did not take'} it) is 503 for the same key, caught or not, and the next call resumes`, async () => {
      for (const caught of [false, true]) {
        const here = place(door);
        const silent = {
          ...here.ledger,
          async saveStep(...args: Parameters<typeof here.ledger.saveStep>) {
            if (wrote) await here.ledger.saveStep(...args);
            throw new StoreUnavailable('silence');
          },
        };
        const one = counted((call) => call);
        const { call, measured } = here.deploy(
          async (once) => {
            const step = once.step('one', one);
            return caught ? step.catch(() => 'caught') : step;
          },
          {},
          silent,
        );
        expect(await call()).toEqual({ code: 'store_unavailable' });
        expect(measured.some(({ metrics }) => metrics['store.error.count'] === 1)).toBe(true);
        expect(await here.status()).toBe('in_progress');
        here.pass(HANDED_BACK_MS);
        expect(await here.run((once) => once.step('one', one))).toEqual({ result: wrote ? 1 : 2 });
        const [first, second] = one.calls;
        if (!wrote) expect(second?.key).toBe(first?.key);
      }
    });
  }

  it('at a step and ever after is 503, and the record is resumed after the lease', async () => {
    const here = place(door);
    const silence = () => Promise.reject(new StoreUnavailable('silence'));
    const silent = { ...here.ledger, saveStep: silence, handBack: silence, read: silence };
    const told = await here.deploy((once) => once.step('one', () => 1), {}, silent).call();
    expect(told).toEqual({ code: 'store_unavailable' });
    expect(await here.run((once) => once.step('one', () => 1))).toEqual({ code: 'in_progress' });
    here.pass(LAPSE_MS);
    expect(await here.run((once) => once.step('one', () => 1))).toEqual({ result: 1 });
  });

  it("at a recorded step's result is 503: the step is not run in its place", async () => {
    const here = place(door);
    const one = counted(1);
    await here.run(async (once) => {
      await once.step('one', one);
      boom();
    });
    here.pass(HANDED_BACK_MS);
    const silent = {
      ...here.ledger,
      stepResult: () => Promise.reject(new StoreUnavailable('silence')),
    };
    const told = await here.deploy((once) => once.step('one', one), {}, silent).call();
    expect(told).toEqual({ code: 'store_unavailable' });
    here.pass(HANDED_BACK_MS);
    expect(await here.run((once) => once.step('one', one))).toEqual({ result: 1 });
    expect(one.calls).toHaveLength(1);
  });

  it('at handing back is not told in place of the failure', async () => {
    const here = place(door);
    const silent = {
      ...here.ledger,
      handBack: () => Promise.reject(new StoreUnavailable('silence')),
    };
    const told = await here
      .deploy(
        async (once) => {
          await once.step('one', () => 1);
          boom();
        },
        {},
        silent,
      )
      .call();
    expect(errorOf(told)).toMatchObject({ message: 'boom' });
  });
});
