import { lowerCase } from '../ascii.ts';
import { fromBase64 } from '../base64.ts';
import { MalformedEvent } from '../errors.ts';
import { kindOf } from '../kind.ts';
import type { IamIdentity } from '../neutral.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** An event, and its name in messages. */
export interface Received {
  readonly name: string;
  readonly event: Fields;
  readonly context: Fields;
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function received(name: string, event: Fields): Received {
  const context = event['requestContext'];
  if (!isFields(context)) throw malformed(name, 'requestContext', context, 'an object');
  return { name, event, context };
}

function malformed(event: string, field: string, value: unknown, expected: string): MalformedEvent {
  return new MalformedEvent(
    `This ${event} event cannot be read: ${field} is ${kindOf(value)}, expected ${expected}. Pass the event as AWS sent it, and put idempotency() before any middleware that rewrites it.`,
  );
}

export function textIn(from: Received, field: string, value: unknown): string {
  if (typeof value !== 'string') throw malformed(from.name, field, value, 'a string');
  return value;
}

export function bodyOf({ name, event }: Received): Uint8Array {
  const { body, isBase64Encoded } = event;
  if (body === null || body === undefined) return new Uint8Array();
  if (typeof body !== 'string') return new Uint8Array(Buffer.from(parsedBody(name, body)));
  if (isBase64Encoded !== true) return new Uint8Array(Buffer.from(body));
  const bytes = fromBase64(body);
  if (!bytes) throw malformed(name, 'body', body, 'base64, as isBase64Encoded says');
  return bytes;
}

/** A body parser ran first. What it left is what the handler will act on, so that is what identifies the request. */
function parsedBody(name: string, body: unknown): string {
  try {
    const text = JSON.stringify(body);
    if (typeof text === 'string') return text;
  } catch {
    // A cycle, a BigInt, or nested too deep.
  }
  throw malformed(name, 'body', body, 'a string, or what a JSON body parser makes of one');
}

/** Every value under its name. Multi values are complete; a single-value map adds only what they lack. */
export function valuesOf(
  { name, event }: Received,
  single: string,
  multi: string,
  nameOf: (name: string) => string = (given) => given,
): Map<string, string[]> {
  const values = new Map<string, string[]>();
  const add = (field: string, key: string, value: unknown) => {
    if (value === null || value === undefined) return;
    if (typeof value !== 'string') throw malformed(name, `a value in ${field}`, value, 'a string');
    const known = values.get(key);
    if (known) known.push(value);
    else values.set(key, [value]);
  };
  for (const [key, list] of entriesOf(name, multi, event[multi])) {
    const each = list ?? [];
    if (!Array.isArray(each)) throw malformed(name, `a value in ${multi}`, each, 'an array');
    for (const value of each) add(multi, nameOf(key), value);
  }
  const complete = new Set(values.keys());
  for (const [key, value] of entriesOf(name, single, event[single])) {
    if (!complete.has(nameOf(key))) add(single, nameOf(key), value);
  }
  return values;
}

function entriesOf(name: string, field: string, map: unknown): [string, unknown][] {
  if (map === null || map === undefined) return [];
  if (!isFields(map)) throw malformed(name, field, map, 'an object');
  return Object.entries(map);
}

export function headersOf(from: Received): Map<string, string[]> {
  return valuesOf(from, 'headers', 'multiValueHeaders', lowerCase);
}

export function pairsOf(values: ReadonlyMap<string, readonly string[]>): [string, string][] {
  return [...values].flatMap(([name, list]) => list.map((value): [string, string] => [name, value]));
}

/** Greedy templates match anything below them, so they do not name one operation. */
export function templateOf(route: unknown): string | undefined {
  return typeof route === 'string' && route.startsWith('/') && !/\+\}|\$default/.test(route)
    ? route
    : undefined;
}

/** Each field is there only if it says something: an API without IAM sends nulls. */
export function iamOf(fields: { readonly [Field in keyof IamIdentity]: unknown }): { iam?: IamIdentity } {
  const told = Object.entries(fields).filter(([, value]) => typeof value === 'string' && value !== '');
  return told.length > 0 ? { iam: Object.freeze(Object.fromEntries(told)) } : {};
}

export function contextOf<Name extends string>(name: Name, value: unknown): { [N in Name]?: Fields } {
  const held: { [N in Name]?: Fields } = {};
  if (isFields(value)) held[name] = Object.freeze({ ...value });
  return held;
}
