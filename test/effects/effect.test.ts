import { describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { Unknown } from '../../lib/core/record.ts';
import { WritesRefused } from '../../lib/effects/errors.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import {
  boom,
  counted,
  doors,
  errorOf,
  HANDED_BACK_MS,
  LAPSE_MS,
  type Once,
  type Place,
  place,
} from './doors.ts';

/** What reconciliation makes of a resolver's verdict on the open effect. */
async function settle({ ledger, pk, clock }: Place, name: string, result: string | undefined): Promise<void> {
  const from = (await ledger.read(pk)) as Unknown;
  const now = clock();
  const done = { state: 'done', attempt: from.attempt, at: now, result: result ?? '' } as const;
  const step = { name, step: result === undefined ? undefined : done };
  const due = { shard: dueShard(pk), at: now };
  const settled = await ledger.settle(from, { to: 'in_progress', step, now, owner: 'resolver', due });
  expect(settled.kind).toBe('moved');
}

const never = (): Promise<never> => new Promise(() => {});

describe.each(doors)('an effect behind $name', (door) => {
  it('has its intent on the record before it is tried, and its result after', async () => {
    const { run, record } = place(door);
    const handler = async (once: Once) => {
      const sent = await once.effect('receipt', async () => {
        expect((await record())?.steps.get('receipt')).toMatchObject({ state: 'open', attempt: 1 });
        return { sent: true };
      });
      expect((await record())?.steps.get('receipt')).toMatchObject({
        state: 'done',
        result: '{"sent":true}',
      });
      return sent;
    };
    expect(await run(handler)).toEqual({ result: { sent: true } });
    expect.assertions(3);
  });

  it('that is finished returns its stored result in the next attempt, and does not run again', async () => {
    const { run, pass } = place(door);
    const receipt = counted({ sent: 1 });
    let left = 1;
    const handler = async (once: Once) => {
      const sent = await once.effect('receipt', receipt);
      if (left-- > 0) boom();
      return sent;
    };
    await run(handler);
    pass(HANDED_BACK_MS);
    expect(await run(handler)).toEqual({ result: { sent: 1 } });
    expect(receipt.calls).toHaveLength(1);
  });

  it('that throws makes the outcome unknown, and is not tried again by anybody', async () => {
    const { run, pass, record } = place(door);
    const receipt = counted(boom);
    const handler = (once: Once) => once.effect('receipt', receipt);
    expect(errorOf(await run(handler))).toMatchObject({ message: 'boom' });
    expect(await record()).toMatchObject({ status: 'unknown', errorCode: 'handler_threw' });
    expect(await record()).not.toHaveProperty('ttl');
    for (const ms of [0, LAPSE_MS, 3_600_000]) {
      pass(ms);
      expect(await run(handler)).toEqual({ code: 'outcome_unknown' });
    }
    expect(receipt.calls).toHaveLength(1);
  });

  it('that throws cannot be made a success by a handler that catches it', async () => {
    const { run, status } = place(door);
    const after = counted(1);
    const told = await run(async (once) => {
      await once.effect('receipt', boom).catch(() => undefined);
      await once.step('after', after).catch(() => undefined);
      return 'all well';
    });
    expect(errorOf(told)).toMatchObject({ message: 'boom' });
    expect(await status()).toBe('unknown');
    expect(after.calls).toEqual([]);
  });

  it('during which the process died is unknown after the lease, and not before', async () => {
    const { run, deploy, pass, status } = place(door);
    const receipt = counted(never);
    const handler = (once: Once) => once.effect('receipt', receipt);
    void deploy(handler).call();
    await expect.poll(() => receipt.calls.length).toBe(1);
    expect(await run(handler)).toEqual({ code: 'in_progress' });
    pass(LAPSE_MS);
    expect(await run(handler)).toEqual({ code: 'outcome_unknown' });
    expect(await status()).toBe('unknown');
    expect(receipt.calls).toHaveLength(1);
  });

  it('that a resolver found executed is resumed with its result, and the handler goes on after it', async () => {
    const here = place(door);
    const receipt = counted(boom);
    const after = counted('after');
    const handler = async (once: Once) => [
      await once.step('ride', () => 'made'),
      await once.effect('receipt', receipt),
      await once.step('after', after),
    ];
    await here.run(handler);
    here.pass(LAPSE_MS);
    await settle(here, 'receipt', '"sent after all"');
    here.pass(HANDED_BACK_MS);
    expect(await here.run(handler)).toEqual({ result: ['made', 'sent after all', 'after'] });
    expect([receipt.calls.length, after.calls.length]).toEqual([1, 1]);
  });

  it('that a resolver found not executed is tried once more', async () => {
    const here = place(door);
    const receipt = counted((call) => (call === 1 ? boom() : 'sent'));
    const handler = (once: Once) => once.effect('receipt', receipt);
    await here.run(handler);
    here.pass(LAPSE_MS);
    await settle(here, 'receipt', undefined);
    here.pass(HANDED_BACK_MS);
    expect(await here.run(handler)).toEqual({ result: 'sent' });
    expect(receipt.calls).toHaveLength(2);
  });

  it('whose writes are refused may have happened all the same: its outcome is unknown', async () => {
    const refusal = { write: 1, index: 0, code: 'ConditionalCheckFailed', message: '', item: undefined };
    const { run, status } = place(door, (clock) => memoryLedger({ clock, commit: () => [refusal] }));
    const told = await run((once) => once.effect('receipt', () => once.write(1)));
    expect(errorOf(told)).toBeInstanceOf(WritesRefused);
    expect(await status()).toBe('unknown');
  });

  it('is not tried when its intent could not be written', async () => {
    for (const wrote of [false, true]) {
      const here = place(door);
      const receipt = counted(1);
      const silent = {
        ...here.ledger,
        async openStep(...args: Parameters<typeof here.ledger.openStep>) {
          if (wrote) await here.ledger.openStep(...args);
          throw new StoreUnavailable('silence');
        },
      };
      const told = await here.deploy((once) => once.effect('receipt', receipt), {}, silent).call();
      expect(told).toEqual({ code: wrote ? 'in_progress' : 'store_unavailable' });
      expect(receipt.calls).toEqual([]);
      here.pass(LAPSE_MS);
      // What is not known to have been left undone is never done again.
      const next = await here.run((once) => once.effect('receipt', receipt));
      expect(next).toEqual(wrote ? { code: 'outcome_unknown' } : { result: 1 });
    }
  });

  it('is unknown when its result could not be written', async () => {
    for (const wrote of [false, true]) {
      const here = place(door);
      const receipt = counted('sent');
      const silent = {
        ...here.ledger,
        async saveStep(...args: Parameters<typeof here.ledger.saveStep>) {
          if (wrote) await here.ledger.saveStep(...args);
          throw new StoreUnavailable('silence');
        },
      };
      const told = await here.deploy((once) => once.effect('receipt', receipt), {}, silent).call();
      expect(told).toEqual({ code: 'store_unavailable' });
      expect(await here.status()).toBe('unknown');
      expect(receipt.calls).toHaveLength(1);
    }
  });
});
