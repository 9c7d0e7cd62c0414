import { defaultPolicy } from '../../lib/index.ts';
import { type Environment, optionalNumber } from '../runtime/environment.ts';
import type { Pace } from './service.ts';

/**
 * Of one request to the provider. Under the 30 s after which an HTTP API gives up on us, and far under the two minutes of
 * settling time after which a charge that is not there is believed never to come.
 */
const PROVIDER_TIMEOUT_MS = 20_000;

/** Both at once would be a second charge: "not there" believed while the request is still on its way. */
class PaceUnsafe extends Error {
  override readonly name = 'PaceUnsafe';
}

/** A provider other than Stripe, or a simulator, may answer sooner; a deployment says so by its variables. */
export function openPace(environment: Environment): Pace {
  const settlingMs = milliseconds(environment, 'SETTLING_MS');
  const reconcileBaseMs = milliseconds(environment, 'RECONCILE_BASE_MS');
  const reconcileCapMs = milliseconds(environment, 'RECONCILE_CAP_MS');
  const timeoutMs = providerTimeoutMs(environment);
  const settledMs = settlingMs ?? defaultPolicy.settlingMs;
  if (timeoutMs > settledMs) {
    throw new PaceUnsafe(
      `PROVIDER_TIMEOUT_MS is ${timeoutMs} and SETTLING_MS is ${settledMs}; a request may take no longer than what is waited before it is believed not to have happened.`,
    );
  }
  return {
    ...(settlingMs !== undefined && { settlingMs }),
    ...(reconcileBaseMs !== undefined && { reconcileBaseMs }),
    ...(reconcileCapMs !== undefined && { reconcileCapMs }),
  };
}

export function providerTimeoutMs(environment: Environment): number {
  return milliseconds(environment, 'PROVIDER_TIMEOUT_MS') ?? PROVIDER_TIMEOUT_MS;
}

function milliseconds(environment: Environment, name: string): number | undefined {
  return optionalNumber(environment, name, 'milliseconds');
}
