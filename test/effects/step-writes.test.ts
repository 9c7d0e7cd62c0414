import { describe, expect, it } from 'vitest';
import { type MemoryLedger, memoryLedger } from '../../lib/ledger/memory.ts';
import { boom, doors, gate, HANDED_BACK_MS, type Once, place } from './doors.ts';

describe.each(doors)('a write behind $name', (door) => {
  function table() {
    let ledger: MemoryLedger<string> | undefined;
    const stage = place<string>(door, (clock) => {
      ledger = memoryLedger<string>({ clock });
      return ledger;
    });
    return { ...stage, written: () => [...(ledger?.written ?? [])] };
  }

  it('beside a running step is the handler’s: not made with the step, and so not made twice', async () => {
    const { run, pass, written } = table();
    let attempts = 0;
    const handler = async (once: Once<string>) => {
      attempts += 1;
      const beside = gate();
      const charging = once.step('charge', async () => {
        await beside.opened;
        once.write('the step’s');
        return 1;
      });
      once.write('the handler’s');
      beside.open();
      await charging;
      return attempts === 1 ? boom() : 'done';
    };
    await run(handler);
    expect(written()).toEqual(['the step’s']);
    pass(HANDED_BACK_MS);
    expect(await run(handler)).toEqual({ result: 'done' });
    expect(written()).toEqual(['the step’s', 'the handler’s']);
  });

  it('beside a step that is remembered is not lost with it', async () => {
    const { run, pass, written, ledger, deploy } = table();
    await run(async (once) => {
      await once.step('charge', () => 1);
      boom();
    });
    pass(HANDED_BACK_MS);
    const [asked, answer] = [gate(), gate()];
    const slow = {
      ...ledger,
      stepResult: async (...args: Parameters<typeof ledger.stepResult>) => {
        asked.open();
        await answer.opened;
        return ledger.stepResult(...args);
      },
    };
    const handler = async (once: Once<string>) => {
      const charging = once.step('charge', () => 1);
      await asked.opened;
      once.write('the handler’s');
      answer.open();
      return charging;
    };
    expect(await deploy(handler, {}, slow).call()).toEqual({ result: 1 });
    expect(written()).toEqual(['the handler’s']);
  });
});
