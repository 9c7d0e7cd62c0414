import { describe, it } from 'vitest';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { ledgerContract } from '../../lib/testing/index.ts';
import { useTable } from '../support/table.ts';

describe('the DynamoDB ledger', () => {
  const { tableName, client } = useTable();

  for (const { name, run } of ledgerContract) {
    it(name, () => run((clock) => dynamoDbLedger({ tableName, client, clock })));
  }
});
