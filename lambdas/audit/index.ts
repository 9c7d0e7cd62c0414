import { Lambda } from '@aws-sdk/client-lambda';
import { lambdaInvoker } from '../../lib/index.ts';
import { goingOn } from '../runtime/go-on.ts';
import { serviceAuditor } from '../service/audit.ts';
import { openService } from '../service/open-service.ts';

/** Once a day. It invokes itself while a window is not done, as the backstop does. */
export const handler = goingOn(serviceAuditor(openService(process.env)), lambdaInvoker(new Lambda()));
