import { setTimeout as pause } from 'node:timers/promises';
import { defaultPolicy } from '../core/policy.ts';
import { type EpochMs, isOpen, lapsesAt, type Open } from '../core/record.ts';
import {
  requireFunctions,
  requireKnown,
  requireLedger,
  requireOptions,
  requireWhole,
} from '../effects/option-checks.ts';
import { workUntil } from '../effects/remaining.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import { nameOf, reporter, unread } from '../observe/report.ts';
import { waitPlace } from './places.ts';

export interface BackstopOptions<W = unknown> {
  readonly ledger: Ledger<W>;
  /** How many parts the table is looked through in; one invocation takes one of them. Default 1. */
  readonly segments?: number;
  /** How many items are read at a time. Default 100. */
  readonly pageItems?: number;
  /** How long to wait between two pages: the search is never in a hurry, and requests come first. Default 1 s. */
  readonly pauseMs?: number;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly sleep?: (ms: number) => Promise<void>;
}

/** Where a search stopped, to go on from: pass it as the event of the next invocation. */
export interface BackstopState {
  readonly segment: number;
  readonly from?: string;
}

export interface BackstopResult {
  /** Put where the sweep looks. */
  readonly watched: number;
  /** Could not be read, or put there. Each is in the log, and measured. */
  readonly failed: number;
  /** Absent when the whole table was looked through. */
  readonly next?: BackstopState;
}

const OPTIONS = [
  'ledger',
  'segments',
  'pageItems',
  'pauseMs',
  'metrics',
  'log',
  'clock',
  'sleep',
] as const satisfies readonly (keyof BackstopOptions)[];

/**
 * Once a day: looks through the whole table, slowly, for open records that nobody watches, and puts them where the sweep
 * looks. The sentinel finds nearly all of them at once; this is for a batch that was lost.
 */
export function backstop<W>(
  options: BackstopOptions<W>,
): (event: unknown, context: object) => Promise<BackstopResult> {
  requireOptions(options, 'backstop()');
  requireKnown(options, OPTIONS, 'backstop()');
  requireLedger(options.ledger, 'backstop()', ['unwatched', 'read', 'watch']);
  requireFunctions(options, ['metrics', 'log', 'clock', 'sleep']);
  requireWhole(options, 'segments', 1);
  requireWhole(options, 'pageItems', 1);
  requireWhole(options, 'pauseMs', 0);
  const { ledger, segments = 1, pageItems = 100, pauseMs = 1_000, clock = Date.now, sleep = pause } = options;
  const { measure, tell } = reporter(clock, options.metrics, options.log);

  return async (event, context) => {
    const until = workUntil(context, clock());
    let [watched, failed] = [0, 0];
    let { segment, from } = stateIn(event, segments);
    for (;;) {
      if (clock() >= until)
        return { watched, failed, next: { segment, ...(from !== undefined && { from }) } };
      const page = await ledger.unwatched({ index: segment, of: segments }, pageItems, from, { until });
      for (const pk of page.pks) {
        const result = await watch(pk, until);
        if (result === 'watched') watched += 1;
        if (result === 'failed') failed += 1;
      }
      from = page.next;
      if (from === undefined) segment += 1;
      if (segment >= segments) return { watched, failed };
      await sleep(pauseMs);
    }
  };

  async function watch(pk: string, until: EpochMs): Promise<'watched' | 'left' | 'failed'> {
    try {
      const record = await ledger.read(pk, { until });
      if (!record || !isOpen(record) || record.due) return 'left'; // It has ended, or somebody watches it by now.
      const placed = await ledger.watch(record, waitPlace(record, dueFrom(record)), { until });
      if (placed.kind === 'fenced') return 'left';
      measure(record, { 'reconcile.scheduled.count': 1 });
      tell(record, 'warn', 'found_unwatched', { attempt: record.attempt });
      return 'watched';
    } catch (error) {
      measure(unread(pk), { 'reconcile.failed.count': 1 });
      tell(unread(pk), 'error', 'backstop_failed', { reason: nameOf(error) });
      return 'failed';
    }
  }

  function dueFrom(record: Open): EpochMs {
    const { skewMs } = defaultPolicy;
    return record.status === 'in_progress' ? Math.max(clock(), lapsesAt(record, skewMs)) : clock();
  }
}

function stateIn(event: unknown, segments: number): BackstopState {
  const { segment, from } = (
    typeof event === 'object' && event !== null ? event : {}
  ) as Partial<BackstopState>;
  const known = Number.isSafeInteger(segment) && Number(segment) >= 0 && Number(segment) < segments;
  if (!known) return { segment: 0 };
  return { segment: Number(segment), ...(typeof from === 'string' && { from }) };
}
