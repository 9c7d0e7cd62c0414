import { UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import { RecordUnreadable, StoreUnavailable } from '../../lib/core/errors.ts';
import type { InProgress, Unknown } from '../../lib/core/record.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { dueShards } from '../../lib/ledger/schema.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import { claimOf, execute, movedRecord, START, unknownBy } from '../../lib/testing/contract/subject.ts';
import { useTable } from '../support/table.ts';
import { bothLedgers } from './stage.ts';

const table = useTable();
const [first = '', second = ''] = dueShards();
const [parked = ''] = dueShards('parked');
/** More than one page of a shard. */
const MANY = 60;

/** Makes one unreadable, each in the way that its store can. */
const damages: Readonly<Record<string, (ledger: Ledger<unknown>, pk: string) => Promise<Ledger<unknown>>>> = {
  async memory(ledger, pk) {
    const read = async (asked: string) => {
      if (asked === pk) throw new RecordUnreadable(`Record ${pk} has no fingerprint.`);
      return ledger.read(asked);
    };
    return { ...ledger, read };
  },
  async DynamoDB(ledger, pk) {
    const Key = { pk: { S: pk }, sk: { S: 'record' } };
    const input = { TableName: table.tableName, Key, UpdateExpression: 'REMOVE fingerprint' };
    await table.client.send(new UpdateItemCommand(input));
    return ledger;
  },
};

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  describe(`what an operator is shown on ${name}`, () => {
    const clock = () => START;
    const ledger = ledgerOf(clock);
    /** Every test is of an earlier year, so that what others left comes after its own. */
    let year = START;
    function earlier(): number {
      year -= 365 * 86_400_000;
      return year;
    }
    const reserve = async () => movedRecord<InProgress>(await ledger.reserve(claimOf(), execute));
    async function watched(shard: string, at: number): Promise<string> {
      return movedRecord(await ledger.watch(await reserve(), { shard, at })).pk;
    }
    async function inDoubt(shard: string, at: number): Promise<string> {
      return movedRecord<Unknown>(await ledger.watch(await unknownBy(ledger, await reserve()), { shard, at }))
        .pk;
    }

    it('is the oldest due first, beyond a page and beyond the limit, in whichever shard it is', async () => {
      const from = earlier();
      const later = await watched(first, from + 1_000);
      const old: string[] = [];
      for (let at = 0; at < MANY; at += 1) old.push(await watched(second, from + at));
      const oldest = await watched(parked, from - 1);
      const { list } = operator({ ledger, clock });
      const shown = async (limit: number) => (await list({ limit })).map(({ pk }) => pk);
      expect(await shown(MANY + 2)).toEqual([oldest, ...old, later]);
      expect(await shown(MANY)).toEqual([oldest, ...old.slice(0, MANY - 1)]);
      expect((await list({ limit: 1, parked: true })).map(({ pk }) => pk)).toEqual([oldest]);
    });

    it('is as many as were asked for, however many others come before them', async () => {
      const from = earlier();
      for (let at = 0; at < MANY; at += 1) await watched(first, from + at);
      const wanted = [await inDoubt(first, from + 100), await inDoubt(second, from + 101)];
      const { list } = operator({ ledger, clock });
      expect((await list({ status: 'unknown', limit: 2 })).map(({ pk }) => pk)).toEqual(wanted);
    });

    it('shows once what the index has in two places, and goes on after a page that has nothing', async () => {
      const [twice, other] = [await watched(first, earlier()), await watched(first, earlier())];
      const lagging: typeof ledger.due = async (shard, _before, _limit, from) => {
        const entries = from === undefined ? [] : [{ pk: twice, at: START }];
        if (shard === first) return { entries, next: from === undefined ? 'more' : undefined };
        return { entries: shard === parked ? [{ pk: twice, at: START }] : [], next: undefined };
      };
      const { list } = operator({ ledger: { ...ledger, due: lagging }, clock });
      expect((await list()).map(({ pk }) => pk)).toEqual([twice]);
      const beyond: typeof ledger.due = async (shard, _before, _limit, from) => {
        if (shard !== first) return { entries: [], next: undefined };
        if (from === undefined) return { entries: [], next: 'more' };
        return { entries: [{ pk: other, at: START }], next: undefined };
      };
      const shown = await operator({ ledger: { ...ledger, due: beyond }, clock }).list();
      expect(shown.map(({ pk }) => pk)).toEqual([other]);
    });

    it('has one that cannot be read among the others, as that, and so does a look at it', async () => {
      const from = earlier();
      const pks = [
        await inDoubt(first, from),
        await watched(first, from + 1),
        await inDoubt(first, from + 2),
      ];
      const damaged = await damages[name]?.(ledger, pks[0] as string);
      const { list, inspect } = operator({ ledger: damaged as Ledger<unknown>, clock });
      const shown = await list({ limit: 2, status: 'unknown', olderThanMs: 0 });
      const reason = expect.stringMatching(/fingerprint/);
      expect(shown).toEqual([
        { pk: pks[0], status: 'unreadable', reason },
        await ledger.read(pks[2] as string),
      ]);
      expect(await inspect(pks[0] as string)).toEqual({ record: undefined, unreadable: reason, audits: [] });
    });

    it('is nothing rather than a part of it, where the store does not answer', async () => {
      await watched(first, earlier());
      const read = async () => {
        throw new StoreUnavailable('away');
      };
      const { list } = operator({ ledger: { ...ledger, read }, clock });
      await expect(list()).rejects.toThrow(StoreUnavailable);
    });

    it('is refused for filters that mean nothing', async () => {
      const { list } = operator({ ledger, clock });
      for (const odd of [
        { limit: 0 },
        { limit: 1.5 },
        { olderThanMs: -1 },
        { status: 'open' },
        { statuses: [] },
      ])
        await expect(list(odd as never)).rejects.toThrow(/option/);
    });
  });
}
