import { Lambda } from '@aws-sdk/client-lambda';
import { lambdaInvoker } from '../../lib/index.ts';
import { openService } from '../service/open-service.ts';
import { serviceSweeper } from '../service/reconcile.ts';

/** Every minute. It may invoke the functions whose requests are kept: orders. */
export const handler = serviceSweeper(openService(process.env), lambdaInvoker(new Lambda())).handle;
