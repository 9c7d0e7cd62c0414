import { Lambda } from '@aws-sdk/client-lambda';
import { backstop, lambdaInvoker } from '../../lib/index.ts';
import { goingOn } from '../runtime/go-on.ts';
import { openLedger } from '../runtime/open-ledger.ts';

/** Once a day, for any service: it needs LEDGER_TABLE, and leave to invoke itself. */
export const handler = goingOn(backstop({ ledger: openLedger(process.env) }), lambdaInvoker(new Lambda()), {
  segment: 0,
});
