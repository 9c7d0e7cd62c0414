import { randomUUID } from 'node:crypto';
import { QueryCommand } from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { limits } from '../../lib/core/limits.ts';
import { paired } from '../../lib/core/pairing.ts';
import { schedule } from '../../lib/core/policy.ts';
import type { CompletedUndelivered, InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { quotaPk } from '../../lib/core/scope.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { backstop } from '../../lib/reconcile/backstop.ts';
import { eventRef } from '../../lib/reconcile/event-claim.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { recordChanges } from '../../lib/reconcile/stream.ts';
import {
  attemptAt,
  claimOf,
  doubtAt,
  execute,
  failedBy,
  movedRecord,
  SKEW_MS,
  START,
} from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import { type Changed, changed, quotaStage } from './quota-stage.ts';
import { bothLedgers, charge, completedWith, dispatchStage, Provider, through } from './stage.ts';

const table = useTable();
const newTenant = () => `tenant ${randomUUID()}`;

/** All that is kept of a tenant beside its records. */
async function itemsOf(tenant: string) {
  const { Items = [] } = await table.client.send(
    new QueryCommand({
      TableName: table.tableName,
      ConsistentRead: true,
      KeyConditionExpression: 'pk = :pk',
      ExpressionAttributeValues: { ':pk': { S: quotaPk(tenant) } },
    }),
  );
  return Items;
}

/** What is noted as open. Noting again what is there changes nothing. */
async function notedOpen({ quotas }: Ledger<unknown>, tenant: string): Promise<readonly string[]> {
  const there = randomUUID();
  const noted = await quotas?.noteOpened(tenant, [there], limits.openKeysMax, START);
  await quotas?.noteClosed(tenant, [there]);
  return (noted?.pks ?? []).filter((pk) => pk !== there).toSorted();
}

const pksOf = (records: readonly LedgerRecord[]) => records.map(({ pk }) => pk).toSorted();

describe.each(Object.entries(bothLedgers(table)))('on %s', (name, create) => {
  function world(quota: Parameters<typeof quotaStage>[2] = { newKeysPerMinute: 10, openKeys: 5 }) {
    const time = { now: START };
    const ledger = create(() => time.now);
    const flag = async (tenant: string) => ledger.quotas?.flag(tenant);
    return { time, ledger, flag, tenant: newTenant(), ...quotaStage(ledger, time, quota) };
  }

  describe('new keys', () => {
    it('over the limit of a minute raise the flag of their tenant, and of no other', async () => {
      const { requests, batch, flag, tenant, flagged, measured } = world();
      const neighbour = newTenant();
      expect(await batch(...(await requests(tenant, 11)), ...(await requests(neighbour, 10)))).toEqual([]);
      expect(await flag(tenant)).toMatchObject({ reason: 'new_keys' });
      expect(await flag(neighbour)).toBeUndefined();
      expect(flagged()).toEqual([[tenant, 'new_keys']]);
      const counted = measured.filter(({ metrics }) => metrics['quota.flagged.count'] === 1);
      expect(counted.map((sample) => [sample.operation, sample.tenant])).toEqual([['all', tenant]]);
    });

    it('are counted together, from however many batches, by the minute they were made in', async () => {
      const { requests, batch, flag, tenant, time } = world();
      const first = await requests(tenant, 6);
      await batch(...first);
      time.now += 60_000;
      const second = await requests(tenant, 6);
      await batch(...second);
      expect(await flag(tenant)).toBeUndefined();
      await batch(...(await requests(tenant, 5)));
      expect(await flag(tenant)).toBeDefined();
    });

    it('keep their tenant out for as long as they would have lasted at the limit, up to ten minutes', async () => {
      const { requests, batch, flag, tenant } = world({ newKeysPerMinute: 2 });
      await batch(...(await requests(tenant, 3)));
      expect(await flag(tenant)).toMatchObject({ until: START + 90_000 });
      await batch(...(await requests(tenant, 9)));
      expect(await flag(tenant)).toMatchObject({ until: START + 6 * 60_000 });
      const worse = newTenant();
      await batch(...(await requests(worse, 30)));
      expect(await flag(worse)).toMatchObject({ until: START + schedule.quotaFlagMaxMs });
    });

    it('are no later attempts, nothing that is noted on them, and no event of a provider', async () => {
      const { ledger, open, batch, flag, tenant, time } = world({ newKeysPerMinute: 1 });
      const mine = await open(tenant);
      const failed = await failedBy(ledger, mine);
      const again = movedRecord<InProgress>(await ledger.retake(failed, attemptAt(START)));
      time.now = again.leaseUntil + SKEW_MS + 1;
      const taken = movedRecord<InProgress>(
        await ledger.takeOver(again, { ...attemptAt(time.now), skewMs: SKEW_MS }),
      );
      const noted = changed(mine, { ...mine, due: { shard: 'due#1', at: 1 } });
      const later = [changed(mine, failed), changed(failed, again), changed(again, taken)];
      const event = { ...eventRef(tenant, 'evt_1'), operationId: 'e' };
      const [one, two] = [await open(tenant, event), await open(tenant, { ...event, pk: randomUUID() })];
      await batch(changed(undefined, mine));
      for (const change of [noted, ...later]) await batch(change);
      await batch(changed(undefined, one), changed(undefined, two));
      expect(await flag(tenant)).toBeUndefined();
      await batch(changed(undefined, await open(tenant, { now: START })));
      expect(await flag(tenant)).toBeDefined();
    });

    it('are those of an operation that only looks like an event of a provider', async () => {
      const { open, batch, flag, tenant } = world({ newKeysPerMinute: 1 });
      const { operation } = eventRef('stripe', 'evt_1');
      const [one, two] = [await open(tenant, { operation }), await open(tenant, { operation })];
      await batch(changed(undefined, one), changed(undefined, two));
      expect(await flag(tenant)).toBeDefined();
    });

    it('raise a flag anew only when half of it is over', async () => {
      const { requests, batch, flag, tenant, time, flagged } = world({ newKeysPerMinute: 2 });
      await batch(...(await requests(tenant, 3)));
      time.now += 10_000;
      await batch(...(await requests(tenant, 1))); // Two minutes by now, and more than one of them is left.
      expect(await flag(tenant)).toMatchObject({ until: START + 90_000 });
      time.now += 25_000;
      await batch(...(await requests(tenant, 1))); // Two and a half, of which more than one would be missing.
      expect(await flag(tenant)).toMatchObject({ until: START + 35_000 + 150_000 });
      expect(flagged()).toHaveLength(2);
    });

    it('are those of an expired key as well, which starts anew', async () => {
      const { open, close, batch, flag, tenant, time } = world({ newKeysPerMinute: 1 });
      const done = await close(await open(tenant));
      time.now = done.expiresAt + SKEW_MS + 1;
      const anew = await open(tenant, { pk: done.pk });
      await batch(changed(done, anew), changed(undefined, await open(tenant)));
      expect(await flag(tenant)).toBeDefined();
    });

    it('that the stream shows minutes later are history', async () => {
      const { requests, batch, flag, tenant, time } = world();
      const old = await requests(tenant, 50);
      time.now += schedule.quotaLateMs + 60_000;
      await batch(...old);
      expect(await flag(tenant)).toBeUndefined();
    });

    it('are not counted twice when a part of their batch comes again', async () => {
      const { open, away, requests, batch, flag, tenant } = world({ newKeysPerMinute: 10 });
      const hanging = await open(newTenant());
      const bad = changed(undefined, hanging);
      const [before, after] = [await requests(tenant, 5), await requests(tenant, 5)];
      away.add(hanging.pk);
      expect(await batch(...before, bad, ...after)).toEqual([
        { itemIdentifier: bad.dynamodb.SequenceNumber },
      ]);
      expect(await batch(bad, ...after)).toHaveLength(1);
      away.clear();
      expect(await batch(bad, ...after)).toEqual([]);
      expect(await flag(tenant)).toBeUndefined();
      await batch(...(await requests(tenant, 1)));
      expect(await flag(tenant)).toBeDefined();
    });
  });

  describe('open keys', () => {
    it('over the limit raise the flag of their tenant, and of no other', async () => {
      const { hanging, batch, flag, tenant, flagged } = world();
      const neighbour = newTenant();
      const [many, few] = [await hanging(tenant, 6), await hanging(neighbour, 5)];
      await batch(...many.changes, ...few.changes);
      expect(await flag(tenant)).toEqual({ until: START + schedule.quotaFlagMs, reason: 'open_keys' });
      expect(await flag(neighbour)).toBeUndefined();
      expect(flagged()).toEqual([[tenant, 'open_keys']]);
    });

    it('are unknown and undelivered ones, too, and end with their outcome', async () => {
      const { ledger, hanging, batch, tenant, time } = world();
      const { mine, changes } = await hanging(tenant, 2);
      await batch(...changes);
      const [first, second] = mine as [InProgress, InProgress];
      const unknown = movedRecord<LedgerRecord>(await ledger.markUnknown(first, doubtAt(first.pk, START)));
      await batch(changed(first, unknown));
      expect(await notedOpen(ledger, tenant)).toEqual(pksOf(mine));
      const failed = await failedBy(ledger, second);
      await batch(changed(second, failed));
      expect(await notedOpen(ledger, tenant)).toEqual([first.pk]);
      time.now += 1;
      await batch(changed(unknown, undefined));
      expect(await notedOpen(ledger, tenant)).toEqual([]);
    });

    it('are the same however their batches are split, repeated and reordered, once the records were asked', async () => {
      const { ledger, hanging, close, batch, flag, tenant } = world({ openKeys: 5 });
      const { mine, changes } = await hanging(tenant, 4);
      const [one, two] = mine as [InProgress, InProgress];
      const ended = [changed(one, await close(one)), changed(two, await close(two))];
      await batch(...ended); // Before what they end.
      await batch(...changes.slice(2));
      await batch(...changes);
      await batch(...changes, ...ended);
      expect(await notedOpen(ledger, tenant)).toEqual(pksOf(mine)); // Two of them had ended before they were noted.
      const more = await hanging(tenant, 2);
      await batch(...more.changes);
      expect(await flag(tenant)).toBeUndefined();
      expect(await notedOpen(ledger, tenant)).toEqual(pksOf([...mine.slice(2), ...more.mine]));
    });

    it('that have ended unnoticed make room for those that are open', async () => {
      const { ledger, hanging, close, batch, flag, tenant } = world();
      const lost = await hanging(tenant, 6);
      await batch(...lost.changes.slice(0, 3));
      for (const record of lost.mine) await close(record); // The batches that tell so never come.
      await batch(...lost.changes);
      expect(await flag(tenant)).toBeUndefined();
      const open = await hanging(tenant, 5);
      await batch(...open.changes);
      expect(await notedOpen(ledger, tenant)).toEqual(pksOf(open.mine));
      await batch(...(await hanging(tenant, 1)).changes);
      expect(await flag(tenant)).toBeDefined();
    });

    it('are noted once where there was room for them, and not again after others were taken out', async () => {
      const { ledger, hanging, close, tenant, time } = world();
      const { quotas } = ledger;
      if (!quotas) throw new Error('expected quotas');
      let noted = 0;
      const noteOpened: typeof quotas.noteOpened = (...args) => {
        noted += 1;
        return quotas.noteOpened(...args);
      };
      const counting = { ...ledger, quotas: { ...quotas, noteOpened } };
      const { mine, changes } = await hanging(tenant, 6);
      for (const record of mine.slice(0, 2)) await close(record);
      await quotaStage(counting, time, { openKeys: 5 }).batch(...changes);
      expect(noted).toBe(1);
      expect(await notedOpen(ledger, tenant)).toEqual(pksOf(mine.slice(2)));
    });

    it('of a tenant that was over its limit are noted again once the others have ended, told of or not', async () => {
      const { ledger, hanging, close, batch, flag, tenant, time } = world({ openKeys: 5 });
      const { mine, changes } = await hanging(tenant, 6);
      await batch(...changes);
      expect(await flag(tenant)).toBeDefined();
      for (const record of mine) await close(record);
      time.now += schedule.quotaFlagMs;
      const open = await hanging(tenant, 5);
      await batch(...open.changes);
      expect(await notedOpen(ledger, tenant)).toEqual(pksOf(open.mine));
      expect(await flag(tenant)).toEqual({ until: START + schedule.quotaFlagMs, reason: 'open_keys' });
    });

    it('are completed ones, too, until their outbox is delivered', async () => {
      const { ledger, batch, tenant } = world();
      const done = (await completedWith(ledger, charge(5))) as CompletedUndelivered;
      const theirs = { ...done, tenant };
      await batch(changed(undefined, theirs));
      expect(await notedOpen(ledger, tenant)).toEqual([done.pk]);
      const delivered = movedRecord<LedgerRecord>(await ledger.deliver(done, 1));
      await batch(changed(theirs, { ...delivered, tenant }));
      expect(await notedOpen(ledger, tenant)).toEqual([]);
    });

    it('are kept by name up to about twice the limit, however many there are', async () => {
      const { ledger, hanging, batch, tenant } = world();
      for (let round = 0; round < 4; round += 1) await batch(...(await hanging(tenant, 20)).changes);
      expect((await notedOpen(ledger, tenant)).length).toBeLessThanOrEqual(11);
    });

    it('of a tenant that is turned away already are not read again', async () => {
      const { ledger, hanging, tenant, time } = world();
      let reads = 0;
      const read: typeof ledger.read = (...args) => {
        reads += 1;
        return ledger.read(...args);
      };
      const { batch, flagged } = quotaStage({ ...ledger, read }, time, { openKeys: 5 });
      await batch(...(await hanging(tenant, 8)).changes);
      expect(reads).toBeLessThanOrEqual(9);
      const before = reads;
      await batch(...(await hanging(tenant, 8)).changes);
      expect(reads).toBe(before);
      time.now += schedule.quotaFlagMs;
      await batch(...(await hanging(tenant, 1)).changes);
      expect(flagged()).toHaveLength(2);
    });
  });

  it('whatever comes twice and out of order, nobody well below the limit is turned away, and the count mends itself', async () => {
    const request = fc.record({ ends: fc.boolean(), lost: fc.boolean() });
    const repeats = fc.array(fc.nat({ max: 1_000 }), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(
        fc.array(request, { minLength: 1, maxLength: 8 }),
        repeats,
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 8 }),
        fc.infiniteStream(fc.nat({ max: 1_000 })),
        async (all, again, sizes, order) => {
          const { ledger, open, close, batch, flag, tenant } = world({ openKeys: 10 });
          const changes: Changed[] = [];
          const stillOpen: InProgress[] = [];
          for (const { ends, lost } of all) {
            const mine = await open(tenant);
            changes.push(changed(undefined, mine));
            if (!ends) stillOpen.push(mine);
            const done = ends ? await close(mine) : undefined;
            if (done && !lost) changes.push(changed(mine, done));
          }
          const sent = [...changes, ...again.map((place) => changes[place % changes.length])]
            .map((change) => ({ change, rank: order.next().value ?? 0 }))
            .toSorted((a, b) => a.rank - b.rank)
            .map(({ change }) => change);
          for (let from = 0, turn = 0; from < sent.length; turn += 1) {
            const size = sizes[turn % sizes.length] ?? 1;
            await batch(...sent.slice(from, from + size));
            from += size;
          }
          await batch(...stillOpen.map((mine) => changed(undefined, mine)));
          expect(await flag(tenant)).toBeUndefined();
          // Enough of them have ended by now to make the sentinel ask all that it has noted.
          const filler = await Promise.all(Array.from({ length: 11 }, () => open(tenant)));
          for (const mine of filler) await close(mine);
          await batch(...filler.map((mine) => changed(undefined, mine)));
          expect(await flag(tenant)).toBeUndefined();
          expect(await notedOpen(ledger, tenant)).toEqual(pksOf(stillOpen));
        },
      ),
      { numRuns: name === 'memory' ? 100 : 4 },
    );
  });

  it('counting that fails is told of, and holds up nothing of the batch', async () => {
    const { ledger, time, hanging, tenant } = world();
    const down = async () => {
      throw new TypeError('no');
    };
    const broken = { ...ledger, quotas: { ...ledger.quotas, addNew: down } } as unknown as Ledger<unknown>;
    const { batch, logged, measured } = quotaStage(broken, time, { newKeysPerMinute: 1 });
    const { mine, changes } = await hanging(tenant, 2);
    expect(await batch(...changes)).toEqual([]);
    for (const { pk } of mine) expect(await ledger.read(pk)).toHaveProperty('due');
    expect(logged).toContainEqual(
      expect.objectContaining({ decision: 'quota_uncounted', level: 'error', tenant, reason: 'TypeError' }),
    );
    expect(measured).toContainEqual(expect.objectContaining({ tenant, metrics: { 'store.error.count': 1 } }));
  });

  it('without limits nothing is counted, and with one of them only that', async () => {
    const { ledger, time, requests, hanging, flag, tenant } = world();
    await quotaStage(ledger, time).batch(
      ...(await requests(tenant, 50)),
      ...(await hanging(tenant, 9)).changes,
    );
    expect(await flag(tenant)).toBeUndefined();
    expect(await notedOpen(ledger, tenant)).toEqual([]);
    const news = quotaStage(ledger, time, { newKeysPerMinute: 100 });
    await news.batch(...(await hanging(tenant, 9)).changes);
    expect(await notedOpen(ledger, tenant)).toEqual([]);
  });
});

describe('in the table', () => {
  it('a tenant has items that end, under a key that does not name it', async () => {
    const time = { now: START };
    const { batch, hanging } = quotaStage(dynamoDbLedger({ ...table, clock: () => time.now }), time, {
      newKeysPerMinute: 1,
      openKeys: 1,
    });
    const tenant = newTenant();
    await batch(...(await hanging(tenant, 3)).changes);
    const items = (await itemsOf(tenant)).map((item) => unmarshall(item));
    expect(items.map(({ sk }) => sk)).toEqual(['flag', 'new#2030-01-15T12:00:00.000Z', 'open']);
    for (const { pk, ttl } of items) {
      expect(pk).not.toContain(tenant);
      expect(ttl).toBeGreaterThan(START / 1_000);
    }
    // A key may be open for as long as its evidence is kept, and counts until then.
    expect(items.at(-1)?.['ttl']).toBe(START / 1_000 + schedule.openEndedSeconds);
  });

  it('nothing is made of the end of a key that nobody noted', async () => {
    const time = { now: START };
    const ledger = dynamoDbLedger({ ...table, clock: () => time.now });
    const { batch, open, close } = quotaStage(ledger, time, { openKeys: 1 });
    const tenant = newTenant();
    const mine = await open(tenant);
    await batch(changed(mine, await close(mine)));
    expect(await itemsOf(tenant)).toEqual([]);
  });

  it('what is counted is no record to those who read the stream, or look through the table', async () => {
    const time = { now: START };
    const ledger = dynamoDbLedger({ ...table, clock: () => time.now });
    const { batch, hanging, measured, logged } = quotaStage(ledger, time, {
      newKeysPerMinute: 1,
      openKeys: 1,
    });
    const tenant = newTenant();
    await batch(...(await hanging(tenant, 3)).changes);
    const items = await itemsOf(tenant);
    const seen = items.flatMap((item) => [
      { dynamodb: { Keys: { pk: item['pk'], sk: item['sk'] }, NewImage: item, SequenceNumber: '1' } },
      { dynamodb: { Keys: { pk: item['pk'], sk: item['sk'] }, OldImage: item, SequenceNumber: '2' } },
    ]);
    measured.length = 0;
    logged.length = 0;
    expect(await batch(...seen)).toEqual([]);
    expect([measured, logged]).toEqual([[], []]);
    expect(paired(recordChanges({ Records: seen }))).toEqual({ leftovers: [], reservations: 0 });
    const provider = new Provider(true);
    const dispatch = dispatchStage(ledger as Ledger<unknown>, { charge: through(provider) });
    expect(await dispatch.batch(seen)).toEqual([]);
    expect(dispatch.logged).toEqual([]);
    const found: string[] = [];
    const search = backstop({
      ledger,
      pauseMs: 0,
      clock: () => time.now,
      log: ({ operationRef }) => found.push(operationRef),
      metrics: () => {},
    });
    expect(await search({}, { getRemainingTimeInMillis: () => 60_000 })).toMatchObject({ failed: 0 });
    expect(found.filter((ref) => ref.startsWith('quota'))).toEqual([]);
    expect(await itemsOf(tenant)).toEqual(items);
  });

  it('the longest list of open keys still fits into an item', async () => {
    const { quotas } = dynamoDbLedger({ ...table });
    const tenant = newTenant();
    const names = (count: number) => Array.from({ length: count }, () => quotaPk(randomUUID()).slice(6));
    const most = limits.openKeysMax;
    await quotas?.noteOpened(tenant, names(most), most, START);
    const full = await quotas?.noteOpened(tenant, names(most + 1), most, START);
    expect(full).toMatchObject({ noted: true, pks: { length: 2 * most + 1 } });
    expect(JSON.stringify(await itemsOf(tenant)).length).toBeLessThan(100_000);
  });
});

describe('the limits', () => {
  const withQuota =
    (quota: unknown, ledger: object = memoryLedger()) =>
    () =>
      sentinel({ ledger: ledger as Ledger<unknown>, quota: quota as never });

  it.each([
    [{ newKeysPerMinute: 0 }, 'a whole number from 1 to 1000000'],
    [{ openKeys: 1.5 }, 'a whole number from 1 to 1000'],
    [{ openKeys: limits.openKeysMax + 1 }, 'a whole number from 1 to 1000'],
    [{}, '{ newKeysPerMinute, openKeys }, or one of them'],
    [true, '{ newKeysPerMinute, openKeys }, or one of them'],
    [{ newKeys: 5 }, 'Did you mean newKeysPerMinute?'],
  ])('%j are refused at the start', (quota, message) => {
    expect(withQuota(quota)).toThrow(message);
  });

  it('need a ledger that counts', () => {
    const { quotas: _, ...own } = memoryLedger();
    expect(withQuota({ openKeys: 5 }, own)).toThrow('this one has no quotas');
    expect(withQuota(undefined, own)).not.toThrow();
  });
});

it('a ledger in memory forgets what it has counted when its time is over', async () => {
  const ledger = memoryLedger({ clock: () => START });
  await ledger.reserve(claimOf(), execute);
  await ledger.quotas?.raise('t', { until: START, reason: 'new_keys' }, START);
  await ledger.quotas?.addNew('t', START, 5);
  expect(ledger.prune(START + 3_600_001)).toBe(0);
  expect(await ledger.quotas?.flag('t')).toBeUndefined();
  expect(await ledger.quotas?.addNew('t', START, 1)).toBe(1);
});
