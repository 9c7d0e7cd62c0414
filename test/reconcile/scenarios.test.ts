import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { bankWorld, type Fate, pkOf, type Route, settled } from '../support/bank.ts';
import { useTable } from '../support/table.ts';
import { bothLedgers, START } from './stage.ts';

const table = useTable();

/** A fate that goes on is met by every try; the others by the first. */
interface Story {
  readonly bank: string;
  readonly fate: Fate;
  readonly goesOn?: boolean;
  /** Nor does it say what it has done. */
  readonly silent?: boolean;
  readonly ends: Readonly<Record<Exclude<Route, '/plain'>, readonly [ending: string, charges: number]>>;
}

const FREED = ['failed_retryable', 0] as const;
const CHARGED = ['completed 201', 1] as const;
const DECLINED = ['completed 402', 0] as const;

/** Who runs an operation again itself ends with one charge; what is opaque is freed, for its client to decide. */
const againLater = {
  '/opaque': FREED,
  '/effect': CHARGED,
  '/step': CHARGED,
  '/deferred': CHARGED,
  '/deduped': CHARGED,
} as const;

const all = <T>(ending: T) => ({
  '/opaque': ending,
  '/effect': ending,
  '/step': ending,
  '/deferred': ending,
  '/deduped': ending,
});

const stories: readonly Story[] = [
  { bank: 'answers', fate: 'fine', ends: all(CHARGED) },
  { bank: 'charges and then times out', fate: 'charges and times out', ends: all(CHARGED) },
  { bank: 'never charges', fate: 'times out', ends: againLater },
  { bank: 'charges late, after the lease', fate: 'charges late', ends: all(CHARGED) },
  { bank: 'answers 500', fate: 'answers 500', ends: againLater },
  { bank: 'declines', fate: 'declines', ends: all(DECLINED) },
  {
    bank: 'never answers, not even when asked what it did',
    fate: 'times out',
    goesOn: true,
    silent: true,
    ends: {
      '/opaque': ['unknown parked', 0],
      '/effect': ['unknown parked', 0],
      '/step': ['in_progress parked', 0],
      '/deferred': ['unknown parked', 0],
      '/deduped': ['accepted parked', 0],
    },
  },
];

async function told(world: ReturnType<typeof bankWorld>, pk: string): Promise<string> {
  const record = await world.ledger.read(pk);
  const parked = record && 'due' in record && record.due?.parkedAt !== undefined ? ' parked' : '';
  return `${record?.status}${record?.status === 'completed' ? ` ${record.response.status}` : parked}`;
}

describe.each(Object.entries(bothLedgers(table)))('on %s, with nobody asking twice', (_, create) => {
  describe.each(stories)('a bank that $bank', ({ fate, goesOn = false, silent = false, ends }) => {
    it.each(Object.entries(ends))('leaves %s as %j', async (path, [ending, charges]) => {
      const world = bankWorld(create, START);
      const [route, key] = [path as Route, randomUUID()];
      world.plan.fate = fate;
      world.bank.silent = silent;
      await world.request(route, key);
      if (route.startsWith('/de')) await world.dispatch(world.stream.splice(0));
      if (!goesOn) world.plan.fate = 'fine';
      await settled(world);
      expect(await told(world, pkOf(route, key))).toBe(ending);
      world.advance(3_600_000);
      expect(world.bank.charges).toHaveLength(charges);
    });
  });

  describe.each(['dies before', 'dies after', 'completion lost'] as const)(
    'a process whose end is: %s',
    (fate) => {
      const lost = fate === 'completion lost';
      const opaque = fate === 'dies before' ? FREED : CHARGED;
      const ends = { '/opaque': opaque, '/effect': CHARGED, '/step': CHARGED };
      it.each(Object.entries(ends))('leaves %s as %j', async (path, [ending, charges]) => {
        const world = bankWorld(create, START);
        const [route, key] = [path as Route, randomUUID()];
        Object.assign(world.plan, lost ? { store: 'lost' } : { fate });
        await world.request(route, key);
        Object.assign(world.plan, { store: 'fine', fate: 'fine' });
        await settled(world);
        expect(await told(world, pkOf(route, key))).toBe(ending);
        expect(world.bank.charges).toHaveLength(charges);
      });
    },
  );

  it('a process that died is found by the backstop where the stream is lost', async () => {
    const world = bankWorld(create, START);
    const key = randomUUID();
    world.plan.fate = 'dies before';
    for (const route of ['/plain', '/opaque', '/effect'] as const) await world.request(route, key);
    world.plan.fate = 'fine';
    await settled(world, { streamIsRead: false });
    expect(await told(world, pkOf('/plain', key))).toBe('failed_retryable');
    expect(await told(world, pkOf('/opaque', key))).toBe('failed_retryable');
    expect(await told(world, pkOf('/effect', key))).toBe('completed 201');
    expect([world.bank.charges.length, world.rows.length]).toEqual([1, 0]);
  });

  describe('a bank that tells of its charge', () => {
    it.each(['/opaque', '/effect', '/deferred'] as const)('twice settles %s once', async (route) => {
      const world = bankWorld(create, START);
      const [key, ref] = [randomUUID(), randomUUID()];
      const pk = pkOf(route, key);
      world.plan.fate = 'charges and times out';
      await world.request(route, key);
      if (route === '/deferred') await world.dispatch(world.stream.splice(0));
      world.plan.fate = 'fine';
      expect(await told(world, pk)).toBe('unknown');
      expect(await world.tell(pk, ref)).toBeLessThan(300);
      const settledAs = await told(world, pk);
      expect(settledAs).toBe(route === '/effect' ? 'in_progress' : 'completed 201'); // Steps are resumed by the sweep.
      const before = await world.ledger.read(pk);
      await world.tell(pk, ref);
      expect(await world.ledger.read(pk)).toEqual(before);
      await settled(world);
      expect(await told(world, pk)).toBe('completed 201');
      expect(world.bank.charges).toHaveLength(1);
      expect(await world.tell(pk, ref)).toBeLessThan(300);
      expect(await told(world, pk)).toBe('completed 201');
    });

    it.each(['/opaque', '/effect', '/step'] as const)(
      'before it answers leaves %s to its owner',
      async (route) => {
        const world = bankWorld(create, START);
        const [key, ref] = [randomUUID(), randomUUID()];
        const pk = pkOf(route, key);
        world.plan.fate = 'freezes after';
        await world.request(route, key);
        const before = await world.ledger.read(pk);
        expect(await world.tell(pk, ref)).toBeGreaterThanOrEqual(300); // To come again: nothing is settled.
        expect(await world.ledger.read(pk)).toEqual(before);
        world.plan.fate = 'fine';
        for (const wake of world.frozen.splice(0)) wake();
        await expect.poll(() => told(world, pk)).toBe('completed 201');
        expect(await world.tell(pk, ref)).toBeLessThan(300);
        await settled(world);
        expect(world.bank.charges).toHaveLength(1);
        expect(await world.ledger.read(pk)).toMatchObject({ status: 'completed', attempt: 1 });
      },
    );
  });
});
