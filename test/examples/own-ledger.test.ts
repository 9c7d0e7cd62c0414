import { ledgerContract, memoryLedger } from 'oncekey/testing';
import { test } from 'vitest';

for (const { name, run } of ledgerContract) {
  test(name, () => run((clock) => memoryLedger({ clock }))); // Put your own ledger here.
}
