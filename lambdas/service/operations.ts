import {
  type DeliveryHandlers,
  delivered,
  type IdempotencyOptions,
  type OperationOptions,
  refused,
  type TenantResolver,
} from '../../lib/index.ts';
import { endedRow, finalAnswer } from './answers.ts';
import { ORDERS, PAYMENTS, TRANSFERS } from './names.ts';
import { type ChargeRequest, chargeRequest } from './requests.ts';
import { chargeResolver } from './resolve.ts';
import type { Row } from './rows.ts';
import type { Service } from './service.ts';

const DAY_SECONDS = 86_400;

export const CHARGE_REQUESTED = 'charge.requested';

/** What a payment leaves for its delivery. */
export interface ChargeRequested {
  readonly row: Row;
  readonly operationId: string;
  readonly request: ChargeRequest;
}

/**
 * The three operations: where their effects are, who finds out what became of them, and for how long they are replayed. The
 * functions that run them and those that reconcile them are all given this.
 */
export function operations<W>(
  service: Pick<Service<W>, 'provider' | 'rows' | 'clock' | 'pace'>,
): Readonly<Record<string, OperationOptions>> {
  const shared = { ...service.pace, validate: chargeRequest, resolver: chargeResolver(service) };
  return {
    // A client that learns of a declined card comes back within days; a week outlasts a long weekend.
    [PAYMENTS]: { ...shared, effects: 'transactional', retentionSeconds: 7 * DAY_SECONDS },
    [ORDERS]: { ...shared, effects: 'steps', complete: 'auto', retentionSeconds: 7 * DAY_SECONDS },
    [TRANSFERS]: { ...shared, effects: 'opaque', retentionSeconds: DAY_SECONDS },
  };
}

/** Who delivers what payments emit. Stripe dedupes by the event's key, so a try may be repeated. */
export function deliveries<W>({ provider, rows }: Pick<Service<W>, 'provider' | 'rows'>): DeliveryHandlers {
  return {
    [CHARGE_REQUESTED]: {
      dedupes: true,
      async deliver({ payload }, { key, signal, operationRef, tenant }) {
        const { row: pending, operationId, request } = payload as ChargeRequested;
        const purpose = { operationRef, operationId, tenant };
        const outcome = await provider.charge(request, purpose, { key, signal });
        const row = endedRow(pending, outcome);
        await rows.end(row); // Before the answer is final: whoever has it may look for the row.
        const receipt = {
          response: finalAnswer(row),
          ...(row.charge !== undefined && { reference: row.charge }),
        };
        return row.status === 'succeeded' ? delivered(receipt) : refused(receipt);
      },
    },
  };
}

/** How one of the functions is protected. Its name does not depend on the stage or the route it is deployed under. */
export function protection<W>(
  service: Service<W>,
  tenant: TenantResolver,
  name: string,
): IdempotencyOptions<W> {
  const { ledger, clock, sinks } = service;
  const own = operations(service)[name];
  if (!own) throw new TypeError(`${name} is no operation of this service.`);
  return { ...own, ledger, tenant, clock, ...sinks, operation: () => name };
}
