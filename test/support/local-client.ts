import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { ledgerClient } from '../../lib/ledger/table.ts';
import { localClientConfig } from '../../lib/local/store/client.ts';

/** DynamoDB Local shares two cores with whoever asks it: it may be slow without anything being lost. */
export function localLedgerClient(endpoint: string): DynamoDBClient {
  return ledgerClient({ ...localClientConfig(endpoint), requestHandler: { requestTimeout: 30_000 } });
}
