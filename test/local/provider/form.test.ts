import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeForm, type Param, type Params, paramsDigest } from '../../../lib/local/provider/form.ts';
import { CHARGE, openStage, sdk } from './stage.ts';

type Plain = string | readonly string[] | { readonly [name: string]: Plain };

const names = fc.string({ minLength: 1, unit: 'grapheme' }).filter((name) => !/[[\]]/.test(name));
const texts = fc.string({ unit: 'grapheme' });
const objects = fc.letrec<{ value: Plain; object: { readonly [name: string]: Plain } }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    texts,
    fc.array(texts, { minLength: 1, maxLength: 4 }),
    tie('object') as fc.Arbitrary<Plain>,
  ),
  object: fc.dictionary(names, tie('value') as fc.Arbitrary<Plain>, { minKeys: 1, maxKeys: 4 }),
})).object;

/** As the browsers and curl write it: a list without indexes. */
function pairsOf(value: Plain, name: string): [string, string][] {
  if (typeof value === 'string') return [[name, value]];
  if (Array.isArray(value)) return value.map((item: string) => [`${name}[]`, item]);
  return Object.entries(value).flatMap(([member, inner]) => pairsOf(inner as Plain, `${name}[${member}]`));
}

const formPairs = (object: { readonly [name: string]: Plain }) =>
  Object.entries(object).flatMap(([name, value]) => pairsOf(value, name));

function plainOf(param: Param): Plain {
  if (!(param instanceof Map)) return param as string | readonly string[];
  return Object.fromEntries([...(param as Params)].map(([name, value]) => [name, plainOf(value)]));
}

describe('a form', () => {
  it('says what was written into it, percent-encoded or as URLSearchParams does it', () => {
    fc.assert(
      fc.property(objects, (object) => {
        const pairs = formPairs(object);
        const percent = pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
        const plus = new URLSearchParams(pairs).toString();
        expect(plainOf(decodeForm(percent))).toEqual(object);
        expect(plainOf(decodeForm(plus))).toEqual(object);
      }),
    );
  });

  it('has a digest that no order changes, and every other difference does', () => {
    fc.assert(
      fc.property(objects, objects, fc.integer({ min: 0, max: 20 }), (one, other, turn) => {
        const digest = (pairs: [string, string][]) =>
          paramsDigest(decodeForm(new URLSearchParams(pairs).toString()));
        const members = Object.keys(one);
        const turned = [...members.slice(turn % members.length), ...members.slice(0, turn % members.length)];
        const same = Object.fromEntries(turned.map((name) => [name, one[name] ?? '']));
        expect(digest(formPairs(same))).toBe(digest(formPairs(one)));
        const areEqual = JSON.stringify(sortedOf(one)) === JSON.stringify(sortedOf(other));
        expect(digest(formPairs(one)) === digest(formPairs(other))).toBe(areEqual);
      }),
    );
  });

  it('of anything at all is read or refused as a request that makes no sense', () => {
    const pieces = fc.constantFrom(
      'a',
      'b',
      '[',
      ']',
      '[]',
      '=',
      '&',
      '%',
      '%41',
      '+',
      '__proto__',
      '0',
      'é',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 30 }), (parts) => {
        try {
          expect(decodeForm(parts.join(''))).toBeInstanceOf(Map);
        } catch (error) {
          expect(error).toMatchObject({ status: 400, failure: { type: 'invalid_request_error' } });
        }
      }),
    );
  });

  it.each([
    ['a=1&a=2', { a: '2' }],
    ['a[]=1&a[]=2', { a: ['1', '2'] }],
    ['a[0]=1&a[1]=2', { a: { 0: '1', 1: '2' } }],
    ['a%5Bb%5D=c+d%2B', { a: { b: 'c d+' } }],
    ['&a&&b=&', { a: '', b: '' }],
    ['a=b=c', { a: 'b=c' }],
    ['__proto__[x]=1', { ['__proto__']: { x: '1' } }],
  ])('%s is read as it is meant', (form, expected) => {
    expect(plainOf(decodeForm(form))).toEqual(expected);
    expect(Object.keys(Object.prototype)).toEqual([]);
  });

  it.each(['a=1&a[b]=2', 'a[b]=2&a=1', 'a[]=1&a[b]=2', 'a[b]=1&a[]=2', 'a[][b]=1', '[a]=1', 'a[b=1', 'a]=1'])(
    '%s is refused, because it says two things or none',
    (form) => {
      expect(() => decodeForm(form)).toThrow('Invalid request');
    },
  );

  it('is not nested deeper than anything of Stripe', () => {
    expect(() => decodeForm(`a${'[b]'.repeat(100_000)}=1`)).toThrow('nested');
  });

  it("keeps any metadata that Stripe's client sends, and finds it again", async () => {
    const { simulator } = await openStage();
    const stripe = sdk(simulator);
    const metadatas = fc.dictionary(
      names.filter((name) => name.length <= 40),
      texts.filter((value) => value.length > 0 && value.length <= 500),
      { maxKeys: 5 },
    );
    await fc.assert(
      fc.asyncProperty(
        metadatas,
        texts.filter((text) => text !== ''),
        async (metadata, description) => {
          const made = await stripe.paymentIntents.create({ ...CHARGE, metadata, description });
          expect([made.metadata, made.description]).toEqual([metadata, description]);
          const kept = simulator.charges().at(-1);
          expect([kept?.id, kept?.metadata]).toEqual([made.id, metadata]);
        },
      ),
      { numRuns: 50 },
    );
  });
});

function sortedOf(value: Plain): unknown {
  if (typeof value === 'string' || Array.isArray(value)) return value;
  const members = Object.entries(value).map(([name, inner]) => [name, sortedOf(inner as Plain)] as const);
  return { members: members.sort(([a], [b]) => (a < b ? -1 : 1)) };
}
