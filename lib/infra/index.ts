/* What `oncekey/cdk` exports, nothing else. */
export type { LedgerRole } from './access.ts';
export { ProtectedRoutes } from './api-routes.ts';
export type { IdempotentFunctionProps } from './function.ts';
export { IdempotentFunction } from './function.ts';
export type { IdempotencyLedgerProps, Protection } from './ledger.ts';
export { IdempotencyLedger } from './ledger.ts';
export type { ObservabilityProps } from './observability.ts';
export { Observability } from './observability.ts';
export type { ReconciliationProps } from './reconciliation.ts';
export { Reconciliation } from './reconciliation.ts';
export { layerTemplate } from './template.ts';
