import { describe, it } from 'vitest';
import { ledgerContract, memoryLedger } from '../../lib/testing/index.ts';

describe('the memory ledger', () => {
  for (const { name, run } of ledgerContract) it(name, () => run((clock) => memoryLedger({ clock })));
});
