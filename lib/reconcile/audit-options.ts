import type { AuditWindow } from '../core/audit.ts';
import { InvalidArgument } from '../core/errors.ts';
import { schedule } from '../core/policy.ts';
import type { Completed, EpochMs } from '../core/record.ts';
import {
  refuse,
  requireFunctions,
  requireKnown,
  requireLedger,
  requireOptions,
  requireWhole,
} from '../effects/option-checks.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import type { AuditSource, DomainRow, ProviderObject } from './audit-window.ts';

export interface AuditorOptions<W = unknown> {
  readonly ledger: Ledger<W>;
  /** The operations that make an object at the provider. What others have completed is not looked for there. */
  readonly operations: readonly string[];
  /** Lists what the provider has. */
  readonly provider: AuditSource<ProviderObject>;
  /** Lists what your own table says has been charged. */
  readonly rows?: AuditSource<DomainRow>;
  /** Whether a completed record's operation has made its object. Default: if it answered with a 2xx. */
  readonly expected?: (record: Completed) => boolean;
  /** How much is audited at a time. Default 24 hours. */
  readonly windowMs?: number;
  /** How long ago a window has to have ended: what is younger is still settling. Default 30 minutes. */
  readonly lagMs?: number;
  /** The shortest retention of these operations: an older charge may have outlived its record. Default 24 hours. */
  readonly retentionSeconds?: number;
  /** The most objects and rows of a window, which are held in memory. Default 100,000. */
  readonly objectsMax?: number;
  /** How many items of the table are read at a time. Default 1,000. */
  readonly pageItems?: number;
  /** How long to wait between two such pages. Default 1 s. */
  readonly pauseMs?: number;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly sleep?: (ms: number) => Promise<void>;
}

/** Which window to audit, and where an audit of it stopped: pass it as the event of the next invocation. */
export interface AuditState extends AuditWindow {
  /** How far the table was looked through; null to its end. */
  readonly records?: string | null;
  /** How far the lists were compared; null to their end. */
  readonly objects?: string | null;
}

const OPTIONS = [
  'ledger',
  'operations',
  'provider',
  'rows',
  'expected',
  'windowMs',
  'lagMs',
  'retentionSeconds',
  'objectsMax',
  'pageItems',
  'pauseMs',
  'metrics',
  'log',
  'clock',
  'sleep',
] as const satisfies readonly (keyof AuditorOptions)[];

/** DynamoDB compares with no more in one filter. */
const OPERATIONS_MAX = 100;

const HOUR_MS = 3_600_000;

export function requireAuditOptions<W>(options: AuditorOptions<W>): void {
  requireOptions(options, 'auditor()');
  requireKnown(options, OPTIONS, 'auditor()');
  requireLedger(options.ledger, 'auditor()', ['completedIn', 'read', 'watch']);
  requireFunctions(options, ['rows', 'expected', 'metrics', 'log', 'clock', 'sleep']);
  if (typeof options.provider !== 'function') {
    throw new InvalidArgument(
      'auditor() needs provider, for example provider: ({ from, to }) => …, which lists the charges of that time.',
    );
  }
  requireOperations(options.operations);
  requireWhole(options, 'windowMs', HOUR_MS);
  requireWhole(options, 'lagMs', 0);
  requireWhole(options, 'retentionSeconds', schedule.retentionMinSeconds, schedule.retentionMaxSeconds);
  requireWhole(options, 'objectsMax', 1);
  requireWhole(options, 'pageItems', 1);
  requireWhole(options, 'pauseMs', 0);
}

function requireOperations(operations: unknown): void {
  const names: unknown[] = Array.isArray(operations) ? operations : [];
  const named = names.length > 0 && names.every((name) => typeof name === 'string' && name !== '');
  if (named && names.length <= OPERATIONS_MAX) return;
  refuse(
    'operations',
    operations,
    `the names of 1 to ${OPERATIONS_MAX} operations that charge, such as ['POST /payments']`,
  );
}

/**
 * What the event asks for; else the last window that ended long enough ago, at a full hour: a schedule that is some
 * seconds late one day and not the next leaves no gap between two windows.
 */
export function stateIn(
  event: unknown,
  now: EpochMs,
  { lagMs, windowMs }: { readonly lagMs: number; readonly windowMs: number },
): AuditState {
  const asked = (typeof event === 'object' && event !== null ? event : {}) as Partial<AuditState>;
  const settled = now - lagMs;
  if (asked.from === undefined && asked.to === undefined) {
    const to = Math.floor(settled / HOUR_MS) * HOUR_MS;
    return { from: to - windowMs, to };
  }
  const { from, to, records, objects } = asked;
  if (isTime(from) && isTime(to) && from < to && to <= settled) {
    return { from, to, ...(isCursor(records) && { records }), ...(isCursor(objects) && { objects }) };
  }
  throw new InvalidArgument(
    `The event asks for an audit from ${from} to ${to}; expected two times in milliseconds, the later at or before ${settled}, which is lagMs ago: what is younger is still settling.`,
  );
}

function isTime(value: unknown): value is EpochMs {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

function isCursor(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}
