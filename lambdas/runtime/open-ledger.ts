import { dynamoDbLedger, ledgerClient } from '../../lib/index.ts';
import { type Environment, variable } from './environment.ts';

/** The ledger that the functions of one deployment share. */
export function openLedger(environment: Environment) {
  const tableName = variable(environment, 'LEDGER_TABLE', "the name of the ledger's table");
  return dynamoDbLedger({ tableName, client: ledgerClient() });
}
