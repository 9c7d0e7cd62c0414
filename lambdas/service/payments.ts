import type { TenantResolver } from '../../lib/index.ts';
import { acceptedAnswer, described } from './answers.ts';
import { PAYMENTS } from './names.ts';
import { CHARGE_REQUESTED, type ChargeRequested } from './operations.ts';
import { post } from './posts.ts';
import { requestIn } from './requests.ts';
import { type Row, rowId } from './rows.ts';
import type { Service } from './service.ts';

/**
 * POST /payments: the row, the event and the 202 are one transaction, and the charge is the event's delivery. No provider is
 * waited for, and a crash leaves either nothing or all that the dispatcher needs.
 */
export function paymentsHandler<W>(service: Service<W>, tenant: TenantResolver) {
  return post(service, tenant, PAYMENTS, async (event, once) => {
    const request = requestIn(event);
    const { operationId, operationRef } = once;
    const row: Row = {
      ...{ kind: 'payment', tenant: once.tenant, id: rowId('payment', operationId), operationRef },
      ...{ status: 'pending', createdAt: service.clock(), ...described(request) },
    };
    once.write(service.rows.created(row));
    const payload: ChargeRequested = { row, operationId, request };
    once.emit({ type: CHARGE_REQUESTED, payload });
    once.defer();
    return acceptedAnswer(row);
  });
}
