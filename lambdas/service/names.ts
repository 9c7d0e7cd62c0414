import type { Kind } from './rows.ts';

/* The names under which operations are recorded; a client asks GET /operations/{key}?operation=… by them. */

export const PAYMENTS = 'POST /payments';
export const ORDERS = 'POST /orders';
export const TRANSFERS = 'POST /transfers';

export const KIND_OF: ReadonlyMap<string, Kind> = new Map([
  [PAYMENTS, 'payment'],
  [ORDERS, 'order'],
  [TRANSFERS, 'transfer'],
]);
