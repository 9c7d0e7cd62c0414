import type { EpochMs, Open } from '../core/record.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Measured, Report } from '../observe/report.ts';
import { parkedPlace } from './places.ts';

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
