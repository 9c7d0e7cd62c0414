import { dynamoDbLedger, ledgerClient } from 'oncekey';

/** Made once per environment, outside the handler: its connections are kept from one request to the next. */
export const ledger = dynamoDbLedger({
  tableName: process.env['LEDGER_TABLE'] ?? 'oncekey-ledger',
  client: ledgerClient(),
});
