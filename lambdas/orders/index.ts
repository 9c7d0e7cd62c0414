import { openTenant } from '../service/open.ts';
import { openService } from '../service/open-service.ts';
import { ordersHandler } from '../service/orders.ts';

/** POST /orders. */
export const handler = ordersHandler(openService(process.env), openTenant(process.env));
