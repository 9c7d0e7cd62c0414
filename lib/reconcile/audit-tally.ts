import { type AuditFinding, type AuditVerdict, isMismatch, type MismatchKind } from '../core/audit.ts';
import type { LedgerRecord } from '../core/record.ts';
import { type Report, unread } from '../observe/report.ts';
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
  /** Operations that could not be looked at; the log says why. */
  readonly failed: number;
}

/** What Lambda returns, and a person reads, has an end. */
const MISMATCHES_TOLD = 100;

/** Counts what is found, and raises what has to be known. */
export function auditTally(report: Report, { charges, rows }: AuditLists) {
  const found: Partial<Record<AuditFinding, number>> = {};
  const mismatches: Mismatch[] = [];
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
      if (mismatches.length >= MISMATCHES_TOLD) return;
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
    failed(): void {
      failed += 1;
    },
    result: (): AuditTally => ({
      listed: { objects: charges.size, rows },
      ...{ found, mismatched, mismatches, parked, failed },
    }),
  };
}
