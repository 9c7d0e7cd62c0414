import { afterEach, describe, expect, it, vi } from 'vitest';
import { defaultPolicy, schedule } from '../../lib/core/policy.ts';
import type { Accepted, Undelivered } from '../../lib/core/record.ts';
import { delivered, uncertain } from '../../lib/effects/deliveries.ts';
import { NotExecuted } from '../../lib/effects/errors.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import {
  acceptedWith,
  charge,
  completedWith,
  dispatchStage,
  Provider,
  START,
  streamRecord,
  through,
} from './stage.ts';

const HOUR_MS = 3_600_000;

afterEach(() => void vi.restoreAllMocks());

function world() {
  const time = { now: START };
  const ledger: Ledger<unknown> = memoryLedger({ clock: () => time.now });
  const provider = new Provider(false);
  const stage = (handler = through(provider), on = ledger) =>
    dispatchStage(on, { charge: handler }, { time });
  return { time, ledger, provider, stage };
}

/** A ledger after whose claims something happens before its caller knows of them. */
function claiming(
  ledger: Ledger<unknown>,
  then: (record: Undelivered) => void | Promise<void>,
): Ledger<unknown> {
  return {
    ...ledger,
    async noteDelivery(from, index, note, call) {
      const result = await ledger.noteDelivery(from, index, note, call);
      if (note.to === 'claimed') await then(from);
      return result;
    },
  };
}

async function claimIn(ledger: Ledger<unknown>, pk: string) {
  const delivery = ((await ledger.read(pk)) as Accepted).accepted.outbox[0]?.delivery;
  return delivery?.state === 'claimed' ? delivery : undefined;
}

/** The signals that are asked for, in place of those that time would abort. */
function signals() {
  const asked: { readonly ms: number; readonly abort: () => void }[] = [];
  vi.spyOn(AbortSignal, 'timeout').mockImplementation((ms) => {
    const controller = new AbortController();
    asked.push({ ms, abort: () => controller.abort(new DOMException('over', 'TimeoutError')) });
    return controller.signal;
  });
  return asked;
}

describe('a delivery to a provider that does not dedupe', () => {
  it('is not started after its claim is over, and the claim is given up', async () => {
    const { time, ledger, provider, stage } = world();
    const frozen = claiming(ledger, () => void Object.assign(time, { now: START + HOUR_MS }));
    const record = await acceptedWith(ledger, charge(1));
    expect(await stage(undefined, frozen).redrive(record.pk)).toBe('no_time');
    expect(provider.calls).toEqual([]);
    expect(await claimIn(ledger, record.pk)).toBeUndefined();
  });

  it('happens once, although its claimer froze while others cleared the claim and delivered', async () => {
    const { time, ledger, provider, stage } = world();
    const frozen = claiming(ledger, async ({ pk }) => {
      time.now += 120_000;
      expect(await stage().redrive(pk)).toBe('unknown');
      time.now += 600_000;
      const due = { shard: dueShard(pk), at: time.now };
      const cleared = { to: 'accepted', now: time.now, owner: 'resolver', due } as const;
      await ledger.settle((await ledger.read(pk)) as never, cleared);
      expect(await stage().redrive(pk)).toBe('settled');
    });
    const record = await acceptedWith(ledger, charge(1));
    await stage(undefined, frozen).redrive(record.pk);
    expect(provider.effects).toHaveLength(1);
    expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed' });
  });

  it('has a signal that ends with the claim, whatever claiming took', async () => {
    const { time, ledger, stage } = world();
    const asked = signals();
    const slow = claiming(ledger, () => void Object.assign(time, { now: START + 20_000 }));
    const record = await acceptedWith(ledger, charge(1));
    let until = 0;
    const handler = {
      dedupes: false,
      async deliver() {
        until = (await claimIn(ledger, record.pk))?.until ?? 0;
      },
    };
    await stage(handler, slow).redrive(record.pk);
    expect(until).toBe(START + 30_000);
    expect(asked.map(({ ms }) => ms)).toEqual([10_000]);
  });

  it('happens once when ten dispatchers are at it', async () => {
    const { ledger, provider, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    await Promise.all(Array.from({ length: 10 }, () => stage().redrive(record.pk)));
    expect(provider.calls).toHaveLength(1);
  });

  it('is not called abandoned once its claimer, or the next one, has been heard of', async () => {
    for (const note of [
      { to: 'done', at: START, claim: 'crashed', reference: 'ch_1' },
      { to: 'none', claim: 'crashed' },
    ] as const) {
      const { time, ledger, provider, stage } = world();
      const record = await acceptedWith(ledger, charge(1));
      await ledger.noteDelivery(record, 0, { to: 'claimed', id: 'crashed', until: START + 1 });
      time.now = START + HOUR_MS;
      const heard: Ledger<unknown> = {
        ...ledger,
        async settleAccepted(from, target, call) {
          await ledger.noteDelivery(from, 0, note);
          return ledger.settleAccepted(from, target, call);
        },
      };
      expect(await stage(undefined, heard).redrive(record.pk)).toBe('nothing');
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'accepted' });
      expect(provider.calls).toEqual([]);
    }
  });

  it('cannot make the record unknown under a claim that is another by now', async () => {
    const { ledger, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    const handler = {
      dedupes: false,
      async deliver() {
        const claim = (await claimIn(ledger, record.pk))?.id as string;
        await ledger.noteDelivery(record, 0, { to: 'none', claim });
        await ledger.noteDelivery(record, 0, { to: 'claimed', id: 'other', until: START + HOUR_MS });
        return uncertain('timeout');
      },
    };
    expect(await stage(handler).redrive(record.pk)).toBe('nothing');
    expect(await ledger.read(record.pk)).toMatchObject({ status: 'accepted' });
    expect(await claimIn(ledger, record.pk)).toMatchObject({ id: 'other' });
  });

  it('that is in somebody else’s hands keeps the tries that were made in vain', async () => {
    const { ledger, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    const waiting = { shard: dueShard(record.pk), at: START, tries: 3, error: 'Down' };
    await ledger.watch(record, waiting);
    await ledger.noteDelivery(record, 0, { to: 'claimed', id: 'other', until: START + 10_000 });
    expect(await stage().redrive(record.pk)).toBe('rescheduled');
    expect(await ledger.read(record.pk)).toMatchObject({ due: { ...waiting, at: START + 11_001 } });
  });

  it('is in doubt only when the clock of its claimer can no longer be behind', async () => {
    const { ledger, time, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    await ledger.noteDelivery(record, 0, { to: 'claimed', id: 'crashed', until: START + 10_000 });
    time.now = START + 10_000 + defaultPolicy.skewMs;
    expect(await stage().redrive(record.pk)).toBe('rescheduled');
    time.now += 1;
    expect(await stage().redrive(record.pk)).toBe('unknown');
  });

  it('that failed leaves the record where another dispatcher has put it before an operator', async () => {
    const { ledger, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    const parked = { shard: dueShard(record.pk, 'parked'), at: START, parkedAt: START, error: 'x' };
    const handler = {
      dedupes: true,
      async deliver() {
        await ledger.watch(record, parked);
        throw new Error('no connection');
      },
    };
    expect(await stage(handler).redrive(record.pk)).toBe('rescheduled');
    expect(await ledger.read(record.pk)).toMatchObject({ due: parked });
  });

  it('that failed counts, although another dispatcher looked in between', async () => {
    const { ledger, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    const handler = {
      dedupes: false,
      async deliver() {
        await stage().redrive(record.pk);
        throw new NotExecuted('no connection');
      },
    };
    await stage(handler).redrive(record.pk);
    expect(await ledger.read(record.pk)).toMatchObject({ due: { tries: 1, error: 'NotExecuted' } });
  });
});

describe('the time of a delivery', () => {
  it('is over when its signal says so, also for a provider’s client that does not listen', async () => {
    const { ledger, stage } = world();
    const asked = signals();
    const [pending, done] = [await acceptedWith(ledger, charge(1)), await completedWith(ledger, charge(2))];
    for (const [record, dedupes, result] of [
      [pending, false, 'unknown'],
      [done, true, 'rescheduled'],
    ] as const) {
      const handler = {
        dedupes,
        async deliver() {
          queueMicrotask(() => asked.at(-1)?.abort());
          return new Promise<never>(() => {});
        },
      };
      expect(await stage(handler).redrive(record.pk)).toBe(result);
    }
    expect(await ledger.read(pending.pk)).toMatchObject({
      errorCode: expect.stringMatching(/^TimeoutError/),
    });
  });

  it('ends with what its invocation has left, and is never longer than a provider takes', async () => {
    const asked = signals();
    const { ledger, time } = world();
    const clock = () => time.now;
    const deliveries = { charge: { dedupes: true, async deliver() {} } };
    const { redrive } = dispatcher({ ledger, deliveries, clock, log: () => {}, metrics: () => {} });
    for (const leftMs of [5_000, 600_000, 30_000.5]) {
      const record = await acceptedWith(ledger, charge(1));
      expect(await redrive(record.pk, START + leftMs)).toBe('settled');
    }
    expect(asked.map(({ ms }) => ms)).toEqual([5_000, schedule.deliverMs, 30_000]);
  });

  it('is followed by all the time that is left, to note what came of it', async () => {
    const { ledger, time } = world();
    const untils: (number | undefined)[] = [];
    const spied: Ledger<unknown> = {
      ...ledger,
      async noteDelivery(from, index, note, call) {
        if (note.to === 'done') untils.push(call?.until);
        return ledger.noteDelivery(from, index, note, call);
      },
    };
    for (const [leftMs, tookMs, until] of [
      [300_000, 0, START + 300_000],
      [30_000, 40_000, START + 41_000],
    ] as const) {
      time.now = START;
      const record = await acceptedWith(ledger, charge(1));
      const handler = {
        dedupes: false,
        async deliver() {
          time.now += tookMs;
          return delivered();
        },
      };
      const clock = () => time.now;
      const { redrive } = dispatcher({
        ...{ ledger: spied, deliveries: { charge: handler }, clock, log: () => {}, metrics: () => {} },
      });
      await redrive(record.pk, START + leftMs);
      expect(untils.at(-1)).toBe(until);
    }
  });

  it('that is too short is told, so that somebody gives the function more', async () => {
    const { ledger, provider, stage } = world();
    const record = await acceptedWith(ledger, charge(1));
    const claims: string[] = [];
    const { batch, logged } = stage(
      through(provider),
      claiming(ledger, ({ pk }) => void claims.push(pk)),
    );
    expect(await batch([streamRecord(record)], 2_990)).toEqual([`seq-${record.pk}`]);
    expect(logged).toMatchObject([{ decision: 'no_time', level: 'warn' }]);
    expect(claims).toEqual([]); // Not even that is written.
  });
});
