import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { post, stage, type TestHandler } from '../middleware/stage.ts';
import { boom, counted, doors, errorOf, gate, HANDED_BACK_MS, type Once, place } from './doors.ts';

describe.each(doors)('steps behind $name are taken one at a time:', (door) => {
  it('one inside another is refused, whether it is awaited or not, and whether its error is caught or not', async () => {
    for (const how of ['awaited', 'caught', 'not awaited']) {
      const { run, record } = place(door);
      const inner = counted(1);
      const told = await run(async (once) => {
        await once.step('outer', async () => {
          const refused = once.step('inner', inner);
          if (how === 'awaited') await refused;
          if (how === 'caught') await refused.catch(() => undefined);
        });
        return 'done';
      });
      expect(errorOf(told), how).toMatchObject({
        name: 'InvalidArgument',
        message: expect.stringMatching(/inner was started while outer was running/),
      });
      expect(inner.calls).toEqual([]);
      expect((await record())?.status).toBe('in_progress');
      expect((await record())?.steps.has('inner')).toBe(false);
    }
  });

  it('two at once are refused, the first is still recorded, and fixed code resumes after it', async () => {
    const { run, pass } = place(door);
    const first = counted(1);
    const second = counted(2);
    const told = await run((once) => Promise.all([once.step('one', first), once.step('two', second)]));
    expect(errorOf(told)).toMatchObject({
      message: expect.stringMatching(/two was started while one was running/),
    });
    pass(HANDED_BACK_MS);
    const fixed = async (once: Once) => [await once.step('one', first), await once.step('two', second)];
    expect(await run(fixed)).toEqual({ result: [1, 2] });
    expect([first.calls.length, second.calls.length]).toEqual([1, 1]);
  });

  it('none follows one that was refused, and the first cause is the one that is told', async () => {
    const { run, status } = place(door);
    const third = counted(3);
    const told = await run(async (once) => {
      await Promise.allSettled([once.effect('one', boom), once.step('two', () => 2)]);
      await once.step('three', third).catch(() => undefined);
      return 'done';
    });
    expect(errorOf(told)).toMatchObject({ message: expect.stringMatching(/two was started while one/) });
    expect(third.calls).toEqual([]);
    expect(await status()).toBe('unknown'); // Of the effect, which was tried.
    const other = place(door);
    await other.run(async (once) => {
      await Promise.allSettled([once.step('one', () => 1), once.step('two', () => 2)]);
      await once.step('three', third).catch(() => undefined);
    });
    expect(third.calls).toEqual([]);
  });

  it('none follows one that threw, so that no attempt has to guess why', async () => {
    for (const after of ['step', 'effect'] as const) {
      const { run, status } = place(door);
      const second = counted(1);
      const told = await run(async (once) => {
        await once.step('charge', boom).catch(() => undefined);
        await once[after]('refund', second).catch(() => undefined);
        return 'done';
      });
      expect(errorOf(told)).toMatchObject({
        name: 'InvalidArgument',
        message: expect.stringMatching(/charge threw, so refund cannot follow/),
      });
      expect(second.calls).toEqual([]);
      expect(await status()).toBe('in_progress');
    }
  });

  it('one that the handler did not await is waited for', async () => {
    const { run, record } = place(door);
    const { open, opened } = gate();
    const told = run(async (once) => {
      void once.step('slow', async () => {
        await opened;
        return 'late';
      });
      setImmediate(open);
      return 'done';
    });
    expect(await told).toEqual({ result: 'done' });
    expect((await record())?.steps.get('slow')).toMatchObject({ state: 'done', result: '"late"' });
  });

  it('one that the handler did not await fails the attempt when it fails', async () => {
    const { run, pass, status } = place(door);
    const { open, opened } = gate();
    const told = await run(async (once) => {
      void once.step('slow', async () => {
        await opened;
        boom();
      });
      setImmediate(open);
      return 'done';
    });
    expect(errorOf(told)).toMatchObject({ message: 'boom' });
    expect(await status()).toBe('in_progress');
    pass(HANDED_BACK_MS);
    expect(await run((once) => once.step('slow', () => 'well'))).toEqual({ result: 'well' });
  });

  it('one that the handler did not await fails the attempt also if it failed before the end', async () => {
    for (const kind of ['step', 'effect'] as const) {
      const { run, status } = place(door);
      const told = await run(async (once) => {
        void once[kind]('quick', boom);
        await new Promise(setImmediate);
        return 'done';
      });
      expect(errorOf(told)).toMatchObject({ message: 'boom' });
      expect(await status()).toBe(kind === 'step' ? 'in_progress' : 'unknown');
    }
  });

  it('the failure of one that the handler has seen is its own to judge', async () => {
    for (const seen of ['caught', 'all settled', 'then'] as const) {
      const { run, status } = place(door);
      const told = await run(async (once) => {
        const step = once.step('optional', boom);
        if (seen === 'caught') await step.catch(() => undefined);
        if (seen === 'all settled') await Promise.allSettled([step]);
        if (seen === 'then') await step.then(undefined, () => undefined);
        return 'done';
      });
      expect(told).toEqual({ result: 'done' });
      expect(await status()).toBe('completed');
    }
  });

  it('one that comes after the handler has ended does not run', async () => {
    const { run } = place(door);
    const late = counted(1);
    let keptOnce: Once | undefined;
    await run(async (once) => {
      keptOnce = once;
      return 'done';
    });
    await expect(keptOnce?.step('late', late)).rejects.toThrow(/late came after the handler had ended/);
    expect(late.calls).toEqual([]);
  });
});

describe.each(doors)('inside a step behind $name', (door) => {
  it('nothing is emitted: an attempt that resumes would leave it out', async () => {
    const { run, ledger, pk } = place(door);
    const told = await run((once) => once.step('one', () => once.emit({ type: 'x', payload: 1 })));
    expect(errorOf(told)).toMatchObject({
      name: 'InvalidArgument',
      message: expect.stringMatching(/once\.emit was called inside the step one; call it after the step/),
    });
    expect((await ledger.read(pk))?.steps.size).toBe(0);
  });

  it('what is emitted after the step is part of the completion', async () => {
    const { run, record } = place(door);
    await run(async (once) => {
      const id = await once.step('one', () => 'id-1');
      once.emit({ type: 'made', payload: { id } });
    });
    expect(await record()).toMatchObject({
      status: 'completed',
      outbox: [{ type: 'made', payload: '{"id":"id-1"}' }],
    });
  });

  const unstorable: Readonly<Record<string, readonly [() => unknown, RegExp]>> = {
    'a Date': [() => ({ at: new Date(0) }), /result\.at is an instance of Date/],
    NaN: [() => Number.NaN, /result is NaN/],
    'a function': [() => ({ retry: () => 1 }), /result\.retry is a function/],
    'a bigint': [() => 10n, /result is a bigint/],
    'something cyclic': [
      () => {
        const loop: Record<string, unknown> = {};
        loop['self'] = loop;
        return loop;
      },
      /result\.self is cyclic/,
    ],
    'something too long': [
      () => 'x'.repeat(limits.stepResultMaxBytes),
      /result of step charge has 1048578 bytes/i,
    ],
  };
  for (const [what, [make, reason]] of Object.entries(unstorable)) {
    it(`returning ${what} fails with the reason, and the next attempt asks with the same key`, async () => {
      const { run, pass, record } = place(door);
      const charge = counted((call) => (call === 1 ? make() : 'charged'));
      const handler = (once: Once) => once.step('charge', charge);
      const error = errorOf(await run(handler));
      expect(error).toBeInstanceOf(InvalidArgument);
      expect(error).toMatchObject({ message: expect.stringMatching(reason) });
      expect(await record()).toMatchObject({ status: 'in_progress', steps: new Map() });
      expect(await record()).not.toHaveProperty('ttl');
      pass(HANDED_BACK_MS);
      expect(await run(handler)).toEqual({ result: 'charged' });
      const [first, second] = charge.calls;
      expect(second?.key).toBe(first?.key);
    });

    it(`returning ${what} from an effect makes the outcome unknown: it is not asked again`, async () => {
      const { run, pass, record } = place(door);
      const charge = counted(make);
      const handler = (once: Once) => once.effect('charge', charge);
      expect(errorOf(await run(handler))).toMatchObject({ message: expect.stringMatching(reason) });
      expect(await record()).toMatchObject({ status: 'unknown' });
      pass(60_000);
      expect(await run(handler)).toEqual({ code: 'outcome_unknown' });
      expect(charge.calls).toHaveLength(1);
    });
  }
});

describe.each(doors)('a handler behind $name that catches the error', (door) => {
  it('of a result that cannot be kept may answer all the same: it knows what happened', async () => {
    for (const make of [() => new Date(0), () => 'x'.repeat(limits.stepResultMaxBytes)]) {
      const { run } = place(door);
      const told = await run((once) => once.step<unknown>('charge', make).catch(() => 'charged'));
      expect(told).toEqual({ result: 'charged' });
    }
  });

  it('of a step that has no place on the record does not answer: the step never ran', async () => {
    const { run, status } = place(door);
    const told = await run((once) => once.step('not a name', () => 1).catch(() => 'charged'));
    expect(errorOf(told)).toBeInstanceOf(InvalidArgument);
    expect(await status()).toBe('failed_retryable');
  });
});

describe('where effects are not steps', () => {
  for (const options of [{ effects: 'transactional' }, { effects: 'opaque', onUnknown: 'park' }] as const) {
    it(`(${options.effects}) once.step and once.effect are refused, caught or not, and nothing runs`, async () => {
      const never = counted(1);
      for (const kind of ['step', 'effect'] as const) {
        for (const caught of [false, true]) {
          const handler: TestHandler<unknown> = async (_, { once }) => {
            const refused = once[kind]('one', never);
            await (caught ? refused.catch(() => undefined) : refused);
            return { statusCode: 200, body: '' };
          };
          const { call } = stage(memoryLedger(), handler, options);
          const refusal = `need effects: 'steps'; this operation is ${options.effects}`;
          await expect(call(post({ key: 'k' }))).rejects.toThrow(refusal);
        }
      }
      expect(never.calls).toEqual([]);
    });
  }
});
