import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isWanted, matches, requireKnownPattern } from '../../../lib/local/events/pattern.ts';
import type { EventPattern } from '../../../lib/local/model.ts';

const yes = true;
const no = false;

describe('a plain value', () => {
  it.each([
    ['a string', 'on', { a: 'on' }, yes],
    ['a string in another case', 'on', { a: 'On' }, no],
    ['a number', 1, { a: 1 }, yes],
    ['a number that is text in the event, as in a stream', 1, { a: '1' }, no],
    ['text that is a number in the event', '1', { a: 1 }, no],
    ['a boolean', false, { a: false }, yes],
    ['null', null, { a: null }, yes],
    ['null where there is nothing', null, {}, no],
    ['the empty string', '', { a: '' }, yes],
    ['one element of an array', 'on', { a: ['off', 'on'] }, yes],
    ['no element of an array', 'on', { a: ['off'] }, no],
    ['a value where the event has an object', 'on', { a: { on: 'on' } }, no],
  ])('%s', (_, rule, event, expected) => {
    expect(matches({ a: [rule] }, event)).toBe(expected);
  });

  it('is enough as one of several', () => {
    expect(matches({ a: ['x', 'on'] }, { a: 'on' })).toBe(true);
  });
});

describe('fields', () => {
  it('must all match', () => {
    expect(matches({ a: ['1'], b: ['2'] }, { a: '1', b: '2' })).toBe(true);
    expect(matches({ a: ['1'], b: ['2'] }, { a: '1', b: '3' })).toBe(false);
  });

  it('are not looked at where the pattern has none', () => {
    expect(matches({ a: ['1'] }, { a: '1', z: 'whatever' })).toBe(true);
  });

  it('are found at any depth', () => {
    const pattern = { dynamodb: { NewImage: { status: { S: ['accepted'] } } } };
    const image = (status: object) => ({ dynamodb: { NewImage: { status } } });
    expect(matches(pattern, image({ S: 'accepted' }))).toBe(true);
    expect(matches(pattern, image({ S: 'completed' }))).toBe(false);
    expect(matches(pattern, { dynamodb: {} })).toBe(false);
    expect(matches(pattern, undefined)).toBe(false);
  });

  it('of an array of objects match in one and the same element', () => {
    const pattern = { rows: { id: ['1'], state: ['on'] } };
    const rows = [
      { id: '1', state: 'off' },
      { id: '2', state: 'on' },
    ];
    expect(matches(pattern, { rows })).toBe(false);
    expect(matches(pattern, { rows: [...rows, { id: '1', state: 'on' }] })).toBe(true);
  });

  it('of a prototype are none of the event', () => {
    expect(matches({ toString: [{ exists: false }] }, {})).toBe(true);
    expect(matches({ constructor: { name: ['Object'] } }, {})).toBe(false);
  });
});

describe('exists', () => {
  it.each([
    ['a leaf', { a: { b: 'x' } }, yes],
    ['null, which is a leaf', { a: { b: null } }, yes],
    ['an object, which is none', { a: { b: { c: 1 } } }, no],
    ['nothing', { a: {} }, no],
    ['nothing above it either', {}, no],
    ['a value above it', { a: 'x' }, no],
    ['an empty array', { a: { b: [] } }, no],
    ['nothing in an empty array above it', { a: [] }, no],
    ['one element above it that has it', { a: [{}, { b: 1 }] }, yes],
  ])('%s', (_, event, there) => {
    expect(matches({ a: { b: [{ exists: true }] } }, event)).toBe(there);
    expect(matches({ a: { b: [{ exists: false }] } }, event)).toBe(!there);
  });

  it('false beside a value takes either', () => {
    const pattern = { a: [{ exists: false }, 'x'] };
    expect([{}, { a: 'x' }, { a: 'y' }].map((event) => matches(pattern, event))).toEqual([true, true, false]);
  });

  it('tells an outbox that is delivered from one that is not', () => {
    const pattern = {
      dynamodb: { NewImage: { status: { S: ['completed'] }, ttl: { N: [{ exists: false }] } } },
    };
    const NewImage = { status: { S: 'completed' } };
    expect(matches(pattern, { dynamodb: { NewImage } })).toBe(true);
    expect(matches(pattern, { dynamodb: { NewImage: { ...NewImage, ttl: { N: '7' } } } })).toBe(false);
  });
});

describe('comparisons', () => {
  it.each([
    [{ prefix: 'us-' }, ['us-east-1', 'us-'], ['eu-west-1', 'u', 7, null]],
    [{ suffix: '.png' }, ['a.png'], ['a.pngs', 'png']],
    [{ 'equals-ignore-case': 'Alice' }, ['aLICE'], ['alic', 1]],
    [{ 'anything-but': 'off' }, ['on', 5, null, ['off', 'on']], ['off', ['off']]],
    [{ 'anything-but': ['off', 'idle'] }, ['on'], ['off', 'idle']],
    [{ 'anything-but': 7 }, [8, '7'], [7]],
    [{ 'anything-but': [7, 8] }, [9], [7, 8]],
    [{ 'anything-but': { prefix: 'init' } }, ['on', 3], ['initial']],
    [{ numeric: ['=', 100] }, [100], [99, '100']],
    [{ numeric: ['>', 0, '<=', 5] }, [1, 5], [0, 6, '3']],
    [{ numeric: ['<', 0] }, [-1], [0]],
    [{ numeric: ['>=', 2] }, [2, 3], [1]],
  ])('%j', (rule, taken, refused) => {
    for (const a of taken) expect(matches({ a: [rule] }, { a }), JSON.stringify(a)).toBe(true);
    for (const a of refused) expect(matches({ a: [rule] }, { a }), JSON.stringify(a)).toBe(false);
    expect(matches({ a: [rule] }, {})).toBe(false);
  });
});

describe('$or', () => {
  const pattern: EventPattern = { a: ['1'], $or: [{ b: ['2'] }, { c: { d: [{ exists: true }] } }] };

  it('takes an event that one of them takes, beside all other fields', () => {
    expect(matches(pattern, { a: '1', b: '2' })).toBe(true);
    expect(matches(pattern, { a: '1', c: { d: 0 } })).toBe(true);
    expect(matches(pattern, { a: '1' })).toBe(false);
    expect(matches(pattern, { a: '0', b: '2' })).toBe(false);
  });
});

describe('several patterns', () => {
  it('want what any of them wants', () => {
    const patterns = [{ a: ['1'] }, { a: ['2'] }];
    expect(['1', '2', '3'].map((a) => isWanted(patterns, { a }))).toEqual([true, true, false]);
  });

  it('want everything where there are none', () => {
    expect(isWanted([], { a: 1 })).toBe(true);
  });
});

describe('a pattern outside of the subset', () => {
  it.each([
    [
      'a comparison that is not known',
      { a: { b: [{ cidr: '10.0.0.0/8' }] } },
      'a.b',
      '{"cidr":"10.0.0.0/8"}',
    ],
    ['a wildcard', { a: ['x', { wildcard: 'x*' }] }, 'a', '{"wildcard":"x*"}'],
    ['a name of an object', { a: [{ toString: 1 }] }, 'a', '{"toString":1}'],
    ['two comparisons in one', { a: [{ prefix: 'x', suffix: 'y' }] }, 'a', '{"prefix":"x","suffix":"y"}'],
    ['an array in an array', { a: [['x']] }, 'a', '["x"]'],
    ['a value without an array', { a: { b: 'x' } }, 'a.b', '"x"'],
    ['no value at all', { a: [] }, 'a', '[]'],
    ['exists of a word', { a: [{ exists: 'yes' }] }, 'a', '{"exists":"yes"}'],
    ['a prefix of a number', { a: [{ prefix: 1 }] }, 'a', '{"prefix":1}'],
    ['anything but a suffix', { a: [{ 'anything-but': { suffix: 'x' } }] }, 'a', 'suffix'],
    ['anything but a mixture', { a: [{ 'anything-but': ['x', 1] }] }, 'a', '["x",1]'],
    ['a bound without a number', { a: [{ numeric: ['>'] }] }, 'a', '{"numeric":[">"]}'],
    ['a bound of an unknown order', { a: [{ numeric: ['!=', 1] }] }, 'a', '"!="'],
    ['an alternative alone', { $or: [{ a: ['x'] }] }, '$or', 'two or more'],
    ['an alternative that is none', { $or: [{ a: ['x'] }, 'y'] }, 'The top', '"y"'],
    ['no object', 'x', 'The top', '"x"'],
  ])('is refused by name: %s', (_, pattern, place, received) => {
    const check = () => requireKnownPattern(pattern, 'the filter 1 of Dispatch');
    expect(check).toThrow('the filter 1 of Dispatch');
    expect(check).toThrow(place);
    expect(check).toThrow(received);
  });

  it('is not what the stack of this package has', () => {
    const images = [
      { status: { S: ['accepted'] } },
      { status: { S: ['completed'] }, ttl: { N: [{ exists: false }] } },
    ];
    for (const NewImage of images) {
      requireKnownPattern({ dynamodb: { Keys: { sk: { S: ['record'] } }, NewImage } }, 'a filter');
    }
    const created = {
      source: ['aws.s3'],
      'detail-type': ['Object Created'],
      detail: { bucket: { name: ['b'] } },
    };
    requireKnownPattern(created, 'a rule');
  });
});

it('an event matches the pattern that names its own leaves, and none of them with one more field', () => {
  const leaf = fc.oneof(fc.string(), fc.boolean(), fc.constant(null), fc.integer());
  const name = fc.string().filter((text) => text !== '$or' && text !== '__proto__');
  const { event } = fc.letrec<{ event: Record<string, unknown> }>((tie) => ({
    event: fc.dictionary(name, fc.oneof({ withCrossShrink: true }, leaf, tie('event')), {
      noNullPrototype: true,
    }),
  }));
  const patternOf = (node: Readonly<Record<string, unknown>>): EventPattern =>
    Object.fromEntries(
      Object.entries(node).map(([field, value]) => [
        field,
        typeof value === 'object' && value !== null ? patternOf({ ...value }) : [value as string],
      ]),
    );
  fc.assert(
    fc.property(event, (one) => {
      const pattern = patternOf(one);
      requireKnownPattern(pattern, 'a test');
      expect(matches(pattern, one)).toBe(true);
      expect(matches({ ...pattern, '\u0000more': ['x'] }, one)).toBe(false);
    }),
  );
});
