export type CanonicalJson = { ok: true; text: string; exact: boolean } | { ok: false; reason: Obstacle };

type Obstacle = 'not_json' | 'too_deep' | 'duplicate_name' | 'lone_surrogate' | 'number_out_of_range';

/** What has been read of a container that is still open. The document itself is the outermost one. */
type Open = { closer: 'end'; text: string } | { closer: ']'; text: string } | OpenObject;

interface OpenObject {
  closer: '}';
  members: Map<string, string>;
  name: string;
}

/** A name or scalar, and where the text goes on after it. */
interface Token {
  text: string;
  end: number;
  exact: boolean;
}

/**
 * Rewrites a JSON text as RFC 8785 (JCS) wants it, from the text itself: `JSON.parse` has already dropped all but
 * the last of duplicate names and rounded every number to a double. JCS rounds too, so `exact` tells whether every
 * number kept its decimal value. Where it is false, a text with another number may have the same canonical text.
 *
 * The grammar is as strict as `JSON.parse`. The reason is the first obstacle in reading order; what follows it is
 * not looked at. Nesting is kept on a stack of our own: its depth is the sender's choice, and must not be able to
 * overflow ours. Texts are built by concatenation, which V8 keeps as ropes, so nesting copies nothing twice.
 */
export function canonicalJson(text: string, maxDepth: number): CanonicalJson {
  const enclosing: Open[] = [];
  let inside: Open = { closer: 'end', text: '' };
  let valueRead = false;
  let exact = true;
  let at = skipSpace(text, 0);

  while (!valueRead || inside.closer !== 'end') {
    if (valueRead) {
      const outer: Open | undefined = text[at] === inside.closer ? enclosing.pop() : undefined;
      if (outer) {
        put(outer, closed(inside));
        inside = outer;
      } else if (text[at] === ',') {
        valueRead = false;
      } else {
        return failed('not_json');
      }
      at = skipSpace(text, at + 1);
      continue;
    }

    if (inside.closer === '}') {
      const afterColon = readName(inside, text, at);
      if (typeof afterColon === 'string') return failed(afterColon);
      at = skipSpace(text, afterColon);
    }
    if (text[at] === '[' || text[at] === '{') {
      if (enclosing.length >= maxDepth) return failed('too_deep');
      enclosing.push(inside);
      inside = text[at] === '[' ? { closer: ']', text: '' } : { closer: '}', members: new Map(), name: '' };
      at = skipSpace(text, at + 1);
      valueRead = text[at] === inside.closer;
    } else {
      const scalar = readScalar(text, at);
      if (typeof scalar === 'string') return failed(scalar);
      put(inside, scalar.text);
      exact &&= scalar.exact;
      at = skipSpace(text, scalar.end);
      valueRead = true;
    }
  }
  return at === text.length ? { ok: true, text: closed(inside), exact } : failed('not_json');
}

function failed(reason: Obstacle): CanonicalJson {
  return { ok: false, reason };
}

function put(container: Open, value: string): void {
  if (container.closer === '}') container.members.set(container.name, value);
  else container.text += container.text === '' ? value : `,${value}`;
}

function closed(container: Open): string {
  if (container.closer === 'end') return container.text;
  if (container.closer === ']') return `[${container.text}]`;
  let text = '';
  // `sort` without a comparator orders by UTF-16 code units, as RFC 8785 3.2.3 requires.
  for (const name of [...container.members.keys()].sort()) {
    text += `${text === '' ? '' : ','}${JSON.stringify(name)}:${container.members.get(name)}`;
  }
  return `{${text}}`;
}

/** Leaves the name with its object, for the value that follows; returns where that begins. */
function readName(object: OpenObject, text: string, at: number): number | Obstacle {
  const name = readString(text, at);
  if (typeof name === 'string') return name;
  if (object.members.has(name.text)) return 'duplicate_name';
  object.name = name.text;
  const colon = skipSpace(text, name.end);
  return text[colon] === ':' ? colon + 1 : 'not_json';
}

function readScalar(text: string, at: number): Token | Obstacle {
  for (const literal of ['true', 'false', 'null']) {
    if (text.startsWith(literal, at)) return { text: literal, end: at + literal.length, exact: true };
  }
  if (text[at] !== '"') return readNumber(text, at);
  const string = readString(text, at);
  return typeof string === 'string' ? string : { ...string, text: JSON.stringify(string.text) };
}

/**
 * Of a single string literal `JSON.parse` loses nothing, and its idea of an escape is the one to agree with. Given
 * the object around it, V8 takes some escaped names for others (nodejs/node#63785): two bodies would be one.
 */
function readString(text: string, at: number): Token | Obstacle {
  if (text[at] !== '"') return 'not_json';
  let end = at + 1;
  while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
  try {
    const string: string = JSON.parse(text.slice(at, end + 1));
    return string.isWellFormed() ? { text: string, end: end + 1, exact: true } : 'lone_surrogate';
  } catch {
    return 'not_json';
  }
}

function readNumber(text: string, at: number): Token | Obstacle {
  const whole = text[at] === '-' ? at + 1 : at;
  let end = skipDigits(text, whole);
  if (end === whole || (text[whole] === '0' && end > whole + 1)) return 'not_json';
  if (text[end] === '.') {
    const fraction = end + 1;
    end = skipDigits(text, fraction);
    if (end === fraction) return 'not_json';
  }
  if (text[end] === 'e' || text[end] === 'E') {
    const sign = text[end + 1];
    const power = end + (sign === '+' || sign === '-' ? 2 : 1);
    end = skipDigits(text, power);
    if (end === power) return 'not_json';
  }
  const literal = text.slice(at, end);
  const value = Number(literal);
  if (!Number.isFinite(value)) return 'number_out_of_range';
  // ECMAScript's own text of a double is what RFC 8785 prescribes; it writes -0 as 0.
  const canonical = String(value);
  return { text: canonical, end, exact: significantDigits(literal) === significantDigits(canonical) };
}

/**
 * The digits alone tell whether the double's text has the literal's value: with equal digits the two could only
 * differ by a power of ten, and rounding never moves a number that far, except to zero, which has no digits. So
 * no exponent is ever computed with, however absurd.
 */
function significantDigits(literal: string): string {
  const [mantissa = ''] = literal.split(/e/i, 1);
  const digits = mantissa.replace(/[-.]/g, '');
  let first = 0;
  let end = digits.length;
  while (first < end && digits[first] === '0') first += 1;
  while (end > first && digits[end - 1] === '0') end -= 1;
  return digits.slice(first, end);
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at += 1;
  return at;
}

function skipDigits(text: string, from: number): number {
  let at = from;
  while (isDigit(text.charCodeAt(at))) at += 1;
  return at;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}
