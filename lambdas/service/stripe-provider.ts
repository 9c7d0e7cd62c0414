import { Agent } from 'node:http';
import { Agent as SecureAgent } from 'node:https';
import Stripe from 'stripe';
import { NotExecuted } from '../../lib/index.ts';
import {
  type Finding,
  type Outcome,
  OutcomeUncertain,
  type Provider,
  type Purpose,
  type Span,
} from './provider.ts';
import type { RememberedSecret } from './secrets.ts';
import { isKeyRefused, isReplayedFailure, readFailure } from './stripe-errors.ts';
import { findingIn, intentParams, isFor, madeCharge, outcomeOf } from './stripe-intents.ts';

export interface StripeProviderOptions {
  readonly apiKey: RememberedSecret;
  /** Another address than Stripe's, such as `http://127.0.0.1:12111`. */
  readonly baseUrl?: string | undefined;
  /** Of one request: no longer than the settling time, after which a charge that is not there is believed never to come. */
  readonly timeoutMs: number;
}

/** The largest page that Stripe gives, and so many of them: beyond a thousand charges in the span we would rather not know. */
const PAGE = 100;
const PAGES_MAX = 10;

/**
 * Stripe's payment intents. One call of `charge` is one request: the ledger owns all retrying, since only it knows whether
 * the lease still runs and whether the key is still remembered. Stripe's client has its own opinion of that, and repeats a
 * request whose connection was closed whatever it is told; then a later "not executed" would speak of the repetition
 * alone. So it is given a client that hides such errors' codes, and fresh connections, which a frozen Lambda cannot
 * find closed.
 */
export function stripeProvider({ apiKey, baseUrl, timeoutMs }: StripeProviderOptions): Provider {
  const address = addressOf(baseUrl);
  let opened: { readonly key: string; readonly stripe: Stripe } | undefined;

  async function open(): Promise<Stripe> {
    const key = await apiKey();
    if (opened?.key !== key) opened = { key, stripe: clientFor(key, address, timeoutMs) };
    return opened.stripe;
  }

  /** A key that was taken out of use is read anew by whoever comes next. */
  async function asking<T>(ask: (stripe: Stripe) => Promise<T>): Promise<T> {
    const stripe = await open();
    try {
      return await ask(stripe);
    } catch (error) {
      if (isKeyRefused(error)) apiKey.forget();
      throw error;
    }
  }

  async function search({ operationRef, operationId }: Pick<Purpose, 'operationRef' | 'operationId'>) {
    const query = `metadata['operationRef']:'${operationRef}' AND metadata['operationId']:'${operationId}'`;
    const { data } = await asking((stripe) => stripe.paymentIntents.search({ query, limit: 10 }));
    return findingIn(data.filter((intent) => isFor(intent, { operationRef, operationId })));
  }

  /** Newest first. A page that says that there are more and is empty would be followed by itself. */
  async function* pages({ from, to }: Span): AsyncGenerator<readonly Stripe.PaymentIntent[]> {
    const created = { gte: Math.floor(from / 1_000), lte: Math.ceil(to / 1_000) };
    let after: string | undefined;
    for (let more = true; more; ) {
      const start = after === undefined ? {} : { starting_after: after };
      const page = await asking((stripe) => stripe.paymentIntents.list({ created, limit: PAGE, ...start }));
      yield page.data;
      more = page.has_more;
      after = page.data.at(-1)?.id;
      if (more && after === undefined) throw new TypeError('Stripe has more charges and does not list them.');
    }
  }

  /** Search lags behind by up to a minute, more in an outage; a list does not. Only a whole list proves that there is none. */
  async function list(
    purpose: Pick<Purpose, 'operationRef' | 'operationId'>,
    created: Span,
  ): Promise<Finding> {
    const mine: Stripe.PaymentIntent[] = [];
    let looked = 0;
    for await (const page of pages(created)) {
      if (looked >= PAGES_MAX) return findingIn(mine) ?? { kind: 'unclear' };
      mine.push(...page.filter((intent) => isFor(intent, purpose)));
      looked += 1;
    }
    return findingIn(mine) ?? { kind: 'absent' };
  }

  async function read(charge: string): Promise<Finding> {
    const intent = await asking((stripe) => stripe.paymentIntents.retrieve(charge));
    return findingIn([intent]) ?? { kind: 'unclear' };
  }

  /** Stripe repeats its first answer under the key, also when the charge has long gone on from there. */
  async function asItIsNow(charge: string): Promise<Outcome> {
    const now = await read(charge).catch((cause: unknown) => {
      // Whatever this says about the reading, it says nothing about the charge, which is there.
      throw new OutcomeUncertain('Stripe has the charge, and does not say how it ended.', { cause });
    });
    return requireEnded(now);
  }

  async function failed(error: unknown, purpose: Purpose): Promise<Outcome> {
    if (isKeyRefused(error)) apiKey.forget();
    // It would answer so for a day, and whether it charged before it failed only its list of charges says.
    const found = isReplayedFailure(error) ? await search(purpose).catch(() => undefined) : undefined;
    return found ? requireEnded(found) : readFailure(error);
  }

  return {
    async charge(request, purpose, { key, signal }) {
      if (signal.aborted) throw new NotExecuted('There was no time left to ask Stripe.');
      const stripe = await open().catch((cause: unknown) => {
        throw Object.assign(new NotExecuted("Stripe's key cannot be read."), { cause });
      });
      let intent: Stripe.PaymentIntent;
      try {
        intent = await stripe.paymentIntents.create(intentParams(request, purpose), { idempotencyKey: key });
      } catch (error) {
        return failed(error, purpose);
      }
      return outcomeOf(intent) ?? asItIsNow(intent.id);
    },
    find: async (purpose, created) => (await search(purpose)) ?? list(purpose, created),
    read,
    async *made(created) {
      for await (const page of pages(created)) yield* page.map(madeCharge);
    },
  };
}

function requireEnded(finding: Finding): Outcome {
  if (finding.kind === 'ended') return finding.outcome;
  throw new OutcomeUncertain('Stripe has the charge, and has not decided about it yet.');
}

type Address = Pick<Stripe.StripeConfig, 'host' | 'port' | 'protocol'>;

function addressOf(baseUrl: string | undefined): Address {
  if (baseUrl === undefined) return {};
  if (!URL.canParse(baseUrl) || !/^https?:/.test(baseUrl)) {
    throw new TypeError(
      `STRIPE_BASE_URL is ${JSON.stringify(baseUrl)}; expected an address such as http://127.0.0.1:12111, or nothing for Stripe itself.`,
    );
  }
  const { hostname, port, protocol } = new URL(baseUrl);
  const secure = protocol === 'https:';
  return { host: hostname, port: port || (secure ? '443' : '80'), protocol: secure ? 'https' : 'http' };
}

function clientFor(key: string, address: Address, timeout: number): Stripe {
  const agent = address.protocol === 'http' ? new Agent() : new SecureAgent();
  const httpClient = Stripe.createNodeHttpClient(agent);
  const send = httpClient.makeRequest.bind(httpClient);
  httpClient.makeRequest = (...request: Parameters<typeof send>) =>
    send(...request).catch((cause: unknown) => {
      const { code } = cause as { readonly code?: string };
      if (code !== 'ECONNRESET' && code !== 'EPIPE') throw cause;
      throw new Error('The connection to Stripe was lost.', { cause });
    });
  return new Stripe(key, { ...address, httpClient, timeout, maxNetworkRetries: 0, telemetry: false });
}
