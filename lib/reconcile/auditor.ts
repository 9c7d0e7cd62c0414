import { setTimeout as pause } from 'node:timers/promises';
import type { AuditWindow } from '../core/audit.ts';
import { eachOf } from '../core/each-of.ts';
import { limits } from '../core/limits.ts';
import { defaultPolicy } from '../core/policy.ts';
import type { Completed, EpochMs } from '../core/record.ts';
import { workUntil } from '../effects/remaining.ts';
import { nameOf, reporter } from '../observe/report.ts';
import { auditLooker } from './audit-looker.ts';
import { type AuditorOptions, type AuditState, requireAuditOptions, stateIn } from './audit-options.ts';
import { type AuditTally, auditTally } from './audit-tally.ts';
import { type AuditLists, AuditRefused, type AuditUnit, readLists } from './audit-window.ts';

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

/** A page of the table, as far as it was completed in the window, and where the next one begins. */
interface EndedPage {
  readonly pks: readonly string[];
  readonly next: string | null;
}

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
    const pages = await lookThrough(window, records, now + thirdMs);
    const listed = { from: window.from - EDGE_MS, to: clock() };
    const listsOf = (of: AuditWindow, end: EpochMs) =>
      readLists({ listed: of, objectsMax, until: end, clock }, provider, rows);
    const lists = await listsOf(listed, now + 2 * thirdMs);
    const tally = auditTally(report, lists);
    const known = {
      operations,
      expected,
      hasRows: rows !== undefined,
      retentionMs: retentionSeconds * 1_000,
    };
    const { look, lookBack } = auditLooker({ ledger, clock, report, tally }, lists, {
      ...{ ...known, window, listedFrom: listed.from },
    });

    const comparedBy = until - Math.floor(thirdMs / 4); // Some is left to look back.
    const ended = await lookAtPages(
      pages,
      records,
      (pk) => isInside(lists.units.get(pk), window),
      look,
      comparedBy,
    );
    const keys = objects === null ? [] : keysAfter(lists, window, objects);
    const looked = await lookAtAll(keys, look, comparedBy);
    await lookBack((of) => listsOf(of, until));

    const left = looked < keys.length;
    const reached = left ? (keys[looked - 1] ?? objects) : null;
    const next = { ...window, ...at('records', ended), ...at('objects', reached) };
    return { window, ...tally.result(), ...((left || ended !== null) && { next }) };
  }

  /** Which records were completed in the window; where there is no time for the whole table, of a part of it. */
  async function lookThrough(
    window: AuditWindow,
    from: string | null | undefined,
    until: EpochMs,
  ): Promise<readonly EndedPage[]> {
    const pages: EndedPage[] = [];
    let [next, found] = [from, 0];
    while (next !== null && clock() < until && found < objectsMax) {
      if (pages.length > 0) await sleep(pauseMs);
      const page = await ledger.completedIn(window, operations, pageItems, next, { until });
      next = page.next ?? null;
      found += page.pks.length;
      pages.push({ pks: page.pks, next });
    }
    return pages;
  }

  /**
   * Looks at what the lists have nothing of, and says how far in the table that was. A page that there was no time for is
   * looked at again by the next run, as a whole: told twice is better than not at all.
   */
  async function lookAtPages(
    pages: readonly EndedPage[],
    from: string | null | undefined,
    isListed: (pk: string) => boolean,
    look: (pk: string) => Promise<void>,
    until: EpochMs,
  ): Promise<string | null | undefined> {
    let reached = from;
    for (const [index, { pks, next }] of pages.entries()) {
      const apart = pks.filter((pk) => !isListed(pk));
      const looked = await lookAtAll(apart, look, until);
      if (looked < apart.length && index === 0) throw tooManyApart(looked, apart.length);
      if (looked < apart.length) break;
      reached = next;
    }
    return reached;
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

function tooManyApart(looked: number, count: number): AuditRefused {
  return new AuditRefused(
    `There was no time to read more than ${looked} of ${count} records, of one page, that were completed without an object in the window. What was found among those is in the log and measured; nothing else was compared. Is provider the right list, and do all of operations charge? Else give the function more time, or lower pageItems.`,
  );
}
