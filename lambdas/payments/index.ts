import { openLedger } from '../runtime/open-ledger.ts';
import { noProvider } from '../service/no-provider.ts';
import { openRows, openTenant } from '../service/open.ts';
import { openPace } from '../service/pace.ts';
import { paymentsHandler } from '../service/payments.ts';

/** POST /payments. The charge is the dispatcher's to make. */
export const handler = paymentsHandler(
  {
    ledger: openLedger(process.env),
    rows: openRows(process.env),
    provider: noProvider,
    clock: Date.now,
    pace: openPace(process.env),
  },
  openTenant(process.env),
);
