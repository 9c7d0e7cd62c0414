import { sentinel } from '../../lib/index.ts';
import { optionalVariable } from '../runtime/environment.ts';
import { openLedger } from '../runtime/open-ledger.ts';

const [newKeysPerMinute, openKeys] = ['NEW_KEYS_PER_MINUTE', 'OPEN_KEYS'].map((name) => {
  const limit = optionalVariable(process.env, name);
  return limit === undefined ? undefined : Number(limit); // What is no number, sentinel() refuses.
});
const quota = {
  ...(newKeysPerMinute !== undefined && { newKeysPerMinute }),
  ...(openKeys !== undefined && { openKeys }),
};

/** On the table's stream, for any service: it needs LEDGER_TABLE, and counts keys where it is told a limit. */
export const handler = sentinel({
  ledger: openLedger(process.env),
  ...(Object.keys(quota).length > 0 && { quota }),
});
