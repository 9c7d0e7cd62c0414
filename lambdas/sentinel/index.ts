import { sentinel } from '../../lib/index.ts';
import { optionalNumber } from '../runtime/environment.ts';
import { openLedger } from '../runtime/open-ledger.ts';

const newKeysPerMinute = optionalNumber(process.env, 'NEW_KEYS_PER_MINUTE', 'keys');
const openKeys = optionalNumber(process.env, 'OPEN_KEYS', 'keys');
const quota = {
  ...(newKeysPerMinute !== undefined && { newKeysPerMinute }),
  ...(openKeys !== undefined && { openKeys }),
};

/** On the table's stream, for any service: it needs LEDGER_TABLE, and counts keys where it is told a limit. */
export const handler = sentinel({
  ledger: openLedger(process.env),
  ...(Object.keys(quota).length > 0 && { quota }),
});
