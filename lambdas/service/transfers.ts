import type { TenantResolver } from '../../lib/index.ts';
import { described, endedRow, finalAnswer } from './answers.ts';
import { TRANSFERS } from './names.ts';
import { post } from './posts.ts';
import { requestIn } from './requests.ts';
import { type Row, rowId } from './rows.ts';
import type { Service } from './service.ts';

/**
 * POST /transfers: Stripe is asked inside the request, and nothing else is promised. There is no transaction to put a row
 * into, so the row is written after the charge, by whoever first knows of it: this handler, or the resolver if the handler
 * did not come so far. A transfer that can be read is one that has ended; until then its caller has no id to ask for.
 */
export function transfersHandler<W>(service: Service<W>, tenant: TenantResolver) {
  const { rows, provider, clock } = service;
  return post(service, tenant, TRANSFERS, async (event, once) => {
    const request = requestIn(event);
    const { operationRef, operationId, tenant: owner, signal } = once;
    const purpose = { operationRef, operationId, tenant: owner };
    // Constant across attempts: should "not there" ever have been said too early, Stripe still charges once.
    const outcome = await provider.charge(request, purpose, { key: `transfer-${operationId}`, signal });
    const pending: Row = {
      ...{ kind: 'transfer', tenant: owner, id: rowId('transfer', operationId), operationRef },
      ...{ status: 'pending', createdAt: clock(), ...described(request) },
    };
    const row = endedRow(pending, outcome);
    await rows.end(row);
    return finalAnswer(row);
  });
}
