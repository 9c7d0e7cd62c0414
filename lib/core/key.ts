import { parseItem } from 'structured-headers';
import { limits } from './limits.ts';

export type KeyMode = 'auto' | 'ietf' | 'bare';

export type KeyReading =
  | { ok: true; key: string }
  | { ok: false; code: 'key_missing' | 'key_malformed'; detail: string };

/** Details reach logs and responses, so a flaw tells position, kind and length, and never quotes the key. */
interface Flaw {
  received: string;
  expected: string;
}

const VISIBLE_ASCII = 'visible ASCII characters only (0x21 to 0x7E)';

const WRITE: Record<KeyMode, string> = {
  auto: 'Write the header once, as Idempotency-Key: "<key>".',
  ietf: 'Write the header once, double quotes included, as Idempotency-Key: "<key>".',
  bare: 'Write the header once, without quotes, as Idempotency-Key: <key>.',
};

/** `values` is every value received for the header; a multi-value event may carry several. */
export function readKey(values: readonly string[], mode: KeyMode, minLength = 1): KeyReading {
  const [value] = values;
  if (value === undefined) return refuse('key_missing', { received: 'no header', expected: 'one' }, mode);
  const key = values.length === 1 ? keyInField(value, mode) : repeated(values.length);
  if (typeof key !== 'string') return refuse('key_malformed', key, mode);
  const flaw = flawInKey(key, minLength);
  return flaw ? refuse('key_malformed', flaw, mode) : { ok: true, key };
}

function refuse(code: 'key_missing' | 'key_malformed', flaw: Flaw, mode: KeyMode): KeyReading {
  const detail = `Idempotency-Key: received ${flaw.received}; expected ${flaw.expected}. ${WRITE[mode]}`;
  return { ok: false, code, detail };
}

function repeated(times: number): Flaw {
  return { received: `the header ${times} times`, expected: 'it once, even if all its values are equal' };
}

function keyInField(received: string, mode: KeyMode): string | Flaw {
  const field = withoutSurroundingSpace(received);
  if (received === '') return { received: 'an empty value', expected: 'a key' };
  if (field === '')
    return { received: `a blank value (${received.length} spaces or tabs)`, expected: 'a key' };
  if (mode === 'bare') return bareKey(field);
  if (field.startsWith('"')) return quotedKey(field);
  return mode === 'ietf' ? anotherType(field) : bareKey(field);
}

/** Gateways join repeated headers with commas, so an unquoted comma may mean two keys: neither is safe to pick. */
function bareKey(field: string): string | Flaw {
  const comma = field.indexOf(',');
  if (comma === -1) return field;
  return {
    received: `an unquoted comma at character ${comma + 1}, which is how proxies join a repeated header`,
    expected: 'one key without a comma',
  };
}

/** RFC 9651 has a recipient ignore parameters it does not know, and none is defined for this header. */
function quotedKey(field: string): string | Flaw {
  try {
    const [item] = parseItem(field);
    if (item === '') return { received: 'an empty quoted string', expected: 'a key between the quotes' };
    if (typeof item === 'string') return item;
  } catch {
    // The parser's own message quotes the input; ours must not.
  }
  return flawInQuoted(field);
}

function flawInQuoted(field: string): Flaw {
  let at = 1;
  for (; at < field.length && field[at] !== '"'; at += 1) {
    const odd = oddCharacter(field.charCodeAt(at));
    if (odd && odd !== 'a space')
      return { received: `${odd} at character ${at + 1}`, expected: VISIBLE_ASCII };
    if (field[at] !== '\\') continue;
    at += 1;
    if (at < field.length && field[at] !== '"' && field[at] !== '\\') {
      return {
        received: `an unknown escape at character ${at}`,
        expected: 'a backslash only before a double quote or another backslash',
      };
    }
  }
  if (at >= field.length) {
    return {
      received: `an opening quote without a closing one in ${field.length} characters`,
      expected: 'a string that ends with an unescaped double quote',
    };
  }
  return flawAfterQuote(field, at + 1);
}

function flawAfterQuote(field: string, end: number): Flaw {
  const rest = withoutSurroundingSpace(field.slice(end));
  if (rest.startsWith(',')) {
    return {
      received: `a comma after the closing quote, at character ${field.indexOf(',', end) + 1}: a list, or a repeated header joined by a proxy`,
      expected: 'one quoted string',
    };
  }
  if (rest.startsWith(';')) {
    return {
      received: `malformed parameters after the closing quote (character ${end})`,
      expected: 'nothing there: this header has no parameters',
    };
  }
  return {
    received: `${rest.length} characters of text after the closing quote (character ${end})`,
    expected: 'nothing there; a double quote inside the key is escaped with a backslash',
  };
}

const TYPE_BY_OPENING: Record<string, string> = {
  '(': 'an Inner List, opened by "("',
  ':': 'a Byte Sequence, opened by ":"',
  '?': 'a Boolean, opened by "?"',
  '@': 'a Date, opened by "@"',
  '%': 'a Display String, opened by "%"',
};

function anotherType(field: string): Flaw {
  const expected = 'a String in double quotes (RFC 9651)';
  const opened = TYPE_BY_OPENING[field.charAt(0)];
  if (opened) return { received: opened, expected };
  if (field.includes(',')) return { received: 'a List: unquoted text with a comma', expected };
  if (/^-?[0-9]+$/.test(field)) return { received: 'an Integer', expected };
  if (/^-?[0-9]+\.[0-9]+$/.test(field)) return { received: 'a Decimal', expected };
  if (/^[A-Za-z*]/.test(field)) return { received: 'a Token: text without quotes', expected };
  return { received: `${field.length} characters of unquoted text`, expected };
}

function flawInKey(key: string, minLength: number): Flaw | undefined {
  for (let at = 0; at < key.length; at += 1) {
    const odd = oddCharacter(key.charCodeAt(at));
    if (odd) return { received: `${odd} at character ${at + 1} of the key`, expected: VISIBLE_ASCII };
  }
  if (key.length > limits.keyMaxLength) {
    return { received: `a key of ${key.length} characters`, expected: `at most ${limits.keyMaxLength}` };
  }
  if (key.length < minLength) {
    return {
      received: `a key of ${key.length} characters`,
      expected: `at least ${minLength}: a short key is easily used twice, a UUID is not`,
    };
  }
  return undefined;
}

function oddCharacter(code: number): string | undefined {
  if (code === 0x20) return 'a space';
  if (code === 0x09) return 'a tab';
  if (code < 0x20 || code === 0x7f) return 'a control character';
  return code > 0x7e ? 'a character outside ASCII' : undefined;
}

/** HTTP's optional whitespace is space and tab alone: `trim` would also take a no-break space off the key. */
function withoutSurroundingSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text.charCodeAt(start))) start += 1;
  while (end > start && isSpace(text.charCodeAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}
