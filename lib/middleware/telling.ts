import type { EpochMs, InProgress } from '../core/record.ts';
import { jsonLogSink, type LogSink, shortRef } from '../observe/log.ts';
import { emfSink, type MetricName, type MetricSink } from '../observe/metrics.ts';
import type { Engine } from './engine.ts';
import type { Answer, Finished, Operation } from './operation.ts';

/** What a new attempt is counted as. */
export const MADE = {
  created: 'reserve.created.count',
  failed_retry: 'reserve.failed_retry.count',
  zombie: 'zombie_key.count',
} as const satisfies Record<string, MetricName>;

/** What an answer without an attempt is counted as. */
export const ANSWERED: Readonly<Partial<Record<Answer['kind'], MetricName>>> = {
  replay: 'reserve.replay.count',
  pending: 'reserve.replay.count',
  in_progress: 'reserve.in_progress.count',
  unknown: 'reserve.unknown.count',
  misuse: 'reserve.key_misuse.count',
  unavailable: 'store.error.count',
};

type Measured = Partial<Record<MetricName, number>>;
type Level = 'info' | 'warn' | 'error';

export interface Teller {
  measure(operation: Operation, values: Measured): void;
  tell(
    operation: Operation,
    level: Level,
    decision: string,
    more?: { readonly attempt?: number; readonly reason?: string },
  ): void;
}

/** Says what happened to an operation, to whoever listens; by default CloudWatch, through the log. */
export function teller(
  clock: () => EpochMs,
  metrics: MetricSink = emfSink(writeLine),
  log: LogSink = jsonLogSink(writeLine),
): Teller {
  return {
    measure({ name, tenant, pk }, values) {
      metrics({ at: clock(), operation: name, tenant, operationRef: shortRef(pk), metrics: values });
    },
    tell({ name, tenant, pk }, level, decision, more = {}) {
      log({ at: clock(), level, decision, operation: name, tenant, operationRef: shortRef(pk), ...more });
    },
  };
}

/** Enough to write one item, and to abort a call that would come too late. */
const NEAR_END_MS = 500;

interface DeadlineWatch {
  readonly signal: AbortSignal;
  /** Stops the watch, and waits for what it may already have begun. */
  stop(): Promise<void>;
}

/** Near the deadline: aborts what could come too late, and says that the outcome is unknown while there is time to. */
export function watchDeadline<W>(
  run: Pick<Engine<W>, 'giveUp'>,
  { tell }: Teller,
  operation: Operation,
  mine: InProgress,
  now: EpochMs,
): DeadlineWatch {
  const aborter = new AbortController();
  let givingUp: Promise<void> = Promise.resolve();
  const timer = setTimeout(
    () => {
      aborter.abort(
        new Error('The lease of this attempt is about to end; nothing may be sent to a provider now.'),
      );
      givingUp = run.giveUp(operation, mine).catch((error: unknown) => {
        tell(operation, 'error', 'give_up_failed', { reason: nameOf(error) });
      });
    },
    Math.max(0, operation.deadline - now - NEAR_END_MS),
  ).unref();
  return {
    signal: aborter.signal,
    async stop() {
      clearTimeout(timer);
      await givingUp;
    },
  };
}

export function faultsMeasured(finished: Finished<unknown>): Measured {
  if (finished.kind === 'answer' && finished.fenced) return { fenced: 1 };
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

/** The class of an error; its message may quote what must not be logged. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? error.name : typeof error;
}

function writeLine(line: string): void {
  process.stdout.write(`${line}\n`);
}
