import { Lambda } from '@aws-sdk/client-lambda';
import { lambdaInvoker, sweeper } from '../../lib/index.ts';
import { openLedger } from '../runtime/open-ledger.ts';

/** Every minute, for any service without resolvers and without an outbox: frees, resumes and parks. */
export const handler = sweeper({
  ledger: openLedger(process.env),
  invoke: lambdaInvoker(new Lambda()),
}).handle;
