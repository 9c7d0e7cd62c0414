import { eventKey } from '../core/downstream-key.ts';
import { InvalidArgument } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { EpochMs, OutboxEvent, Reply, Undelivered } from '../core/record.ts';
import type { DeliveryHandler } from '../effects/deliveries.ts';
import { NotExecuted } from '../effects/errors.ts';
import { storableHeaders } from '../http/headers.ts';
import { kindOf } from '../http/kind.ts';
import { isFinal, readReply } from '../http/reply.ts';

/** Enough to tell one error from another; it is kept on the record. */
const ERROR_MAX_LENGTH = 200;

/** As long as any id that a provider gives out (Stripe: 255). */
const REFERENCE_MAX_LENGTH = 255;

/** What gateways take at the most, several times over. */
const HEADERS_MAX_LENGTH = 32_768;

/** What came of one try. `later`: nothing happened, or trying again is harmless. */
export type Tried =
  | {
      readonly kind: 'delivered' | 'refused';
      readonly reference: string | undefined;
      readonly reply: Reply | undefined;
    }
  | { readonly kind: 'uncertain'; readonly error: string }
  | { readonly kind: 'later'; readonly error: string };

export interface Try {
  readonly index: number;
  /** From 1. */
  readonly attempt: number;
  readonly now: EpochMs;
  readonly until: EpochMs;
  readonly storedHeaders: readonly string[];
}

/** Hands one event to its provider, and says what is known afterwards. */
export async function tryDelivery(
  handler: DeliveryHandler,
  record: Undelivered,
  event: OutboxEvent,
  { index, attempt, now, until, storedHeaders }: Try,
): Promise<Tried> {
  const { pk: operationRef, operationId, tenant } = record;
  const signal = AbortSignal.timeout(Math.max(0, until - now));
  const context = { key: eventKey(operationId, index), attempt, signal, operationRef, tenant };
  try {
    const emitted = { type: event.type, payload: JSON.parse(event.payload) as unknown };
    const delivering = Promise.resolve(handler.deliver(emitted, context));
    const tried = read(event.type, await Promise.race([delivering, rejectedBy(signal)]), storedHeaders);
    if (tried.kind === 'refused' && record.status === 'accepted' && !tried.reply) {
      const why = `The refusal of ${event.type} needs a response: its caller waits for one.`;
      throw Object.assign(new InvalidArgument(why), { code: tried.reference });
    }
    return tried;
  } catch (error) {
    const harmless = handler.dedupes || error instanceof NotExecuted;
    return { kind: harmless ? 'later' : 'uncertain', error: describe(error) };
  }
}

/** What the handler returned. It comes from outside: a slip of the pen must not pass for a delivery. */
function read(type: string, outcome: unknown, storedHeaders: readonly string[]): Tried {
  if (outcome === undefined) return { kind: 'delivered', reference: undefined, reply: undefined };
  const { kind, reference, response, reason } = (outcome ?? {}) as Readonly<Record<string, unknown>>;
  if (kind === 'uncertain') {
    return { kind, error: typeof reason === 'string' ? reason.slice(0, ERROR_MAX_LENGTH) : 'uncertain' };
  }
  if (kind !== 'delivered' && kind !== 'refused') {
    throw new InvalidArgument(
      `The delivery of ${type} returned neither nothing nor delivered(), refused() or uncertain().`,
    );
  }
  if (
    reference !== undefined &&
    !(typeof reference === 'string' && reference.length <= REFERENCE_MAX_LENGTH)
  ) {
    throw new InvalidArgument(
      `The reference of ${type} is ${kindOf(reference)}; expected text of at most ${REFERENCE_MAX_LENGTH} characters, such as ch_3Nk.`,
    );
  }
  try {
    const reply = response === undefined ? undefined : storable(type, response, storedHeaders);
    return { kind, reference, reply };
  } catch (error) {
    // What the provider called it must not be lost with a response that is no good: whoever looks into it starts there.
    throw Object.assign(error as Error, { code: reference });
  }
}

/** Checked before anything is noted: what could not be stored later would leave the record open for good. */
function storable(type: string, response: unknown, storedHeaders: readonly string[]): Reply {
  const reply = readReply(response, 'http-api');
  if (!isFinal(reply.status)) {
    throw new InvalidArgument(
      `The response of ${type} has status ${reply.status}, which says that it is to be tried again: throw, and it is.`,
    );
  }
  const headers = storableHeaders(reply.headers, storedHeaders);
  const headerLength = headers.flat().reduce((sum, text) => sum + text.length, 0);
  if (reply.body.byteLength > limits.bodyMaxBytes || headerLength > HEADERS_MAX_LENGTH) {
    throw new InvalidArgument(
      `The response of ${type} has ${reply.body.byteLength} bytes and ${headerLength} characters of headers; at most ${limits.bodyMaxBytes} and ${HEADERS_MAX_LENGTH} can be stored.`,
    );
  }
  return { ...reply, headers };
}

/** A provider's client may not listen to its signal. What it still does is covered by its key, or by the claim. */
async function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** The class of an error and its code; its message may quote what must not be kept. */
function describe(error: unknown): string {
  const name = error instanceof Error ? error.name : typeof error;
  const code: unknown =
    typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
  const text = typeof code === 'string' || typeof code === 'number' ? `${name} (${code})` : name;
  return text.slice(0, ERROR_MAX_LENGTH);
}
