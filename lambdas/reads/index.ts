import { openRows, openTenant } from '../service/open.ts';
import { readsHandler } from '../service/reads.ts';

/** GET /payments/{id}, /orders/{id} and /transfers/{id}. */
export const handler = readsHandler(openRows(process.env), openTenant(process.env));
