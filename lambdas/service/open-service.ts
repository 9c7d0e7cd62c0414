import type { TransactWrite } from '../../lib/index.ts';
import { type Environment, optionalVariable } from '../runtime/environment.ts';
import { openLedger } from '../runtime/open-ledger.ts';
import { openRows, secretOf } from './open.ts';
import { openPace, providerTimeoutMs } from './pace.ts';
import { remembered } from './secrets.ts';
import type { Service } from './service.ts';
import { stripeProvider } from './stripe-provider.ts';

/** The service of one deployment, by its variables. */
export function openService(environment: Environment): Service<TransactWrite> {
  const pace = openPace(environment);
  const timeoutMs = providerTimeoutMs(environment);
  const apiKey = remembered(secretOf(environment, 'STRIPE_KEY_SECRET'));
  const baseUrl = optionalVariable(environment, 'STRIPE_BASE_URL');
  return {
    ledger: openLedger(environment),
    rows: openRows(environment),
    provider: stripeProvider({ apiKey, baseUrl, timeoutMs }),
    clock: Date.now,
    pace,
  };
}
