import { afterEach, describe, expect, it, vi } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import { defaultPolicy, schedule } from '../../lib/core/policy.ts';
import type { InProgress } from '../../lib/core/record.ts';
import { executed, type UnknownOperation, undetermined, type Verdict } from '../../lib/effects/resolver.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import { type SweepOptions, sweeper } from '../../lib/reconcile/sweep.ts';
import { claimOf, execute, LAPSED, movedRecord, START } from '../../lib/testing/contract/subject.ts';
import { seededRandom } from '../support/random.ts';
import { useTable } from '../support/table.ts';
import { bothLedgers, charge, completedWith, Provider, through } from './stage.ts';

const table = useTable();

function world(ledgerOf: (clock: () => number) => Ledger<unknown>, options: Partial<SweepOptions> = {}) {
  const time = { now: START };
  const clock = () => time.now;
  const ledger = ledgerOf(clock);
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const said = { clock, log: (entry: LogEntry) => logged.push(entry) };
  const metrics = (sample: Sample) => measured.push(sample);
  const sweep = (more: Partial<SweepOptions> = {}) =>
    sweeper({ ledger, random: () => 1, metrics, ...said, ...options, ...more });
  return {
    ...{ ledger, time, logged, measured, sweep },
    run: (more?: Partial<SweepOptions>) => sweep(more).handle({}, { getRemainingTimeInMillis: () => 60_000 }),
    /** Abandoned, in this shard of the sweep's list. */
    async abandoned(claim: Parameters<typeof claimOf>[0], shard: string) {
      const mine = movedRecord<InProgress>(await ledger.reserve(claimOf(claim), execute));
      return movedRecord<InProgress>(await ledger.watch(mine, { shard, at: START }));
    },
  };
}

/** Unknown, and due in this shard from the start. */
async function unknown({ ledger, abandoned }: ReturnType<typeof world>, operation: string, shard: string) {
  const mine = await abandoned({ effects: 'opaque', operation }, shard);
  const doubt = { now: START, errorCode: 'x', due: { shard, at: START } };
  await ledger.markUnknown(mine, doubt);
  return mine.pk;
}

const memory = (clock: () => number) => memoryLedger({ clock });

const runsIn = (measured: readonly Sample[]) =>
  measured.filter(({ metrics }) => metrics['sweep.run'] === 1).length;

describe('a run of the sweep', () => {
  it('gives a sign of life and what it did, also when nothing is due', async () => {
    const { run, measured } = world(memory);
    expect(await run()).toEqual({ looked: 0, done: {}, failed: 0, complete: true });
    expect(measured.map(({ metrics }) => metrics)).toEqual([
      { 'sweep.looked': 0, 'sweep.failed': 0 },
      { 'sweep.run': 1, 'parked.waiting': 0 },
    ]);
  });

  it('says how many wait for a person, for as long as they do', async () => {
    const stage = world(memory);
    await unknown(stage, 'POST /payments', 'due#1'); // Nobody can be asked about it, so it is parked.
    const waiting = async () => {
      await stage.run();
      return stage.measured.map(({ metrics }) => metrics['parked.waiting']).at(-1);
    };
    expect([await waiting(), await waiting()]).toEqual([1, 1]);
  });

  it('says for how long nobody has known what became of an operation', async () => {
    const stage = world(memory, { resolver: () => undetermined() });
    await unknown(stage, 'POST /payments', 'due#1');
    stage.time.now += 90_000;
    await stage.run();
    const ages = stage.measured.flatMap(({ metrics }) => metrics['unknown.age_ms'] ?? []);
    expect(ages).toEqual([90_000]);
  });

  it('goes through all other shards when one cannot be read, and says so', async () => {
    const stage = world(memory);
    const { ledger, abandoned, time, logged, measured } = stage;
    const records = [];
    for (let shard = 0; shard < 16; shard += 1)
      records.push(await abandoned({ effects: 'transactional' }, `due#${shard}`));
    time.now = LAPSED;
    const due: typeof ledger.due = async (shard, ...rest) => {
      if (shard === 'due#2') throw new StoreUnavailable('away');
      return ledger.due(shard, ...rest);
    };
    const swept = await stage.run({ ledger: { ...ledger, due } });
    expect(swept).toEqual({ looked: 15, done: { failed_retryable: 15 }, failed: 1, complete: false });
    expect((await ledger.read(records[2]?.pk ?? ''))?.status).toBe('in_progress');
    expect(logged).toContainEqual(
      expect.objectContaining({ decision: 'shard_failed', reason: 'StoreUnavailable' }),
    );
    expect(measured.filter(({ metrics }) => metrics['store.error.count'] === 1)).toHaveLength(1);
    expect(runsIn(measured)).toBe(1);
  });

  it('that can read no shard at all fails, and gives no sign of life', async () => {
    const { run, ledger, measured } = world(memory);
    const due = async () => Promise.reject(new StoreUnavailable('away'));
    await expect(run({ ledger: { ...ledger, due } })).rejects.toThrow('away');
    expect(runsIn(measured)).toBe(0);
  });

  it('begins with any shard, and goes through all', async () => {
    const { run, ledger } = world(memory);
    for (const [random, first] of [
      [0, 0],
      [0.5, 8],
      [0.99, 15],
    ] as const) {
      const asked: string[] = [];
      const due: typeof ledger.due = async (shard, ...rest) => {
        if (shard.startsWith('due#')) asked.push(shard);
        return ledger.due(shard, ...rest);
      };
      await run({ ledger: { ...ledger, due }, random: () => random });
      expect(asked).toEqual(Array.from({ length: 16 }, (_, each) => `due#${(first + each) % 16}`));
    }
  });

  it('does not leave the same shards to the end while a provider is slow', async () => {
    const reached = new Set<string>();
    const shards = new Map<string, string>();
    const stage = world(memory, {
      random: seededRandom(1),
      effects: 'opaque',
      resolver: ({ operationRef }) => {
        reached.add(shards.get(operationRef) ?? '');
        stage.time.now += 9_000; // Six answers are all that fit into a run.
        return undetermined();
      },
    });
    for (let each = 0; each < 16 * 10; each += 1) {
      const shard = `due#${each % 16}`;
      shards.set(await unknown(stage, 'POST /payments', shard), shard);
    }
    for (let minute = 0; minute < 20; minute += 1) {
      const begun = stage.time.now;
      await stage.run();
      stage.time.now = Math.max(stage.time.now, begun + 60_000);
    }
    expect(reached.size).toBe(16);
  });

  it('stops when its time is over, says so, and leaves the rest where the next one finds it', async () => {
    const { abandoned, time, sweep, ledger } = world(memory);
    for (let each = 0; each < 10; each += 1) await abandoned({ effects: 'transactional' }, 'due#0');
    time.now = LAPSED;
    const slow: typeof ledger.read = async (pk, call) => {
      time.now += 2_000; // Eight seconds are left once two are kept back.
      return ledger.read(pk, call);
    };
    const context = { getRemainingTimeInMillis: () => 10_000 };
    const first = await sweep({ ledger: { ...ledger, read: slow } }).handle({}, context);
    expect(first.complete).toBe(false);
    expect(first.looked).toBeLessThan(6);
    const rest = await sweep().handle({}, context);
    expect(rest).toMatchObject({ complete: true, failed: 0 });
    expect((first.done['failed_retryable'] ?? 0) + (rest.done['failed_retryable'] ?? 0)).toBe(10);
  });
});

it('a sweep asks for no more of its list once its time is over', async () => {
  const { time, sweep, ledger } = world(memory);
  const asked: number[] = [];
  const due: typeof ledger.due = async (shard, ...rest) => {
    if (!shard.startsWith('due#')) return ledger.due(shard, ...rest);
    asked.push(time.now);
    time.now += 100;
    return { entries: [], next: asked.length < 500 ? 'more' : undefined }; // Far more pages than there is time for.
  };
  const context = { getRemainingTimeInMillis: () => 10_000 };
  const swept = await sweep({ ledger: { ...ledger, due } }).handle({}, context);
  expect(swept).toMatchObject({ failed: 0, complete: false });
  expect(asked.filter((at) => at >= START + 8_000)).toEqual([]);
});

describe('a resolver that never answers', () => {
  afterEach(() => void vi.useRealTimers());

  const never = async () => new Promise<never>(() => {});

  /** Lets the timers of a run pass, as fast as it asks for them. */
  async function throughTime<T>(work: () => Promise<T>, time: { now: number }): Promise<T> {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let over = false;
    const running = work().finally(() => {
      over = true;
    });
    while (!over) {
      time.now += 1_000;
      await vi.advanceTimersByTimeAsync(1_000);
    }
    return running;
  }

  it('is told to stop after ten seconds and asked again later, as one that fails', async () => {
    const signals: AbortSignal[] = [];
    const resolver = async (_: UnknownOperation, { signal }: { readonly signal: AbortSignal }) => {
      signals.push(signal);
      return never();
    };
    const stage = world(memory, { effects: 'opaque', resolver });
    const pk = await unknown(stage, 'POST /a', 'due#0');
    const swept = await throughTime(() => stage.run(), stage.time);
    expect(swept).toMatchObject({ looked: 1, done: { silent: 1 }, failed: 0, complete: true });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(stage.time.now - START).toBe(schedule.askMs);
    expect(await stage.ledger.read(pk)).toMatchObject({
      status: 'unknown',
      due: { tries: 1, error: 'NoAnswer', at: stage.time.now + defaultPolicy.reconcileBaseMs },
    });
  });

  it('costs a run two waits, and holds up nothing that waits for others', async () => {
    const asked: string[] = [];
    const silent = (operation: UnknownOperation) => {
      asked.push(operation.operationRef);
      return never();
    };
    const fine = (): Verdict => executed({ statusCode: 201, body: '{}' });
    const stage = world(memory, {
      onUnknown: 'park',
      operations: {
        'POST /silent': { effects: 'opaque', resolver: silent },
        'POST /fine': { effects: 'opaque', resolver: fine },
      },
    });
    const hung = [];
    for (let each = 0; each < 20; each += 1) hung.push(await unknown(stage, 'POST /silent', 'due#0'));
    const others = [await unknown(stage, 'POST /fine', 'due#0'), await unknown(stage, 'POST /fine', 'due#1')];
    // Nobody is asked about it, though it is of the same operation; it is found after those that are hung.
    const abandoned = await stage.abandoned({ effects: 'transactional', operation: 'POST /silent' }, 'due#0');
    const free = movedRecord<InProgress>(
      await stage.ledger.watch(abandoned, { shard: 'due#0', at: START + 1 }),
    );
    stage.time.now = LAPSED;
    const swept = await throughTime(() => stage.run(), stage.time);
    expect(swept).toMatchObject({ looked: 23, done: { silent: 2, put_off: 18, settled: 2 }, complete: true });
    for (const pk of others) expect((await stage.ledger.read(pk))?.status).toBe('completed');
    expect((await stage.ledger.read(free.pk))?.status).toBe('failed_retryable');
    const again = await throughTime(() => stage.run(), stage.time);
    expect(again.done).toMatchObject({ silent: 2, put_off: 16 });
    expect(new Set(asked).size).toBe(4); // Those that were not asked come first.
    expect(hung).toEqual(expect.arrayContaining(asked));
  });

  it('is not waited for longer than the run lasts', async () => {
    const stage = world(memory, { effects: 'opaque', resolver: never });
    await unknown(stage, 'POST /a', 'due#0');
    const context = { getRemainingTimeInMillis: () => 5_000 };
    const swept = await throughTime(() => stage.sweep().handle({}, context), stage.time);
    expect(swept.done).toEqual({ silent: 1 });
    expect(stage.time.now - START).toBeLessThanOrEqual(3_000);
  });

  it('has an invoker beside it that may do the same', async () => {
    const stage = world(memory, { effects: 'steps', invoke: never });
    const request = { function: 'arn', event: new TextEncoder().encode('{}') };
    const mine = movedRecord<InProgress>(
      await stage.ledger.reserve({ ...claimOf({ effects: 'steps' }), request }, execute),
    );
    await stage.ledger.watch(mine, { shard: 'due#0', at: START });
    stage.time.now = LAPSED;
    expect(await throughTime(() => stage.run(), stage.time)).toMatchObject({ failed: 1, complete: true });
    expect(await stage.ledger.read(mine.pk)).toMatchObject({ due: { tries: 1 } });
  });
});

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  it(`two sweeps at once do on ${name} what one does`, async () => {
    const invoked: string[] = [];
    const provider = new Provider(false);
    const resolver = async (): Promise<Verdict> => executed({ statusCode: 201, body: '{}' });
    const operations = { 'POST /asked': { effects: 'opaque', resolver } } as const;
    const stage = world(ledgerOf, { operations, onUnknown: 'park' });
    const { ledger, time, abandoned, sweep } = stage;
    const said = { clock: () => time.now, log: () => {}, metrics: () => {} };
    const request = { function: 'arn', event: new TextEncoder().encode('{}') };
    const pks = {
      free: [] as string[],
      opaque: [] as string[],
      asked: [] as string[],
      steps: [] as string[],
    };
    for (let each = 0; each < 5; each += 1) {
      const shard = `due#${each}`;
      pks.free.push((await abandoned({ effects: 'transactional' }, shard)).pk);
      pks.opaque.push((await abandoned({ effects: 'opaque' }, shard)).pk);
      pks.asked.push(await unknown(stage, 'POST /asked', shard));
      const steps = await ledger.reserve({ ...claimOf({ effects: 'steps' }), request }, execute);
      const { pk } = movedRecord<InProgress>(
        await ledger.watch(movedRecord<InProgress>(steps), { shard, at: START }),
      );
      pks.steps.push(pk);
    }
    const outbox = await completedWith(ledger, charge(1));
    await ledger.watch(outbox as never, { shard: 'due#0', at: START });
    time.now = LAPSED;
    const dispatch = dispatcher({ ledger, deliveries: { charge: through(provider) }, ...said });
    const one = (aheadMs: number) =>
      sweep({
        dispatcher: dispatch,
        invoke: async (of) => void invoked.push(of),
        clock: () => time.now + aheadMs, // No two functions have quite the same.
      }).handle({}, { getRemainingTimeInMillis: () => 60_000 });
    const both = await Promise.all([one(0), one(1)]);
    const sum = (what: string) => both.reduce((total, { done }) => total + (done[what] ?? 0), 0);
    expect(both.map(({ failed }) => failed)).toEqual([0, 0]);
    expect([sum('failed_retryable'), sum('unknown'), sum('invoked')]).toEqual([5, 5, 5]);
    expect(invoked).toHaveLength(5);
    expect(provider.effects).toHaveLength(1);
    for (const pk of pks.asked) expect((await ledger.read(pk))?.status).toBe('completed');
    for (const pk of [...pks.free, ...pks.opaque]) expect((await ledger.read(pk))?.moves).toHaveLength(1);
  });
}
