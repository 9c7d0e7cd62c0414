import { InvalidArgument } from '../core/errors.ts';

/* What somebody asks a part of the local cloud to do wrong. Whichever part it is, they say it in the same words. */

export interface Faults<Mode extends string> {
  readonly mode: Mode;
  /** Of each request, by itself. */
  readonly probability: number;
  /** What it means, and how long it is if nobody says, depends on the mode. */
  readonly latencyMs?: number;
}

/** Nothing was changed; the message says what is allowed. */
export class InvalidFault extends InvalidArgument {}

/** As long as Lambda lets any function run: nobody is left to see the end of a longer wait. */
export const LATENCY_MAX_MS = 900_000;

/** Enough to recognise what was sent. */
const SHOWN_CHARACTERS = 80;

const FIELDS = ['mode', 'probability', 'latencyMs'] as const;

/** `value` is whatever somebody sent. A setting that is left out never means the one from before. */
export function parseFaults<Mode extends string>(modes: readonly Mode[], value: unknown): Faults<Mode> {
  const { mode, probability = 1, latencyMs } = requireFields(value);
  return {
    mode: requireMode(modes, mode),
    probability: requireNumber('probability', probability, 1),
    ...(latencyMs !== undefined && { latencyMs: requireNumber('latencyMs', latencyMs, LATENCY_MAX_MS) }),
  };
}

function requireFields(value: unknown): Readonly<Partial<Record<(typeof FIELDS)[number], unknown>>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new InvalidFault(
      `The faults are ${shown(value)}; expected an object such as {"mode":"none"}, with ${FIELDS.join(', ')}.`,
    );
  }
  const unknown = Object.keys(value).find((name) => !FIELDS.some((field) => field === name));
  if (unknown !== undefined) {
    throw new InvalidFault(
      `Faults have no ${shown(unknown)}; what can be set is ${FIELDS.join(', ')}. Nothing was changed.`,
    );
  }
  return value;
}

function requireMode<Mode extends string>(modes: readonly Mode[], value: unknown): Mode {
  const mode = modes.find((known) => known === value);
  if (mode !== undefined) return mode;
  throw new InvalidFault(
    `mode is ${shown(value)}; expected one of ${modes.join(', ')}. Nothing was changed.`,
  );
}

function requireNumber(name: string, value: unknown, most: number): number {
  if (typeof value === 'number' && value >= 0 && value <= most) return value;
  throw new InvalidFault(
    `${name} is ${shown(value)}; expected a number from 0 to ${most}. Nothing was changed.`,
  );
}

function shown(value: unknown): string {
  if (value === undefined) return 'not given';
  const text = typeof value === 'number' ? String(value) : (JSON.stringify(value) ?? typeof value);
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}
