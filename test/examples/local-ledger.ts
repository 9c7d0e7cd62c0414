import { dynamoDbLedger } from 'oncekey';
import { inject } from 'vitest';
import { localLedgerClient } from '../support/local-client.ts';

/** In place of ./ledger.ts: DynamoDB Local, with a client that is as patient as a busy machine needs it to be. */
export const tableName = `examples-${crypto.randomUUID()}`;
export const client = localLedgerClient(inject('dynamoDbEndpoint'));
export const ledger = dynamoDbLedger({ tableName, client });
