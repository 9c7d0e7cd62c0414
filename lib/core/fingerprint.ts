import { createHash } from 'node:crypto';
import { canonicalJson } from './canonical-json.ts';
import { RecordUnreadable } from './errors.ts';
import { frame } from './scope.ts';

type Pair = readonly [name: string, value: string];

/** The lazy `Fingerprint` reads it when asked, so it must not share its body with a handler that may write to it. */
export interface FingerprintInput {
  method: string;
  path: string;
  query: readonly Pair[];
  contentType: string | undefined;
  /** Only the headers that are configured to count. */
  headers: readonly Pair[];
  body: Uint8Array;
}

export interface Fingerprint {
  readonly current: string;
  /** Compares in the version the record was written in, so that a new version never turns a retry into a 422. */
  matches(stored: string): boolean;
}

export type FingerprintVersion = 'v1';

export const CURRENT_FINGERPRINT_VERSION: FingerprintVersion = 'v1';

type Digest = (input: FingerprintInput) => string;

/** A released version is frozen, since records in the table hold its digests. The next one is added beside it. */
const DIGESTS: Record<FingerprintVersion, Digest> = { v1: digestV1 };

/**
 * Requests nest a dozen levels at most; 64 is far from any of them and bounds what a hostile body can cost. A deeper
 * body is protected all the same, by its bytes.
 */
const CANONICAL_DEPTH = 64;

export function fingerprint(
  input: FingerprintInput,
  version: FingerprintVersion = CURRENT_FINGERPRINT_VERSION,
): string {
  return `${version}:${DIGESTS[version](input)}`;
}

/** `undefined` means that a release newer than this one wrote the record. */
export function fingerprintVersion(stored: string): FingerprintVersion | undefined {
  const version = prefixOf(stored);
  return isKnown(version, DIGESTS) ? version : undefined;
}

/** `versions` is a parameter for one reason: tests add the version that does not exist yet. */
export function fingerprintOf(
  input: FingerprintInput,
  versions: { current: string; digests: Readonly<Record<string, Digest>> } = {
    current: CURRENT_FINGERPRINT_VERSION,
    digests: DIGESTS,
  },
): Fingerprint {
  const computed = new Map<string, string>();

  function inVersion(version: string): string {
    const digest = isKnown(version, versions.digests) ? versions.digests[version] : undefined;
    if (!digest) throw new RecordUnreadable(unknownVersion(version, Object.keys(versions.digests)));
    const known = computed.get(version) ?? `${version}:${digest(input)}`;
    computed.set(version, known);
    return known;
  }

  return {
    get current() {
      return inVersion(versions.current);
    },
    matches: (stored) => inVersion(prefixOf(stored)) === stored,
  };
}

function prefixOf(stored: string): string {
  return stored.slice(0, Math.max(stored.indexOf(':'), 0));
}

/** Own names only: `constructor:` is no version, although every object answers to it. */
function isKnown<V extends string>(version: string, digests: Readonly<Record<V, Digest>>): version is V {
  return Object.hasOwn(digests, version);
}

function unknownVersion(version: string, known: readonly string[]): string {
  return `The record's fingerprint has version "${version.slice(0, 16)}", and this release of oncekey reads ${known.join(', ')}: a newer release wrote the record. Roll this deployment forward to that release; the record is not treated as absent, because it may have executed.`;
}

/**
 * Two requests share a digest only if they ask for the same thing. A JSON body counts by its RFC 8785 form, since
 * a client may serialise a retry anew: other spacing, member order or escapes are the same request. Whatever that
 * form cannot tell apart is compared by bytes instead: duplicate names, lone surrogates, and numbers a double rounds.
 * 9007199254740992 and ...993, or 100000000000000.01 and ...02, are one double but two amounts, and a handler that
 * reads decimals would charge them differently: a changed amount must never be answered with the first one's
 * receipt. The price is that such a body must be retried byte for byte, and a false 422 costs less than that.
 *
 * Every part has its length before it and its tag before that, and the tag says how many parts follow, so no two
 * requests have the same pre-image. The body is last, where its end needs no mark.
 */
function digestV1(input: FingerprintInput): string {
  const { media, parameters, unreadable } = readContentType(input.contentType ?? '');
  const canonical = isJson(media) ? canonicalBody(input.body) : undefined;
  const parts = [
    'oncekey/fingerprint/1',
    ...['method', upperCase(input.method)],
    ...['path', input.path],
    ...tagged('query', input.query),
    ...['media', media],
    ...tagged('parameter', parameters),
    ...['unreadable', unreadable],
    ...tagged(
      'header',
      input.headers.map(([name, value]) => [lowerCase(name), value]),
    ),
    ...['body', canonical === undefined ? 'bytes' : 'json'],
  ];
  return createHash('sha256')
    .update(frame(parts))
    .update(canonical ?? input.body)
    .digest('base64url');
}

/** The order of values under one name may mean something; the order of names does not. */
function tagged(tag: string, pairs: readonly Pair[]): string[] {
  return pairs
    .toSorted(([left], [right]) => (left < right ? -1 : Number(left > right)))
    .flatMap(([name, value]) => [tag, name, value]);
}

/** A byte order mark is kept, and `canonicalJson` then declines as `JSON.parse` would: such a body goes by its bytes. */
function canonicalBody(body: Uint8Array): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
    const canonical = canonicalJson(text, CANONICAL_DEPTH);
    return canonical.ok && canonical.exact ? canonical.text : undefined;
  } catch {
    return undefined; // Not UTF-8, so not JSON.
  }
}

function isJson(media: string): boolean {
  return media === 'application/json' || media.endsWith('+json');
}

/** One parameter of RFC 9110 5.6.6, or the empty one it allows. Its value may be quoted, and hold a semicolon. */
const PARAMETER = /;\s*(?:([^\s;="]+)=("[^"\\]*(?:\\.[^"\\]*)*"|[^\s;"]*))?\s*/y;

/**
 * An absent content type and an empty one are the same: servers treat them alike, and proxies turn one into the
 * other. What does not parse is kept as it is, so that it still counts. JSON is UTF-8 by definition (RFC 8259), so
 * saying so adds nothing.
 */
function readContentType(received: string): { media: string; parameters: Pair[]; unreadable: string } {
  const end = received.includes(';') ? received.indexOf(';') : received.length;
  const media = lowerCase(received.slice(0, end).trim());
  const parameters: Pair[] = [];
  let at = end;
  for (;;) {
    PARAMETER.lastIndex = at;
    const match = PARAMETER.exec(received);
    if (!match) return { media, parameters, unreadable: received.slice(at) };
    at += match[0].length;
    if (match[1] === undefined) continue;
    const name = lowerCase(match[1]);
    const value = name === 'charset' ? lowerCase(unquoted(match[2] ?? '')) : unquoted(match[2] ?? '');
    if (!(isJson(media) && name === 'charset' && value === 'utf-8')) parameters.push([name, value]);
  }
}

function unquoted(value: string): string {
  return value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value;
}

/** ASCII only: Unicode folding would merge names that are not equal, such as the Kelvin sign's with k. */
function lowerCase(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function upperCase(text: string): string {
  return text.replace(/[a-z]+/g, (letters) => letters.toUpperCase());
}
