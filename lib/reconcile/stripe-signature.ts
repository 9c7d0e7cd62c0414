import { createHmac, timingSafeEqual } from 'node:crypto';
import { InvalidArgument } from '../core/errors.ts';
import type { EpochMs } from '../core/record.ts';
import { requireFunctions, requireKnown, requireOptions, requireWhole } from '../effects/option-checks.ts';
import type { HttpRequest } from '../http/request.ts';

/**
 * Whether the provider itself sent this request. Only `true` counts. It throws where it cannot tell, because the secrets
 * could not be read: then the provider is asked to send the event again. A library that throws for a wrong signature wants
 * a `catch` that returns `false`.
 */
export type VerifyWebhook = (request: HttpRequest) => boolean | Promise<boolean>;

type Secrets = readonly string[];

export interface StripeSignatureOptions {
  /** The endpoint's signing secrets. During a rotation both; a function reads them anew for every request. */
  readonly secrets: Secrets | (() => Secrets | Promise<Secrets>);
  /** How far the signature's time may be from ours, either way. Default 5 minutes, as in Stripe's own libraries. */
  readonly toleranceMs?: number;
  readonly clock?: () => EpochMs;
}

const OPTIONS = [
  'secrets',
  'toleranceMs',
  'clock',
] as const satisfies readonly (keyof StripeSignatureOptions)[];

const HEADER = 'stripe-signature';

/** Seconds; more digits than this are no time, and would not stay exact. */
const SECONDS = /^\d{1,12}$/;
const SHA256_HEX = /^[0-9a-f]{64}$/;

/**
 * Stripe's scheme: `t=<seconds>,v1=<hex>[,v1=…]`, an HMAC-SHA256 of `<t>.<body>` for each secret that is in use. It is made
 * over the bytes that were sent, so a body that a parser took apart and put together again does not pass.
 */
export function stripeSignature(options: StripeSignatureOptions): VerifyWebhook {
  requireOptions(options, 'stripeSignature()');
  requireKnown(options, OPTIONS, 'stripeSignature()');
  requireWhole(options, 'toleranceMs', 1);
  requireFunctions(options, ['clock']);
  const { secrets, toleranceMs = 300_000, clock = Date.now } = options;
  if (typeof secrets !== 'function') requireSecrets(secrets);

  return async ({ headers, body }) => {
    const signature = readSignature(headers.get(HEADER) ?? []);
    if (!signature) return false;
    const { time, candidates } = signature;
    if (Math.abs(clock() - Number(time) * 1_000) > toleranceMs) return false;
    const known = requireSecrets(typeof secrets === 'function' ? await secrets() : secrets);
    let valid = false;
    for (const secret of known) {
      const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest();
      // All of them, whatever was found: how long it takes must not say which one was right.
      for (const candidate of candidates) valid = timingSafeEqual(candidate, expected) || valid;
    }
    return valid;
  };
}

interface Signature {
  /** As it was written: the digits are part of what is signed. */
  readonly time: string;
  readonly candidates: readonly Buffer[];
}

/** Other schemes beside `v1` are passed over: `v0` is not made with our secret. Two times would leave open which was signed. */
function readSignature(lines: readonly string[]): Signature | undefined {
  const [line, ...others] = lines;
  if (line === undefined || others.length > 0) return undefined;
  const parts = line.split(',').map((part) => part.trim());
  const valuesOf = (name: string) =>
    parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1));
  const [time, ...times] = valuesOf('t');
  if (time === undefined || times.length > 0 || !SECONDS.test(time)) return undefined;
  const candidates = valuesOf('v1')
    .filter((value) => SHA256_HEX.test(value))
    .map((value) => Buffer.from(value, 'hex'));
  return candidates.length > 0 ? { time, candidates } : undefined;
}

/** An empty secret would make a signature that anybody can make. The message never quotes what it got. */
function requireSecrets(secrets: unknown): Secrets {
  const list: readonly unknown[] = Array.isArray(secrets) ? secrets : [];
  if (list.length > 0 && list.every((secret) => typeof secret === 'string' && secret !== '')) {
    return list as Secrets;
  }
  throw new InvalidArgument(
    `stripeSignature(): secrets is no list of texts with at least one, none of them empty. Write secrets: [process.env.WEBHOOK_SECRET], and during a rotation the old one beside the new.`,
  );
}
