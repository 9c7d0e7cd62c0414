import { type HttpRequest, stripeSignature, type VerifyWebhook } from '../../lib/index.ts';

/** Reads a secret's text from where it is kept. */
export type ReadSecret = () => Promise<string>;

export interface RememberedSecret {
  (): Promise<string>;
  /** The next caller reads it again: it turned out not to be right any more. */
  forget(): void;
}

/** Read once per environment, by the first who needs it. A reading that failed is not remembered. */
export function remembered(read: ReadSecret): RememberedSecret {
  let reading: Promise<string> | undefined;
  const secret = async () => {
    const mine = reading ?? read();
    reading = mine;
    try {
      return await mine;
    } catch (error) {
      if (reading === mine) reading = undefined;
      throw error;
    }
  };
  return Object.assign(secret, {
    forget() {
      reading = undefined;
    },
  });
}

/** A secret that was taken out of use is believed for so long at the most. */
const KEPT_MS = 5 * 60_000;

/** Whoever sends nonsense makes us read it so often at the most, whatever they send. */
const RENEWED_AFTER_MS = 15_000;

/**
 * Verifies Stripe's signatures with secrets that may be rotated at any time. They are read again when they are some minutes
 * old, and when a signature does not match: Stripe signs with a new secret from the moment it is made, and its events
 * must not be turned away until the old reading has aged.
 */
export function rotatingSignature(read: ReadSecret, clock: () => number = Date.now): VerifyWebhook {
  let known: { readonly secrets: readonly string[]; readonly readAt: number } | undefined;
  let triedAt = Number.NEGATIVE_INFINITY;

  async function renewed(): Promise<readonly string[]> {
    triedAt = clock();
    known = { secrets: secretsIn(await read()), readAt: triedAt };
    return known.secrets;
  }

  const asKnown = stripeSignature({
    secrets: async () => (known && clock() - known.readAt < KEPT_MS ? known.secrets : renewed()),
    clock,
  });
  const asRenewed = stripeSignature({ secrets: renewed, clock });

  return async (request: HttpRequest) => {
    if (await asKnown(request)) return true;
    return clock() - triedAt >= RENEWED_AFTER_MS && (await asRenewed(request));
  };
}

/** One secret, or a JSON array of those that are in use while one takes the other's place. */
function secretsIn(text: string): readonly string[] {
  if (!text.trimStart().startsWith('[')) return [text.trim()];
  const secrets: unknown = JSON.parse(text);
  if (Array.isArray(secrets) && secrets.every((secret) => typeof secret === 'string')) return secrets;
  throw new TypeError('The webhook secret is a JSON array of something other than texts.');
}
