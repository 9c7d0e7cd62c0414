import { type AuditFinding, type AuditVerdict, isMismatch, type MismatchKind } from '../core/audit.ts';
import type { LedgerRecord } from '../core/record.ts';
import { nameOf, type Report, unread } from '../observe/report.ts';
import type { AuditLists } from './audit-window.ts';

/** One place where the two sides disagree. */
export interface Mismatch {
  readonly kind: MismatchKind;
  /** Absent if the provider's object names none. */
  readonly operationRef?: string;
  /** Whose it is, as far as there is a record that says so. */
  readonly tenant?: string;
  readonly operation?: string;
  /** What the provider calls it; absent if there is nothing. */
  readonly object?: string;
}

/** What one invocation found. */
export interface AuditTally {
  readonly listed: { readonly objects: number; readonly rows: number };
  /** How often each, mismatches or not. */
  readonly found: Readonly<Partial<Record<AuditFinding, number>>>;
  readonly mismatched: number;
  /** The first hundred. Every one of them is counted, and in the log. */
  readonly mismatches: readonly Mismatch[];
  readonly parked: number;
  /** Operations that could not be looked at. Audit the window again once they can be read. */
  readonly failed: number;
  /** The first hundred of them, and the class of the error. Every one of them is measured, and in the log. */
  readonly failures: readonly AuditFailure[];
}

/** An operation that could not be looked at. */
export interface AuditFailure {
  /** Absent if the provider's object names none. */
  readonly operationRef?: string;
  readonly error: string;
}

/** What Lambda returns, and a person reads, has an end. */
const TOLD_MAX = 100;

/** Counts what is found, and raises what has to be known. */
export function auditTally(report: Report, { charges, rows }: AuditLists) {
  const found: Partial<Record<AuditFinding, number>> = {};
  const mismatches: Mismatch[] = [];
  const failures: AuditFailure[] = [];
  let [mismatched, parked, failed] = [0, 0, 0];
  return {
    note(
      { finding, charge }: AuditVerdict,
      operationRef: string | undefined,
      record: LedgerRecord | undefined,
    ): void {
      found[finding] = (found[finding] ?? 0) + 1;
      if (!isMismatch(finding)) return;
      const subject = record ?? unread(operationRef ?? '-');
      report.measure(subject, { 'audit.mismatch': 1 });
      report.tell(subject, 'error', 'audit_mismatch', { reason: finding });
      mismatched += 1;
      if (mismatches.length >= TOLD_MAX) return;
      mismatches.push({
        kind: finding,
        ...(operationRef !== undefined && { operationRef }),
        ...(record && { tenant: record.tenant, operation: record.operation }),
        ...(charge && { object: charge.id }),
      });
    },
    parked(): void {
      parked += 1;
    },
    failed(operationRef: string | undefined, error: unknown): void {
      const subject = unread(operationRef ?? '-');
      report.measure(subject, { 'reconcile.failed.count': 1 });
      report.tell(subject, 'error', 'audit_failed', { reason: nameOf(error) });
      failed += 1;
      if (failures.length >= TOLD_MAX) return;
      failures.push({ ...(operationRef !== undefined && { operationRef }), error: nameOf(error) });
    },
    result: (): AuditTally => ({
      listed: { objects: charges.size, rows },
      ...{ found, mismatched, mismatches, parked, failed, failures },
    }),
  };
}
