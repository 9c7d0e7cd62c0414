import Stripe from 'stripe';
import { NotExecuted } from '../../lib/index.ts';
import { type Outcome, OutcomeUncertain } from './provider.ts';

/** No connection came about, so nothing was sent. A connection that broke says nothing of the kind. */
const NOT_CONNECTED: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN']);

/**
 * What an error of Stripe's says about a charge. An outcome, where Stripe has decided; else what to throw:
 *
 * | what came back                        | money moved?  | so                     |
 * | ------------------------------------- | ------------- | ---------------------- |
 * | 402, a card error                     | no, for good  | declined               |
 * | 400, 404                              | no, for good  | rejected               |
 * | 401, 403, 429 (rate limit)            | not by this   | NotExecuted            |
 * | no connection                         | not by this   | NotExecuted            |
 * | 409, 429 (lock timeout)               | by another?   | OutcomeUncertain       |
 * | 400 (same key, other request)         | under the key | OutcomeUncertain       |
 * | timeout, connection lost, 5xx, no JSON| perhaps       | OutcomeUncertain       |
 */
export function readFailure(error: unknown): Outcome {
  if (!(error instanceof Stripe.errors.StripeError)) throw uncertain(error);
  const { code = 'unknown', statusCode } = error;
  if (error instanceof Stripe.errors.StripeCardError) {
    const charge = error.payment_intent?.id;
    const reason = error.decline_code || code;
    return { kind: 'declined', code: reason, ...(charge !== undefined && { charge }) };
  }
  if (error instanceof Stripe.errors.StripeInvalidRequestError) return { kind: 'rejected', code };
  if (isNotExecuted(error)) throw new NotExecuted(`Stripe did not take the charge (${statusCode ?? code}).`);
  throw uncertain(error);
}

function isNotExecuted(error: InstanceType<typeof Stripe.errors.StripeError>): boolean {
  if (error instanceof Stripe.errors.StripeConnectionError) return NOT_CONNECTED.has(causeOf(error));
  // Somebody else works on the same thing: a request of ours that we gave up on may be that somebody.
  if (error instanceof Stripe.errors.StripeRateLimitError) return error.code !== 'lock_timeout';
  const { StripeAuthenticationError, StripePermissionError } = Stripe.errors;
  return error instanceof StripeAuthenticationError || error instanceof StripePermissionError;
}

function causeOf({ detail }: { readonly detail?: unknown }): unknown {
  return typeof detail === 'object' && detail !== null && 'code' in detail ? detail.code : undefined;
}

function uncertain(error: unknown): OutcomeUncertain {
  const name = error instanceof Error ? error.name : typeof error;
  return new OutcomeUncertain(`Stripe may have made the charge (${name}).`, { cause: error });
}

export function isKeyRefused(error: unknown): boolean {
  return error instanceof Stripe.errors.StripeAuthenticationError;
}

/** Stripe keeps what it answered under a key for a day, its own failures included, and never runs that key again. */
export function isReplayedFailure(error: unknown): boolean {
  if (!(error instanceof Stripe.errors.StripeError)) return false;
  return (error.statusCode ?? 0) >= 500 && error.headers?.['idempotent-replayed'] === 'true';
}
