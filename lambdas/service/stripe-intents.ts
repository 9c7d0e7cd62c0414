import type Stripe from 'stripe';
import type { Finding, Found, MadeCharge, Outcome, Purpose } from './provider.ts';
import type { ChargeRequest } from './requests.ts';

/** What a card of Stripe's test mode is called; a caller that has collected a real one names it. */
const DEFAULT_PAYMENT_METHOD = 'pm_card_visa';

/**
 * One request that makes the intent and charges it. A card that wants its owner to confirm is declined: there is nobody
 * here to ask. The purpose is in the metadata, so that searches, webhooks and audits lead back to the record.
 */
export function intentParams(
  { amount, currency, customerId, description, reference, paymentMethod }: ChargeRequest,
  { operationRef, operationId, tenant }: Purpose,
): Stripe.PaymentIntentCreateParams {
  return {
    amount,
    currency: currency.toLowerCase(), // As Stripe writes it.
    confirm: true,
    error_on_requires_action: true,
    payment_method: paymentMethod ?? DEFAULT_PAYMENT_METHOD,
    allowed_payment_method_types: ['card'],
    ...(description !== undefined && { description }),
    metadata: {
      ...{ operationRef, operationId, tenant, customerId },
      ...(reference !== undefined && { reference }),
    },
  };
}

/** How an intent ended; nothing, where it has not. */
export function outcomeOf(intent: Stripe.PaymentIntent): Outcome | undefined {
  const { id: charge, status, last_payment_error: failure } = intent;
  switch (status) {
    case 'succeeded':
      return { kind: 'succeeded', charge };
    case 'canceled':
      return { kind: 'declined', code: 'canceled', charge };
    case 'requires_payment_method':
      if (!failure) return undefined; // It was made, and not charged yet.
      return { kind: 'declined', code: failure.decline_code ?? failure.code ?? 'unknown', charge };
    default:
      return undefined; // Processing, or a status that a later version of the API has.
  }
}

function foundIn(intent: Stripe.PaymentIntent): Found | undefined {
  const outcome = outcomeOf(intent);
  if (!outcome) return undefined;
  const { operationRef, operationId, tenant, customerId = '', reference } = intent.metadata;
  const { amount, currency, description, created } = intent;
  return {
    kind: 'ended',
    purpose: {
      ...(operationRef !== undefined && { operationRef }),
      ...(operationId !== undefined && { operationId }),
      ...(tenant !== undefined && { tenant }),
    },
    request: {
      ...{ customerId, amount, currency: currency.toUpperCase() },
      ...(description !== null && { description }),
      ...(reference !== undefined && { reference }),
    },
    outcome,
    createdAt: created * 1_000,
  };
}

/**
 * Of the intents of one operation there is one at most. Should there be two, one that was charged counts before one that may
 * still be, and that before one that was declined: nobody is told that nothing was charged. The audit tells of the two.
 */
export function findingIn(intents: readonly Stripe.PaymentIntent[]): Finding | undefined {
  const charged = intents.find(({ status }) => status === 'succeeded');
  const open = intents.find((intent) => outcomeOf(intent) === undefined);
  if (!charged && open) return { kind: 'pending' };
  const [first = undefined] = charged ? [charged] : intents;
  return first && foundIn(first);
}

export function isFor(
  intent: Stripe.PaymentIntent,
  purpose: Pick<Purpose, 'operationRef' | 'operationId'>,
): boolean {
  const { operationRef, operationId } = intent.metadata;
  return operationRef === purpose.operationRef && operationId === purpose.operationId;
}

export function madeCharge(intent: Stripe.PaymentIntent): MadeCharge {
  const { operationRef, operationId } = intent.metadata;
  const outcome = outcomeOf(intent);
  const ended = outcome?.kind === 'succeeded' ? 'succeeded' : 'refused';
  return {
    ...{ id: intent.id, at: intent.created * 1_000, state: outcome ? ended : 'pending' },
    ...(operationRef !== undefined && { operationRef }),
    ...(operationId !== undefined && { operationId }),
  };
}
