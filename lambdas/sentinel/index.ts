import { sentinel } from '../../lib/index.ts';
import { movedAtOnce } from '../runtime/at-once.ts';
import { openLedger } from '../runtime/open-ledger.ts';
import { quotaOf } from '../runtime/quota.ts';

const ledger = openLedger(process.env);
const quota = quotaOf(process.env);

/** On the table's stream, for any service: it needs LEDGER_TABLE, and counts keys where it is told a limit. */
export const handler = sentinel({ ledger, sweeper: movedAtOnce(ledger), ...(quota && { quota }) });
