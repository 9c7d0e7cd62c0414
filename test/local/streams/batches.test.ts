import { describe, expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import type { Batch } from '../../../lib/local/streams/batch.ts';
import {
  type BatchRules,
  payloadOf,
  type ShardBatches,
  shardBatches,
} from '../../../lib/local/streams/batches.ts';
import { change, changes, numbersOf, rules } from './changes.ts';

const ok: Invoked = { kind: 'returned', payload: 'null' };
const threw: Invoked = { kind: 'failed', error: 'Unhandled', payload: '{}' };
const throttled: Invoked = { kind: 'throttled' };
const reported = (...ids: number[]): Invoked => ({
  kind: 'returned',
  payload: JSON.stringify({ batchItemFailures: ids.map((id) => ({ itemIdentifier: String(id) })) }),
});

const open = (more: Partial<BatchRules> = {}) => shardBatches({ ...rules, ...more });

/** The one batch that may start now. */
function only(batches: ShardBatches, now = 0): Batch {
  const [batch, ...others] = batches.start(now);
  expect(others).toEqual([]);
  if (!batch) throw new Error(`No batch starts at ${now}; the next is at ${batches.wakeAt()}.`);
  return batch;
}

const started = (batches: ShardBatches, now = 0) =>
  batches.start(now).map(({ records }) => numbersOf(records));

describe('a batch', () => {
  it('is sent as soon as there is something, without a window', () => {
    const batches = open();
    expect(started(batches)).toEqual([]);
    batches.take(changes(1, 2), 0);
    expect(started(batches)).toEqual([[1, 2]]);
  });

  it('has as many records as it may at most, in the order of the shard', () => {
    const batches = open({ batchSize: 2 });
    batches.take(changes(1, 2, 3), 0);
    const first = only(batches);
    expect(numbersOf(first.records)).toEqual([1, 2]);
    expect(started(batches)).toEqual([]);
    batches.sent(first, ok, 0);
    expect(started(batches)).toEqual([[3]]);
  });

  it('waits for its window since its first record, and no longer than until it is full', () => {
    const batches = open({ batchSize: 3, windowMs: 60_000 });
    batches.take(changes(1), 1_000);
    batches.take(changes(2), 40_000);
    expect(batches.wakeAt()).toBe(61_000);
    expect(started(batches, 60_999)).toEqual([]);
    expect(started(batches, 61_000)).toEqual([[1, 2]]);

    const full = open({ batchSize: 3, windowMs: 60_000 });
    full.take(changes(1, 2, 3, 4), 1_000);
    full.sent(only(full, 1_000), ok, 2_000);
    expect(started(full, 60_999)).toEqual([]);
    expect(started(full, 61_000)).toEqual([[4]]);
  });

  it('is sent before its window is over where 6 MB would be passed, and never has more', () => {
    const large = { bytes: 1_500_000 };
    const batches = open({ windowMs: 60_000 });
    batches.take(
      [1, 2, 3, 4].map((number) => change(number, large)),
      0,
    );
    expect(started(batches)).toEqual([]);
    batches.take([change(5, large)], 0);
    const first = only(batches);
    expect(numbersOf(first.records)).toEqual([1, 2, 3, 4]);
    expect(Buffer.byteLength(payloadOf(first))).toBeLessThanOrEqual(6 * 1_024 * 1_024);
  });

  it('has a record that is larger alone', () => {
    const batches = open();
    batches.take([change(1, { bytes: 7_000_000 }), change(2)], 0);
    expect(started(batches)).toEqual([[1]]);
  });

  it('is sent as the records that Lambda would send', () => {
    const batches = open();
    batches.take(changes(1, 2), 0);
    const { Records } = JSON.parse(payloadOf(only(batches)));
    expect(Records).toMatchObject([
      { eventSource: 'aws:dynamodb', dynamodb: { SequenceNumber: '1' } },
      { eventSource: 'aws:dynamodb', dynamodb: { SequenceNumber: '2' } },
    ]);
  });
});

describe('filters', () => {
  const wanted = (status: string) => ({ dynamodb: { NewImage: { status: { S: [status] } } } });
  const filters = [wanted('accepted'), wanted('completed')];

  it('let through what one of them matches, before there are batches', () => {
    const batches = open({ batchSize: 2, filters });
    const statuses = ['new', 'accepted', 'new', 'completed', 'new'];
    batches.take(
      statuses.map((status, place) => change(place + 1, { status })),
      0,
    );
    const batch = only(batches);
    expect(numbersOf(batch.records)).toEqual([2, 4]);
    batches.sent(batch, ok, 0);
    expect(batches).toMatchObject({ isEmpty: true, doneUpTo: '5' });
  });

  it('advance over what nobody wants without a word to the function', () => {
    const batches = open({ filters });
    batches.take(changes(1, 2), 0);
    expect(started(batches)).toEqual([]);
    expect(batches).toMatchObject({ isEmpty: true, doneUpTo: '2' });
  });

  it('do not advance over what is still to be done before', () => {
    const batches = open({ filters });
    batches.take([change(1, { status: 'accepted' }), change(2)], 0);
    expect(batches.doneUpTo).toBeUndefined();
  });
});

describe('a batch that failed', () => {
  it.each([threw, { ...threw, error: 'Timeout' }, { ...threw, error: 'Crash' }] as const)(
    'comes again as it was, after a pause that doubles up to a minute, and nothing overtakes it: %j',
    (failure) => {
      const batches = open({ batchSize: 2 });
      batches.take(changes(1, 2, 3), 0);
      let now = 0;
      for (const pauseMs of [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]) {
        const batch = only(batches, now);
        expect(numbersOf(batch.records)).toEqual([1, 2]);
        batches.sent(batch, failure, now);
        expect(started(batches, now + pauseMs - 1)).toEqual([]);
        now += pauseMs;
        expect(batches.wakeAt()).toBe(now);
      }
      batches.sent(only(batches, now), ok, now);
      expect(started(batches, now)).toEqual([[3]]);
    },
  );

  it('is given up when its retries are used up, and the shard goes on behind it', () => {
    const batches = open({ batchSize: 1, retries: 2 });
    batches.take(changes(1, 2), 0);
    for (const now of [0, 1_000, 3_000]) batches.sent(only(batches, now), threw, now);
    const given = only(batches, 3_000);
    expect(given).toMatchObject({
      givenUp: 'RetryAttemptsExhausted',
      invocations: 3,
      functionError: 'Unhandled',
    });
    expect(batches.doneUpTo).toBeUndefined();
    batches.kept(given, true, 3_000);
    expect(batches.doneUpTo).toBe('1');
    expect(started(batches, 3_000)).toEqual([[2]]);
  });

  it('is given up at once where there are no retries', () => {
    const batches = open({ retries: 0 });
    batches.take(changes(1), 0);
    batches.sent(only(batches), threw, 0);
    expect(only(batches).givenUp).toBe('RetryAttemptsExhausted');
  });

  it('stays until it is kept, if the place to keep it is away', () => {
    const batches = open({ retries: 0 });
    batches.take(changes(1), 0);
    batches.sent(only(batches), threw, 0);
    batches.kept(only(batches), false, 0);
    expect(batches.isEmpty).toBe(false);
    expect(started(batches, 999)).toEqual([]);
    batches.kept(only(batches, 1_000), true, 1_000);
    expect(batches).toMatchObject({ isEmpty: true, doneUpTo: '1' });
  });

  it('uses up no retry where the function was throttled, and is not an invocation', () => {
    const batches = open({ retries: 1 });
    batches.take(changes(1), 0);
    let now = 0;
    for (let tries = 0; tries < 20; tries += 1) {
      batches.sent(only(batches, now), throttled, now);
      now = batches.wakeAt() ?? 0;
    }
    batches.sent(only(batches, now), threw, now);
    now = batches.wakeAt() ?? 0;
    expect(only(batches, now)).toMatchObject({ invocations: 1, failures: 1 });
  });

  it('may end only once', () => {
    const batches = open();
    batches.take(changes(1), 0);
    const batch = only(batches);
    batches.sent(batch, ok, 0);
    expect(() => batches.sent(batch, ok, 0)).toThrow('not under way');
  });
});

describe('a record that is too old', () => {
  const maxAgeMs = 60_000;

  it('is given up before it was ever sent', () => {
    const batches = open({ maxAgeMs });
    batches.take([change(1, { at: 0 }), change(2, { at: 50_000 })], 70_000);
    const old = only(batches, 70_000);
    expect(old).toMatchObject({ givenUp: 'RecordAgeExceeded', invocations: 0 });
    expect(numbersOf(old.records)).toEqual([1]);
    batches.kept(old, true, 70_000);
    expect(started(batches, 70_000)).toEqual([[2]]);
  });

  it('is given up after a retry, and also where the function was only throttled', () => {
    for (const invoked of [threw, throttled]) {
      const batches = open({ maxAgeMs });
      batches.take([change(1, { at: 0 })], 59_000);
      batches.sent(only(batches, 59_000), invoked, 59_000);
      batches.sent(only(batches, 60_000), invoked, 60_000);
      expect(only(batches, 62_000)).toMatchObject({ givenUp: 'RecordAgeExceeded' });
    }
  });

  it('is sent as long as it is not', () => {
    const batches = open({ maxAgeMs });
    batches.take([change(1, { at: 0 })], 60_000);
    expect(only(batches, 60_000).givenUp).toBeUndefined();
  });
});

describe('a batch that is split', () => {
  const bisects = { bisects: true, retries: 1 };

  it('is done half by half, the first half first, and the split costs no retry', () => {
    const batches = open(bisects);
    batches.take(changes(1, 2, 3), 0);
    batches.sent(only(batches), threw, 0);
    expect(started(batches, 999)).toEqual([]);
    const first = only(batches, 1_000);
    expect(numbersOf(first.records)).toEqual([1, 2]);
    expect(first).toMatchObject({ failures: 0, invocations: 1 });
    batches.sent(first, ok, 1_000);
    expect(started(batches, 1_000)).toEqual([[3]]);
  });

  it('isolates the one record that nobody can do, and only that is given up', () => {
    const batches = open({ ...bisects, batchSize: 8 });
    batches.take(changes(1, 2, 3, 4, 5, 6, 7, 8), 0);
    const [done, given]: [number[], number[][]] = [[], []];
    for (let now = 0; !batches.isEmpty; now = batches.wakeAt() ?? now) {
      const batch = only(batches, now);
      const numbers = numbersOf(batch.records);
      if (batch.givenUp) {
        given.push(numbers);
        batches.kept(batch, true, now);
      } else if (numbers.includes(6)) batches.sent(batch, threw, now);
      else {
        done.push(...numbers);
        batches.sent(batch, ok, now);
      }
    }
    expect(done).toEqual([1, 2, 3, 4, 5, 7, 8]);
    expect(given).toEqual([[6]]);
  });

  it('of one record is tried again instead', () => {
    const batches = open(bisects);
    batches.take(changes(1), 0);
    batches.sent(only(batches), threw, 0);
    expect(only(batches, 1_000).failures).toBe(1);
  });
});

describe('a batch whose failures are reported', () => {
  const reports = { reportsItemFailures: true, retries: 2 };

  it('is done up to the lowest of them, and comes again from there', () => {
    const batches = open(reports);
    batches.take(changes(1, 2, 3), 0);
    batches.sent(only(batches), reported(3, 2), 0);
    expect(batches.doneUpTo).toBe('1');
    expect(started(batches, 999)).toEqual([]);
    expect(started(batches, 1_000)).toEqual([[2, 3]]);
  });

  it('uses up its retries, and what is left of it is given up', () => {
    const batches = open(reports);
    batches.take(changes(1, 2, 3), 0);
    batches.sent(only(batches), reported(2), 0);
    for (const now of [1_000, 3_000]) batches.sent(only(batches, now), reported(2), now);
    const given = only(batches, 3_000);
    expect(given).toMatchObject({ givenUp: 'RetryAttemptsExhausted', invocations: 3 });
    expect(given).not.toHaveProperty('functionError');
    expect(numbersOf(given.records)).toEqual([2, 3]);
  });

  it('has failed as a whole where the answer names no record of it', () => {
    const batches = open(reports);
    batches.take(changes(1, 2), 0);
    batches.sent(only(batches), reported(2, 99), 0);
    expect(batches.doneUpTo).toBeUndefined();
    expect(started(batches, 1_000)).toEqual([[1, 2]]);
  });

  it('and that is split, is split where the function says, at no cost', () => {
    const batches = open({ ...reports, bisects: true });
    batches.take(changes(1, 2, 3, 4), 0);
    batches.sent(only(batches), reported(2), 0);
    const left = only(batches, 1_000);
    expect(numbersOf(left.records)).toEqual([2, 3, 4]);
    expect(left.failures).toBe(0);
  });

  it('and that is split, comes again as a whole where its first record is named, which costs a retry', () => {
    const batches = open({ ...reports, bisects: true });
    batches.take(changes(1, 2), 0);
    batches.sent(only(batches), reported(1), 0);
    const left = only(batches, 1_000);
    expect(numbersOf(left.records)).toEqual([1, 2]);
    expect(left.failures).toBe(1);
  });

  it('and that is split, is halved where it failed as a whole', () => {
    for (const invoked of [threw, reported(99)]) {
      const batches = open({ ...reports, bisects: true });
      batches.take(changes(1, 2), 0);
      batches.sent(only(batches), invoked, 0);
      expect(started(batches, 1_000)).toEqual([[1]]);
    }
  });

  it('is done without a report where the mapping asks for none', () => {
    const batches = open();
    batches.take(changes(1, 2), 0);
    batches.sent(only(batches), reported(1), 0);
    expect(batches).toMatchObject({ isEmpty: true, doneUpTo: '2' });
  });
});

describe('parallel batches', () => {
  const parallel = { parallelBatches: 4, batchSize: 1 };
  const items = (...of: string[]) => of.map((item, place) => change(place + 1, { item }));
  /** Items that go to different lanes, found by asking. */
  const apart = (count: number): string[] => {
    const lanes = new Map<number, string>();
    for (let number = 0; lanes.size < count; number += 1) {
      const batches = open(parallel);
      batches.take(items(`item-${number}`), 0);
      lanes.set(only(batches).lane, `item-${number}`);
    }
    return [...lanes.values()];
  };
  const [a = '', b = '', c = ''] = apart(3);

  it('are as many at once as the mapping says, and of one item never two', () => {
    const batches = open(parallel);
    batches.take(items(a, a, b, c, b), 0);
    const running = batches.start(0);
    expect(running.map(({ records }) => numbersOf(records)).sort()).toEqual([[1], [3], [4]]);
    expect(started(batches)).toEqual([]);
    for (const batch of running) batches.sent(batch, ok, 0);
    expect(started(batches).sort()).toEqual([[2], [5]]);
  });

  it('go on beside one that fails, but the checkpoint stays before it', () => {
    const batches = open(parallel);
    batches.take(items(a, b, c, b), 0);
    for (const batch of batches.start(0)) {
      batches.sent(batch, numbersOf(batch.records)[0] === 1 ? threw : ok, 0);
    }
    batches.sent(only(batches), ok, 0);
    expect(batches.doneUpTo).toBeUndefined();
    batches.sent(only(batches, 1_000), ok, 1_000);
    expect(batches).toMatchObject({ isEmpty: true, doneUpTo: '4' });
  });

  it('each collect for a window of their own', () => {
    const batches = open({ ...parallel, batchSize: 10, windowMs: 1_000 });
    batches.take(items(a), 0);
    batches.take([change(2, { item: b })], 500);
    expect(started(batches, 1_000)).toEqual([[1]]);
    expect(batches.wakeAt()).toBe(1_500);
    expect(started(batches, 1_500)).toEqual([[2]]);
  });
});

it('a shard whose function does not keep up is not read further', () => {
  const batches = open({ batchSize: 1_000 });
  batches.take(changes(...Array.from({ length: 1_999 }, (_, number) => number)), 0);
  expect(batches.hasRoom).toBe(true);
  batches.take(changes(1_999), 0);
  expect(batches.hasRoom).toBe(false);
  batches.sent(only(batches), ok, 0);
  expect(batches.hasRoom).toBe(true);
});
