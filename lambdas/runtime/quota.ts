import type { QuotaLimits } from '../../lib/index.ts';
import { type Environment, optionalNumber } from './environment.ts';

/** How many keys one tenant may take; nothing, where nobody set a limit. */
export function quotaOf(environment: Environment): QuotaLimits | undefined {
  const newKeysPerMinute = optionalNumber(environment, 'NEW_KEYS_PER_MINUTE', 'keys');
  const openKeys = optionalNumber(environment, 'OPEN_KEYS', 'keys');
  if (newKeysPerMinute === undefined && openKeys === undefined) return undefined;
  return {
    ...(newKeysPerMinute !== undefined && { newKeysPerMinute }),
    ...(openKeys !== undefined && { openKeys }),
  };
}
