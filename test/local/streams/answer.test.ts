import { describe, expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import { outcomeOf } from '../../../lib/local/streams/answer.ts';
import { changes } from './changes.ts';

const records = changes(9, 10, 11);
const returned = (payload: string): Invoked => ({ kind: 'returned', payload });
const outcome = (payload: string) => outcomeOf(returned(payload), records, true);
const failing = (...ids: unknown[]) =>
  outcome(JSON.stringify({ batchItemFailures: ids.map((itemIdentifier) => ({ itemIdentifier })) }));

const done = { kind: 'done' };
const failed = { kind: 'failed' };

describe('an answer that reports failures', () => {
  it.each([
    ['null', 'null'],
    ['nothing', ''],
    ['an empty object', '{}'],
    ['an empty list', '{"batchItemFailures":[]}'],
    ['no list', '{"batchItemFailures":null}'],
    ['something else', '{"statusCode":200}'],
  ])('says that all went well by %s', (_, payload) => {
    expect(outcome(payload)).toEqual(done);
  });

  it('says that all before the lowest went well, in whatever order it names them', () => {
    expect(failing('11')).toEqual({ kind: 'doneBefore', from: 2 });
    expect(failing('11', '10')).toEqual({ kind: 'doneBefore', from: 1 });
    // By the order of the shard: as text, 9 would be the highest.
    expect(failing('10', '9')).toEqual({ kind: 'doneBefore', from: 0 });
  });

  it.each([
    ['an identifier of no record', '12'],
    ['an empty identifier', ''],
    ['no identifier', null],
    ['a number', 10],
  ])('says that nobody knows, by %s, also beside one that is known', (_, id) => {
    expect(failing(id)).toEqual(failed);
    expect(failing('11', id)).toEqual(failed);
  });

  it.each([
    ['an identifier under another name', '{"batchItemFailures":[{"id":"10"}]}'],
    ['identifiers alone', '{"batchItemFailures":["10"]}'],
    ['a list that is none', '{"batchItemFailures":"10"}'],
    ['an array', '[]'],
    ['a word', '"ok"'],
    ['a number', '1'],
    ['what is not JSON', 'ok'],
  ])('says that nobody knows, by %s', (_, payload) => {
    expect(outcome(payload)).toEqual(failed);
  });
});

describe('where failures are not reported', () => {
  it.each(['null', '"ok"', '{"batchItemFailures":[{"itemIdentifier":"10"}]}'])(
    '%s is a success',
    (payload) => {
      expect(outcomeOf(returned(payload), records, false)).toEqual(done);
    },
  );
});

it.each(['Unhandled', 'Timeout', 'Crash'] as const)(
  'an invocation that ended in %s has failed as a whole',
  (error) => {
    const invoked: Invoked = { kind: 'failed', error, payload: '{"errorMessage":"down"}' };
    for (const reports of [true, false]) {
      expect(outcomeOf(invoked, records, reports)).toEqual({ kind: 'failed', functionError: 'Unhandled' });
    }
  },
);

it('a throttled invocation is none', () => {
  expect(outcomeOf({ kind: 'throttled' }, records, true)).toEqual({ kind: 'notInvoked' });
});
