import { statusHandler } from '../../lib/index.ts';
import { openLedger } from '../runtime/open-ledger.ts';
import { openTenant } from '../service/open.ts';

/** GET /operations/{key}?operation=POST%20/payments. */
export const handler = statusHandler({
  ledger: openLedger(process.env),
  tenant: openTenant(process.env),
  throttle: { perSecond: 10, burst: 50 }, // A client that polls each of its open operations every second or so.
});
