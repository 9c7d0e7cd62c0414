import { describe, expect, it } from 'vitest';
import { EPISODE_STEPS, movesNotSeen, runEpisode, type Tally } from '../support/differential.ts';
import { useTable } from '../support/table.ts';

const STEPS = 2_000;

describe('the memory ledger and the DynamoDB ledger', () => {
  const table = useTable();

  it(`agree on ${STEPS} random steps that reach every legal move and no other`, async () => {
    const tally: Tally = new Map();
    for (let seed = 1; seed <= STEPS / EPISODE_STEPS; seed += 1) {
      expect(await runEpisode(table, seed, tally)).toBeUndefined();
    }
    expect(movesNotSeen(tally)).toEqual([]);
  });
});
