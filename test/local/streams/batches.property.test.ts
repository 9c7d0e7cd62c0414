import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import type { Batch } from '../../../lib/local/streams/batch.ts';
import { type BatchRules, payloadOf, shardBatches } from '../../../lib/local/streams/batches.ts';
import type { StreamRecord } from '../../../lib/local/streams/record.ts';
import { change, numbersOf, rules } from './changes.ts';

const WANTED = { dynamodb: { NewImage: { status: { S: ['wanted'] } } } };

const someRules: fc.Arbitrary<BatchRules> = fc.record({
  batchSize: fc.integer({ min: 1, max: 6 }),
  windowMs: fc.constantFrom(0, 5_000),
  parallelBatches: fc.integer({ min: 1, max: 4 }),
  bisects: fc.boolean(),
  reportsItemFailures: fc.boolean(),
  retries: fc.constantFrom(0, 1, 3, Number.POSITIVE_INFINITY),
  maxAgeMs: fc.constantFrom(20_000, Number.POSITIVE_INFINITY),
  filters: fc.constantFrom([], [WANTED]),
  firstPauseMs: fc.constant(rules.firstPauseMs),
  longestPauseMs: fc.constant(rules.longestPauseMs),
});

/** Whatever a function may answer; of what it reports, the places in its batch, which may be none of it. */
const someAnswer: fc.Arbitrary<(batch: Batch) => Invoked> = fc.oneof(
  fc
    .constantFrom<Invoked>(
      { kind: 'throttled' },
      { kind: 'failed', error: 'Unhandled', payload: '{}' },
      { kind: 'failed', error: 'Timeout', payload: '{}' },
      { kind: 'returned', payload: 'null' },
      { kind: 'returned', payload: '"ok"' },
      { kind: 'returned', payload: 'nonsense' },
      { kind: 'returned', payload: '{"batchItemFailures":[{"itemIdentifier":""}]}' },
    )
    .map((invoked) => () => invoked),
  fc.array(fc.nat(6), { maxLength: 3 }).map((places) => ({ records }: Batch): Invoked => {
    const ids = places.map((place) => records[place]?.sequenceNumber ?? 'unknown');
    const batchItemFailures = ids.map((itemIdentifier) => ({ itemIdentifier }));
    return { kind: 'returned', payload: JSON.stringify({ batchItemFailures }) };
  }),
);

type Step =
  | { kind: 'write'; items: readonly { item: string; status: string }[] }
  | { kind: 'wait'; ms: number }
  | { kind: 'end'; which: number; answer: (batch: Batch) => Invoked; isKept: boolean };

const someStep: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    kind: fc.constant('write' as const),
    items: fc.array(
      fc.record({
        item: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
        status: fc.constantFrom('wanted', 'other'),
      }),
      {
        maxLength: 8,
      },
    ),
  }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 8_000 }) }),
  fc.record({ kind: fc.constant('end' as const), which: fc.nat(), answer: someAnswer, isKept: fc.boolean() }),
);

/** A shard, and what an onlooker knows of it who trusts nothing that the batches say of themselves. */
function world(batchRules: BatchRules) {
  const batches = shardBatches(batchRules);
  const written: StreamRecord[] = [];
  const [handled, kept] = [new Set<StreamRecord>(), new Set<StreamRecord>()];
  const underWay: Batch[] = [];
  let now = 0;

  const isWanted = (record: StreamRecord) =>
    batchRules.filters.length === 0 || record.text.includes('"status":{"S":"wanted"}');
  const isOpen = (record: StreamRecord) => isWanted(record) && !handled.has(record) && !kept.has(record);
  return { batches, step, drain };

  function step(one: Step): void {
    if (one.kind === 'wait') now += one.ms;
    if (one.kind === 'write') write(one.items);
    if (one.kind === 'end') end(one);
    start();
    check();
  }

  function write(items: readonly { item: string; status: string }[]): void {
    const records = items.map((of, place) => change(written.length + place + 1, { ...of, at: now }));
    written.push(...records);
    batches.take(records, now);
  }

  function end({ which, answer, isKept }: Extract<Step, { kind: 'end' }>): void {
    const [batch] = underWay.splice(which % Math.max(1, underWay.length), 1);
    if (!batch) return;
    if (batch.givenUp) {
      if (isKept) for (const record of batch.records) kept.add(record);
      batches.kept(batch, isKept, now);
      return;
    }
    const invoked = answer(batch);
    for (const record of saidToBeDone(batch, invoked)) handled.add(record);
    batches.sent(batch, invoked, now);
  }

  /** What a reader of Lambda's documentation takes from an answer. */
  function saidToBeDone({ records }: Batch, invoked: Invoked): readonly StreamRecord[] {
    if (invoked.kind !== 'returned') return [];
    if (!batchRules.reportsItemFailures || invoked.payload === 'null') return records;
    if (!invoked.payload.startsWith('{')) return [];
    const { batchItemFailures } = JSON.parse(invoked.payload) as {
      batchItemFailures: { itemIdentifier: string }[];
    };
    const named = batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    const known = new Set(records.map(({ sequenceNumber }) => sequenceNumber));
    if (!named.every((name) => known.has(name))) return [];
    const lowest = records.findIndex(({ sequenceNumber }) => named.includes(sequenceNumber));
    return lowest < 0 ? records : records.slice(0, lowest);
  }

  function start(): void {
    for (const batch of batches.start(now)) {
      underWay.push(batch);
      expect(batch.records.length).toBeGreaterThan(0);
      expect(batch.records.length).toBeLessThanOrEqual(batchRules.batchSize);
      expect(JSON.parse(payloadOf(batch)).Records).toHaveLength(batch.records.length);
      if (batch.givenUp === 'RetryAttemptsExhausted') expect(batch.failures).toBe(batchRules.retries + 1);
      else expect(batch.failures).toBeLessThanOrEqual(batchRules.retries);
      for (const record of batch.records) checkTurn(record, batch);
    }
  }

  /** It was not done before, and every change of its item before it was, or goes with it and stands before it. */
  function checkTurn(record: StreamRecord, { records }: Batch): void {
    expect(isOpen(record)).toBe(true);
    const before = written.slice(0, written.indexOf(record));
    const first = before.filter((other) => other.item === record.item && isOpen(other));
    const here = records.slice(0, records.indexOf(record));
    expect(numbersOf(first.filter((other) => !here.includes(other)))).toEqual([]);
  }

  function check(): void {
    const items = underWay.map(({ records }) => new Set(records.map(({ item }) => item)));
    expect(underWay.length).toBeLessThanOrEqual(batchRules.parallelBatches);
    expect(new Set(items.flatMap((one) => [...one])).size).toBe(
      items.reduce((sum, { size }) => sum + size, 0),
    );
    const firstOpen = written.findIndex(isOpen);
    const done = firstOpen < 0 ? written : written.slice(0, firstOpen);
    expect(batches.doneUpTo).toBe(done.at(-1)?.sequenceNumber);
    expect(batches.isEmpty).toBe(firstOpen < 0);
  }

  /** From now on all goes well. */
  function drain(): void {
    const well = () => ({ kind: 'returned', payload: 'null' }) as const;
    for (let steps = 0; !batches.isEmpty; steps += 1) {
      expect(steps).toBeLessThan(10 * written.length + 10);
      while (underWay.length > 0) step({ kind: 'end', which: 0, answer: well, isKept: true });
      const wakeAt = batches.wakeAt();
      if (wakeAt !== undefined) step({ kind: 'wait', ms: Math.max(0, wakeAt - now) });
    }
    expect(numbersOf(written.filter(isOpen))).toEqual([]);
    expect([...handled].filter((record) => kept.has(record) || !isWanted(record))).toEqual([]);
  }
}

it('whatever a function answers, every wanted record is handled, kept, or still to come, in the order of its item', () => {
  fc.assert(
    fc.property(someRules, fc.array(someStep, { maxLength: 60 }), (batchRules, steps) => {
      const { step, drain } = world(batchRules);
      for (const one of steps) step(one);
      drain();
    }),
    { numRuns: 1_000 },
  );
});
