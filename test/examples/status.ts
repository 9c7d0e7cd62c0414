import { jwtClaim, statusHandler } from 'oncekey';
import { ledger } from './ledger.ts';

/** GET /operations/{key}?operation=POST%20/orders */
export const handler = statusHandler({ ledger, tenant: jwtClaim('sub') });
