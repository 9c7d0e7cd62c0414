import { type VerifyWebhook, type WebhookEvent, webhook } from '../../lib/index.ts';
import { operations } from './operations.ts';
import { chargeResolver, verdictOn } from './resolve.ts';
import type { Service } from './service.ts';

interface IntentEvent extends WebhookEvent {
  readonly data?: { readonly object?: { readonly id?: unknown; readonly metadata?: Record<string, string> } };
}

/** The types that say how an intent ended. */
const TYPES = ['payment_intent.succeeded', 'payment_intent.payment_failed', 'payment_intent.canceled'];

/**
 * POST /webhooks/stripe: Stripe tells how a charge ended, and what became of the record is asked of Stripe itself. The
 * charge is fetched by its id, which knows no lag; only if it is not the operation's own is the resolver asked.
 */
export function stripeWebhook<W>(service: Service<W>, verify: VerifyWebhook) {
  const { ledger, provider, clock, sinks } = service;
  const resolver = chargeResolver(service);
  return webhook<W, IntentEvent>({
    ...{ ledger, clock, verify, types: TYPES, name: 'stripe', ...sinks },
    operations: operations(service),
    subject(event) {
      const { operationRef, operationId, tenant } = event.data?.object?.metadata ?? {};
      return { operationRef, operationId, tenant };
    },
    async fetch(event, operation, call) {
      const id = event.data?.object?.id;
      const finding = typeof id === 'string' ? await provider.read(id) : undefined;
      const isOurs =
        finding?.kind === 'ended' &&
        finding.purpose.operationRef === operation.operationRef &&
        finding.purpose.operationId === operation.operationId;
      return isOurs ? verdictOn(service, operation, finding) : resolver(operation, call);
    },
  });
}
