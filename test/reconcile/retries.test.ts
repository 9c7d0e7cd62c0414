import { describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import { uncertain } from '../../lib/effects/deliveries.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import { idempotency } from '../../lib/middleware/idempotency.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import { attemptAt, claimOf, execute, movedRecord, replyOf } from '../../lib/testing/contract/subject.ts';
import {
  acceptedWith,
  charge,
  completedWith,
  dispatchStage,
  Provider,
  START,
  streamRecord,
  through,
} from './stage.ts';

const HOUR_MS = 3_600_000;

function world(outcome?: (call: number) => unknown) {
  const time = { now: START };
  const ledger: Ledger<unknown> = memoryLedger({ clock: () => time.now });
  const provider = new Provider(true);
  const stage = dispatchStage(ledger, { charge: through(provider, outcome) }, { time });
  return { time, ledger, provider, ...stage };
}

const down = (): never => {
  throw new Error('down');
};

describe('the count of tries', () => {
  const tried = ({ calls }: Provider) =>
    calls.map(({ event, context }) => [(event.payload as { amount: number }).amount, context.attempt]);

  it('starts anew with the next event', async () => {
    const { ledger, provider, redrive, time } = world((call) => (call === 3 ? undefined : down()));
    const record = await completedWith(ledger, charge(1), charge(2));
    for (const _ of [1, 2, 3]) {
      expect(await redrive(record.pk)).toBe('rescheduled');
      time.now += HOUR_MS;
    }
    expect(tried(provider)).toEqual([
      [1, 1],
      [1, 2],
      [1, 3],
      [2, 1],
    ]);
    expect(await ledger.read(record.pk)).toMatchObject({ due: { tries: 1, error: 'Error' } });
  });

  it('starts anew also where the process died in between', async () => {
    let dying = (): void => {};
    const died = new Promise<void>((resolve) => {
      dying = resolve;
    });
    const { ledger, provider, redrive, time } = world((call) => {
      if (call === 8) return undefined;
      if (call !== 9) return down();
      dying();
      return new Promise(() => {});
    });
    const record = await completedWith(ledger, charge(1), charge(2));
    for (let tries = 1; tries <= 7; tries += 1) {
      expect(await redrive(record.pk)).toBe('rescheduled');
      time.now += HOUR_MS;
    }
    void redrive(record.pk); // Delivers the first, and dies in the second.
    await died;
    time.now += HOUR_MS;
    expect(await redrive(record.pk)).toBe('rescheduled');
    expect(tried(provider).slice(-3)).toEqual([
      [1, 8],
      [2, 1],
      [2, 1],
    ]);
  });

  it('parks nothing, and says so, where somebody else has moved the record', async () => {
    const { time, ledger } = world();
    const record = await completedWith(ledger, charge(1));
    const due = { shard: dueShard(record.pk), at: START + HOUR_MS };
    const handler = through(new Provider(true), async () => {
      await ledger.watch(record as never, due);
      return uncertain('timeout');
    });
    const { redrive, measured, logged } = dispatchStage(ledger, { charge: handler }, { time });
    expect(await redrive(record.pk)).toBe('nothing');
    expect(await ledger.read(record.pk)).toMatchObject({ due });
    expect(measured.filter(({ metrics }) => metrics.parked)).toEqual([]);
    expect(logged.filter(({ decision }) => decision === 'parked')).toEqual([]);
  });
});

it('an event whose operation was resumed a day later is as new to its provider as any', async () => {
  const { time, ledger, provider, batch } = world();
  const first = movedRecord(await ledger.reserve(claimOf(), execute));
  time.now = START + 24 * HOUR_MS;
  const taken = await ledger.takeOver(first as never, { ...attemptAt(time.now), skewMs: 1_000 });
  const outcome = { now: time.now, reply: replyOf('{}'), outbox: [charge(1)] };
  const done = await ledger.complete(movedRecord(taken), {
    ...outcome,
    ...expiryAfter(defaultPolicy, time.now),
  });
  await batch([streamRecord(movedRecord(done))]);
  expect(provider.effects).toHaveLength(1);
});

it('an event that its provider has forgotten is as new to it again once it is known that nothing happened', async () => {
  const { time, ledger, provider, batch, redrive } = world();
  const record = await acceptedWith(ledger, charge(1));
  time.now = START + 24 * HOUR_MS;
  await batch([streamRecord(record)]);
  const unknown = await ledger.read(record.pk);
  expect(unknown).toMatchObject({ status: 'unknown', errorCode: 'dedupe_window_over' });
  const desk = operator({ ledger, clock: () => time.now });
  time.now += HOUR_MS;
  await desk.settleNotExecuted(record.pk, { who: 'ada', why: 'the bank has nothing' });
  expect(await redrive(record.pk)).toBe('settled');
  expect(provider.effects).toHaveLength(1);
});

it('a store that does not answer is no try: the batch comes again, and it is measured', async () => {
  const { time, ledger } = world();
  const record = await acceptedWith(ledger, charge(1));
  const away: Ledger<unknown> = {
    ...ledger,
    noteDelivery: async () => Promise.reject(new StoreUnavailable('away')),
  };
  const { batch, measured } = dispatchStage(away, { charge: through(new Provider(false)) }, { time });
  expect(await batch([streamRecord(record)])).toEqual([`seq-${record.pk}`]);
  expect(await ledger.read(record.pk)).toEqual(record);
  expect(measured.map(({ metrics }) => metrics)).toEqual([{ 'store.error.count': 1 }]);
});

it('changes without an outbox, and items that are no records, are not even looked at', async () => {
  const { ledger, provider, batch } = world();
  const record = await acceptedWith(ledger, charge(1));
  const change = streamRecord(record);
  const { dynamodb } = change;
  const bare = { ...dynamodb, NewImage: { status: { S: 'accepted' } } };
  const body = { ...dynamodb, Keys: { pk: { S: record.pk }, sk: { S: 'body#1' } } };
  expect(
    await batch([
      { ...change, dynamodb: bare },
      { ...change, dynamodb: body },
    ]),
  ).toEqual([]);
  expect(provider.calls).toEqual([]);
  await batch([change]);
  expect(provider.calls).toHaveLength(1);
});

it.each([
  ['an outcome that is parked', { onUnknown: 'park' }],
  ['an outcome that is resolved', { resolver: () => ({ kind: 'notExecuted' }) }],
  [
    'transactional operations below opaque ones',
    { onUnknown: 'park', operations: { 'POST /charges': { effects: 'transactional' } } },
  ],
  [
    'opaque operations below transactional ones',
    { effects: 'transactional', operations: { 'POST /legacy': { effects: 'opaque', onUnknown: 'park' } } },
  ],
  ['an optional key', { required: false, onUnknown: 'park', operations: {} }],
  [
    'everything else that an operation may choose',
    {
      ...{ effects: 'steps', complete: 'auto', inFlight: 'wait', waitMs: 1_000, validate: () => [] },
      ...{ afterExpiry: 'gone', goneSeconds: 60, retentionSeconds: 7_200, dedupeWindowMs: HOUR_MS },
    },
  ],
])('what runs operations and what reconciles them take the same options: %s', (_, shared) => {
  const options = { ledger: memoryLedger(), ...(shared as object) };
  expect(() => idempotency({ ...options, tenant: () => 't' })).not.toThrow();
  expect(() => dispatcher({ ...options, deliveries: {} })).not.toThrow();
  expect(() => sweeper(options)).not.toThrow();
  expect(() => operator(options)).not.toThrow();
});
