import {
  type AuditTerms,
  type AuditWindow,
  auditOperation,
  isMismatch,
  listsNeededFrom,
} from '../core/audit.ts';
import { defaultPolicy } from '../core/policy.ts';
import { type EpochMs, isOpen, type LedgerRecord, leasePassed } from '../core/record.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { nameOf, type Report } from '../observe/report.ts';
import type { auditTally } from './audit-tally.ts';
import type { AuditLists, AuditUnit } from './audit-window.ts';
import { park } from './park.ts';

interface LookerPorts<W> {
  readonly ledger: Ledger<W>;
  readonly clock: () => EpochMs;
  readonly report: Report;
  readonly tally: ReturnType<typeof auditTally>;
}

/** What stays the same for all operations of a run. */
export type LookerTerms = Omit<AuditTerms, 'now' | 'listed'>;

/** Asks for the lists of an earlier time. */
type ListsOf = (listed: AuditWindow) => Promise<AuditLists>;

/** Lists are asked for no further back than this before the window's own. Nothing is worked on for so long. */
const BACK_MAX_MS = 7 * 24 * 3_600_000;

/** Compares one operation after the other, and at the end those that were begun before the lists. */
export function auditLooker<W>(
  { ledger, clock, report, tally }: LookerPorts<W>,
  lists: AuditLists,
  fixed: LookerTerms,
) {
  const early: { readonly unit: AuditUnit; readonly record: LedgerRecord; readonly from: EpochMs }[] = [];
  return { look, lookBack };

  async function look(key: string): Promise<void> {
    const unit = lists.units.get(key) ?? { operationRef: key, charges: [], rows: [] };
    const { operationRef } = unit;
    try {
      const record = operationRef === undefined ? undefined : await ledger.read(operationRef);
      const from = listsNeededFrom(unit, record, termsFrom(fixed.listedFrom));
      if (record && from !== undefined) early.push({ unit, record, from });
      else await judge(unit, record, fixed.listedFrom);
    } catch (error) {
      tally.failed(operationRef, error);
    }
  }

  /**
   * The first charge of what was begun before the lists may stand before them, so those are asked for as well: two days with
   * one charge each would agree otherwise. Where they cannot be had, what may be the first charge is unclear.
   */
  async function lookBack(listsOf: ListsOf): Promise<void> {
    if (early.length === 0) return;
    const { listedFrom } = fixed;
    const from = Math.max(Math.min(...early.map((each) => each.from)), listedFrom - BACK_MAX_MS);
    let before: AuditLists | undefined;
    try {
      before = await listsOf({ from, to: listedFrom });
    } catch (error) {
      report.tell({ pk: '-', tenant: '-', operation: 'all' }, 'warn', 'audit_unclear', {
        reason: nameOf(error),
      });
    }
    for (const { unit, record } of early) {
      if (before) await judge(joined(unit, before), record, from);
      else await judge(unit, record, listedFrom);
    }
  }

  async function judge(
    unit: AuditUnit,
    record: LedgerRecord | undefined,
    listedFrom: EpochMs,
  ): Promise<void> {
    const verdicts = auditOperation(unit, record, termsFrom(listedFrom));
    for (const verdict of verdicts) tally.note(verdict, unit.operationRef, record);
    const worst = verdicts.map(({ finding }) => finding).find(isMismatch);
    if (worst && record && (await putAside(record, `audit: ${worst}`))) tally.parked();
  }

  function termsFrom(listedFrom: EpochMs): AuditTerms {
    return { ...fixed, listedFrom, now: clock(), listed: lists.charges };
  }

  /** What has ended cannot be parked; what runs is left to its owner, and what is parked where it is. */
  async function putAside(record: LedgerRecord, error: string): Promise<boolean> {
    if (!isOpen(record) || record.due?.parkedAt !== undefined) return false;
    const { skewMs } = defaultPolicy;
    if (record.status === 'in_progress' && !leasePassed(record, clock(), skewMs)) return false;
    return park({ ledger, clock, report }, record, error);
  }
}

/** What both lists have of one operation; a charge that names none is its own where a row says so. */
function joined(unit: AuditUnit, { units }: AuditLists): AuditUnit {
  const keys = [unit.operationRef, ...unit.rows.map(({ reference }) => reference && `~${reference}`)];
  const found = keys.flatMap((key) => (key === undefined ? [] : (units.get(key) ?? [])));
  const known = new Set(unit.charges.map(({ id }) => id));
  const charges = found.flatMap((other) => other.charges).filter(({ id }) => !known.has(id));
  return {
    operationRef: unit.operationRef,
    charges: [...charges, ...unit.charges],
    rows: [...found.flatMap((other) => other.rows), ...unit.rows],
  };
}
