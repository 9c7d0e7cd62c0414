import { createHmac } from 'node:crypto';
import type { ApiAnswer } from '../../lambdas/service/answers.ts';
import { rotatingSignature } from '../../lambdas/service/secrets.ts';
import { stripeWebhook } from '../../lambdas/service/stripe-webhook.ts';
import { eventOf, type Stage, type Told, toldIn } from './stage.ts';

export const SECRET = 'whsec_current';

export function signed(body: string, now: number, secret = SECRET) {
  const time = Math.floor(now / 1_000);
  const digest = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
  const event = eventOf('POST', '/webhooks/stripe', '/webhooks/stripe', { body });
  return { ...event, headers: { ...event.headers, 'stripe-signature': `t=${time},v1=${digest}` } };
}

/** What Stripe sends about its newest intent. */
export async function announced(
  { service, stripe, time }: Stage,
  { type = 'payment_intent.succeeded', secret = SECRET } = {},
): Promise<Told> {
  const verify = rotatingSignature(async () => JSON.stringify(['whsec_old', SECRET]), service.clock);
  const event = { id: `evt_${stripe.intents.length}`, type, data: { object: stripe.intents.at(-1) } };
  const request = signed(JSON.stringify(event), time.now, secret);
  return toldIn((await stripeWebhook(service, verify)(request)) as ApiAnswer);
}
