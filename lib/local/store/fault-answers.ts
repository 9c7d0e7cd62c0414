import { STATUS_CODES } from 'node:http';
import { crc32 } from 'node:zlib';
import type { Answer } from './forward.ts';
import type { DataOperation } from './operations.ts';

/* DynamoDB's own error answers, for requests that never get to it. */

/** Also of tables without a provisioned throughput: it is what a partition says that has reached its own limit. */
export function throttled(): Answer {
  return answerOf(
    400,
    'com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException',
    'The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API.',
  );
}

export function internalError(): Answer {
  return answerOf(
    500,
    'com.amazonaws.dynamodb.v20120810#InternalServerError',
    'The request processing has failed because of an unknown error, exception or failure.',
  );
}

/** Another transaction holds the item, or the first item of this one. Undefined for what is never refused for that. */
export function conflicted(operation: DataOperation, request: Buffer): Answer | undefined {
  switch (operation) {
    case 'PutItem':
    case 'UpdateItem':
    case 'DeleteItem':
      return answerOf(
        400,
        'com.amazonaws.dynamodb.v20120810#TransactionConflictException',
        'Transaction is ongoing for the item',
      );
    case 'TransactWriteItems':
      return cancelled(itemsIn(request));
    default:
      return undefined;
  }
}

function cancelled(items: number): Answer | undefined {
  if (items === 0) return undefined;
  const conflict = { Code: 'TransactionConflict', Message: 'Transaction is ongoing for the item' };
  const CancellationReasons = Array.from({ length: items }, (_, index) =>
    index === 0 ? conflict : { Code: 'None' },
  );
  const codes = CancellationReasons.map(({ Code }) => Code).join(', ');
  return answerOf(
    400,
    'com.amazonaws.dynamodb.v20120810#TransactionCanceledException',
    `Transaction cancelled, please refer cancellation reasons for specific reasons [${codes}]`,
    { CancellationReasons },
  );
}

/** None in what cannot be read: DynamoDB refuses that better than we could. */
function itemsIn(request: Buffer): number {
  try {
    const { TransactItems }: { readonly TransactItems?: unknown } = JSON.parse(request.toString());
    return Array.isArray(TransactItems) ? TransactItems.length : 0;
  } catch {
    return 0;
  }
}

function answerOf(status: number, type: string, message: string, more: object = {}): Answer {
  // Cancelled transactions spell it with a capital, and SDKs read both.
  const text = 'CancellationReasons' in more ? { Message: message } : { message };
  const body = Buffer.from(JSON.stringify({ __type: type, ...more, ...text }));
  const headers = [
    ...['x-amz-crc32', String(crc32(body))],
    ...['Content-Type', 'application/x-amz-json-1.0'],
    ...['Content-Length', String(body.length)],
  ];
  return { status, message: STATUS_CODES[status] ?? '', headers, body };
}
