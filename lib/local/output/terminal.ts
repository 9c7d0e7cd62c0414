import type { Report, Reporter } from '../ports.ts';

export interface TerminalOptions {
  readonly write: (text: string) => void;
  /** Colours only where somebody looks: a file is not helped by them. */
  readonly colour: boolean;
}

const SOURCE_WIDTH = 12;

/** Whoever reads along wants to see what happened, not the clock of every millisecond. */
const LEVEL_COLOURS = { debug: 90, info: 0, warn: 33, error: 31 } as const;
const GREY = 90;

/** One line for each report: when, who, what. What only repeats the measurements before it is left out. */
export function terminalReporter({ write, colour }: TerminalOptions): Reporter {
  const lastMeasured = new Map<string, string>();
  const paint = (text: string, code: number) =>
    colour && code > 0 ? `\u001b[${code}m${text}\u001b[0m` : text;

  return (report) => {
    const { at, source, level, kind } = report;
    if (level === 'debug') return;
    const text = printable(textOf(report));
    if (text === '') return;
    if (kind === 'metric') {
      // A sweep that finds nothing says so every minute.
      const what = `${source} ${text.replace(/[\d.]+/g, '')}`;
      if (lastMeasured.get(what) === text) return;
      lastMeasured.set(what, text);
    }
    const time = paint(new Date(at).toTimeString().slice(0, 8), GREY);
    const code = kind === 'metric' ? GREY : LEVEL_COLOURS[level];
    write(`${time} ${source.padEnd(SOURCE_WIDTH)} ${paint(text, code)}\n`);
  };
}

/** For machines: each report as one JSON object on one line. */
export function jsonReporter(write: (text: string) => void): Reporter {
  return ({ at, ...report }) => write(`${JSON.stringify({ at: new Date(at).toISOString(), ...report })}\n`);
}

function textOf({ kind, message, fields = {} }: Report): string {
  if (kind === 'metric') return measured(fields['metrics']);
  if (kind === 'access') return requested(fields) ?? message;
  const named = BARE.flatMap((name) => shown(fields[name]));
  const others = Object.entries(fields).flatMap(([name, value]) => shownField(name, value, message));
  return [message, ...named, ...others].join(' ').trim();
}

/** What everybody knows by its look. */
const BARE = ['operation', 'tenant', 'operationRef'] as const;

/** Said already by the line itself. */
const SAID = new Set<string>(['timestamp', 'logger', 'level', 'message', ...BARE]);

function shownField(name: string, value: unknown, message: string): string[] {
  if (SAID.has(name) || value === message) return [];
  return shown(value).map((text) => `${name}=${text}`);
}

function shown(value: unknown): string[] {
  if (value === undefined || value === null || value === '' || value === '-') return [];
  return [typeof value === 'string' ? value : JSON.stringify(value)];
}

/** One request, if the log's format has what is needed to say it briefly. */
function requested({
  route,
  status,
  latencyMs,
  ...rest
}: Readonly<Record<string, unknown>>): string | undefined {
  if (route === undefined || status === undefined) return undefined;
  const errors = ['integrationError', 'authorizerError'].flatMap((name) => shown(rest[name]));
  return [status, route, ...(latencyMs === undefined ? [] : [`${latencyMs} ms`]), ...errors].join(' ');
}

/** `api.idempotency.reserve.created.count` says in a terminal no more than `reserve.created`. */
function measured(metrics: unknown): string {
  if (typeof metrics !== 'object' || metrics === null) return '';
  return Object.entries(metrics)
    .map(
      ([name, value]) =>
        `${name.replace(/^api\.idempotency\./, '').replace(/\.count$/, '')} ${rounded(value)}`,
    )
    .join(' · ');
}

function rounded(value: unknown): string {
  return typeof value === 'number' ? String(Math.round(value * 100) / 100) : String(value);
}

/** What a function logs may be anything: no control characters of its reach the terminal. */
function printable(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is to be taken out.
  return text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
}
