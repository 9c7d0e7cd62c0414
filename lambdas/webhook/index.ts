import { secretOf } from '../service/open.ts';
import { openService } from '../service/open-service.ts';
import { rotatingSignature } from '../service/secrets.ts';
import { stripeWebhook } from '../service/stripe-webhook.ts';

/** POST /webhooks/stripe. */
export const handler = stripeWebhook(
  openService(process.env),
  rotatingSignature(secretOf(process.env, 'STRIPE_WEBHOOK_SECRET')),
);
