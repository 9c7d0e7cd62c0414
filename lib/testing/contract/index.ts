import { attestations } from './attestations.ts';
import { bodies } from './bodies.ts';
import { claims } from './claims.ts';
import { deliveries } from './deliveries.ts';
import { erasures } from './erasures.ts';
import { kept } from './kept.ts';
import { others } from './others.ts';
import { owner } from './owner.ts';
import { quotas } from './quotas.ts';
import type { ContractCase } from './subject.ts';

/**
 * What every ledger must do, as cases without a test framework: run each as a test of your own. They use keys of their
 * own, so that all can share one table.
 */
export const ledgerContract: readonly ContractCase[] = [
  ...claims,
  ...owner,
  ...others,
  ...deliveries,
  ...kept,
  ...bodies,
  ...erasures,
  ...attestations,
  ...quotas,
];
