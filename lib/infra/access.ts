/*
 * What each function does to the ledger's table, as IAM actions: what its code calls and nothing else. A transaction
 * needs the actions of what is in it. Nobody may delete; TTL does, and it needs no permission.
 */

/** Who touches the ledger. */
export type LedgerRole =
  | 'protected'
  | 'status'
  | 'webhook'
  | 'sentinel'
  | 'dispatch'
  | 'sweep'
  | 'backstop'
  | 'audit'
  | 'operator';

interface Access {
  readonly table: readonly string[];
  readonly dueIndex: readonly string[];
}

const READ = ['dynamodb:GetItem'];
const WRITE = ['dynamodb:PutItem', 'dynamodb:UpdateItem'];
/** The chunks of a long body. */
const BODY = ['dynamodb:Query'];

export const ledgerAccess: Readonly<Record<LedgerRole, Access>> = {
  protected: { table: [...READ, ...WRITE, ...BODY], dueIndex: [] },
  status: { table: READ, dueIndex: [] },
  webhook: { table: [...READ, ...WRITE, ...BODY], dueIndex: [] },
  sentinel: { table: [...READ, 'dynamodb:UpdateItem'], dueIndex: [] },
  dispatch: { table: [...READ, ...WRITE, ...BODY], dueIndex: [] },
  sweep: { table: [...READ, ...WRITE, ...BODY], dueIndex: BODY },
  backstop: { table: [...READ, 'dynamodb:UpdateItem', 'dynamodb:Scan'], dueIndex: [] },
  /** A person. Erasing looks at the record together with each chunk. */
  operator: { table: [...READ, ...WRITE, ...BODY, 'dynamodb:ConditionCheckItem'], dueIndex: BODY },
  audit: { table: [...READ, 'dynamodb:UpdateItem', 'dynamodb:Scan'], dueIndex: [] },
};
