import { InvalidArgument } from '../../core/errors.ts';

export interface WebhookSettings {
  readonly url: string;
  /** As Stripe calls it, `whsec_…`; the endpoint verifies with the same. */
  readonly secret: string;
  /** How long after the change the first delivery leaves. Default 0. */
  readonly delayMs?: number;
  /** How many are delivered twice, at the same time. Default 0. */
  readonly duplicateProbability?: number;
  /** Whoever made the request is answered after the first delivery has ended. Default false: whichever comes first. */
  readonly beforeAnswer?: boolean;
}

export function requireWebhookSettings(settings: WebhookSettings): WebhookSettings {
  const { url, secret, delayMs = 0, duplicateProbability = 0 } = settings;
  if (!URL.canParse(url) || new URL(url).protocol !== 'http:') {
    throw new InvalidArgument(
      `webhooks.url is ${JSON.stringify(url)}; expected where the local API takes webhooks, such as http://127.0.0.1:3000/webhooks/stripe.`,
    );
  }
  if (typeof secret !== 'string' || secret === '') {
    throw new InvalidArgument(
      'webhooks.secret is empty, so anybody could sign; give the secret that the endpoint verifies with.',
    );
  }
  if (!(delayMs >= 0 && Number.isFinite(delayMs))) {
    throw new InvalidArgument(`webhooks.delayMs is ${delayMs}; expected a number of milliseconds from 0.`);
  }
  if (!(duplicateProbability >= 0 && duplicateProbability <= 1)) {
    throw new InvalidArgument(
      `webhooks.duplicateProbability is ${duplicateProbability}; expected a number from 0 to 1.`,
    );
  }
  return settings;
}
