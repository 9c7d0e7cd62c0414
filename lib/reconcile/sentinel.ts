import type { DynamoDBBatchResponse } from 'aws-lambda';
import { eachOf } from '../core/each-of.ts';
import { limits } from '../core/limits.ts';
import { defaultPolicy } from '../core/policy.ts';
import { type EpochMs, type InProgress, lapsesAt, leasePassed } from '../core/record.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { workUntil } from '../effects/remaining.ts';
import { recordOfImage } from '../ledger/image.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import { nameOf, reporter, unread } from '../observe/report.ts';
import { waitPlace } from './places.ts';
import { type QuotaLimits, quotaCounter, requireQuotaLimits } from './quota.ts';
import { OPEN, type RecordChange, recordChanges } from './stream.ts';
import type { Sweep } from './sweep.ts';

export interface SentinelOptions<W = unknown> {
  readonly ledger: Ledger<W>;
  /** Looks at once at what is already abandoned. Without it the next sweep does. */
  readonly sweeper?: Pick<Sweep, 'look'>;
  /** Counts the keys of each tenant; who takes more gets no new ones, where `quota` is on. Off by default. */
  readonly quota?: QuotaLimits;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
}

const OPTIONS = [
  'ledger',
  'sweeper',
  'quota',
  'metrics',
  'log',
  'clock',
] as const satisfies readonly (keyof SentinelOptions)[];

/** What is counted of a batch, whoever it belongs to. */
const ALL = { pk: '-', tenant: '-', operation: 'all' };

/** The changes that leave a reservation without its end, and how many reservations there were. */
interface Pairing {
  readonly leftovers: readonly RecordChange[];
  readonly reservations: number;
}

/**
 * Pairs each reservation of a batch with its end, by record: the last change of a record decides, in the order of the
 * stream, which is the order of its writes. Duplicates and reordering can only make a leftover of what is none, which costs
 * one refused write, or hide one behind a later change that will come by itself.
 */
export function paired(changes: readonly RecordChange[]): Pairing {
  const last = new Map<string, RecordChange>();
  const reserved = new Set<string>();
  for (const change of changes) {
    if (change.after === 'in_progress') reserved.add(change.pk);
    last.set(change.pk, change);
  }
  const leftovers = [...last.values()].filter(({ after, isDue }) => after === 'in_progress' && !isDue);
  return { leftovers, reservations: reserved.size };
}

/**
 * Watches over what is reserved: a reservation that does not end within its batch gets its place in the due index, where the
 * sweep finds it. The hot path never pays for that index, and nothing is missed because nobody asked.
 */
export function sentinel<W>(
  options: SentinelOptions<W>,
): (event: unknown, context: object) => Promise<DynamoDBBatchResponse> {
  requireOptions(options, 'sentinel()');
  requireKnown(options, OPTIONS, 'sentinel()');
  requireLedger(options.ledger, 'sentinel()', ['watch']);
  requireFunctions(options, ['metrics', 'log', 'clock']);
  requireQuotaLimits(options.quota, options.ledger);
  const { ledger, sweeper, clock = Date.now } = options;
  const { measure, tell } = reporter(clock, options.metrics, options.log);
  const count = quotaCounter(options.quota, { ledger, clock, measure, tell });
  const { skewMs } = defaultPolicy;

  return async (event, context) => {
    const until = workUntil(context, clock());
    const changes = recordChanges(event);
    countRemoved(changes);
    const { leftovers, reservations } = paired(changes);
    const failed: RecordChange[] = [];
    await eachOf(leftovers, limits.sweepConcurrency, async (change) => {
      try {
        await watch(recordOfImage(change.image) as InProgress, until);
      } catch (error) {
        tell(unread(change.pk), 'error', 'sentinel_failed', {
          reason: nameOf(error),
        });
        failed.push(change);
      }
    });
    if (reservations > 0) {
      measure(ALL, { leftover_ratio: leftovers.length / reservations });
    }
    await count(changes, failed, until);
    return { batchItemFailures: failed.map(({ sequenceNumber }) => ({ itemIdentifier: sequenceNumber })) };
  };

  /** TTL ends what is finished. Whatever else is removed takes the only evidence of an open outcome with it. */
  function countRemoved(changes: readonly RecordChange[]): void {
    const removed = changes.filter(({ before, after }) => before !== undefined && after === undefined);
    const evidence = removed.filter(({ before, hadOutbox }) => hadOutbox || OPEN.has(before));
    if (removed.length > 0) measure(ALL, { 'ttl_pruned.count': removed.length - evidence.length });
    for (const { pk, before = '' } of evidence) {
      measure(ALL, { evidence_removed: 1 });
      tell(unread(pk), 'error', 'evidence_removed', { reason: before });
    }
  }

  /** As the stream showed it: if it has moved on since, the write is refused, and nobody needs to watch it. */
  async function watch(record: InProgress, until: EpochMs): Promise<void> {
    const now = clock();
    const at = Math.max(now, lapsesAt(record, skewMs));
    const placed = await ledger.watch(record, waitPlace(record, at), { until });
    if (placed.kind === 'fenced') return;
    tell(record, 'info', 'watched', { attempt: record.attempt });
    if (sweeper && leasePassed(record, now, skewMs)) await sweeper.look(placed.record, until);
  }
}
