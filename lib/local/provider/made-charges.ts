import type { Books } from './books.ts';

/** Money that moved. */
export interface MadeCharge {
  /** Of the payment intent, `pi_…`. */
  readonly id: string;
  /** `ch_…` */
  readonly charge: string;
  /** In the smallest unit of the currency. */
  readonly amount: number;
  readonly currency: string;
  /** In seconds, as Stripe writes it. */
  readonly created: number;
  readonly metadata: Readonly<Record<string, string>>;
  /** Of the request that made the charge. */
  readonly idempotencyKey?: string;
  /** How much of it was given back. */
  readonly refunded: number;
  /** The three by which oncekey names an operation, where the metadata has them. */
  readonly operationRef?: string;
  readonly operationId?: string;
  readonly tenant?: string;
}

export function madeCharges({ charges }: Books): readonly MadeCharge[] {
  return charges.oldestFirst().flatMap((charge) => {
    const { intent, id, amount, currency, created, metadata, idempotencyKey, amountRefunded } = charge;
    if (charge.failure) return [];
    const { operationRef, operationId, tenant } = metadata;
    return {
      ...{ id: intent, charge: id, amount, currency, created, metadata, refunded: amountRefunded },
      ...(idempotencyKey !== undefined && { idempotencyKey }),
      ...(operationRef !== undefined && { operationRef }),
      ...(operationId !== undefined && { operationId }),
      ...(tenant !== undefined && { tenant }),
    };
  });
}
