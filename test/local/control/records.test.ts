import { PutItemCommand } from '@aws-sdk/client-dynamodb';
import { marshall } from '@aws-sdk/util-dynamodb';
import { describe, expect, it } from 'vitest';
import { shownRecords } from '../../../lib/local/control/records.ts';
import { useTable } from '../../support/table.ts';

const table = useTable({ withStream: false });
const AT = Date.UTC(2030, 0, 15, 12);
const time = (ms: number) => new Date(AT + ms).toISOString();

/** As it stands in the table. */
const reserved = {
  ...{
    sk: 'record',
    v: 1,
    status: 'in_progress',
    tenant: 'acme',
    operation: 'POST /payments',
    effects: 'steps',
  },
  ...{ fingerprint: 'v1:f', operationId: 'id', owner: 'me', attempt: 2, steps: {} },
  ...{ createdAt: AT, lastRunAt: AT + 1, leaseUntil: AT + 2 },
};

async function put(item: object): Promise<void> {
  const Item = marshall(item, { removeUndefinedValues: true });
  await table.client.send(new PutItemCommand({ TableName: table.tableName, Item }));
}

describe('the records that are shown', () => {
  it('are those of the ledger with their times, oldest first, and one that nobody can read is there too', async () => {
    const { leaseUntil: _, ...base } = reserved;
    await put({ ...reserved, pk: 'second', createdAt: AT + 1_000 });
    await put({ ...reserved, pk: 'first', dueShard: 'due#0', dueAt: AT + 7, dueTries: 0 });
    const ended = {
      status: 'failed_retryable',
      lastErrorCode: 'x',
      completedAt: AT + 5,
      expiresAt: AT + 6,
      ttl: 9,
    };
    await put({ ...base, ...ended, pk: 'failed', createdAt: AT + 2_000 });
    await put({ pk: 'edited', sk: 'record', status: 'whatever', v: 1 });
    await put({ ...reserved, pk: 'newer', v: 99 });
    await put({ pk: 'first', sk: 'audit#1' });

    const shown = await shownRecords(table.client, table.tableName);
    expect(shown.slice(0, 2).toSorted((a, b) => (a.operationRef < b.operationRef ? -1 : 1))).toEqual([
      { operationRef: 'edited', status: 'unreadable', open: true },
      { operationRef: 'newer', status: 'unreadable', open: true },
    ]);
    expect(shown.slice(2).map(({ operationRef }) => operationRef)).toEqual(['first', 'second', 'failed']);
    expect(shown[2]).toEqual({
      ...{ operationRef: 'first', operation: 'POST /payments', tenant: 'acme', status: 'in_progress' },
      ...{
        attempt: 2,
        open: true,
        createdAt: time(0),
        lastRunAt: time(1),
        leaseUntil: time(2),
        dueAt: time(7),
      },
    });
    expect(shown[3]).not.toHaveProperty('dueAt');
    expect(shown[4]).toMatchObject({ open: false, completedAt: time(5), expiresAt: time(6) });
  });

  it('tell no more of a request and its answer than how it stands', async () => {
    await put({ ...reserved, pk: 'kept', request: { function: 'arn', event: { secret: 'of the client' } } });
    const shown = JSON.stringify(await shownRecords(table.client, table.tableName));
    expect(shown).toContain('kept');
    expect(shown).not.toMatch(/of the client|v1:f|"owner"/);
  });
});
