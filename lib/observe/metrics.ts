import type { EpochMs } from '../core/record.ts';

/** Every metric there is, with its unit. The prefix is part of the published name. */
export const metricUnits = {
  'reserve.created.count': 'Count',
  'reserve.replay.count': 'Count',
  'reserve.in_progress.count': 'Count',
  'reserve.key_misuse.count': 'Count',
  'reserve.failed_retry.count': 'Count',
  'reserve.unknown.count': 'Count',
  'reserve.over_quota.count': 'Count',
  'store.error.count': 'Count',
  'zombie_key.count': 'Count',
  'reconcile.scheduled.count': 'Count',
  'reconcile.resolved.count': 'Count',
  'reconcile.failed.count': 'Count',
  'sweep.run': 'Count',
  'sweep.looked': 'Count',
  'sweep.failed': 'Count',
  'unknown.age_ms': 'Milliseconds',
  leftover_ratio: 'None',
  'ttl_pruned.count': 'Count',
  evidence_removed: 'Count',
  'quota.flagged.count': 'Count',
  fenced: 'Count',
  parked: 'Count',
  'parked.waiting': 'Count',
  'outbox.delivered': 'Count',
  'outbox.failed': 'Count',
  'audit.mismatch': 'Count',
  'webhook.rejected': 'Count',
  'webhook.unmatched': 'Count',
  'reserve.latency_ms': 'Milliseconds',
  'execute.latency_ms': 'Milliseconds',
  'complete.latency_ms': 'Milliseconds',
} as const;

export type MetricName = keyof typeof metricUnits;

/** What one request measured, with what it was about. */
export interface Sample {
  readonly at: EpochMs;
  readonly operation: string;
  /** A property of the line, never a dimension: a dimension per tenant is a metric per tenant, and billed as one. */
  readonly tenant: string;
  readonly operationRef: string;
  readonly metrics: Readonly<Partial<Record<MetricName, number>>>;
}

/** Where measurements go. */
export type MetricSink = (sample: Sample) => void;

const PREFIX = 'api.idempotency.';

/** CloudWatch's embedded metric format: one line to the log, no call and no agent. */
export function emfSink(write: (line: string) => void, namespace = 'oncekey'): MetricSink {
  return ({ at, operation, tenant, operationRef, metrics }) => {
    const measured = Object.entries(metrics).map(([name, value]) => [name as MetricName, value] as const);
    if (measured.length === 0) return;
    const definitions = measured.map(([name]) => ({ Name: `${PREFIX}${name}`, Unit: metricUnits[name] }));
    const values = Object.fromEntries(measured.map(([name, value]) => [`${PREFIX}${name}`, value]));
    write(
      JSON.stringify({
        _aws: {
          Timestamp: at,
          CloudWatchMetrics: [{ Namespace: namespace, Dimensions: [['operation']], Metrics: definitions }],
        },
        operation,
        tenant,
        operationRef,
        ...values,
      }),
    );
  };
}
