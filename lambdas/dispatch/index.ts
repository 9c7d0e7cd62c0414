import { openService } from '../service/open-service.ts';
import { serviceDispatcher } from '../service/reconcile.ts';

/** On the table's stream. */
export const handler = serviceDispatcher(openService(process.env)).handle;
