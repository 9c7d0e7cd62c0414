import { randomUUID } from 'node:crypto';
import { decideAbandoned } from '../core/decide.ts';
import { eachOf } from '../core/each-of.ts';
import { InvalidArgument, StoreUnavailable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { defaultPolicy, expiryAfter, schedule } from '../core/policy.ts';
import {
  type EpochMs,
  type InProgress,
  isOpen,
  isUndelivered,
  type LedgerRecord,
  type Open,
  type Undelivered,
} from '../core/record.ts';
import { OPERATION_OPTIONS, type OperationOptions, reconciledPolicies } from '../effects/operations.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { workUntil } from '../effects/remaining.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { dueShard, dueShards } from '../ledger/schema.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import { nameOf, reporter, unread } from '../observe/report.ts';
import { completion, type Invoker } from './completer.ts';
import type { Dispatcher } from './dispatch.ts';
import { park, putOff } from './park.ts';
import { waitPlace } from './places.ts';
import { resolution } from './resolve.ts';

export interface SweepOptions<W = unknown> extends OperationOptions {
  readonly ledger: Ledger<W>;
  /** The same that the functions are given: resolvers, retention and windows are read from it. */
  readonly operations?: Readonly<Record<string, OperationOptions>>;
  /** Goes on with outboxes. Without it they are left to the stream, which does not come back: after an hour they are parked. */
  readonly dispatcher?: Pick<Dispatcher, 'redrive'>;
  /** Invokes functions whose request was kept. Without it such operations are parked. */
  readonly invoke?: Invoker;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly random?: () => number;
  readonly newId?: () => string;
}

/**
 * What one run did, by what became of the records: `unknown`, `failed_retryable`, `invoked`, `settled`, `parked`, …
 * `failed` counts records, and shards whose list could not be read.
 */
export interface Swept {
  readonly looked: number;
  readonly done: Readonly<Record<string, number>>;
  readonly failed: number;
  /** Otherwise time ended before the list did, or a part of it could not be read; the next run goes on. */
  readonly complete: boolean;
}

export interface Sweep {
  /** A Lambda handler for a schedule: looks at all that is due. */
  handle(event: unknown, context: object): Promise<Swept>;
  /** One record, whoever found it. */
  look(record: LedgerRecord, until: EpochMs): Promise<string>;
}

const OPTIONS = [
  ...OPERATION_OPTIONS,
  'ledger',
  'operations',
  'dispatcher',
  'invoke',
  'metrics',
  'log',
  'clock',
  'random',
  'newId',
] as const satisfies readonly (keyof SweepOptions)[];

/** What is counted of a run, whoever it belongs to. */
const ALL = { pk: '-', tenant: '-', operation: 'all' };

/**
 * Once is a slow answer, so often is a provider that is away: what else it is to be asked in this run would only wait as
 * long, and hold up what waits for others.
 */
const SILENCES = 2;

/** What one run knows so far. */
interface Run {
  readonly until: EpochMs;
  readonly done: Record<string, number>;
  looked: number;
  failed: number;
  complete: boolean;
  /** How often whoever is asked about an operation did not answer. */
  readonly silences: Map<string, number>;
}

/** One page of one shard: small enough to be worked off within the time that is left. */
const PAGE = 25;

/**
 * Every minute: whatever is open and due is looked at, read anew, and moved under its fence. Two sweeps at once do no harm:
 * the slower one is refused. One bad record never stops the rest.
 */
export function sweeper<W>(options: SweepOptions<W>): Sweep {
  requireOptions(options, 'sweeper()');
  requireKnown(options, OPTIONS, 'sweeper()');
  requireLedger(options.ledger, 'sweeper()', ['read', 'due', 'watch']);
  requireFunctions(options, ['invoke', 'metrics', 'log', 'clock', 'random', 'newId']);
  if (options.dispatcher !== undefined && typeof options.dispatcher?.redrive !== 'function') {
    throw new InvalidArgument('sweeper(): dispatcher is what dispatcher() returns; it has no redrive.');
  }
  const { ledger, dispatcher, invoke, operations } = options;
  const { clock = Date.now, random = Math.random, newId = randomUUID } = options;
  const policyOf = reconciledPolicies('sweeper()', options, operations);
  const report = reporter(clock, options.metrics, options.log);
  const resolve = resolution({ ledger, policyOf, clock, random, newId, report });
  const complete = invoke && completion({ ledger, invoke, clock, random, report, policyOf });

  return { handle, look };

  async function handle(_event: unknown, context: object): Promise<Swept> {
    const until = workUntil(context, clock());
    const run: Run = { until, done: {}, looked: 0, failed: 0, complete: true, silences: new Map() };
    const shards = fromAnywhere(dueShards());
    const unasked: unknown[] = [];
    await eachOf(shards, limits.sweepConcurrency, async (shard) => {
      try {
        if (!(await sweepShard(shard, run))) run.complete = false;
      } catch (error) {
        run.complete = false;
        run.failed += 1;
        unasked.push(error);
        report.measure(ALL, { 'store.error.count': 1 });
        report.tell(ALL, 'error', 'shard_failed', { reason: nameOf(error) });
      }
    });
    const { done, looked, failed, complete } = run;
    report.measure(ALL, { 'sweep.looked': looked, 'sweep.failed': failed });
    // No run at all, then: Lambda counts it as an error, and whoever waits for the next heartbeat waits in vain.
    if (unasked.length === shards.length) throw unasked[0];
    const waiting = await waitingForAPerson(until);
    report.measure(ALL, { 'sweep.run': 1, ...(waiting !== undefined && { 'parked.waiting': waiting }) });
    // By name: the order in which shards were looked at says nothing.
    return { looked, done: Object.fromEntries(Object.entries(done).toSorted()), failed, complete };
  }

  /** Where time ends before the list does, it is not always the same shards that are not reached. */
  function fromAnywhere(shards: readonly string[]): readonly string[] {
    const first = Math.floor(random() * shards.length) % shards.length;
    return [...shards.slice(first), ...shards.slice(0, first)];
  }

  /** A parking is one moment; that something is parked lasts until a person has come. A page of each shard is enough to say so. */
  async function waitingForAPerson(until: EpochMs): Promise<number | undefined> {
    let waiting = 0;
    try {
      await eachOf(dueShards('parked'), limits.sweepConcurrency, async (shard) => {
        const { entries } = await ledger.due(shard, Number.MAX_SAFE_INTEGER, PAGE, undefined, { until });
        waiting += entries.length;
      });
      return waiting;
    } catch (error) {
      report.tell(ALL, 'warn', 'parked_uncounted', { reason: nameOf(error) });
      return undefined;
    }
  }

  async function sweepShard(shard: string, run: Run): Promise<boolean> {
    const { until } = run;
    const before = clock(); // What is put off meanwhile is for the next run.
    let next: string | undefined;
    do {
      if (clock() >= until) return false;
      const page = await ledger.due(shard, before, PAGE, next, { until });
      for (const { pk } of page.entries) {
        if (clock() >= until) return false;
        run.looked += 1;
        const what = await lookAt(pk, run);
        if (what === undefined) run.failed += 1;
        else run.done[what] = (run.done[what] ?? 0) + 1;
      }
      next = page.next;
    } while (next !== undefined);
    return true;
  }

  async function lookAt(pk: string, { until, silences }: Run): Promise<string | undefined> {
    try {
      const record = await ledger.read(pk, { until });
      if (!record) return 'nothing';
      const silent = silences.get(record.operation) ?? 0;
      if (record.status === 'unknown' && silent >= SILENCES) return 'put_off'; // It stays due: the next run asks it first.
      const what = await look(record, until);
      if (what === 'silent') silences.set(record.operation, silent + 1);
      return what;
    } catch (error) {
      report.measure(unread(pk), { 'reconcile.failed.count': 1 });
      report.tell(unread(pk), 'error', 'sweep_failed', { reason: nameOf(error) });
      return undefined;
    }
  }

  async function look(record: LedgerRecord, until: EpochMs): Promise<string> {
    if (!isDue(record)) return 'nothing'; // The index is behind the record.
    try {
      return await moved(record, until);
    } catch (error) {
      // Silence of the store passes. Anything else would be the same in every run: it counts as a try.
      if (error instanceof StoreUnavailable || !isOpen(record)) throw error;
      const put = await putOff({ ledger, clock, random, report, policyOf }, record, nameOf(error));
      if (put === 'fenced') throw error; // It had its place before it failed, or somebody else has moved it.
      return put;
    }
  }

  async function moved(record: LedgerRecord, until: EpochMs): Promise<string> {
    if (record.status === 'in_progress') return abandoned(record, until);
    if (record.status === 'unknown') {
      report.measure(record, { 'unknown.age_ms': clock() - record.lastRunAt });
      return resolve(record, until);
    }
    if (!isUndelivered(record)) return 'nothing';
    return dispatcher ? dispatcher.redrive(record.pk, until) : leftToStream(record, until);
  }

  /** A first delivery may still be on its way to a dispatcher; for those that failed nobody else comes. */
  async function leftToStream(record: Undelivered, until: EpochMs): Promise<string> {
    const dueAt = record.due?.at ?? clock();
    if (clock() <= dueAt + defaultPolicy.reconcileCapMs) return 'nothing';
    return putAside(record, 'no_dispatcher', until);
  }

  function isDue(record: LedgerRecord): boolean {
    const due = 'due' in record ? record.due : undefined;
    return due?.parkedAt === undefined && (due === undefined || due.at <= clock());
  }

  async function abandoned(record: InProgress, until: EpochMs): Promise<string> {
    const now = clock();
    const { policy } = policyOf(record.operation);
    const { skewMs } = policy;
    const decision = decideAbandoned(record, now, policy, schedule.runMaxMs);
    switch (decision.kind) {
      case 'wait': {
        const moved = await ledger.watch(record, waitPlace(record, decision.until), { until });
        return moved.kind === 'moved' ? 'waiting' : 'fenced';
      }
      case 'lapse': {
        const { doubt } = decision;
        const due = { shard: dueShard(record.pk), at: now + policy.reconcileBaseMs };
        const why = { doubt, errorCode: doubt.kind, now, due, skewMs };
        const moved = await ledger.lapse(record, { to: 'unknown', ...why }, { until });
        if (moved.kind === 'fenced') return 'fenced';
        say(record, 'warn', 'unknown', doubt.kind, { 'reconcile.scheduled.count': 1 });
        return 'unknown';
      }
      case 'release': {
        const failure = { now, errorCode: 'abandoned', ...expiryAfter(policy, now), skewMs };
        const moved = await ledger.lapse(record, { to: 'failed_retryable', ...failure }, { until });
        if (moved.kind === 'fenced') return 'fenced';
        say(record, 'warn', 'failed_retryable', 'abandoned', { 'zombie_key.count': 1 });
        return 'failed_retryable';
      }
      case 'complete':
        return complete ? complete(record) : putAside(record, 'no_invoker', until);
      case 'park':
        return putAside(record, 'no_request', until);
      default:
        return decision satisfies never;
    }
  }

  async function putAside(record: Open, error: string, until: EpochMs): Promise<string> {
    return (await park({ ledger, clock, report }, record, error, { until })) ? 'parked' : 'fenced';
  }

  function say(
    record: InProgress,
    level: 'warn' | 'error',
    decision: string,
    reason: string,
    values: Parameters<typeof report.measure>[1],
  ): void {
    report.measure(record, values);
    report.tell(record, level, decision, { attempt: record.attempt, reason });
  }
}
