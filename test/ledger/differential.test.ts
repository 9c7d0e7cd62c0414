import { describe, expect, it } from 'vitest';
import { EPISODE_STEPS, movesNotSeen, runEpisodes, type Tally } from '../support/differential.ts';
import { useTable } from '../support/table.ts';

const STEPS = 1_200;

describe('the memory ledger and the DynamoDB ledger', () => {
  const table = useTable();

  it(`agree on ${STEPS} random steps that reach every legal move and no other`, async () => {
    const tally: Tally = new Map();
    const seeds = Array.from({ length: STEPS / EPISODE_STEPS }, (_, index) => index + 1);
    expect(await runEpisodes(table, seeds, tally)).toBeUndefined();
    expect(movesNotSeen(tally)).toEqual([]);
  });
});
