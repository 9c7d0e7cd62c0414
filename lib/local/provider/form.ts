import { createHash } from 'node:crypto';
import { invalidRequest } from './refusal.ts';

/** Parameters as they were sent: everything is a text, until whoever asks for one says what it should be. */
export type Param = string | readonly string[] | Params;
export type Params = ReadonlyMap<string, Param>;

type Growing = Map<string, string | string[] | Growing>;

/** No parameter of Stripe's lies deeper than half of it, and reading what was sent stays a bounded recursion. */
const DEPTH_MAX = 16;

const NAME = /^([^[\]]+)((?:\[[^[\]]*\])*)$/;

/** `a[b]=1&c[]=2&c[]=3`. An index, as in `c[0]=2`, is a name like any other here. Of the same name twice the last counts. */
export function decodeForm(text: string): Params {
  const root: Growing = new Map();
  for (const pair of text.split('&')) {
    if (pair === '') continue;
    const at = pair.indexOf('=');
    const name = decoded(at < 0 ? pair : pair.slice(0, at));
    place(root, pathIn(name), at < 0 ? '' : decoded(pair.slice(at + 1)), name);
  }
  return root;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw invalidRequest(
      `Invalid request: ${text.slice(0, 80)} is not URL-encoded. Check that your POST content type is application/x-www-form-urlencoded.`,
    );
  }
}

function pathIn(name: string): readonly string[] {
  const [, first, rest = ''] = NAME.exec(name) ?? [];
  if (first === undefined) {
    throw invalidRequest(`Invalid request: ${name.slice(0, 80)} is no name such as metadata[order].`);
  }
  const path = [first, ...[...rest.matchAll(/\[([^[\]]*)\]/g)].map(([, segment = '']) => segment)];
  if (path.length > DEPTH_MAX) {
    throw invalidRequest(`Invalid request: ${name.slice(0, 80)}… is nested more than ${DEPTH_MAX} deep.`);
  }
  return path;
}

function place(parent: Growing, [first = '', ...rest]: readonly string[], value: string, name: string): void {
  const there = parent.get(first);
  const [next] = rest;
  if (next === undefined) {
    if (there !== undefined && typeof there !== 'string') throw ambiguous(name);
    parent.set(first, value);
  } else if (next === '') {
    if (rest.length > 1 || (there !== undefined && !Array.isArray(there))) throw ambiguous(name);
    if (there) there.push(value);
    else parent.set(first, [value]);
  } else {
    if (there !== undefined && !(there instanceof Map)) throw ambiguous(name);
    const child: Growing = there ?? new Map();
    parent.set(first, child);
    place(child, rest, value, name);
  }
}

function ambiguous(name: string) {
  return invalidRequest(
    `Invalid request: ${name.slice(0, 80)} is a list, an object or a single value elsewhere in the same request, or a list of objects without indexes.`,
  );
}

/** Equal for requests that say the same, in whichever order. */
export function paramsDigest(params: Params): string {
  return createHash('sha256')
    .update(JSON.stringify(sorted(params)))
    .digest('base64url');
}

function sorted(param: Param): unknown {
  if (!(param instanceof Map)) return param;
  const members = [...(param as Params)].map(([name, value]) => [name, sorted(value)] as const);
  // An array of pairs: an object would put names that look like indexes first, and a list beside one apart.
  return { members: members.sort(([a], [b]) => (a < b ? -1 : 1)) };
}
