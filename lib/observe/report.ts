import type { EpochMs } from '../core/record.ts';
import { jsonLogSink, type LogEntry, type LogSink, shortRef } from './log.ts';
import { emfSink, type MetricName, type MetricSink } from './metrics.ts';

/** Whose operation it is about. */
interface Subject {
  readonly pk: string;
  readonly tenant: string;
  readonly operation: string;
}

const NAME_MAX_LENGTH = 100;

export type Measured = Partial<Record<MetricName, number>>;
export type Level = LogEntry['level'];

/** Says what happened to an operation, to whoever listens; by default CloudWatch, through the log. */
export interface Report {
  measure(subject: Subject, values: Measured): void;
  tell(
    subject: Subject,
    level: Level,
    decision: string,
    more?: Pick<LogEntry, 'fullRef' | 'operationId' | 'attempt' | 'reason'>,
  ): void;
}

/** A listener that fails must not change what becomes of a payment: what it throws is dropped. */
export function reporter(
  clock: () => EpochMs,
  metrics: MetricSink = emfSink(writeLine),
  log: LogSink = jsonLogSink(writeLine),
): Report {
  const about = ({ pk, tenant, operation }: Subject) => ({
    ...{ at: clock(), operation, tenant, operationRef: shortRef(pk) },
  });
  return {
    measure(subject, values) {
      if (Object.keys(values).length > 0) quietly(() => metrics({ ...about(subject), metrics: values }));
    },
    tell(subject, level, decision, more = {}) {
      quietly(() => log({ ...about(subject), level, decision, ...more }));
    },
  };
}

/** A record that could not be read, so that nobody knows whose it is. */
export function unread(pk: string): Subject {
  return { pk, tenant: '-', operation: '-' };
}

/** The class of an error; its message may quote what must not be logged. It is kept on records: no longer than a class is. */
export function nameOf(error: unknown): string {
  return error instanceof Error ? String(error.name).slice(0, NAME_MAX_LENGTH) : typeof error;
}

function quietly(tell: () => unknown): void {
  try {
    const told = tell();
    if (told instanceof Promise) told.catch(() => undefined);
  } catch {
    // Nothing is left to tell it to.
  }
}

function writeLine(line: string): void {
  process.stdout.write(`${line}\n`);
}
