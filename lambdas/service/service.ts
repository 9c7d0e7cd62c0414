import type { Ledger, LogSink, MetricSink } from '../../lib/index.ts';
import type { Provider } from './provider.ts';
import type { Rows } from './rows.ts';

/** What the service's functions work with. Tests bring their own. */
export interface Service<W> {
  readonly ledger: Ledger<W>;
  readonly rows: Rows<W>;
  readonly provider: Provider;
  readonly clock: () => number;
  /** Where reports go, if not to the log. */
  readonly sinks?: { readonly log?: LogSink; readonly metrics?: MetricSink };
}
