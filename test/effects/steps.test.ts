import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { StepsChanged } from '../../lib/effects/errors.ts';
import type { StepContext } from '../../lib/effects/steps.ts';
import { boom, counted, doors, errorOf, HANDED_BACK_MS, type Once, place } from './doors.ts';

describe.each(doors)('a step behind $name', (door) => {
  it('that is finished returns its stored result in the next attempt, and does not run again', async () => {
    const { run, pass } = place(door);
    const ride = counted({ id: 'ride-1' });
    const charge = counted((call) => (call === 1 ? boom() : { paid: 500 }));
    const handler = async (once: Once) => [await once.step('ride', ride), await once.step('charge', charge)];
    expect(errorOf(await run(handler))).toMatchObject({ message: 'boom' });
    pass(HANDED_BACK_MS);
    expect(await run(handler)).toEqual({ result: [{ id: 'ride-1' }, { paid: 500 }] });
    expect([ride.calls.length, charge.calls.length]).toEqual([1, 2]);
  });

  it('gives the first attempt what every later one will get: the value as JSON holds it', async () => {
    const { run, pass } = place(door);
    const kept = { id: 7, note: undefined, zero: -0, lines: [1] };
    const seen: unknown[] = [];
    let left = 2;
    const handler = async (once: Once) => {
      const result = await once.step('ride', () => kept);
      seen.push(result);
      result.lines.push(2); // Its own copy: neither the provider's object nor the stored one.
      if (left-- > 0) boom();
    };
    for (const _ of [1, 2, 3]) {
      await run(handler);
      pass(HANDED_BACK_MS);
    }
    expect(seen).toHaveLength(3);
    for (const result of seen) {
      expect(result).toStrictEqual({ id: 7, zero: 0, lines: [1, 2] });
      expect(result).not.toBe(kept);
    }
    expect(kept.lines).toEqual([1]);
  });

  it('keeps nothing, null, false, an empty text and a long text as they are', async () => {
    const { run, pass } = place(door);
    const values = [undefined, null, false, '', 'ä'.repeat(200_000)];
    const runs = values.map((value) => counted(() => value));
    let attempts = 0;
    const handler = async (once: Once) => {
      const got: unknown[] = [];
      for (const [index, step] of runs.entries()) got.push(await once.step(`value-${index}`, step));
      attempts += 1;
      expect(got).toStrictEqual(values);
      if (attempts === 1) boom();
      return 'done';
    };
    await run(handler);
    pass(HANDED_BACK_MS);
    expect(await run(handler)).toEqual({ result: 'done' });
    expect(runs.map(({ calls }) => calls.length)).toEqual([1, 1, 1, 1, 1]);
  });

  it('has a key that is the same in every attempt and another for every step and operation', async () => {
    const here = place(door);
    const one = counted((call) => (call < 3 ? boom() : 1));
    const two = counted(2);
    const handler = async (once: Once) => (await once.step('one', one)) + (await once.step('two', two));
    for (const _ of [1, 2, 3]) {
      await here.run(handler);
      here.pass(HANDED_BACK_MS);
    }
    const elsewhere = counted(1);
    await place(door).run((once) => once.step('one', elsewhere));
    const keys = [...one.calls, ...two.calls, ...elsewhere.calls].map(({ key }) => key);
    expect(keys).toHaveLength(5);
    expect(new Set(keys.slice(0, 3)).size).toBe(1);
    expect(new Set(keys).size).toBe(3);
    for (const key of keys) expect(key).toMatch(/^[\w-]{43}$/);
  });

  it("gets the attempt's signal", async () => {
    const { run } = place(door);
    await run(async (once) => {
      const same = ({ signal }: StepContext) => signal === once.signal;
      expect([await once.step('one', same), await once.effect('two', same)]).toEqual([true, true]);
      expect(once.signal).toBeInstanceOf(AbortSignal);
    });
    expect.assertions(2);
  });

  it('is told apart by its name: a second of the same name is refused and does not run', async () => {
    const { run, status } = place(door);
    const second = counted(2);
    const told = await run(async (once) => {
      await once.step('charge', () => 1);
      return once.step('charge', second);
    });
    expect(errorOf(told)).toBeInstanceOf(InvalidArgument);
    expect(errorOf(told)).toMatchObject({
      message: expect.stringMatching(/charge was taken before.*charge-1/),
    });
    expect(second.calls).toEqual([]);
    expect(await status()).toBe('in_progress');
  });

  it('with a name that cannot be stored, or one too many, is refused before it runs', async () => {
    for (const name of ['', '__proto__', 'a b', 'x'.repeat(65)]) {
      for (const kind of ['step', 'effect'] as const) {
        const { run, status } = place(door);
        const never = counted(1);
        expect(errorOf(await run((once) => once[kind](name, never)))).toMatchObject({
          name: 'InvalidArgument',
          message: expect.stringContaining('A step cannot be named'),
        });
        expect(never.calls).toEqual([]);
        expect(await status()).toBe('failed_retryable');
      }
    }
    const { run } = place(door);
    const steps = Array.from({ length: limits.stepsMax + 1 }, () => counted(1));
    const told = await run(async (once) => {
      for (const [index, step] of steps.entries()) await once.step(`step-${index}`, step);
    });
    expect(errorOf(told)).toMatchObject({ message: expect.stringMatching(/has 64 steps; at most 64 fit/) });
    expect(steps.map(({ calls }) => calls.length)).toEqual([...Array(limits.stepsMax).fill(1), 0]);
  });
});

describe.each(doors)('a handler behind $name whose recorded steps are no longer the same', (door) => {
  const changes = {
    renamed: ['ride', 'payment', 'receipt'],
    reordered: ['charge', 'ride', 'receipt'],
    'given a new one in between': ['ride', 'check', 'charge', 'receipt'],
    'left out at the end': ['ride'],
    'left out at the beginning': ['charge', 'receipt'],
    'left out altogether': [],
  };
  for (const [how, names] of Object.entries(changes)) {
    it(`(${how}) fails without running anything, and code that has them resumes`, async () => {
      const { run, pass, status } = place(door);
      const charge = counted('charged');
      await run(async (once) => {
        await once.step('ride', () => 'made');
        await once.step('charge', charge);
        boom();
      });
      pass(HANDED_BACK_MS);

      const never = counted('never');
      const changed = async (once: Once) => {
        for (const name of names) await once.step(name, never);
        return 'done';
      };
      for (const _ of ['once', 'and again']) {
        const error = errorOf(await run(changed));
        expect(error).toBeInstanceOf(StepsChanged);
        expect(error).toMatchObject({
          remedy: 'fix-code',
          message: expect.stringMatching(/(ride|charge) (was|is) recorded.*Nothing was run\. Deploy code/),
        });
        expect(await status()).toBe('in_progress');
        pass(HANDED_BACK_MS);
      }
      expect(never.calls).toEqual([]);

      const fixed = async (once: Once) => [
        await once.step('ride', never),
        await once.step('charge', never),
        await once.step('receipt', () => 'sent'),
      ];
      expect(await run(fixed)).toEqual({ result: ['made', 'charged', 'sent'] });
      expect([never.calls.length, charge.calls.length]).toEqual([0, 1]);
    });
  }

  it('cannot hide it by catching the error', async () => {
    const { run, pass, status } = place(door);
    await run(async (once) => {
      await once.step('ride', () => 1);
      boom();
    });
    pass(HANDED_BACK_MS);
    const never = counted(1);
    const told = await run(async (once) => {
      await once.step('trip', never).catch(() => 'caught');
      await once.step('ride', never).catch(() => 'caught'); // Too late: it is not known any more where we are.
      return 'done';
    });
    expect(errorOf(told)).toBeInstanceOf(StepsChanged);
    expect(never.calls).toEqual([]);
    expect(await status()).toBe('in_progress');
  });

  it('may have new ones after the recorded ones', async () => {
    const { run, pass } = place(door);
    await run(async (once) => {
      await once.step('ride', () => 1);
      boom();
    });
    pass(HANDED_BACK_MS);
    const told = await run(async (once) => [await once.step('ride', boom), await once.step('new', () => 2)]);
    expect(told).toEqual({ result: [1, 2] });
  });

  it('sees the order in which steps were taken, also on a clock that stood still or went back', async () => {
    const { run, pass } = place(door);
    const names = ['ride', 'charge', 'receipt', 'audit'];
    await run(async (once) => {
      await once.step('ride', () => 1);
      await once.step('charge', () => 1);
      pass(-60_000);
      await once.step('receipt', () => 1);
      await once.step('audit', () => 1);
      boom();
    });
    pass(HANDED_BACK_MS + 60_000);
    const told = await run(async (once) => {
      for (const name of names) await once.step(name, boom);
      return 'resumed';
    });
    expect(told).toEqual({ result: 'resumed' });
  });
});
