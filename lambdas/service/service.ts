import type { Ledger, LogSink, MetricSink, OperationOptions } from '../../lib/index.ts';
import type { Provider } from './provider.ts';
import type { Rows } from './rows.ts';

/** How long is waited for a provider and for what it may still do. Without it, as the library has it. */
export type Pace = Pick<OperationOptions, 'settlingMs' | 'reconcileBaseMs' | 'reconcileCapMs'>;

/** What the service's functions work with. Tests bring their own. */
export interface Service<W> {
  readonly ledger: Ledger<W>;
  readonly rows: Rows<W>;
  readonly provider: Provider;
  readonly clock: () => number;
  readonly pace?: Pace;
  /** Where reports go, if not to the log. */
  readonly sinks?: { readonly log?: LogSink; readonly metrics?: MetricSink };
}
