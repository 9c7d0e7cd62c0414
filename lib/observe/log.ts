import type { EpochMs } from '../core/record.ts';

/** One decision about one request. There is no field for a key, a body or a token, so none can be logged. */
export interface LogEntry {
  readonly at: EpochMs;
  readonly level: 'info' | 'warn' | 'error';
  /** What was decided: `executed`, `replay`, `misuse`, `fenced`, … */
  readonly decision: string;
  readonly operation: string;
  readonly tenant: string;
  /** The first characters of the record's digest: enough to find it, too few to be it. */
  readonly operationRef: string;
  /** The whole of it, where no record is left that its first characters would find. */
  readonly fullRef?: string;
  readonly operationId?: string;
  readonly attempt?: number;
  /** Why, where a code alone does not say; the class of an error, never its message. */
  readonly reason?: string;
}

export type LogSink = (entry: LogEntry) => void;

const REF_LENGTH = 12;

export function shortRef(pk: string): string {
  return pk.slice(0, REF_LENGTH);
}

/** One JSON line per decision. */
export function jsonLogSink(write: (line: string) => void): LogSink {
  return ({ at, ...entry }) =>
    write(JSON.stringify({ timestamp: new Date(at).toISOString(), logger: 'oncekey', ...entry }));
}
