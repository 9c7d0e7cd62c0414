export type { MemoryLedger, MemoryLedgerOptions } from '../ledger/memory.ts';
export { memoryLedger } from '../ledger/memory.ts';
export { ledgerContract } from './contract/index.ts';
export type { ContractCase, LedgerFactory } from './contract/subject.ts';
