import { isDeepStrictEqual } from 'node:util';
import { RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Reply } from '../core/record.ts';
import { isErasedReply } from '../http/erased.ts';

/** Data nests a dozen levels at most; this bounds the recursion here and in `JSON.stringify`, whatever it is given. */
const DEPTH_MAX = 256;

const JSON_TYPE: Reply['headers'] = [['content-type', 'application/json']];

/** A value that JSON would change or lose. The message names the place and the kind, and never the value. */
export class NotJson extends Error {
  override readonly name = 'NotJson';
}

/** What a function returned, as a record keeps it. `undefined` is no content, which JSON has no text for. */
export function resultReply(result: unknown): Reply {
  if (result === undefined) return { status: 204, headers: [], body: new Uint8Array(), base64: false };
  const body = new Uint8Array(Buffer.from(jsonText(result, 'result')));
  if (body.byteLength > limits.bodyMaxBytes) {
    throw new NotJson(
      `result has ${body.byteLength} bytes as JSON; at most ${limits.bodyMaxBytes} are stored`,
    );
  }
  return { status: 200, headers: JSON_TYPE, body, base64: false };
}

/** A fresh copy for whoever asks: nobody holds what another caller gets. */
export function readResult(reply: Reply, operationRef: string): unknown {
  if (reply.status < 200 || reply.status > 299) {
    throw unreadable(operationRef, `it was settled with status ${reply.status}`);
  }
  // Not undefined, which it may never have returned: the caller would go on with it.
  if (isErasedReply(reply)) throw unreadable(operationRef, 'an operator has erased it');
  if (reply.body.byteLength === 0) return undefined;
  try {
    return JSON.parse(Buffer.from(reply.body).toString('utf8'));
  } catch (cause) {
    throw unreadable(operationRef, 'it is not JSON', cause);
  }
}

function unreadable(operationRef: string, why: string, cause?: unknown): RecordUnreadable {
  return new RecordUnreadable(
    `The stored result of ${operationRef} cannot be returned: ${why}. The operation is complete and is not run again.`,
    cause,
  );
}

/** The text of a value that JSON holds without a change: what is parsed from it equals what was given. */
export function jsonText(value: unknown, name: string): string {
  const data = plain(value, name, new Set());
  const text = JSON.stringify(data);
  if (!isDeepStrictEqual(JSON.parse(text), data)) throw new NotJson(`${name} is not the same after JSON`);
  return text;
}

/**
 * Takes the value apart instead of asking `JSON.stringify`, which drops functions, turns NaN into null and a Map into
 * {} without a word. A member that is undefined is left out: nobody can tell it from one that is absent without
 * asking for its name, and too many honest results have one. -0 becomes 0.
 */
function plain(value: unknown, path: string, around: Set<object>): unknown {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return value;
    case 'number':
      if (!Number.isFinite(value)) throw new NotJson(`${path} is ${value}`);
      return value === 0 ? 0 : value;
    case 'object':
      return value === null ? null : plainObject(value, path, around);
    case 'undefined':
      throw new NotJson(`${path} is undefined`);
    default:
      throw new NotJson(`${path} is a ${typeof value}`);
  }
}

function plainObject(value: object, path: string, around: Set<object>): unknown {
  if (around.has(value)) throw new NotJson(`${path} is cyclic: it leads back to an object around it`);
  if (around.size >= DEPTH_MAX) throw new NotJson(`${path} is nested more than ${DEPTH_MAX} levels deep`);
  if (!isPlain(value)) throw new NotJson(`${path} is ${instanceOf(value)}`);
  around.add(value);
  const copy = Array.isArray(value)
    ? Array.from(value, (item, index) => plain(item, `${path}[${index}]`, around))
    : Object.fromEntries(members(value, path, around));
  around.delete(value);
  const strange = Array.isArray(value) ? Object.keys(value)[value.length] : undefined;
  if (strange !== undefined) throw new NotJson(`${memberPath(path, strange)} is a member of an array`);
  const symbol = Object.getOwnPropertySymbols(value).find((name) => isEnumerable(value, name));
  if (symbol) throw new NotJson(`${path} has a member whose name is a symbol`);
  return copy;
}

function members(value: object, path: string, around: Set<object>): [string, unknown][] {
  return Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .map(([name, member]) => [name, plain(member, memberPath(path, name), around)]);
}

/** By how many prototypes it has: those of another realm (a vm, a test runner) are not ours, but are as many. */
function isPlain(value: object): boolean {
  return generations(value) <= (Array.isArray(value) ? 2 : 1);
}

function generations(value: object): number {
  const parent: object | null = Object.getPrototypeOf(value);
  return parent === null ? 0 : 1 + generations(parent);
}

function instanceOf(value: object): string {
  const maker: unknown = value.constructor;
  const name = typeof maker === 'function' ? maker.name : '';
  return name === '' ? 'an instance of a class' : `an instance of ${name}`;
}

function isEnumerable(value: object, name: symbol): boolean {
  return Object.prototype.propertyIsEnumerable.call(value, name);
}

function memberPath(path: string, name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `${path}.${name}` : `${path}[${JSON.stringify(name)}]`;
}
