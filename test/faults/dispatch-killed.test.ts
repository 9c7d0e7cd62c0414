import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { acceptedWith, START } from '../reconcile/stage.ts';
import { killedAfterLine, lineOf, linesIn, startChild } from '../support/children.ts';
import type { DispatchProcess } from '../support/dispatch-process.ts';
import { useTable } from '../support/table.ts';

const table = useTable();
const folders = mkdtempSync(join(tmpdir(), 'oncekey-dispatch-'));
afterAll(() => rmSync(folders, { recursive: true }));

const PROGRAM = new URL('../support/dispatch-process.ts', import.meta.url);
const start = (told: DispatchProcess) => startChild(PROGRAM, told);

/** Past every claim, and inside the provider's memory. */
const LATER = START + 3_600_000;

/** A sample, since processes are slow: `dispatch-crash.test.ts` has all points. */
const POINTS = [
  { stayAt: 'after the charge', next: 'settled', status: 'completed' },
  { stayAt: 'before settleAccepted', next: 'settled', status: 'completed' },
  { stayAt: 'after the receipt', next: 'unknown', status: 'unknown' },
];

describe('a process that is killed during a delivery', () => {
  it.concurrent.each(POINTS)(
    '$stayAt leaves nothing to happen twice: the next process finds it $next',
    async ({ stayAt, next, status }) => {
      const ledger = dynamoDbLedger({ ...table, clock: () => START }) as Ledger<unknown>;
      const events = ['charge', 'receipt'].map((type) => ({ type, payload: '{}' }));
      const { pk } = await acceptedWith(ledger, ...events);
      const folder = mkdtempSync(join(folders, 'dispatch-'));
      const told = { endpoint: inject('dynamoDbEndpoint'), tableName: table.tableName, pk, folder };
      expect(await killedAfterLine(start({ ...told, now: START, stayAt }))).toEqual([
        `at ${stayAt}`,
        'SIGKILL',
      ]);

      expect(await lineOf(start({ ...told, now: LATER }))).toBe(next);
      expect(linesIn(folder, 'charges')).toHaveLength(1);
      expect(linesIn(folder, 'receipts')).toHaveLength(1);
      const record = await ledger.read(pk);
      expect(record?.status).toBe(status);
      if (record?.status === 'completed') {
        const references = [
          ...linesIn(folder, 'charges').map((key) => `ch-${key}`),
          ...linesIn(folder, 'receipts').map((key) => `re-${key}`),
        ];
        expect(record.references).toEqual(references);
      }
    },
  );
});
