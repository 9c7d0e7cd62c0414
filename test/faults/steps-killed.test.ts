import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, inject, it } from 'vitest';
import { LAPSE_MS } from '../effects/doors.ts';
import { killedAfterLine, lineOf, linesIn, startChild } from '../support/children.ts';
import type { RideProcess } from '../support/ride-process.ts';
import { useTable } from '../support/table.ts';

const { tableName } = useTable();
const folders = mkdtempSync(join(tmpdir(), 'oncekey-rides-'));
afterAll(() => rmSync(folders, { recursive: true }));

const PROGRAM = new URL('../support/ride-process.ts', import.meta.url);
const START = Date.UTC(2030, 0, 15, 12);

const start = (ride: RideProcess) => startChild(PROGRAM, ride);

/** A sample, since processes are slow: `steps-crash.test.ts` has all points. */
const POINTS = [
  { stayAt: 'after saveStep ride', ran: ['ride', 'charge', 'receipt'], answer: 201 },
  { stayAt: 'after the charge', ran: ['ride', 'charge', 'charge', 'receipt'], answer: 201 },
  { stayAt: 'after the receipt', ran: ['ride', 'charge', 'receipt'], answer: 409 },
];

describe('a process that is killed during a ride', () => {
  it.concurrent.each(POINTS)(
    '$stayAt leaves nothing to happen twice: the next process answers $answer',
    async ({ stayAt, ran, answer }) => {
      const folder = mkdtempSync(join(folders, 'ride-'));
      const ride = { endpoint: inject('dynamoDbEndpoint'), tableName, key: randomUUID(), folder };
      const killed = await killedAfterLine(start({ ...ride, now: START, stayAt }));
      expect(killed).toEqual([`at ${stayAt}`, 'SIGKILL']);

      const { statusCode, body } = JSON.parse(await lineOf(start({ ...ride, now: START + LAPSE_MS })));
      const lines = (name: string) => linesIn(folder, name);
      const [charges, receipts] = [lines('charges'), lines('receipts')];
      expect([charges.length, receipts.length]).toEqual([1, 1]);
      expect(lines('ran')).toEqual(ran);
      expect(statusCode).toBe(answer);
      if (answer === 409) expect(body.code).toBe('outcome_unknown');
      else expect(body).toMatchObject({ charge: `ch-${charges}`, receipt: `re-${receipts}` });
    },
  );
});
