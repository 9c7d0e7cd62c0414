import { Agent } from 'node:http';
import Stripe from 'stripe';
import { afterEach } from 'vitest';
import {
  type StripeSimulator,
  type StripeSimulatorOptions,
  stripeSimulator,
} from '../../../lib/local/provider/simulator.ts';
import { realTimers, type Timers } from '../../../lib/local/timers.ts';
import { seededRandom } from '../../support/random.ts';

export const START = Date.UTC(2030, 0, 15, 12);
export const API_KEY = 'sk_test_4eC39HqLyjWDarjtT1zdp7dc';
export const HOUR_MS = 3_600_000;

/** One request that makes an intent and charges it. */
export const CHARGE = {
  amount: 1_250,
  currency: 'eur',
  confirm: true,
  payment_method: 'pm_card_visa',
} as const satisfies Stripe.PaymentIntentCreateParams;

/** Ends what a test has opened, newest first. */
const opened: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

export interface Stage {
  readonly simulator: StripeSimulator;
  readonly time: { now: number };
  readonly reports: readonly Parameters<StripeSimulatorOptions['report']>[0][];
}

export async function openStage(options: Partial<StripeSimulatorOptions> = {}): Promise<Stage> {
  const time = { now: START };
  const reports: Parameters<StripeSimulatorOptions['report']>[0][] = [];
  const simulator = await stripeSimulator({
    apiKey: API_KEY,
    clock: () => time.now,
    random: seededRandom(7),
    timers: realTimers,
    report: (report) => void reports.push(report),
    ...options,
  });
  opened.push(() => simulator.close());
  return { simulator, time, reports };
}

/** Stripe's own client. Its pauses between tries are real ones of half a second. */
export function sdk(
  { url }: Pick<StripeSimulator, 'url'>,
  config: Partial<Stripe.StripeConfig> = {},
): Stripe {
  const { hostname, port } = new URL(url);
  const agent = new Agent({ keepAlive: true });
  opened.push(() => agent.destroy());
  return new Stripe(API_KEY, {
    ...{ host: hostname, port, protocol: 'http', telemetry: false, maxNetworkRetries: 0 },
    httpClient: Stripe.createNodeHttpClient(agent),
    ...config,
  });
}

export interface Plain {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: what came over the wire has no type.
  readonly body: any;
  readonly text: string;
}

export interface PlainRequest {
  readonly form?: string;
  readonly key?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Without anybody's client library: POST if there is a form. */
export async function plain(
  { url }: Pick<StripeSimulator, 'url'>,
  path: string,
  { form, key, headers = {}, signal }: PlainRequest = {},
): Promise<Plain> {
  const response = await fetch(`${url}${path}`, {
    ...(form !== undefined && { method: 'POST', body: form }),
    ...(signal && { signal }),
    headers: {
      authorization: `Bearer ${API_KEY}`,
      ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
      ...(key !== undefined && { 'idempotency-key': key }),
      ...headers,
    },
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: JSON.parse(text), text };
}

export const FORM = 'amount=1250&currency=eur&confirm=true&payment_method=pm_card_visa';

export function chargeOnce(simulator: StripeSimulator, key: string, rest = ''): Promise<Plain> {
  return plain(simulator, '/v1/payment_intents', { form: FORM + rest, key });
}

/** Timers that only the test lets go off. */
export function heldTimers(time: { now: number }) {
  const held = new Set<{ readonly at: number; readonly then: () => void }>();
  const timers: Timers = {
    after(ms, then) {
      const timer = { at: time.now + ms, then };
      held.add(timer);
      return () => void held.delete(timer);
    },
  };
  return {
    timers,
    waiting: () => [...held].map(({ at }) => at - time.now).sort((a, b) => a - b),
    /** Lets so much time pass. */
    pass(ms: number) {
      time.now += ms;
      for (const timer of [...held].filter(({ at }) => at <= time.now).sort((a, b) => a.at - b.at)) {
        held.delete(timer);
        timer.then();
      }
    },
  };
}

/** Lets sockets and files have their turn until it is so. */
export async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise(setImmediate);
}

export async function errorOf(
  asking: Promise<unknown>,
): Promise<InstanceType<typeof Stripe.errors.StripeError>> {
  const error = await asking.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof Stripe.errors.StripeError) return error;
  throw new TypeError(`Expected one of Stripe's errors; it was ${String(error)}.`);
}
