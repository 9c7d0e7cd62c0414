import type { DynamoDBBatchResponse } from 'aws-lambda';
import { eachOf } from '../core/each-of.ts';
import { RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { paired } from '../core/pairing.ts';
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
import { type RecordChange, recordChanges, showsOpen } from './stream.ts';
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

/**
 * Watches over what is reserved: a reservation that does not end within its batch gets its place in the due index, where the
 * sweep finds it. The hot path never pays for that index, and nothing is missed because nobody asked.
 */
export function sentinel<W>(
  options: SentinelOptions<W>,
): (event: unknown, context: object) => Promise<DynamoDBBatchResponse> {
  requireOptions(options, 'sentinel()');
  requireKnown(options, OPTIONS, 'sentinel()');
  requireLedger(options.ledger, 'sentinel()', ['watch', 'read']);
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
        await watch(change, until);
      } catch (error) {
        measure(unread(change.pk), { 'store.error.count': 1 });
        say(change.pk, 'sentinel_failed', error);
        failed.push(change);
      }
    });
    if (reservations > 0) {
      measure(ALL, { leftover_ratio: leftovers.length / reservations });
    }
    await count(changes, failed, until);
    return { batchItemFailures: failed.map(({ sequenceNumber }) => ({ itemIdentifier: sequenceNumber })) };
  };

  /**
   * TTL ends what is finished. Whatever else is removed takes the only evidence of an open outcome with it; what its last
   * image knew of it is all that anybody can still look for at the provider.
   */
  function countRemoved(changes: readonly RecordChange[]): void {
    const removed = changes.filter(({ before, after }) => before && !after);
    const evidence = removed.filter(({ before }) => showsOpen(before));
    if (removed.length > 0) measure(ALL, { 'ttl_pruned.count': removed.length - evidence.length });
    for (const { pk, tenant = '-', operation = '-', before } of evidence) {
      const { status = '', operationId = '', attempt = 0 } = before ?? {};
      measure(ALL, { evidence_removed: 1 });
      const known = { fullRef: pk, operationId, attempt };
      tell({ pk, tenant, operation }, 'error', 'evidence_removed', { ...known, reason: status });
    }
  }

  /** As the stream showed it: if it has moved on since, the write is refused, and nobody needs to watch it. */
  async function watch(change: RecordChange, until: EpochMs): Promise<void> {
    const record = await shown(change, until);
    if (!record) return;
    const now = clock();
    const at = Math.max(now, lapsesAt(record, skewMs));
    const placed = await ledger.watch(record, waitPlace(record, at), { until });
    if (placed.kind === 'fenced') return;
    tell(record, 'info', 'watched', { attempt: record.attempt });
    if (leasePassed(record, now, skewMs)) await lookNow(record.pk, until);
  }

  /**
   * The record of a change, from its image. An image that cannot be read would come again and again, and hold up all that
   * stand behind it in the shard; so the table is asked instead. What is unreadable there as well stays where it is, open
   * and without a TTL, and the backstop names it every day.
   */
  async function shown(change: RecordChange, until: EpochMs): Promise<InProgress | undefined> {
    try {
      return recordOfImage(change.image) as InProgress;
    } catch (error) {
      say(change.pk, 'image_unreadable', error);
    }
    try {
      const record = await ledger.read(change.pk, { until });
      return record?.status === 'in_progress' && !record.due ? record : undefined;
    } catch (error) {
      if (!(error instanceof RecordUnreadable)) throw error; // The store may answer the next time.
      measure(ALL, { 'reconcile.failed.count': 1 });
      say(change.pk, 'record_unreadable', error);
      return undefined;
    }
  }

  /** Read anew: steps may have begun since the stream showed it. It is watched by now, so the sweep does what fails here. */
  async function lookNow(pk: string, until: EpochMs): Promise<void> {
    if (!sweeper) return;
    try {
      const record = await ledger.read(pk, { until });
      if (record) await sweeper.look(record, until);
    } catch (error) {
      say(pk, 'sentinel_failed', error);
    }
  }

  function say(pk: string, decision: string, error: unknown): void {
    tell(unread(pk), 'error', decision, { reason: nameOf(error) });
  }
}
