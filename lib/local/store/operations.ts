/* What a request asks DynamoDB for, as far as its head tells. */

/** They read and write items. Whatever makes and describes tables is the cloud's own business, and has no faults. */
const DATA_PLANE = [
  'BatchExecuteStatement',
  'BatchGetItem',
  'BatchWriteItem',
  'DeleteItem',
  'ExecuteStatement',
  'ExecuteTransaction',
  'GetItem',
  'PutItem',
  'Query',
  'Scan',
  'TransactGetItems',
  'TransactWriteItems',
  'UpdateItem',
] as const;

export type DataOperation = (typeof DATA_PLANE)[number];

const TARGET_PREFIX = 'DynamoDB_20120810.';

/** Undefined for all that has to do with tables or streams, and for what is no request to DynamoDB at all. */
export function dataOperation(target: string | undefined): DataOperation | undefined {
  if (!target?.startsWith(TARGET_PREFIX)) return undefined;
  const name = target.slice(TARGET_PREFIX.length);
  return DATA_PLANE.find((operation) => operation === name);
}
