import type { Param, Params } from './form.ts';
import { invalidRequest, type Refusal } from './refusal.ts';

/** Reads what was sent, and refuses it in Stripe's words. What was not sent is undefined. */
export interface ParamReader {
  has(name: string): boolean;
  text(name: string): string | undefined;
  requireText(name: string): string;
  whole(name: string): number | undefined;
  requireWhole(name: string): number;
  flag(name: string): boolean | undefined;
  oneOf(name: string, allowed: readonly string[]): string | undefined;
  list(name: string): readonly string[] | undefined;
  object(name: string): Params | undefined;
  metadata(): Readonly<Record<string, string>>;
}

const METADATA_KEYS_MAX = 50;
const METADATA_KEY_LENGTH_MAX = 40;
const METADATA_VALUE_LENGTH_MAX = 500;

/**
 * `known` are those that are read. Stripe has others: where one of `notCovered` was sent, to go on without it would be to do
 * something else than was asked for.
 */
export function readParams(
  params: Params,
  known: readonly string[],
  notCovered: readonly string[] = [],
): ParamReader {
  requireKnown(params, known, notCovered);

  function text(name: string): string | undefined {
    const value = params.get(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'string') throw invalidRequest(`Invalid string: ${shown(value)}`, { param: name });
    if (value === '') throw emptyText(name);
    return value;
  }

  function whole(name: string): number | undefined {
    const value = text(name);
    if (value === undefined) return undefined;
    if (/^-?\d{1,15}$/.test(value)) return Number(value);
    throw invalidRequest(`Invalid integer: ${value}`, { code: 'parameter_invalid_integer', param: name });
  }

  function oneOf(name: string, allowed: readonly string[]): string | undefined {
    const value = text(name);
    if (value === undefined || allowed.includes(value)) return value;
    throw invalidRequest(`Invalid ${name}: must be one of ${allowed.join(', ')}`, { param: name });
  }

  function object(name: string): Params | undefined {
    const value = params.get(name);
    if (value === undefined || value === '') return undefined;
    if (value instanceof Map) return value as Params;
    throw invalidRequest(`Invalid object: ${shown(value)}`, { param: name });
  }

  return {
    has: (name) => params.has(name),
    text,
    requireText: (name) => required(name, text(name)),
    whole,
    requireWhole: (name) => required(name, whole(name)),
    flag(name) {
      const value = text(name);
      if (value === undefined) return undefined;
      if (value === 'true' || value === 'false') return value === 'true';
      throw invalidRequest(`Invalid boolean: ${value}`, { param: name });
    },
    oneOf,
    list: (name) => listIn(name, params.get(name)),
    object,
    metadata: () => metadataIn(object('metadata') ?? new Map()),
  };
}

function requireKnown(params: Params, known: readonly string[], notCovered: readonly string[]): void {
  const others = [...params.keys()].filter((name) => !known.includes(name));
  const [beyond] = others.filter((name) => notCovered.includes(name));
  const unknown = others.filter((name) => !notCovered.includes(name));
  const [param] = unknown;
  if (param !== undefined) {
    const plural = unknown.length > 1 ? 's' : '';
    throw invalidRequest(`Received unknown parameter${plural}: ${unknown.join(', ')}`, {
      code: 'parameter_unknown',
      param,
    });
  }
  if (beyond === undefined) return;
  throw invalidRequest(
    `Stripe knows ${beyond}, and the local payment provider does not act on it. Leave it out, or test this against Stripe.`,
    { param: beyond },
  );
}

function required<T>(param: string, value: T | undefined): T {
  if (value !== undefined) return value;
  throw invalidRequest(`Missing required param: ${param}.`, { code: 'parameter_missing', param });
}

function emptyText(param: string): Refusal {
  return invalidRequest(
    `You passed an empty string for '${param}'. We assume empty values are an attempt to unset a field; however '${param}' cannot be unset. You should remove '${param}' from your request or supply a non-empty value.`,
    { code: 'parameter_invalid_empty', param },
  );
}

/** With indexes or without. */
function listIn(param: string, value: Param | undefined): readonly string[] | undefined {
  if (value === undefined || value === '') return undefined;
  const items = value instanceof Map ? indexed(value as Params) : value;
  if (Array.isArray(items)) return items as readonly string[];
  throw invalidRequest(`Invalid array: ${shown(value)}`, { param });
}

function indexed(params: Params): readonly string[] | undefined {
  const items = Array.from(params, (_, index) => params.get(String(index)));
  return items.every((item) => typeof item === 'string') ? items : undefined;
}

/** An empty value unsets a key, so a new object does not have it. */
function metadataIn(params: Params): Readonly<Record<string, string>> {
  const entries = [...params].map(([key, value]) => {
    const param = `metadata[${key}]`;
    if (typeof value !== 'string') throw invalidRequest(`Invalid string: ${shown(value)}`, { param });
    if (key.length > METADATA_KEY_LENGTH_MAX) throw tooLong('keys', 'key', key, METADATA_KEY_LENGTH_MAX);
    if (value.length > METADATA_VALUE_LENGTH_MAX) {
      throw tooLong('values', 'value', value, METADATA_VALUE_LENGTH_MAX);
    }
    return [key, value] as const;
  });
  if (entries.length > METADATA_KEYS_MAX) {
    throw invalidRequest(
      `Metadata can have up to ${METADATA_KEYS_MAX} keys, but you passed in ${entries.length}.`,
      { param: 'metadata' },
    );
  }
  return Object.fromEntries(entries.filter(([, value]) => value !== ''));
}

function tooLong(plural: string, singular: string, value: string, most: number): Refusal {
  return invalidRequest(
    `Metadata ${plural} can have up to ${most} characters, but you passed in a ${singular} that is ${value.length} characters. Invalid ${singular}: ${value}`,
    { param: 'metadata' },
  );
}

function shown(value: Param): string {
  const plain = value instanceof Map ? '{…}' : Array.isArray(value) ? `[${value.join(', ')}]` : String(value);
  return plain.slice(0, 80);
}
