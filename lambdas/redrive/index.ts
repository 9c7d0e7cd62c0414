import { Lambda } from '@aws-sdk/client-lambda';
import { S3 } from '@aws-sdk/client-s3';
import { redriver } from '../../lib/index.ts';
import { objectReader } from '../runtime/failed-objects.ts';
import { invokedAgain } from '../runtime/invoked-again.ts';

/** When an on-failure object was put into its bucket, for any service: the function that failed does it again. */
export const handler = redriver({
  read: objectReader(new S3()),
  handlers: { again: invokedAgain(new Lambda()) },
  handlerOf: () => 'again',
});
