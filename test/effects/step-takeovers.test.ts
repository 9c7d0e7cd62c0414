import { describe, expect, it } from 'vitest';
import {
  boom,
  counted,
  doors,
  gate,
  HANDED_BACK_MS,
  LAPSE_MS,
  type Once,
  place,
  REMAINING_MS,
} from './doors.ts';

describe.each(doors)('a takeover behind $name', (door) => {
  /** The first owner hangs in its second step until it is let go. */
  function twoOwners() {
    const here = place(door);
    const { open, opened } = gate();
    const reached = gate();
    const one = counted('one');
    const three = counted('three');
    const handler = (second: () => Promise<unknown>) => async (once: Once) => [
      await once.step('one', one),
      await once.step('two', second),
      await once.step('three', three),
    ];
    const first = here.deploy(
      handler(async () => {
        reached.open();
        await opened;
        return 'of the first';
      }),
    );
    const told = first.call();
    return { ...here, first, told, reached, open, one, three, handler };
  }

  it('resumes after the lease and not before, without running what is recorded', async () => {
    const { reached, handler, run, pass, one, three, record } = twoOwners();
    await reached.opened;
    expect(await run(handler(async () => 'two'))).toEqual({ code: 'in_progress' });
    pass(LAPSE_MS);
    expect(await run(handler(async () => 'two'))).toEqual({ result: ['one', 'two', 'three'] });
    expect([one.calls.length, three.calls.length]).toEqual([1, 1]);
    expect(await record()).toMatchObject({ status: 'completed', attempt: 2, takenOver: true });
  });

  it('fences out the late first owner at its step; it answers with the replay of the other', async () => {
    const { reached, open, handler, run, pass, told, three, first } = twoOwners();
    await reached.opened;
    pass(LAPSE_MS);
    await run(handler(async () => 'of the second'));
    open();
    expect(await told).toEqual({ result: ['one', 'of the second', 'three'] });
    expect(three.calls).toHaveLength(1);
    expect(first.measured.filter(({ metrics }) => metrics.fenced === 1)).toHaveLength(1);
  });

  it('fences out the late first owner while the other still runs: 409, and what it did is not recorded', async () => {
    const { reached, open, handler, deploy, pass, told, record, first } = twoOwners();
    await reached.opened;
    pass(LAPSE_MS);
    const there = gate();
    const on = gate();
    const second = deploy(
      handler(async () => {
        there.open();
        await on.opened;
        return 'of the second';
      }),
    ).call();
    await there.opened;
    open();
    expect(await told).toEqual({ code: 'in_progress' });
    expect(first.measured.filter(({ metrics }) => metrics.fenced === 1)).toHaveLength(1);
    expect((await record())?.steps.has('two')).toBe(false);
    on.open();
    expect(await second).toEqual({ result: ['one', 'of the second', 'three'] });
  });

  it('fences out an owner that only has its answer left', async () => {
    const { deploy, run, pass } = place(door);
    const { open, opened } = gate();
    const there = gate();
    const first = deploy(async (once) => {
      await once.step('one', () => 1);
      there.open();
      await opened;
      return 'of the first';
    });
    const told = first.call();
    await there.opened;
    pass(LAPSE_MS);
    await run(async (once) => {
      await once.step('one', boom);
      return 'of the second';
    });
    open();
    expect(await told).toEqual({ result: 'of the second' });
    expect(first.measured.filter(({ metrics }) => metrics.fenced === 1)).toHaveLength(1);
  });

  it('fences out the late first owner of an effect: it becomes unknown, whatever came of it', async () => {
    const { deploy, run, pass, status } = place(door);
    const { open, opened } = gate();
    const there = gate();
    const first = deploy((once) =>
      once.effect('receipt', async () => {
        there.open();
        await opened;
        return 'sent';
      }),
    );
    const told = first.call();
    await there.opened;
    pass(LAPSE_MS);
    expect(await run((once) => once.effect('receipt', boom))).toEqual({ code: 'outcome_unknown' });
    open();
    expect(await told).toEqual({ code: 'outcome_unknown' });
    expect(await status()).toBe('unknown');
  });

  it('decides on the record that it got: an intent that the first owner wrote meanwhile is not overlooked', async () => {
    const { ledger, run, deploy, pass, status } = place(door);
    await run((once) => once.step('one', boom));
    pass(HANDED_BACK_MS);
    const racing = {
      ...ledger,
      async takeOver(...args: Parameters<typeof ledger.takeOver>) {
        await ledger.openStep(args[0], 'receipt', args[1].now);
        return ledger.takeOver(...args);
      },
    };
    expect(await deploy(boom, {}, racing).call()).toEqual({ code: 'outcome_unknown' });
    expect(await status()).toBe('unknown');
  });

  it('that took all the time there was hands the lease back, and nothing runs', async () => {
    const { ledger, run, deploy, pass } = place(door);
    await run((once) => once.step('one', boom));
    pass(HANDED_BACK_MS);
    const slow = {
      ...ledger,
      async takeOver(...args: Parameters<typeof ledger.takeOver>) {
        const taken = await ledger.takeOver(...args);
        pass(REMAINING_MS - 500);
        return taken;
      },
    };
    const never = counted(1);
    const told = await deploy((once) => once.step('one', never), {}, slow).call();
    expect(told).toEqual({ code: 'store_unavailable' });
    expect(never.calls).toEqual([]);
    pass(HANDED_BACK_MS);
    expect(await run((once) => once.step('one', () => 1))).toEqual({ result: 1 });
  });

  it('that came too late for the providers leaves the late first owner unknown too: its writes would be lost', async () => {
    const { deploy, run, pass, record } = place(door);
    const { open, opened } = gate();
    const there = gate();
    const told = deploy(async (once) => {
      await once.step('one', () => 1);
      once.write('a row');
      there.open();
      await opened;
      return 'of the first';
    }).call();
    await there.opened;
    pass(LAPSE_MS);
    const choices = { dedupeWindowMs: 1 };
    expect(await run((once) => once.step('one', boom), choices)).toEqual({ code: 'outcome_unknown' });
    open();
    expect(await told).toEqual({ code: 'outcome_unknown' });
    expect(await record()).toMatchObject({ status: 'unknown', errorCode: 'dedupe_window_over' });
  });

  it('is what a waiting duplicate does when the first one hands its lease back', async () => {
    const { deploy, pass } = place(door);
    const { open, opened } = gate();
    const there = gate();
    const one = counted(1);
    const first = deploy(async (once) => {
      await once.step('one', one);
      there.open();
      await opened;
      boom();
    }).call();
    await there.opened;
    const sleep = async (ms: number) => {
      open();
      await first;
      pass(ms);
    };
    const waiting = deploy((once) => once.step('one', one), { inFlight: 'wait', sleep });
    expect(await waiting.call()).toEqual({ result: 1 });
    expect(one.calls).toHaveLength(1);
  });

  it('is not needed by a waiting duplicate whose first one comes through', async () => {
    const { deploy, pass } = place(door);
    const { open, opened } = gate();
    const there = gate();
    const one = counted(1);
    const first = deploy(async (once) => {
      there.open();
      await opened;
      return once.step('one', one);
    }).call();
    await there.opened;
    const sleep = async (ms: number) => {
      open();
      await first;
      pass(ms);
    };
    const waiting = deploy((once) => once.step('one', one), { inFlight: 'wait', sleep });
    expect(await waiting.call()).toEqual({ result: 1 });
    expect(one.calls).toHaveLength(1);
  });
});
