import { isDeepStrictEqual } from 'node:util';
import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CanonicalJson, canonicalJson } from '../../lib/core/canonical-json.ts';

const read = (text: string): CanonicalJson => canonicalJson(text, 64);

function canonical(text: string): string {
  const result = read(text);
  if (!result.ok) throw new Error(`Not canonicalised: ${result.reason}`);
  return result.text;
}

function reason(text: string, maxDepth = 64): string {
  const result = canonicalJson(text, maxDepth);
  return result.ok ? 'ok' : result.reason;
}

function isExact(text: string): boolean {
  const result = read(text);
  if (!result.ok) throw new Error(`Not canonicalised: ${result.reason}`);
  return result.exact;
}

/** A JSON value as its author meant it: numbers are decimal texts, members are pairs. */
type Meant =
  | { kind: 'literal' | 'number'; text: string }
  | { kind: 'string'; value: string }
  | { kind: 'array'; items: Meant[] }
  | { kind: 'object'; members: [string, Meant][] };

const anyString = fc.oneof(
  fc.constantFrom(
    '',
    '__proto__',
    'constructor',
    'toString',
    'a',
    'A',
    'b',
    '1',
    '10',
    '\ufb33',
    '\ud83d\ude00',
  ),
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.string({
    unit: fc.constantFrom('"', '\\', '/', '\n', '\u0000', '\u007f', '\u2028', 'n', 'u'),
    maxLength: 6,
  }),
);

const anyDouble = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.constantFrom(0, -0, 5e-324, 1e21, 1e-7, 123456789012345680000, 0.1),
);

const { meant: anyMeant } = fc.letrec<{ meant: Meant }>((tie) => ({
  meant: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('true', 'false', 'null').map((text): Meant => ({ kind: 'literal', text })),
    anyDouble.map(
      (double): Meant => ({ kind: 'number', text: Object.is(double, -0) ? '-0' : String(double) }),
    ),
    anyString.map((value): Meant => ({ kind: 'string', value })),
    fc.array(tie('meant'), { maxLength: 5 }).map((items): Meant => ({ kind: 'array', items })),
    fc
      .uniqueArray(fc.tuple(anyString, tie('meant')), { selector: ([name]) => name, maxLength: 5 })
      .map((members): Meant => ({ kind: 'object', members })),
  ),
}));

/** For the oracle, without `JSON.parse` of the text: V8 mixes up escaped names (see the test that says so). */
function asObject(value: Meant): unknown {
  switch (value.kind) {
    case 'literal':
      return { true: true, false: false }[value.text] ?? null;
    case 'number':
      return Number(value.text);
    case 'string':
      return value.value;
    case 'array':
      return value.items.map(asObject);
    case 'object': {
      const object = Object.create(null);
      for (const [name, member] of value.members) object[name] = asObject(member);
      return object;
    }
    default:
      return value satisfies never;
  }
}

/** One thing changed somewhere inside: a value replaced, dropped, repeated or moved, a name given to another. */
function altered(value: Meant, replacement: Meant, whim: Whims): Meant {
  if (value.kind === 'array' && value.items.length && whim(4)) {
    const at = whim(value.items.length);
    const item = value.items[at] as Meant;
    const others = value.items.toSpliced(at, 1);
    const items = [
      value.items.with(at, altered(item, replacement, whim)),
      others,
      [...others, item],
      [item, ...value.items],
    ][whim(4)];
    return { kind: 'array', items: items as Meant[] };
  }
  if (value.kind === 'object' && value.members.length && whim(4)) {
    const at = whim(value.members.length);
    const [name, member] = value.members[at] as [string, Meant];
    const members = [
      value.members.with(at, [name, altered(member, replacement, whim)]),
      value.members.toSpliced(at, 1),
      value.members.with(at, [`${value.members.map(([taken]) => taken).join('')}!`, member]),
    ][whim(3)];
    return { kind: 'object', members: members as [string, Meant][] };
  }
  return replacement;
}

/** Whether two values mean the same, decided without any text: a Map knows no order, and 0 + -0 is 0. */
function sameMeaning(left: Meant, right: Meant): boolean {
  return isDeepStrictEqual(unordered(left), unordered(right));
}

function unordered(value: Meant): unknown {
  if (value.kind === 'array') return value.items.map(unordered);
  if (value.kind === 'object')
    return new Map(value.members.map(([name, member]) => [name, unordered(member)]));
  return value.kind === 'number' ? 0 + Number(value.text) : [value];
}

/** Choices of a writer who formats as it pleases: an endless stream of numbers, drawn one by one. */
const anyWhims = fc.array(fc.nat(0xffff), { minLength: 1, maxLength: 40 }).map((numbers) => {
  let drawn = 0;
  return (options: number): number => (numbers[drawn++ % numbers.length] as number) % options;
});
type Whims = (options: number) => number;

function write(value: Meant, whim: Whims): string {
  const space = () => ['', '', ' ', '\n', '\t\r\n', '   '][whim(6)];
  const list = (texts: string[]) => texts.map((text) => `${space()}${text}${space()}`).join(',') || space();
  switch (value.kind) {
    case 'literal':
      return value.text;
    case 'number':
      return writeNumber(value.text, whim);
    case 'string':
      return writeString(value.value, whim);
    case 'array':
      return `[${list(value.items.map((item) => write(item, whim)))}]`;
    case 'object': {
      const turn = value.members.length ? whim(value.members.length) : 0;
      const members = [...value.members.slice(turn), ...value.members.slice(0, turn)];
      const ordered = whim(2) ? members.toReversed() : members;
      return `{${list(ordered.map(([name, member]) => `${writeString(name, whim)}${space()}:${space()}${write(member, whim)}`))}}`;
    }
    default:
      return value satisfies never;
  }
}

function writeNumber(text: string, whim: Whims): string {
  const [mantissa = '', exponent] = text.split('e');
  const padded = mantissa.includes('.') ? `${mantissa}00` : `${mantissa}.000`;
  const power = exponent ?? '0';
  return [text, `${padded}${exponent ? `e${power}` : ''}`, `${mantissa}E${power}`, `${padded}e${power}`][
    whim(4)
  ] as string;
}

function writeString(value: string, whim: Whims): string {
  const units = value.split('').map((unit) => {
    const hex = unit.charCodeAt(0).toString(16).padStart(4, '0');
    const needed = JSON.stringify(unit).slice(1, -1);
    return [needed, `\\u${hex}`, `\\u${hex.toUpperCase()}`, unit === '/' ? '\\/' : needed][whim(4)];
  });
  // Halves of a pair that stay raw must stay together, and JSON.stringify escapes a half that stands alone.
  return `"${units.join('')}"`;
}

describe('RFC 8785', () => {
  it('its sample of section 3.2.2 comes out as printed in 3.2.3', () => {
    const sample = `{
      "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
      "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
      "literals": [null, true, false]
    }`;
    expect(canonical(sample)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    );
    expect(Buffer.from(canonical(sample)).toString('hex', 0, 16)).toBe('7b226c69746572616c73223a5b6e756c');
  });

  it('its names are sorted by UTF-16 code units, so an emoji comes before a Hebrew letter', () => {
    const sample = `{"\\u20ac": "Euro Sign", "\\r": "Carriage Return", "\\ufb33": "Hebrew Letter Dalet With Dagesh",
      "1": "One", "\\ud83d\\ude00": "Emoji: Grinning Face", "\\u0080": "Control",
      "\\u00f6": "Latin Small Letter O With Diaeresis"}`;
    expect(canonical(sample).match(/(?<=:")[^"]+/g)).toEqual([
      'Carriage Return',
      'One',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ]);
  });

  it.each([
    ['0000000000000000', '0'],
    ['8000000000000000', '0'],
    ['0000000000000001', '5e-324'],
    ['8000000000000001', '-5e-324'],
    ['7fefffffffffffff', '1.7976931348623157e+308'],
    ['ffefffffffffffff', '-1.7976931348623157e+308'],
    ['4340000000000000', '9007199254740992'],
    ['c340000000000000', '-9007199254740992'],
    ['4430000000000000', '295147905179352830000'],
    ['44b52d02c7e14af5', '9.999999999999997e+22'],
    ['44b52d02c7e14af6', '1e+23'],
    ['44b52d02c7e14af7', '1.0000000000000001e+23'],
    ['444b1ae4d6e2ef4e', '999999999999999700000'],
    ['444b1ae4d6e2ef4f', '999999999999999900000'],
    ['444b1ae4d6e2ef50', '1e+21'],
    ['3eb0c6f7a0b5ed8c', '9.999999999999997e-7'],
    ['3eb0c6f7a0b5ed8d', '0.000001'],
    ['41b3de4355555553', '333333333.3333332'],
    ['41b3de4355555554', '333333333.33333325'],
    ['41b3de4355555555', '333333333.3333333'],
    ['41b3de4355555556', '333333333.3333334'],
    ['41b3de4355555557', '333333333.33333343'],
    ['becbf647612f3696', '-0.0000033333333333333333'],
    ['43143ff3c1cb0959', '1424953923781206.2'],
  ])('its Appendix B prints the double %s as %s', (bits, printed) => {
    const double = Buffer.from(bits, 'hex').readDoubleBE();
    expect(canonical(`${bits.startsWith('8') && double === 0 ? '-' : ''}${double.toExponential(40)}`)).toBe(
      printed,
    );
    expect(canonical(printed)).toBe(printed);
    expect(isExact(printed)).toBe(true);
  });
});

describe('the canonical text', () => {
  it('is what the canonicalize package makes of the value, however the text was written', () => {
    fc.assert(
      fc.property(anyMeant, anyWhims, (value, whims) => {
        expect(canonical(write(value, whims))).toBe(canonicalize(asObject(value)));
      }),
      { numRuns: 3_000 },
    );
  });

  it('is the same for two writings of one value', () => {
    fc.assert(
      fc.property(anyMeant, anyWhims, anyWhims, (value, once, again) => {
        expect(canonical(write(value, once))).toBe(canonical(write(value, again)));
      }),
      { numRuns: 1_000 },
    );
  });

  it('is another for another value, however small the difference', () => {
    const seen = { same: 0, other: 0 };
    fc.assert(
      fc.property(anyMeant, anyMeant, anyWhims, (value, replacement, whims) => {
        const change = altered(value, replacement, whims);
        const same = sameMeaning(value, change);
        seen[same ? 'same' : 'other'] += 1;
        expect(canonical(write(value, whims)) === canonical(write(change, whims))).toBe(same);
      }),
      { numRuns: 5_000 },
    );
    expect(Math.min(seen.same, seen.other)).toBeGreaterThan(100);
  });

  it('keeps escaped names apart that V8 mixes up when it parses a whole object', () => {
    // nodejs/node#63785: once an object had the second name `\u`, V8 takes the escapes below for that name.
    for (let times = 0; times < 5; times += 1) JSON.parse('{"first":1,"\\\\u":2}');
    expect(canonical('{"first":1,"\\u0041\\u0042":2}')).toBe('{"AB":2,"first":1}');
    expect(canonical('{"first":1,"\\\\u":2}')).toBe('{"\\\\u":2,"first":1}');
  });

  it('is canonical already', () => {
    fc.assert(
      fc.property(anyMeant, anyWhims, (value, whims) => {
        const text = canonical(write(value, whims));
        expect(read(text)).toEqual({ ok: true, text, exact: true });
      }),
    );
  });

  it('keeps names that mean something to JavaScript', () => {
    expect(canonical('{"constructor":1,"__proto__":{"a":1},"":2,"toString":3}')).toBe(
      '{"":2,"__proto__":{"a":1},"constructor":1,"toString":3}',
    );
    expect(canonical('{"__proto__":1}')).not.toBe(canonical('{"__proto__":2}'));
  });

  it('tells names apart by case, and sorts upper case first', () => {
    expect(canonical('{"a":1,"A":2}')).toBe('{"A":2,"a":1}');
    expect(canonical('{"A":2,"a":1}')).toBe('{"A":2,"a":1}');
  });

  it('does not sort numeric names as numbers', () => {
    expect(canonical('{"9":1,"10":2}')).toBe('{"10":2,"9":1}');
  });

  it('keeps the order of an array', () => {
    expect(canonical('[3, 1, [ ], { }, "2"]')).toBe('[3,1,[],{},"2"]');
  });

  it('leaves Unicode normalisation alone', () => {
    expect(canonical('"\u00e9"')).not.toBe(canonical('"e\u0301"'));
  });
});

describe('exactness', () => {
  it.each([
    '1E30',
    '4.50',
    '2e-3',
    '0.1',
    '0.000',
    '-0',
    '0e99999999999999999999',
    '100e-2',
    '1e21',
    '120',
    '0.00120e5',
  ])('%s keeps its decimal value', (literal) => expect(isExact(literal)).toBe(true));

  it.each([
    '9007199254740993',
    '-9007199254740993',
    '333333333.33333329',
    '100000000000000.01',
    '0.10000000000000000001',
    '1e-400',
    '-1e-400',
    '1e-99999999999999999999',
    '4.9e-324',
    '12345678901234567890',
  ])('%s does not', (literal) => expect(isExact(literal)).toBe(false));

  it('is lost for the whole document by one number anywhere in it', () => {
    expect(isExact('{"a":[1,{"b":9007199254740993}],"c":2}')).toBe(false);
  });

  it('is not lost by the same digits in a string', () => {
    expect(isExact('["9007199254740993", 1]')).toBe(true);
  });

  it.each(['1e400', '-1e400', '1e99999999999999999999', '2e308', `1${'0'.repeat(400)}`])(
    '%s is out of range',
    (literal) => expect(reason(`[${literal}]`)).toBe('number_out_of_range'),
  );

  it('survives a huge exponent that as many zeros undo', () => {
    expect(read(`0.${'0'.repeat(100_000)}15e100001`)).toEqual({ ok: true, text: '1.5', exact: true });
    expect(read(`15${'0'.repeat(100_000)}e-100001`)).toEqual({ ok: true, text: '1.5', exact: true });
    expect(read(`1.5e${'0'.repeat(100_000)}1`)).toEqual({ ok: true, text: '15', exact: true });
  });

  it('is what arithmetic on big integers says it is', () => {
    const anyLiteral = fc
      .tuple(
        fc.constantFrom('', '-'),
        fc.oneof(fc.constant('0'), fc.bigInt({ min: 1n, max: 10n ** 22n }).map(String)),
        fc.option(fc.string({ unit: fc.constantFrom('0', '0', '1', '5', '9'), minLength: 1, maxLength: 22 })),
        fc.option(fc.tuple(fc.constantFrom('e', 'E', 'e+', 'E-', 'e-'), fc.integer({ min: 0, max: 330 }))),
      )
      .map(([sign, whole, fraction, power]) =>
        [sign, whole, fraction === null ? '' : `.${fraction}`, power?.join('') ?? ''].join(''),
      );
    const scaled = (literal: string): bigint => {
      const [, sign, whole = '', fraction = '', power = '0'] =
        /^(-?)(\d+)\.?(\d*)(?:[eE](.+))?$/.exec(literal) ?? [];
      const magnitude = BigInt(whole + fraction) * 10n ** BigInt(1_000 + Number(power) - fraction.length);
      return sign ? -magnitude : magnitude;
    };
    let exact = 0;
    fc.assert(
      fc.property(anyLiteral, (literal) => {
        const result = read(literal);
        if (!result.ok) {
          expect(Math.abs(Number(literal))).toBe(Infinity);
          return;
        }
        exact += Number(result.exact);
        expect(result.text).toBe(JSON.stringify(Number(literal)));
        expect(result.exact).toBe(scaled(literal) === scaled(result.text));
      }),
      { numRuns: 5_000 },
    );
    expect(exact).toBeGreaterThan(250);
  });
});

describe('what is refused', () => {
  it.each([
    ['the same name twice', '{"a":1,"a":1}'],
    ['the same name twice, once escaped', '{"a":1,"\\u0061":2}'],
    ['the same name twice further in', '[{"b":{"a":1,"c":2,"a":1}}]'],
    ['__proto__ twice', '{"__proto__":1,"__proto__":2}'],
    ['the empty name twice', '{"":1,"":2}'],
  ])('%s is a duplicate', (_, text) => expect(reason(text)).toBe('duplicate_name'));

  it('the same name in different objects is no duplicate', () => {
    expect(canonical('{"a":{"a":1},"b":[{"a":1},{"a":2}]}')).toBe('{"a":{"a":1},"b":[{"a":1},{"a":2}]}');
  });

  it.each([
    ['escaped high', '"\\ud800"'],
    ['escaped low', '["\\udc00"]'],
    ['escaped in the wrong order', '"\\ude00\\ud83d"'],
    ['raw', '"\ud800"'],
    ['half raw, half escaped, apart', '"\ud83d \\ude00"'],
    ['in a name', '{"\\ud800":1}'],
  ])('a lone surrogate, %s, has no canonical text', (_, text) => expect(reason(text)).toBe('lone_surrogate'));

  it('a pair is no lone surrogate, even half escaped', () => {
    expect(canonical('"\ud83d\\ude00"')).toBe('"\ud83d\ude00"');
  });

  it('nesting beyond the limit is too deep, and at the limit is not', () => {
    const arrays = (levels: number) => `${'['.repeat(levels)}1${']'.repeat(levels)}`;
    const objects = (levels: number) => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`;
    for (const nested of [arrays, objects]) {
      expect(reason(nested(64))).toBe('ok');
      expect(reason(nested(65))).toBe('too_deep');
      expect(reason(nested(100_000))).toBe('too_deep');
      expect(reason(nested(100_000), 100_000)).toBe('ok');
    }
    expect(reason('1', 0)).toBe('ok');
    expect(reason('[]', 0)).toBe('too_deep');
  });

  it('depth is counted by what is open, not by what was opened', () => {
    expect(canonicalJson('[[1],[2],[[]],{}]', 3).ok).toBe(true);
    expect(canonicalJson('[[1],[2],[[]],{}]', 2).ok).toBe(false);
  });

  it.each([
    '',
    ' ',
    '\ufeff1',
    '\u00a01',
    '\u000b1',
    '01',
    '-',
    '-01',
    '+1',
    '.5',
    '1.',
    '1.e1',
    '1e',
    '1e+',
    '0x1',
    '1_0',
    '\u0661',
    'NaN',
    'Infinity',
    '-Infinity',
    'undefined',
    'True',
    'nul',
    'nulll',
    'truefalse',
    '"',
    '"a',
    '"\\"',
    '"\\',
    '"\\x41"',
    '"\\u12"',
    '"\\u12g4"',
    "'a'",
    '"\n"',
    '"\u0000"',
    '[',
    ']',
    '[1',
    '[1,',
    '[1,]',
    '[,1]',
    '[1 2]',
    '[1}',
    '{',
    '}',
    '{]',
    '{"a"}',
    '{"a":}',
    '{"a":1',
    '{"a":1,}',
    '{,}',
    '{a:1}',
    '{1:1}',
    '{"a" 1}',
    '{"a"=1}',
    '{"a",1}',
    '{"a":1 "b":2}',
    '{"a"::1}',
    '[1]]',
    '1 2',
    '1,2',
    '1]',
    'end',
    '//\n1',
    '/**/1',
  ])('%j is not JSON', (text) => {
    expect(() => JSON.parse(text)).toThrow();
    expect(reason(text)).toBe('not_json');
  });
});

describe('any text at all', () => {
  const piece = fc.oneof(
    fc.constantFrom(...'[]{}:,"\\/-+.eE0123456789 \n\t\ra\u0000'.split('')),
    fc.constantFrom('true', 'false', 'null', '"a"', '\\u', 'd800', '1e400', '\ufeff', '\ud800', '""', '[1]'),
  );
  const mutated = fc
    .tuple(anyMeant, anyWhims, fc.array(fc.tuple(fc.nat(), fc.nat(3), piece), { maxLength: 3 }))
    .map(([value, whims, edits]) =>
      edits.reduce(
        (text, [place, removed, inserted]) => {
          const at = place % (text.length + 1);
          return text.slice(0, at) + inserted + text.slice(at + removed);
        },
        write(value, whims),
      ),
    );
  const anyText = fc.oneof(
    mutated,
    fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
    fc.string({ unit: 'binary' }),
  );

  it('is JSON exactly when JSON.parse says so, and then the same value', () => {
    const seen = { valid: 0, invalid: 0 };
    fc.assert(
      fc.property(anyText, (text) => {
        let value: unknown;
        try {
          value = JSON.parse(text);
        } catch {
          seen.invalid += 1;
          expect(read(text).ok).toBe(false);
          return;
        }
        seen.valid += 1;
        const result = read(text);
        if (!result.ok) expect(result.reason).not.toBe('not_json');
        else if (!text.includes('\\')) expect(result.text).toBe(canonicalize(value));
      }),
      { numRuns: 10_000 },
    );
    expect(Math.min(seen.valid, seen.invalid)).toBeGreaterThan(1_000);
  });
});

/** Linear takes milliseconds; with the square of a million steps, minutes. Nothing in between is worth a look at the clock. */
describe('a hostile megabyte', { timeout: 60_000 }, () => {
  const MB = 1_000_000;
  const members = (size: number) =>
    Array.from({ length: size / 10 }, (_, index) => `"${'p'.repeat(20)}${(index * 7919) % 100_000}":1`).join(
      ',',
    );
  it.each<[string, (size: number) => string, string]>([
    ['digits', (size) => '9'.repeat(size), 'number_out_of_range'],
    ['fraction digits', (size) => `0.${'9'.repeat(size)}`, 'ok'],
    ['zeros before a digit', (size) => `0.${'0'.repeat(size)}1`, 'ok'],
    ['zeros after a digit', (size) => `1.${'0'.repeat(size)}`, 'ok'],
    ['exponent digits', (size) => `1e-${'9'.repeat(size)}`, 'ok'],
    ['escapes', (size) => `"${'\\u0000'.repeat(size / 6)}"`, 'ok'],
    ['backslashes', (size) => `"${'\\'.repeat(size)}`, 'not_json'],
    ['quotes', (size) => '"'.repeat(size), 'not_json'],
    ['spaces', (size) => `${' '.repeat(size)}x`, 'not_json'],
    ['small numbers', (size) => `[${'1.10,'.repeat(size / 5)}1]`, 'ok'],
    ['empty strings', (size) => `[${'"",'.repeat(size / 3)}1]`, 'ok'],
    ['empty objects', (size) => `[${'{},'.repeat(size / 3)}1]`, 'ok'],
    ['members', (size) => `{${members(size)}}`, 'ok'],
    ['opened arrays', (size) => '['.repeat(size), 'too_deep'],
    ['opened objects', (size) => '{"":'.repeat(size / 4), 'too_deep'],
    ['text at the bottom', (size) => `${'['.repeat(63)}"${'x'.repeat(size)}"${']'.repeat(63)}`, 'ok'],
  ])('of %s is read', (_, textOf, outcome) => {
    expect(reason(textOf(MB))).toBe(outcome);
  });
});
