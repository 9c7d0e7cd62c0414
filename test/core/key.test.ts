import fc from 'fast-check';
import { serializeItem } from 'structured-headers';
import { describe, expect, it } from 'vitest';
import { type KeyMode, type KeyReading, readKey } from '../../lib/core/key.ts';

const UUID = '8e03978e-40d5-43dd-bc93-6894a57f9324';
const MODES: readonly KeyMode[] = ['auto', 'ietf', 'bare'];

const visible = (from = 1, to = 255) =>
  fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code)),
    minLength: from,
    maxLength: to,
  });

function detailOf(reading: KeyReading, code = 'key_malformed'): string {
  if (reading.ok) throw new Error('The key was accepted.');
  expect(reading.code).toBe(code);
  return reading.detail;
}

describe('a well-formed key', () => {
  it('is the same key with and without quotes', () => {
    expect(readKey([`"${UUID}"`], 'auto')).toEqual({ ok: true, key: UUID });
    expect(readKey([UUID], 'auto')).toEqual({ ok: true, key: UUID });
  });

  it('is taken literally in bare mode, quotes and backslashes included', () => {
    expect(readKey(['"abc"'], 'bare')).toEqual({ ok: true, key: '"abc"' });
    expect(readKey(['a\\b;c="d'], 'bare')).toEqual({ ok: true, key: 'a\\b;c="d' });
  });

  it('loses the spaces and tabs around it, and nothing else', () => {
    for (const mode of MODES) {
      const field = mode === 'ietf' ? '"abc"' : 'abc';
      expect(readKey([` \t${field}\t `], mode)).toEqual({ ok: true, key: 'abc' });
    }
    expect(readKey(['\u00a0abc'], 'auto').ok).toBe(false);
  });

  it('may escape quotes and backslashes between its quotes', () => {
    expect(readKey(['"a\\"b\\\\c"'], 'auto')).toEqual({ ok: true, key: 'a"b\\c' });
  });

  it('may hold a comma between its quotes', () => {
    expect(readKey(['"a,b"'], 'auto')).toEqual({ ok: true, key: 'a,b' });
  });

  it('ignores parameters, for none is defined', () => {
    expect(readKey(['"abc";v=1; note="a b, c"'], 'ietf')).toEqual({ ok: true, key: 'abc' });
  });

  it('may have 1 to 255 characters', () => {
    for (const length of [1, 255]) {
      const key = 'k'.repeat(length);
      expect(readKey([`"${key}"`], 'ietf')).toEqual({ ok: true, key });
      expect(readKey([key], 'bare')).toEqual({ ok: true, key });
    }
  });

  it('may have exactly the minimum length', () => {
    expect(readKey(['1234567890123456'], 'auto', 16)).toEqual({ ok: true, key: '1234567890123456' });
  });

  it('survives the round trip through a structured string, whatever visible characters it has', () => {
    fc.assert(
      fc.property(visible(), fc.constantFrom<KeyMode>('auto', 'ietf'), (key, mode) => {
        expect(readKey([serializeItem(key)], mode)).toEqual({ ok: true, key });
      }),
    );
  });

  it('is read as it is when it comes bare, whatever visible characters it has but a comma', () => {
    fc.assert(
      fc.property(visible(), (key) => {
        fc.pre(!key.includes(','));
        expect(readKey([key], 'bare')).toEqual({ ok: true, key });
        if (!key.startsWith('"')) expect(readKey([key], 'auto')).toEqual({ ok: true, key });
      }),
    );
  });
});

describe('a missing key', () => {
  it('is told apart from a malformed one', () => {
    for (const mode of MODES) expect(detailOf(readKey([], mode), 'key_missing')).toContain('no header');
  });
});

/** [what is wrong, the header's values, the mode, what the explanation must say] */
const MALFORMED: readonly (readonly [string, readonly string[], KeyMode, RegExp])[] = [
  ['a repeated header', ['abc', 'def'], 'auto', /the header 2 times/],
  ['a header repeated with the same value', ['abc', 'abc', 'abc'], 'auto', /3 times.*even if all.*equal/],
  ['an empty value', [''], 'auto', /an empty value/],
  ['a blank value', [' \t '], 'auto', /a blank value \(3 spaces or tabs\)/],
  ['a comma-joined value', ['abc,def'], 'auto', /an unquoted comma at character 4.*proxies/],
  ['a comma-joined value in bare mode', ['"a","b"'], 'bare', /an unquoted comma at character 4/],
  ['an empty quoted string', ['""'], 'auto', /an empty quoted string/],
  ['an unterminated quote', ['"abc'], 'auto', /an opening quote without a closing one in 4 characters/],
  ['a lone quote', ['"'], 'auto', /without a closing one in 1 characters/],
  ['a string that ends in its escape', ['"abc\\'], 'ietf', /without a closing one in 5 characters/],
  ['a string whose closing quote is escaped', ['"abc\\"'], 'ietf', /without a closing one in 6 characters/],
  ['a bad escape', ['"ab\\nc"'], 'auto', /an unknown escape at character 4/],
  [
    'text after the closing quote',
    ['"abc" def'],
    'auto',
    /3 characters of text after the closing quote \(character 5\)/,
  ],
  ['a list of strings', ['"abc" , "def"'], 'auto', /a comma after the closing quote, at character 7.*list/],
  [
    'malformed parameters',
    ['"abc";V=1'],
    'ietf',
    /malformed parameters after the closing quote \(character 5\)/,
  ],
  ['a token', ['abc'], 'ietf', /a Token.*String in double quotes/],
  ['an integer', ['-42'], 'ietf', /an Integer/],
  ['a decimal', ['4.2'], 'ietf', /a Decimal/],
  ['a boolean', ['?1'], 'ietf', /a Boolean/],
  ['a byte sequence', [':YWJj:'], 'ietf', /a Byte Sequence/],
  ['a date', ['@1659578233'], 'ietf', /a Date/],
  ['a display string', ['%"a%c3%a9"'], 'ietf', /a Display String/],
  ['an inner list', ['("abc")'], 'ietf', /an Inner List/],
  ['a list of tokens', ['abc, def'], 'ietf', /a List/],
  ['a bare UUID that begins with a digit', [UUID], 'ietf', /36 characters of unquoted text/],
  ['a space inside', ['ab cd'], 'auto', /a space at character 3 of the key.*0x21 to 0x7E/],
  ['a space inside quotes', ['"abc de"'], 'auto', /a space at character 4 of the key/],
  ['a tab inside', ['abcd\te'], 'bare', /a tab at character 5 of the key/],
  ['a tab inside quotes', ['"a\te"'], 'ietf', /a tab at character 3;/],
  ['a control character', ['abcde\u0000'], 'auto', /a control character at character 6 of the key/],
  ['a line break', ['abcdefg\nx'], 'auto', /a control character at character 8 of the key/],
  ['the delete character', ['\u007fa'], 'auto', /a control character at character 1 of the key/],
  ['a control character inside quotes', ['"abc\u0001"'], 'auto', /a control character at character 5;/],
  ['a non-ASCII character', ['caf\u00e9'], 'auto', /a character outside ASCII at character 4 of the key/],
  ['typographic quotes', ['\u201cabc\u201d'], 'auto', /a character outside ASCII at character 1 of the key/],
  ['a non-ASCII character inside quotes', ['"\u00e9"'], 'auto', /a character outside ASCII at character 2;/],
  ['a bad escape after a space', ['"a b\\c"'], 'auto', /an unknown escape at character 5/],
  ['a key of 256 characters', ['k'.repeat(256)], 'auto', /a key of 256 characters; expected at most 255/],
  [
    'a quoted key of 257 characters',
    [`"${'k'.repeat(257)}"`],
    'ietf',
    /a key of 257 characters; expected at most 255/,
  ],
];

describe('a malformed key', () => {
  it.each(MALFORMED)('%s is refused with its own explanation', (_, values, mode, words) => {
    expect(detailOf(readKey(values, mode))).toMatch(words);
  });

  it('may be too short for the operation', () => {
    const detail = detailOf(readKey(['abc'], 'auto', 16));
    expect(detail).toMatch(/a key of 3 characters; expected at least 16/);
  });

  it('is explained differently for every form', () => {
    const details = MALFORMED.map(([, values, mode]) => detailOf(readKey(values, mode)));
    expect(new Set(details).size).toBe(details.length);
  });

  it('is told what to write, in the form its mode reads', () => {
    expect(detailOf(readKey([''], 'auto'))).toMatch(/ as Idempotency-Key: "<key>"\.$/);
    expect(detailOf(readKey([''], 'ietf'))).toMatch(/double quotes included, as Idempotency-Key: "<key>"\.$/);
    expect(detailOf(readKey([''], 'bare'))).toMatch(/without quotes, as Idempotency-Key: <key>\.$/);
  });

  it('is never echoed, whatever is wrong with it', () => {
    const damage = fc.constantFrom<(key: string) => readonly string[]>(
      (key) => [key, key],
      (key) => [`${key},${key}`],
      (key) => [`"${key}`],
      (key) => [`"${key}" ${key}`],
      (key) => [`"${key}";${key}=!`],
      (key) => [`"\\${key}"`],
      (key) => [`${key} ${key}`],
      (key) => [`${key}\u00e9`],
      (key) => [`%"%${key}"`],
      (key) => [`@${key}`],
      (key) => [key],
    );
    fc.assert(
      fc.property(fc.uuid(), damage, fc.constantFrom(...MODES), (key, damaged, mode) => {
        const reading = readKey(damaged(key), mode, 300);
        const detail = detailOf(reading);
        for (const group of key.split('-')) expect(detail).not.toContain(group);
      }),
    );
  });
});

describe('any header at all', () => {
  const unit = fc.constantFrom(
    '"',
    '\\',
    ',',
    ';',
    '=',
    ' ',
    '\t',
    '\n',
    'a',
    'A',
    '0',
    '-',
    '.',
    '(',
    ')',
    ':',
  );
  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: fc.oneof(unit, fc.constantFrom('?', '@', '%', '\u00e9', '\ud800', '\u0000')) }),
    visible(1, 300),
    fc.string({ unit }).map((text) => `"${text}`),
  );

  it('is read without throwing, and a key read is 1 to 255 visible ASCII characters', () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 3 }), fc.constantFrom(...MODES), (values, mode) => {
        const reading = readKey(values, mode);
        if (reading.ok) {
          expect(values).toHaveLength(1);
          expect(reading.key).toMatch(/^[\x21-\x7e]{1,255}$/);
        } else {
          expect(reading.detail).toMatch(/received .+; expected .+\. Write .+\.$/);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it.each<[string, (size: number) => string]>([
    ['spaces', (size) => ' '.repeat(size)],
    ['spaces in the middle', (size) => `a${' '.repeat(size)}b`],
    ['escaped quotes', (size) => `"${'\\"'.repeat(size)}`],
    ['digits', (size) => '9'.repeat(size)],
  ])('of a million %s is refused, and not only after minutes', { timeout: 60_000 }, (_, textOf) => {
    for (const mode of MODES) expect(readKey([textOf(1_000_000)], mode).ok).toBe(false);
  });
});
