import { setTimeout as pause } from 'node:timers/promises';
import { type AuditTerms, type AuditWindow, auditOperation, isMismatch } from '../core/audit.ts';
import { eachOf } from '../core/each-of.ts';
import { limits } from '../core/limits.ts';
import { defaultPolicy } from '../core/policy.ts';
import { type Completed, type EpochMs, isOpen, type LedgerRecord, leasePassed } from '../core/record.ts';
import { workUntil } from '../effects/remaining.ts';
import { nameOf, reporter, unread } from '../observe/report.ts';
import { type AuditorOptions, type AuditState, requireAuditOptions, stateIn } from './audit-options.ts';
import { type AuditTally, auditTally } from './audit-tally.ts';
import { type AuditLists, AuditRefused, type AuditUnit, readLists } from './audit-window.ts';
import { park } from './park.ts';

export interface AuditReport extends AuditTally {
  readonly window: AuditWindow;
  /** Absent when the whole window was audited. */
  readonly next?: AuditState;
}

/**
 * The lists begin so long before the window, for what was begun before it and ended in it: reconciliation takes some four
 * hours until an outcome is known or parked.
 */
const EDGE_MS = 4 * 3_600_000;

/** So many operations are compared between two looks at the clock. */
const BATCH = 50;

/** What is counted of an audit as a whole. */
const ALL = { pk: '-', tenant: '-', operation: 'all' };

/**
 * Once a day: what the provider has of a window against the ledger and the caller's own rows, both ways. The table is
 * looked through first and the provider listed last, so that whatever a record claims was there to be listed. It changes
 * nothing, except that a mismatch whose record is still open is put before an operator.
 */
export function auditor<W>(
  options: AuditorOptions<W>,
): (event: unknown, context: object) => Promise<AuditReport> {
  requireAuditOptions(options);
  const { ledger, operations, provider, rows, expected = isSuccess } = options;
  const { lagMs = 30 * 60_000, windowMs = 24 * 3_600_000, objectsMax = 100_000 } = options;
  const { retentionSeconds = defaultPolicy.retentionSeconds, pageItems = 1_000, pauseMs = 1_000 } = options;
  const { clock = Date.now, sleep = pause } = options;
  const report = reporter(clock, options.metrics, options.log);

  return async (event, context) => {
    const now = clock();
    try {
      return await audit(stateIn(event, now, { lagMs, windowMs }), now, workUntil(context, now));
    } catch (error) {
      report.measure(ALL, { 'reconcile.failed.count': 1 });
      report.tell(ALL, 'error', 'audit_failed', { reason: nameOf(error) });
      throw error;
    }
  };

  async function audit(state: AuditState, now: EpochMs, until: EpochMs): Promise<AuditReport> {
    const { records, objects, ...window } = state;
    const thirdMs = Math.floor((until - now) / 3); // To look through the table, to list, and so always some to compare.
    const ended = await lookThrough(window, records, now + thirdMs);
    const listed = { from: window.from - EDGE_MS, to: clock() };
    const lists = await readLists({ listed, objectsMax, until: now + 2 * thirdMs, clock }, provider, rows);
    const tally = auditTally(report, lists);
    const look = looker(lists, tally, { window, listedFrom: listed.from });

    const apart = ended.pks.filter((pk) => !isInside(lists.units.get(pk), window));
    if ((await lookAtAll(apart, look, until)) < apart.length) throw tooManyApart(apart.length);
    const keys = objects === null ? [] : keysAfter(lists, window, objects);
    const looked = await lookAtAll(keys, look, until);

    const left = looked < keys.length;
    const reached = left ? (keys[looked - 1] ?? objects) : null;
    const next = { ...window, ...at('records', ended.next), ...at('objects', reached) };
    return { window, ...tally.result(), ...((left || ended.next !== null) && { next }) };
  }

  /** Which records were completed in the window; where there is no time for the whole table, of a part of it. */
  async function lookThrough(
    window: AuditWindow,
    from: string | null | undefined,
    until: EpochMs,
  ): Promise<{ readonly pks: readonly string[]; readonly next: string | null | undefined }> {
    const pks: string[] = [];
    let next = from;
    while (next !== null && clock() < until && pks.length < objectsMax) {
      if (next !== from) await sleep(pauseMs);
      const page = await ledger.completedIn(window, operations, pageItems, next, { until });
      pks.push(...page.pks);
      next = page.next ?? null;
    }
    return { pks, next };
  }

  /** Says how many there was time for. */
  async function lookAtAll(
    keys: readonly string[],
    look: (key: string) => Promise<void>,
    until: EpochMs,
  ): Promise<number> {
    let looked = 0;
    while (looked < keys.length && clock() < until) {
      const batch = keys.slice(looked, looked + BATCH);
      await eachOf(batch, limits.sweepConcurrency, look);
      looked += batch.length;
    }
    return looked;
  }

  function looker(
    lists: AuditLists,
    tally: ReturnType<typeof auditTally>,
    range: Pick<AuditTerms, 'window' | 'listedFrom'>,
  ): (key: string) => Promise<void> {
    const retentionMs = retentionSeconds * 1_000;
    const fixed = { ...range, listed: lists.charges, hasRows: rows !== undefined };
    return async (key) => {
      const unit = lists.units.get(key) ?? { operationRef: key, charges: [], rows: [] };
      const { operationRef } = unit;
      try {
        const record = operationRef === undefined ? undefined : await ledger.read(operationRef);
        const terms = { ...fixed, now: clock(), operations, retentionMs, expected };
        const verdicts = auditOperation(unit, record, terms);
        for (const verdict of verdicts) tally.note(verdict, operationRef, record);
        const worst = verdicts.map(({ finding }) => finding).find(isMismatch);
        if (worst && record && (await putAside(record, `audit: ${worst}`))) tally.parked();
      } catch (error) {
        tally.failed();
        report.tell(unread(operationRef ?? '-'), 'error', 'audit_failed', { reason: nameOf(error) });
      }
    };
  }

  /** What has ended cannot be parked; what runs is left to its owner, and what is parked where it is. */
  async function putAside(record: LedgerRecord, error: string): Promise<boolean> {
    if (!isOpen(record) || record.due?.parkedAt !== undefined) return false;
    const { skewMs } = defaultPolicy;
    if (record.status === 'in_progress' && !leasePassed(record, clock(), skewMs)) return false;
    return park({ ledger, clock, report }, record, error);
  }
}

function isSuccess({ response: { status } }: Completed): boolean {
  return status >= 200 && status < 300;
}

/** The lists have something of it in the window, so it is compared with them. */
function isInside(unit: AuditUnit | undefined, { from, to }: AuditWindow): boolean {
  return unit !== undefined && [...unit.charges, ...unit.rows].some(({ at }) => at >= from && at < to);
}

/** In an order that is the same when the lists are read again. */
function keysAfter({ units }: AuditLists, window: AuditWindow, after: string | undefined): readonly string[] {
  const keys = [...units.keys()].filter((key) => after === undefined || key > after);
  return keys.filter((key) => isInside(units.get(key), window)).sort();
}

/** Where it has not begun, there is nothing to say: an event is JSON. */
function at(name: 'records' | 'objects', cursor: string | null | undefined): object {
  return cursor === undefined ? {} : { [name]: cursor };
}

function tooManyApart(count: number): AuditRefused {
  return new AuditRefused(
    `There was no time to read ${count} records that were completed without an object in the window. Is provider the right list, and do all of operations charge? Else give the function more time.`,
  );
}
