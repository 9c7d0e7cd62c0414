import { openTenant } from '../service/open.ts';
import { openService } from '../service/open-service.ts';
import { transfersHandler } from '../service/transfers.ts';

/** POST /transfers. */
export const handler = transfersHandler(openService(process.env), openTenant(process.env));
