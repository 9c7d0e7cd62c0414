import type { EpochMs, InProgress } from '../core/record.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricName, MetricSink } from '../observe/metrics.ts';
import { type Level, type Measured, nameOf, reporter } from '../observe/report.ts';
import type { Answer, Finished, Operation } from './operation.ts';
import type { Engine } from './protocol.ts';
import { type QuotaGate, quotaGate } from './quota-gate.ts';

/** What a new attempt is counted as. */
export const MADE = {
  created: 'reserve.created.count',
  failed_retry: 'reserve.failed_retry.count',
  zombie: 'zombie_key.count',
} as const satisfies Record<string, MetricName>;

/** What an answer without an attempt is counted as. */
const ANSWERED: Readonly<Partial<Record<Answer['kind'], MetricName>>> = {
  replay: 'reserve.replay.count',
  pending: 'reserve.replay.count',
  in_progress: 'reserve.in_progress.count',
  unknown: 'reserve.unknown.count',
  misuse: 'reserve.key_misuse.count',
  over_quota: 'reserve.over_quota.count',
};

export interface Teller {
  measure(operation: Operation, values: Measured): void;
  tell(
    operation: Pick<Operation, 'pk' | 'tenant' | 'name'>,
    level: Level,
    decision: string,
    more?: { readonly attempt?: number; readonly reason?: string },
  ): void;
}

export function teller(clock: () => EpochMs, metrics?: MetricSink, log?: LogSink): Teller {
  const { measure, tell } = reporter(clock, metrics, log);
  return {
    measure: ({ pk, tenant, label }, values) => measure({ pk, tenant, operation: label }, values),
    tell: ({ pk, tenant, name }, ...said) => tell({ pk, tenant, operation: name }, ...said),
  };
}

/** The quota of this function's tenants, if it has one. That it could not be read is told, and stops nobody. */
export function quotaGateOf<W>(
  { ledger, quota }: { readonly ledger: Pick<Ledger<W>, 'quotas'>; readonly quota?: boolean },
  clock: () => EpochMs,
  { measure, tell }: Teller,
): QuotaGate | undefined {
  if (!quota || !ledger.quotas) return undefined;
  return quotaGate(ledger.quotas, clock, (operation, error) => {
    measure(operation, { 'store.error.count': 1 });
    tell(operation, 'error', 'quota_unread', { reason: nameOf(error) });
  });
}

/** What an answer is measured and told as. */
export function answerTold(answer: Answer): { measured: Measured; level: Level; reason?: string } {
  const metric = ANSWERED[answer.kind];
  if (answer.kind !== 'unavailable') return { measured: metric ? { [metric]: 1 } : {}, level: 'info' };
  if (answer.tooLate) return { measured: {}, level: 'warn', reason: 'too_late' };
  const measured = { 'store.error.count': 1 };
  return { measured, level: 'error', ...(answer.cause !== undefined && { reason: nameOf(answer.cause) }) };
}

/** Enough to write one item before the end. */
const NEAR_END_MS = 500;

/** Enough for a handler to stop when it is told to, and to say that nothing has happened. */
const STOPPING_MS = 250;

/** A timer holds no more. */
const TIMER_MAX_MS = 2 ** 31 - 1;

interface DeadlineWatch {
  readonly signal: AbortSignal;
  stop(): void;
}

/**
 * Near the deadline: aborts what could come too late, and a moment later says that the outcome is unknown, while there is
 * time to. A handler that ends in between still has its say.
 */
export function watchDeadline<W>(
  run: Pick<Engine<W>, 'giveUp'>,
  { measure, tell }: Teller,
  operation: Operation,
  mine: InProgress,
  now: EpochMs,
): DeadlineWatch {
  const aborter = new AbortController();
  const leftMs = Math.min(TIMER_MAX_MS, operation.deadline - now - NEAR_END_MS);
  const abort = () =>
    aborter.abort(
      new Error('The lease of this attempt is about to end; nothing may be sent to a provider now.'),
    );
  const giveUp = () => {
    run.giveUp(operation, mine).then(
      (unknown) => {
        if (!unknown) return;
        measure(operation, { 'reconcile.scheduled.count': 1 });
        tell(operation, 'warn', 'given_up', { attempt: mine.attempt });
      },
      (error: unknown) => tell(operation, 'error', 'give_up_failed', { reason: nameOf(error) }),
    );
  };
  const timers = [
    setTimeout(abort, Math.max(0, leftMs - STOPPING_MS)).unref(),
    setTimeout(giveUp, Math.max(0, leftMs)).unref(),
  ];
  return {
    signal: aborter.signal,
    /** What has begun is not waited for: whichever of the two writes comes second finds the other's. */
    stop() {
      for (const timer of timers) clearTimeout(timer);
    },
  };
}

export function faultsMeasured(finished: Finished<unknown>): Measured {
  if (finished.kind === 'answer' && finished.fenced) return { fenced: 1 };
  if (finished.kind === 'failed' && finished.status === 'unknown') return { 'reconcile.scheduled.count': 1 };
  const silent =
    finished.kind === 'failed' ? finished.status === 'open' : outcomeOf(finished) === 'unavailable';
  return silent ? { 'store.error.count': 1 } : {};
}

export function outcomeOf(finished: Finished<unknown>): string {
  switch (finished.kind) {
    case 'stored':
      return finished.record.status;
    case 'failed':
      return finished.status;
    case 'refused':
      return 'writes_refused';
    case 'answer':
      return finished.fenced ? `fenced_${finished.answer.kind}` : finished.answer.kind;
    default:
      return finished satisfies never;
  }
}
