import type { DynamoDBClient, DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { ledgerClient } from '../../lib/ledger/table.ts';

/** DynamoDB Local takes any credentials; real ones must never be sent to it by accident. */
export function localClientConfig(endpoint: string): DynamoDBClientConfig {
  return { endpoint, region: 'local', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
}

/** DynamoDB Local shares two cores with whoever asks it: it may be slow without anything being lost. */
export function localLedgerClient(endpoint: string): DynamoDBClient {
  return ledgerClient({ ...localClientConfig(endpoint), requestHandler: { requestTimeout: 30_000 } });
}
