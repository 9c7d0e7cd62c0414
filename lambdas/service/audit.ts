import { auditor } from '../../lib/index.ts';
import { ORDERS, PAYMENTS, TRANSFERS } from './names.ts';
import type { Service } from './service.ts';

/** Stripe's charges of a day against the ledger, both ways. Rows are not listed: each is written by what the record says. */
export function serviceAuditor<W>({ ledger, provider, clock, sinks }: Service<W>) {
  return auditor({
    ...{ ledger, clock, ...sinks },
    operations: [PAYMENTS, ORDERS, TRANSFERS],
    provider: (window) => provider.made(window),
  });
}
