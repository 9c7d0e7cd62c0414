import { schedule } from '../core/policy.ts';
import type { EpochMs, Open } from '../core/record.ts';
import type { OperationPolicy } from '../effects/operations.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Measured, Report } from '../observe/report.ts';
import { parkedPlace, retryPlace } from './places.ts';

export interface ParkPorts<W> {
  readonly ledger: Pick<Ledger<W>, 'watch'>;
  readonly clock: () => EpochMs;
  readonly report: Report;
}

interface Parking {
  readonly tries?: number | undefined;
  readonly until?: EpochMs;
  /** What is counted beside the parking itself. */
  readonly also?: Measured;
}

/** Puts a record before an operator, with the reason. Says whether it was; else somebody has changed it since it was read. */
export async function park<W>(
  { ledger, clock, report }: ParkPorts<W>,
  record: Open,
  error: string,
  { tries, until, also = {} }: Parking = {},
): Promise<boolean> {
  const call = until === undefined ? {} : { until };
  const parked = await ledger.watch(record, parkedPlace(record, clock(), error, tries), call);
  if (parked.kind === 'fenced') return false;
  report.measure(record, { parked: 1, ...also });
  report.tell(record, 'error', 'parked', { attempt: record.attempt, reason: error });
  return true;
}

export interface PutOffPorts<W> extends ParkPorts<W> {
  readonly random: () => number;
  readonly policyOf: (operation: string) => OperationPolicy;
}

/** What came to nothing is looked at again later; the last time, an operator sees it, with what went wrong. */
export async function putOff<W>(
  ports: PutOffPorts<W>,
  record: Open,
  error: string,
  afterMs?: number,
): Promise<'rescheduled' | 'parked' | 'fenced'> {
  const { ledger, clock, random, report, policyOf } = ports;
  const also = { 'reconcile.failed.count': 1 };
  const due = retryPlace(record, clock(), policyOf(record.operation).policy, random, error, afterMs);
  if (due.tries >= schedule.reconcileTries) {
    return (await park(ports, record, error, { tries: due.tries, also })) ? 'parked' : 'fenced';
  }
  const moved = await ledger.watch(record, due);
  if (moved.kind === 'fenced') return 'fenced';
  report.measure(record, also);
  report.tell(record, 'warn', 'unresolved', { attempt: record.attempt, reason: error });
  return 'rescheduled';
}
