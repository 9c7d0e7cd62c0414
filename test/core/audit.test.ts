import { describe, expect, it } from 'vitest';
import {
  type AuditEvidence,
  type AuditTerms,
  auditOperation,
  listsNeededFrom,
} from '../../lib/core/audit.ts';
import type { LedgerRecord } from '../../lib/core/record.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const NOON = Date.UTC(2030, 0, 15, 12);
const NOW = NOON + 4 * HOUR_MS;

const common = {
  ...{
    pk: 'pk',
    tenant: 't',
    operation: 'pay',
    fingerprint: 'v1:f',
    effects: 'opaque',
    owner: 'o',
    attempt: 1,
  },
  ...{ operationId: 'op-1', createdAt: NOON, lastRunAt: NOON, dedupeSince: NOON, takenOver: false },
  ...{ steps: new Map(), moves: [] },
};
const due = (at: number, parkedAt?: number) => ({ shard: 'due#1', at, ...(parkedAt && { parkedAt }) });
const ended = { completedAt: NOON, expiresAt: NOON + 24 * HOUR_MS };
const outbox = (reference?: string) => [
  { type: 'charge', payload: '1', ...(reference && { delivery: { state: 'done', at: NOON, reference } }) },
];

const RECORDS = {
  none: undefined,
  paid: { ...common, status: 'completed', ...ended, ttl: 1, response: { status: 201 } },
  'paid as ch_1': {
    ...common,
    status: 'completed',
    ...ended,
    response: { status: 201 },
    references: ['ch_1'],
  },
  'paid, of no charging operation': {
    ...{ ...common, operation: 'quote' },
    ...{ status: 'completed', ...ended, ttl: 1, response: { status: 201 } },
  },
  declined: { ...common, status: 'completed', ...ended, ttl: 1, response: { status: 402 } },
  'begun before the lists': {
    ...{ ...common, createdAt: NOON - 9 * HOUR_MS },
    ...{ status: 'completed', ...ended, ttl: 1, response: { status: 201 } },
  },
  'begun before the lists, as ch_1': {
    ...{ ...common, createdAt: NOON - 9 * HOUR_MS },
    ...{ status: 'completed', ...ended, ttl: 1, response: { status: 201 }, references: ['ch_1'] },
  },
  'begun before the lists, delivered late': {
    ...{ ...common, createdAt: NOON - 9 * HOUR_MS },
    ...{ status: 'completed', ...ended, response: { status: 201 } },
    ttl: (ended.expiresAt + HOUR_MS + 2 * MINUTE_MS) / 1_000,
  },
  'used anew': {
    ...common,
    operationId: 'op-2',
    createdAt: NOON + HOUR_MS,
    status: 'in_progress',
    leaseUntil: NOW,
  },
  undelivered: {
    ...common,
    status: 'completed',
    ...ended,
    response: { status: 201 },
    outbox: outbox(),
    due: due(NOW),
  },
  accepted: { ...common, status: 'accepted', accepted: { at: NOW - HOUR_MS, outbox: outbox() } },
  'accepted, ch_1 noted': { ...common, status: 'accepted', accepted: { at: NOON, outbox: outbox('ch_1') } },
  'accepted, forgotten': { ...common, status: 'accepted', accepted: { at: NOON, outbox: outbox() } },
  failed: { ...common, status: 'failed_retryable', ...ended, errorCode: 'e', ttl: 1 },
  running: { ...common, status: 'in_progress', leaseUntil: NOW },
  'running again, due since long': { ...common, status: 'in_progress', leaseUntil: NOW, due: due(NOON) },
  'dead, due': { ...common, status: 'in_progress', leaseUntil: NOON, due: due(NOW) },
  'dead, forgotten': { ...common, status: 'in_progress', leaseUntil: NOON },
  unknown: { ...common, status: 'unknown', leaseUntil: NOON, errorCode: 'e', due: due(NOW - HOUR_MS) },
  'unknown, parked': { ...common, status: 'unknown', leaseUntil: NOON, errorCode: 'e', due: due(NOW, NOW) },
} as const;

const charge = (id = 'ch_1', at = NOON, more: object = {}) => ({
  id,
  at,
  pending: false,
  undone: false,
  operationId: undefined,
  ...more,
});
const row = { reference: undefined, at: NOON };
const early = NOON - 5 * HOUR_MS;

const EVIDENCE: Readonly<Record<string, AuditEvidence>> = {
  nothing: { charges: [], rows: [] },
  'a charge': { charges: [charge()], rows: [] },
  'a charge of op-1': { charges: [charge('ch_1', NOON, { operationId: 'op-1' })], rows: [] },
  'a charge of op-9': { charges: [charge('ch_1', NOON, { operationId: 'op-9' })], rows: [] },
  'a charge before the window': { charges: [charge('ch_1', early + HOUR_MS)], rows: [] },
  'a pending charge': { charges: [charge('ch_1', NOON, { pending: true })], rows: [] },
  'a charge a minute later': { charges: [charge('ch_1', NOON + MINUTE_MS)], rows: [] },
  'a charge after that': { charges: [charge('ch_1', NOON + MINUTE_MS + 1)], rows: [] },
  'a charge three minutes later': { charges: [charge('ch_1', NOON + 3 * MINUTE_MS)], rows: [] },
  'a charge after those': { charges: [charge('ch_1', NOON + 3 * MINUTE_MS + 1)], rows: [] },
  'an undone charge': { charges: [charge('ch_1', NOON, { undone: true })], rows: [] },
  'two charges, the first undone': {
    charges: [charge('ch_1', NOON, { undone: true }), charge('ch_2', NOON + 5)],
    rows: [],
  },
  'two charges, the second undone': {
    charges: [charge(), charge('ch_2', NOON + 5, { undone: true })],
    rows: [],
  },
  'three charges, one undone': {
    charges: [charge('ch_1', NOON, { undone: true }), charge('ch_2', NOON + 5), charge('ch_3', NOON + 6)],
    rows: [],
  },
  'two charges': { charges: [charge('ch_2', NOON + 5), charge()], rows: [] },
  'two charges at once': { charges: [charge('ch_2'), charge('ch_1')], rows: [] },
  'two charges at once, the other first': { charges: [charge('ch_1'), charge('ch_2')], rows: [] },
  'two charges, one pending': { charges: [charge(), charge('ch_2', NOON, { pending: true })], rows: [] },
  'a row': { charges: [], rows: [row] },
  'a row of a listed charge': { charges: [], rows: [{ reference: 'ch_9', at: NOON }] },
  'a charge and a row': { charges: [charge()], rows: [row] },
};

/** The last column is what is told, in the order of the charges. */
const SPECIFICATION = `
  | paid                           | a charge                   | agreed                                   |
  | paid                           | a charge of op-1           | agreed                                   |
  | paid                           | a charge of op-9           | charge_without_record, record_without_charge |
  | paid                           | a pending charge           | open                                     |
  | paid                           | two charges                | second_charge, agreed                    |
  | paid                           | two charges at once        | second_charge, agreed                    |
  | paid                           | two charges at once, the other first | agreed, second_charge          |
  | paid                           | two charges, one pending   | agreed, open                             |
  | paid                           | nothing                    | record_without_charge                    |
  | paid                           | a row                      | record_without_charge                    |
  | paid                           | a row of a listed charge   |                                          |
  | paid as ch_1                   | two charges                | second_charge, agreed                    |
  | paid, of no charging operation | nothing                    |                                          |
  | paid, of no charging operation | a charge                   | agreed                                   |
  | declined                       | nothing                    | agreed                                   |
  | declined                       | a charge                   | charge_of_failure                        |
  | begun before the lists         | nothing                    | unclear                                  |
  | begun before the lists         | a charge before the window |                                          |
  | begun before the lists         | a charge                   | unclear                                  |
  | begun before the lists         | a charge a minute later    | unclear                                  |
  | begun before the lists         | a charge after that        | second_charge                            |
  | begun before the lists         | an undone charge           | agreed                                   |
  | begun before the lists, as ch_1 | a charge after that       | agreed                                   |
  | begun before the lists, as ch_1 | two charges               | second_charge, agreed                    |
  | begun before the lists, delivered late | a charge three minutes later | unclear                         |
  | begun before the lists, delivered late | a charge after those | second_charge                           |
  | paid                           | a charge after those       | agreed                                   |
  | paid                           | an undone charge           | agreed                                   |
  | paid                           | two charges, the first undone | agreed, agreed                        |
  | paid                           | two charges, the second undone | agreed, agreed                       |
  | paid                           | three charges, one undone  | agreed, agreed, second_charge            |
  | paid as ch_1                   | two charges, the first undone | agreed, agreed                        |
  | declined                       | an undone charge           | agreed                                   |
  | failed                         | an undone charge           | agreed                                   |
  | none                           | an undone charge           | agreed                                   |
  | used anew                      | a charge                   | unclear                                  |
  | used anew                      | a charge of op-1           | unclear                                  |
  | undelivered                    | nothing                    | open                                     |
  | undelivered                    | a charge                   | open                                     |
  | accepted                       | a charge                   | open                                     |
  | accepted                       | a row                      | open                                     |
  | accepted, ch_1 noted           | a charge                   | agreed                                   |
  | accepted, ch_1 noted           | two charges                | second_charge, agreed                    |
  | accepted, forgotten            | a charge                   | charge_still_open                        |
  | failed                         | a charge                   | charge_not_executed                      |
  | failed                         | a row                      | agreed                                   |
  | running                        | a charge                   | open                                     |
  | running again, due since long  | a charge                   | open                                     |
  | dead, due                      | a charge                   | open                                     |
  | dead, forgotten                | a charge                   | charge_still_open                        |
  | unknown                        | nothing                    |                                          |
  | unknown                        | a charge                   | open                                     |
  | unknown, parked                | a charge                   | charge_still_open                        |
  | none                           | a charge                   | charge_without_record                    |
  | none                           | two charges                | charge_without_record, charge_without_record |
  | none                           | a pending charge           | open                                     |
  | none                           | a row                      | record_without_charge                    |
  | none                           | a charge and a row         | charge_without_record                    |
`;

const terms: AuditTerms = {
  now: NOW,
  window: { from: NOON - HOUR_MS, to: NOON + HOUR_MS },
  listedFrom: early,
  listed: new Set(['ch_9']),
  hasRows: false,
  operations: ['pay'],
  retentionMs: 24 * HOUR_MS,
  expected: ({ response }) => response.status < 300,
};

function told(record: string, evidence: string, more: Partial<AuditTerms> = {}): string {
  const found = RECORDS[record as keyof typeof RECORDS] as unknown as LedgerRecord | undefined;
  const both = EVIDENCE[evidence];
  if (!both || !(record in RECORDS)) throw new Error(`no such line: ${record}, ${evidence}`);
  return auditOperation(both, found, { ...terms, ...more })
    .map(({ finding }) => finding)
    .join(', ');
}

describe('the audit of an operation', () => {
  const lines = SPECIFICATION.trim()
    .split('\n')
    .map((line) => line.split('|').slice(1, 4));
  for (const [record = '', evidence = '', finding = ''] of lines.map((cells) =>
    cells.map((cell) => cell.trim()),
  )) {
    it(`with the record ${record} and ${evidence} tells: ${finding || 'nothing'}`, () => {
      expect(told(record, evidence)).toBe(finding);
    });
  }

  it('needs earlier lists for a charge that may be the second of what was begun before them, and for no other', () => {
    const needed = (record: keyof typeof RECORDS, evidence: string, more: Partial<AuditTerms> = {}) => {
      const found = RECORDS[record] as unknown as LedgerRecord | undefined;
      return listsNeededFrom(EVIDENCE[evidence] ?? { charges: [], rows: [] }, found, { ...terms, ...more });
    };
    expect(needed('begun before the lists', 'a charge')).toBe(NOON - 9 * HOUR_MS - MINUTE_MS);
    expect(needed('begun before the lists', 'two charges, one pending')).toBeDefined();
    for (const evidence of [
      ...['nothing', 'a row', 'a charge of op-9', 'a charge before the window'],
      ...['a pending charge', 'an undone charge'],
    ])
      expect(needed('begun before the lists', evidence), evidence).toBeUndefined();
    expect(needed('begun before the lists', 'a charge', { expected: () => false })).toBeUndefined();
    expect(needed('begun before the lists, as ch_1', 'a charge')).toBeUndefined();
    for (const record of ['none', 'paid', 'failed', 'unknown', 'undelivered'] as const)
      expect(needed(record, 'a charge'), record).toBeUndefined();
  });

  it('misses a row only where rows are listed, and where the row would be among them', () => {
    expect(told('paid', 'a charge', { hasRows: true })).toBe('charge_without_row');
    expect(told('paid', 'a charge and a row', { hasRows: true })).toBe('agreed');
    expect(told('begun before the lists', 'a charge', { hasRows: true })).toBe('unclear');
    expect(told('begun before the lists, as ch_1', 'a charge', { hasRows: true })).toBe('unclear');
  });

  it('excuses a missing record once its TTL may have taken it, and not a minute before the clocks allow', () => {
    const gone = NOON + 25 * HOUR_MS - 60_000;
    expect(told('none', 'a charge', { now: gone })).toBe('charge_without_record');
    expect(told('none', 'a charge', { now: gone + 1 })).toBe('unclear');
  });

  it('leaves what is outside of the window to the window that it is in', () => {
    const window = { from: NOON + 1, to: NOON + HOUR_MS };
    expect(told('none', 'a charge', { window })).toBe('');
    expect(told('paid', 'two charges', { window })).toBe('second_charge');
    expect(told('none', 'a charge', { window: { from: NOON - 1, to: NOON } })).toBe('');
  });
});
