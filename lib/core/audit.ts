import { defaultPolicy, schedule } from './policy.ts';
import {
  type Completed,
  type EpochMs,
  isUndelivered,
  type LedgerRecord,
  leasePassed,
  outboxOf,
  referencesOf,
} from './record.ts';

/** Where a provider and the ledger disagree. */
export type MismatchKind =
  /** Nobody reserved what was charged. */
  | 'charge_without_record'
  /** The record, or the caller's own row, says that it was charged. */
  | 'record_without_charge'
  /** One more than the operation was to make. */
  | 'second_charge'
  /** The record says that nothing ran, so the next request with its key charges again. */
  | 'charge_not_executed'
  /** The client was told that it failed. */
  | 'charge_of_failure'
  /** Its record waits for an operator, or nobody looks at it. */
  | 'charge_still_open'
  /** The ledger knows of it, the caller's own table does not. */
  | 'charge_without_row';

export type AuditFinding =
  | MismatchKind
  | 'agreed'
  /** Still being worked on, by us or by the provider. */
  | 'open'
  /** So old that its other half may be gone, or before what was listed. */
  | 'unclear';

const MISMATCHES: Readonly<Record<AuditFinding, boolean>> = {
  charge_without_record: true,
  record_without_charge: true,
  second_charge: true,
  charge_not_executed: true,
  charge_of_failure: true,
  charge_still_open: true,
  charge_without_row: true,
  agreed: false,
  open: false,
  unclear: false,
};

export function isMismatch(finding: AuditFinding): finding is MismatchKind {
  return MISMATCHES[finding];
}

/** From, inclusive, to, exclusive. */
export interface AuditWindow {
  readonly from: EpochMs;
  readonly to: EpochMs;
}

/** What a provider has of an operation, as far as the audit looks at it. */
export interface AuditedCharge {
  readonly id: string;
  readonly at: EpochMs;
  readonly pending: boolean;
  /** It was made, and taken back since. */
  readonly undone: boolean;
  readonly operationId: string | undefined;
}

/** What both lists have of one operation, from the window and from around it. */
export interface AuditEvidence {
  readonly charges: readonly AuditedCharge[];
  readonly rows: readonly { readonly reference: string | undefined; readonly at: EpochMs }[];
}

export interface AuditTerms {
  readonly now: EpochMs;
  readonly window: AuditWindow;
  /** Where the lists begin: what was made before it is on none of them. */
  readonly listedFrom: EpochMs;
  /** Every charge that was listed, by its id. */
  readonly listed: ReadonlySet<string>;
  readonly hasRows: boolean;
  /** The operations that charge. */
  readonly operations: readonly string[];
  readonly retentionMs: number;
  /** Whether a finished record's operation has charged. */
  readonly expected: (record: Completed) => boolean;
}

export interface AuditVerdict {
  readonly finding: AuditFinding;
  /** Absent if it is about a charge that is not there. */
  readonly charge?: AuditedCharge;
}

/** A provider's clock against ours, and its times may be cut to the second. */
const CLOCKS_APART_MS = 60_000;

/** The sweep looks every minute, and never puts off a look by more than this without saying until when. */
const FORGOTTEN_MS = 2 * defaultPolicy.reconcileCapMs;

/**
 * What an operation's record, charges and rows say about each other. Only what falls into the window is told, so that
 * windows side by side tell everything once. Where it may be only that we cannot see the other half, nothing is alarmed.
 */
export function auditOperation(
  { charges, rows }: AuditEvidence,
  record: LedgerRecord | undefined,
  terms: AuditTerms,
): readonly AuditVerdict[] {
  const inside = (at: EpochMs) => at >= terms.window.from && at < terms.window.to;
  const own = charges.filter((charge) => !record || isOf(record, charge));
  const second = record ? secondCharges(own, record) : [];
  const verdicts: AuditVerdict[] = charges
    .filter(({ at }) => inside(at))
    .map((charge) => {
      if (charge.pending) return { finding: 'open', charge };
      if (charge.undone) return { finding: 'agreed', charge };
      if (second.includes(charge)) return { finding: 'second_charge', charge };
      return { finding: auditCharge(charge, rows.length > 0, record, terms), charge };
    });
  const known = rows.some(({ reference }) => reference !== undefined && terms.listed.has(reference));
  const claimed =
    rows.some(({ at }) => inside(at)) || (record && isFinished(record) && inside(record.completedAt));
  if (claimed && own.length === 0 && !known) verdicts.push({ finding: auditMissing(record, terms) });
  return verdicts;

  function isFinished(of: LedgerRecord): of is Completed {
    return of.status === 'completed' && terms.operations.includes(of.operation);
  }
}

/**
 * Whether the lists begin too late to say: one of these charges may be the second, of an operation that made its first
 * before them. Answers since when the lists would have to be.
 */
export function listsNeededFrom(
  { charges }: AuditEvidence,
  record: LedgerRecord | undefined,
  { window: { from, to }, ...terms }: AuditTerms,
): EpochMs | undefined {
  if (record?.status !== 'completed' || record.outbox || isListed(record, terms)) return undefined;
  const named = namedBy(record);
  const doubtful = charges.filter(({ at, id }) => at >= from && at < to && !named.includes(id));
  const counted = doubtful.some((charge) => isCounted(charge) && isOf(record, charge));
  return counted && terms.expected(record) ? record.createdAt - CLOCKS_APART_MS : undefined;
}

/** It took money, and has it still. */
function isCounted({ pending, undone }: AuditedCharge): boolean {
  return !pending && !undone;
}

/** The record may name several as its own; of those that it does not name it was to make one, the first. */
function secondCharges(own: readonly AuditedCharge[], record: LedgerRecord): readonly AuditedCharge[] {
  const named = namedBy(record);
  const made = own.filter(isCounted).sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
  const others = made.filter(({ id }) => !named.includes(id));
  return others.length < made.length ? others : others.slice(1);
}

function auditCharge(
  charge: AuditedCharge,
  hasRow: boolean,
  record: LedgerRecord | undefined,
  terms: AuditTerms,
): AuditFinding {
  if (!record) return isGone(charge, terms) ? 'unclear' : 'charge_without_record';
  if (!isOf(record, charge)) {
    // The key has been used anew, which it can only be once the record of this charge has expired.
    return record.createdAt > charge.at + CLOCKS_APART_MS ? 'unclear' : 'charge_without_record';
  }
  switch (record.status) {
    case 'failed_retryable':
      return 'charge_not_executed';
    case 'completed':
      if (record.outbox) break;
      if (!terms.expected(record)) return 'charge_of_failure';
      if (!isListed(record, terms) && !namedBy(record).includes(charge.id)) {
        return charge.at > chargedUntil(record) + CLOCKS_APART_MS ? 'second_charge' : 'unclear';
      }
      if (hasRow || !terms.hasRows) return 'agreed';
      return isListed(record, terms) ? 'charge_without_row' : 'unclear';
    case 'in_progress':
    case 'accepted':
    case 'unknown':
      break;
    default:
      return record satisfies never;
  }
  if (namedBy(record).includes(charge.id)) return 'agreed';
  return isForgotten(record, terms.now) ? 'charge_still_open' : 'open';
}

/** A record in the window, or a row, claims a charge, and the provider lists none. */
function auditMissing(record: LedgerRecord | undefined, terms: AuditTerms): AuditFinding {
  if (!record) return 'record_without_charge'; // The row alone still claims it.
  switch (record.status) {
    case 'failed_retryable':
      return 'agreed'; // Nothing ran, and nothing is there.
    case 'completed':
      if (record.outbox) return 'open';
      if (!terms.expected(record) || namedBy(record).some((id) => terms.listed.has(id))) return 'agreed';
      return isListed(record, terms) ? 'record_without_charge' : 'unclear';
    case 'in_progress':
    case 'accepted':
    case 'unknown':
      return 'open';
    default:
      return record satisfies never;
  }
}

/** Where the charge does not say which use of the key it belongs to, time does. */
function isOf(record: LedgerRecord, { at, operationId }: AuditedCharge): boolean {
  if (operationId !== undefined) return operationId === record.operationId;
  return record.createdAt <= at + CLOCKS_APART_MS;
}

/** Whatever it led to is on the lists, which begin before it. */
function isListed(record: LedgerRecord, { listedFrom }: Pick<AuditTerms, 'listedFrom'>): boolean {
  return record.createdAt >= listedFrom + CLOCKS_APART_MS;
}

/** A record outlives its charge by its retention and the margin of its TTL. */
function isGone({ at }: AuditedCharge, { now, retentionMs }: AuditTerms): boolean {
  return at - CLOCKS_APART_MS + retentionMs + schedule.ttlMarginSeconds * 1_000 < now;
}

/** When it had charged at the latest: at its completion, or by a late delivery, from which its TTL is counted then. */
function chargedUntil({ completedAt, expiresAt, ttl = 0 }: Completed): EpochMs {
  return completedAt + Math.max(0, (ttl - schedule.ttlMarginSeconds) * 1_000 - expiresAt);
}

/** What providers call what they have taken from it. */
function namedBy(record: LedgerRecord): readonly string[] {
  if (isUndelivered(record)) return referencesOf(outboxOf(record));
  return record.status === 'completed' ? (record.references ?? []) : [];
}

/** Parked, or overdue for so long that nobody is about to look. */
function isForgotten(record: LedgerRecord, now: EpochMs): boolean {
  const due = 'due' in record ? record.due : undefined;
  if (due?.parkedAt !== undefined) return true;
  if (record.status === 'in_progress' && !leasePassed(record, now, defaultPolicy.skewMs)) return false;
  return (due?.at ?? openSince(record)) + FORGOTTEN_MS < now;
}

function openSince(record: LedgerRecord): EpochMs {
  if (record.status === 'accepted') return record.accepted.at;
  if ('leaseUntil' in record) return record.leaseUntil;
  return record.completedAt;
}
