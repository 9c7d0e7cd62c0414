import type { Books } from './books.ts';
import { testCard } from './cards.ts';
import type { Answer, Charge, Failure, Intent, ProviderEvent, Refund, Shown, UsedCard } from './records.ts';

/*
 * Objects as Stripe writes them. What they say follows from the records alone, so that an answer that is repeated under its
 * key, a day and a restart later, has the same bytes.
 */

/** Of the answers to requests that name none, and of events. */
export const API_VERSION = '2026-10-28.endive';

/** What no charge of a test card has. */
const NEVER = { application: null, on_behalf_of: null, review: null, shipping: null, source: null };

export function wireIntent(intent: Intent) {
  const { amount, status, failure } = intent;
  return {
    id: intent.id,
    object: 'payment_intent' as const,
    allowed_payment_method_types: [...intent.methodTypes],
    amount,
    amount_capturable: 0,
    amount_details: { tip: {} },
    amount_received: status === 'succeeded' ? amount : 0,
    ...{ application_fee_amount: null, automatic_payment_methods: null },
    canceled_at: intent.canceledAt ?? null,
    cancellation_reason: intent.cancellationReason ?? null,
    capture_method: 'automatic' as const,
    client_secret: intent.clientSecret,
    confirmation_method: 'automatic' as const,
    created: intent.created,
    currency: intent.currency,
    ...{ customer: null, customer_account: null },
    description: intent.description ?? null,
    excluded_payment_method_types: null,
    last_payment_error: failure ? wireFailure(failure, intent.created) : null,
    latest_charge: intent.charge ?? null,
    livemode: false,
    managed_payments: null,
    metadata: intent.metadata,
    next_action: status === 'requires_action' ? nextAction(intent) : null,
    payment_method: intent.card?.id ?? null,
    payment_method_configuration_details: null,
    payment_method_options: { card: CARD_OPTIONS },
    payment_method_types: [...intent.methodTypes],
    ...{ payment_record: null, processing: null },
    receipt_email: intent.receiptEmail ?? null,
    setup_future_usage: null,
    statement_descriptor: intent.statementDescriptor ?? null,
    statement_descriptor_suffix: intent.statementDescriptorSuffix ?? null,
    status,
    transfer_data: null,
    transfer_group: intent.transferGroup ?? null,
    ...NEVER,
  };
}

const CARD_OPTIONS = {
  installments: null,
  mandate_options: null,
  network: null,
  request_three_d_secure: 'automatic' as const,
};

function nextAction({ id, returnUrl }: Intent) {
  if (returnUrl === undefined) {
    return {
      type: 'use_stripe_sdk',
      use_stripe_sdk: { type: 'three_d_secure_redirect', stripe_js: `https://hooks.stripe.com/3d/${id}` },
    };
  }
  return {
    type: 'redirect_to_url',
    redirect_to_url: { return_url: returnUrl, url: `https://hooks.stripe.com/redirect/authenticate/${id}` },
  };
}

export function wireCharge(charge: Charge) {
  const { amount, amountRefunded, failure } = charge;
  const paid = failure === undefined;
  return {
    id: charge.id,
    object: 'charge' as const,
    amount,
    amount_captured: paid ? amount : 0,
    amount_refunded: amountRefunded,
    ...{ application_fee: null, application_fee_amount: null, balance_transaction: null },
    billing_details: NO_BILLING_DETAILS,
    calculated_statement_descriptor: null,
    captured: paid,
    created: charge.created,
    currency: charge.currency,
    customer: null,
    description: charge.description ?? null,
    ...{ disputed: false, failure_balance_transaction: null },
    failure_code: failure?.code ?? null,
    failure_message: failure?.message ?? null,
    fraud_details: {},
    livemode: false,
    metadata: charge.metadata,
    outcome: wireOutcome(failure),
    paid,
    payment_intent: charge.intent,
    payment_method: charge.card.id,
    payment_method_details: { type: 'card', card: wireCard(charge.card) },
    ...{ receipt_email: null, receipt_number: null, receipt_url: null },
    refunded: paid && amountRefunded === amount,
    ...{ source_transfer: null, statement_descriptor: null, statement_descriptor_suffix: null },
    status: paid ? ('succeeded' as const) : ('failed' as const),
    ...{ transfer_data: null, transfer_group: null },
    ...NEVER,
  };
}

function wireOutcome(failure: Failure | undefined) {
  const none = { advice_code: null, network_advice_code: null, network_decline_code: null };
  const risk = { risk_level: 'normal', risk_score: 20 };
  if (!failure) {
    const seller_message = 'Payment complete.';
    return {
      ...none,
      ...risk,
      ...{ network_status: 'approved_by_network', reason: null, seller_message, type: 'authorized' },
    };
  }
  return {
    ...none,
    ...risk,
    network_status: 'declined_by_network',
    reason: failure.declineCode ?? null,
    seller_message: 'The bank did not return any further details with this decline.',
    type: 'issuer_declined',
  };
}

const NO_ADDRESS = { city: null, country: null, line1: null, line2: null, postal_code: null, state: null };
const NO_BILLING_DETAILS = { address: NO_ADDRESS, email: null, name: null, phone: null, tax_id: null };

function wireCard({ name }: UsedCard) {
  const { brand = 'visa', last4 = '4242', funding = 'credit', country = 'US' } = testCard(name) ?? {};
  return {
    ...{ brand, country, exp_month: 12, exp_year: 2034, fingerprint: `fp_${brand}_${last4}`, funding, last4 },
    ...{ checks: { address_line1_check: null, address_postal_code_check: null, cvc_check: null } },
    ...{ networks: { available: [brand], preferred: null }, three_d_secure_usage: { supported: true } },
    ...{ generated_from: null, wallet: null },
  };
}

function wirePaymentMethod(card: UsedCard, created: number) {
  return {
    id: card.id,
    object: 'payment_method' as const,
    allow_redisplay: 'unspecified',
    billing_details: NO_BILLING_DETAILS,
    card: wireCard(card),
    created,
    customer: null,
    livemode: false,
    metadata: {},
    type: 'card',
  };
}

/** `created` is that of the payment method, which came with the intent or to it. */
function wireFailure({ type, message, code, declineCode, param, charge, card }: Failure, created: number) {
  return {
    ...(charge !== undefined && { charge }),
    ...(code !== undefined && { code }),
    ...(declineCode !== undefined && { decline_code: declineCode }),
    ...(code !== undefined && {
      doc_url: `https://stripe.com/docs/error-codes/${code.replaceAll('_', '-')}`,
    }),
    message,
    ...(param !== undefined && { param }),
    ...(card && { payment_method: wirePaymentMethod(card, created) }),
    type,
  };
}

export function wireRefund(refund: Refund) {
  return {
    id: refund.id,
    object: 'refund' as const,
    amount: refund.amount,
    balance_transaction: null,
    charge: refund.charge,
    created: refund.created,
    currency: refund.currency,
    ...{ customer: null, customer_account: null },
    metadata: refund.metadata,
    payment_intent: refund.intent,
    payment_method: null,
    reason: refund.reason ?? null,
    ...{ receipt_number: null, source_transfer_reversal: null },
    status: 'succeeded',
    transfer_reversal: null,
  };
}

export function wireEvent(event: ProviderEvent, books: Books) {
  return {
    id: event.id,
    object: 'event' as const,
    api_version: API_VERSION,
    created: event.created,
    data: {
      object: wireShown(event.subject, books),
      ...(event.previous && { previous_attributes: event.previous }),
    },
    livemode: false,
    pending_webhooks: books.isUntold(event.id) ? 1 : 0,
    request: { id: event.request, idempotency_key: event.idempotencyKey ?? null },
    type: event.type,
  };
}

function wireShown(shown: Shown, books: Books) {
  const object = books.shown(shown);
  if ('clientSecret' in object) return wireIntent(object);
  return 'amountRefunded' in object ? wireCharge(object) : wireRefund(object);
}

export function wireAnswer({ shown, failure }: Answer, books: Books): object {
  const object = shown && wireShown(shown, books);
  if (!failure) return object ?? {};
  const created = object?.created ?? 0;
  const error = wireFailure(failure, created);
  return { error: object ? { ...error, payment_intent: object } : error };
}
