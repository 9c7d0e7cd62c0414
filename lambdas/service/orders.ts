import type { TenantResolver } from '../../lib/index.ts';
import { described, endedRow, finalAnswer } from './answers.ts';
import { ORDERS } from './names.ts';
import { post } from './posts.ts';
import { requestIn } from './requests.ts';
import { type Row, rowId } from './rows.ts';
import type { Service } from './service.ts';

/**
 * POST /orders: row, charge, receipt, each a recovery point. An attempt that was left behind is resumed by the next retry, or
 * from its kept request by the completer; Stripe dedupes the charge by the step's key, so that it may be asked twice.
 */
export function ordersHandler<W>(service: Service<W>, tenant: TenantResolver) {
  const { rows, provider, clock } = service;
  return post(service, tenant, ORDERS, async (event, once) => {
    const request = requestIn(event);
    const { operationRef, operationId, tenant: owner } = once;
    const pending: Row = await once.step('row', () => {
      const row: Row = {
        ...{ kind: 'order', tenant: owner, id: rowId('order', operationId), operationRef },
        ...{ status: 'pending', createdAt: clock(), ...described(request) },
      };
      once.write(rows.created(row));
      return row;
    });
    const outcome = await once.step('charge', (call) =>
      provider.charge(request, { operationRef, operationId, tenant: owner }, call),
    );
    if (outcome.kind !== 'succeeded') {
      const row = endedRow(pending, outcome);
      once.write(rows.ended(row)); // Together with the answer that says so.
      return finalAnswer(row);
    }
    const receipt = await once.step('receipt', () => {
      const id = rowId('receipt', operationId);
      once.write(rows.created({ ...endedRow(pending, outcome), kind: 'receipt', id, createdAt: clock() }));
      return id;
    });
    const row = endedRow(pending, outcome, receipt);
    once.write(rows.ended(row));
    return finalAnswer(row);
  });
}
