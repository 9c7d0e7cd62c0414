import fc from 'fast-check';
import { expect, it } from 'vitest';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { bankWorld, settled } from '../support/bank.ts';
import { commands, endParked, requireAgreement, requireRules } from '../support/model.ts';
import { START } from './stage.ts';

/** Enough for each kind of mistake that we made on purpose to be found, and under twenty seconds. */
const RUNS = 600;
const COMMANDS = 40;

it('whatever happens in whatever order: one effect, legal moves, and nothing that stays open', async () => {
  let moves = 0;
  const reached = new Set<string>();
  await fc.assert(
    fc.asyncProperty(fc.commands(commands, { maxCommands: COMMANDS, size: 'max' }), async (run) => {
      const world = bankWorld((clock) => memoryLedger({ clock }), START);
      const checked = { seen: 0, heard: 0 };
      await fc.asyncModelRun(() => ({ model: checked, real: world }), run);
      for (const wake of world.frozen.splice(0)) wake();
      world.bank.silent = false;
      requireAgreement(world, await settled(world));
      await endParked(world, settled);
      await requireRules(checked, world);
      requireAgreement(world, await world.records());
      for (const { move, after } of world.changes) reached.add(`${move} ${after?.status}`);
      moves += world.changes.length;
    }),
    { numRuns: RUNS, seed: 5, endOnFailure: true },
  );
  expect(moves).toBeGreaterThan(RUNS * 10); // It is not that nothing happens.
  expect([...reached]).toEqual(
    expect.arrayContaining([
      ...['lapse unknown', 'lapse failed_retryable', 'completeLate completed', 'settle completed'],
      ...['settle failed_retryable', 'settle in_progress', 'settle accepted', 'settleAccepted unknown'],
      ...['settleAccepted completed', 'takeOver in_progress', 'retake in_progress', 'handBack in_progress'],
      ...[
        'attest completed',
        'reopen failed_retryable',
        'erase completed',
        'watch unknown',
        'prune undefined',
      ],
    ]),
  );
});
