import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { frame, type Scope, scopePk } from '../../lib/core/scope.ts';

/** Everything that has ever broken a concatenation: delimiters, nothing, digits, escapes, half characters. */
const part = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      '',
      '#',
      '|',
      '/',
      ':',
      '\u0000',
      '\\',
      '"',
      '1',
      '2',
      'a',
      '\u00e9',
      'e\u0301',
      '\ufffd',
    ),
    fc.constantFrom('\ud83d\ude00', '\ud83d', '\ude00', '\ud800', '\udfff', '\uffff', '\u0001'),
    fc.string({ unit: 'binary', maxLength: 1 }),
  ),
  maxLength: 8,
});
const parts = fc.array(part, { maxLength: 5 });

/** Undoes `frame`. That this is possible for every input is what makes two inputs never share an output. */
function takeApart(framed: Buffer): string[] {
  const taken: string[] = [];
  for (let at = 0; at < framed.length; ) {
    const start = at + 4;
    at = start + framed.readUInt32BE(at);
    taken.push(framed.toString('utf16le', start, at));
  }
  return taken;
}

describe('framed parts', () => {
  it('can be taken apart again, whatever they contain', () => {
    fc.assert(
      fc.property(parts, (given) => {
        expect(takeApart(frame(given))).toEqual(given);
      }),
      { numRuns: 2_000 },
    );
  });

  it('never equal other parts framed', () => {
    fc.assert(
      fc.property(parts, parts, (left, right) => {
        expect(frame(left).equals(frame(right))).toBe(JSON.stringify(left) === JSON.stringify(right));
      }),
      { numRuns: 2_000 },
    );
  });

  it('never equal the same text divided elsewhere', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1 }), fc.nat(), fc.nat(), (text, first, second) => {
        const cut = (at: number) => [text.slice(0, at % text.length), text.slice(at % text.length)];
        fc.pre(first % text.length !== second % text.length);
        expect(frame(cut(first)).equals(frame(cut(second)))).toBe(false);
      }),
    );
  });

  it('count empty ones', () => {
    const framed = [[], [''], ['', ''], ['', '', '']].map((given) => frame(given).toString('hex'));
    expect(new Set(framed).size).toBe(4);
  });

  it('keep a megabyte whole', () => {
    const long = '\ud800'.repeat(1_000_000);
    expect(takeApart(frame(['a', long, 'b']))).toEqual(['a', long, 'b']);
  });
});

describe('the partition key of a scope', () => {
  const scope: Scope = { tenant: 'tenant-1', operation: 'POST /charges', key: 'abc' };

  it('is pinned, because a silent change would forget every key in every table', () => {
    expect(scopePk(scope)).toBe('THBdD81b-1QeP1i7MKd791l8vjMnkObLD2Po9pwvYy4');
    expect(scopePk({ tenant: '', operation: '\ud800', key: '\ud83d\ude00' })).toBe(
      '2UTc6zgoV99ekX3Os8VyJuJKat6Pp1iVuR04E6Eq46I',
    );
  });

  it('is 43 characters of base64url, however long the scope', () => {
    expect(scopePk({ ...scope, tenant: 't'.repeat(1_000_000) })).toMatch(/^[\w-]{43}$/);
  });

  it('differs when any one part differs, also by half a character', () => {
    fc.assert(
      fc.property(part, part, part, part, (tenant, operation, key, other) => {
        const pk = scopePk({ tenant, operation, key });
        expect(scopePk({ tenant: other, operation, key }) === pk).toBe(other === tenant);
        expect(scopePk({ tenant, operation: other, key }) === pk).toBe(other === operation);
        expect(scopePk({ tenant, operation, key: other }) === pk).toBe(other === key);
      }),
    );
    expect(scopePk({ ...scope, key: '\ud800' })).not.toBe(scopePk({ ...scope, key: '\udbff' }));
  });

  it('differs when text moves from one part to its neighbour', () => {
    const pks = [
      { tenant: 'ab', operation: 'c', key: 'd' },
      { tenant: 'a', operation: 'bc', key: 'd' },
      { tenant: 'a', operation: 'b', key: 'cd' },
      { tenant: 'abcd', operation: '', key: '' },
      { tenant: '', operation: 'abcd', key: '' },
      { tenant: '', operation: '', key: 'abcd' },
    ].map(scopePk);
    expect(new Set(pks).size).toBe(pks.length);
  });
});
