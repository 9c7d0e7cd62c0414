import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { minuteOf } from '../../core/policy.ts';
import type { Quotas } from '../../ledger/quotas.ts';
import { type ContractCase, contractCase, SECOND, START } from './subject.ts';

/* What a ledger that counts keys must do. One that does not has nothing to show here. */

const MINUTE = minuteOf(START);

function quotaCase(name: string, run: (quotas: Quotas, tenant: string) => Promise<void>): ContractCase {
  return contractCase(`where keys are counted: ${name}`, async ({ ledger: { quotas } }) => {
    if (quotas) await run(quotas, `tenant-${randomUUID()}`);
  });
}

export const quotas: readonly ContractCase[] = [
  quotaCase('new ones are summed up by tenant and minute', async (quotas, tenant) => {
    assert.equal(await quotas.addNew(tenant, MINUTE, 3), 3);
    assert.equal(await quotas.addNew(tenant, MINUTE, 4), 7);
    assert.equal(await quotas.addNew(tenant, MINUTE + 60 * SECOND, 2), 2);
    assert.equal(await quotas.addNew(`${tenant}-b`, MINUTE, 1), 1);
  }),

  quotaCase('what is opened or closed twice is so once', async (quotas, tenant) => {
    await quotas.noteOpened(tenant, ['a', 'b'], 9, START);
    const twice = await quotas.noteOpened(tenant, ['b', 'c'], 9, START);
    assert.deepEqual([twice.noted, twice.pks.toSorted()], [true, ['a', 'b', 'c']]);
    await quotas.noteClosed(tenant, ['b', 'never']);
    await quotas.noteClosed(tenant, ['b']);
    assert.deepEqual((await quotas.noteOpened(tenant, ['a'], 9, START)).pks.toSorted(), ['a', 'c']);
    assert.deepEqual((await quotas.noteOpened(`${tenant}-b`, ['x'], 9, START)).pks, ['x']);
  }),

  quotaCase('closing what nobody opened leaves nothing behind', async (quotas, tenant) => {
    await quotas.noteClosed(tenant, ['a']);
    assert.deepEqual(await quotas.noteOpened(tenant, ['b'], 9, START), { noted: true, pks: ['b'] });
    await quotas.noteClosed(tenant, ['b']);
    assert.deepEqual(await quotas.noteOpened(tenant, ['c'], 0, START), { noted: true, pks: ['c'] });
  }),

  quotaCase('no more are noted once there are more than asked for', async (quotas, tenant) => {
    assert.equal((await quotas.noteOpened(tenant, ['a', 'b'], 1, START)).noted, true);
    const full = await quotas.noteOpened(tenant, ['c'], 1, START);
    assert.deepEqual([full.noted, full.pks.toSorted()], [false, ['a', 'b']]);
    await quotas.noteClosed(tenant, ['a']);
    assert.equal((await quotas.noteOpened(tenant, ['c'], 1, START)).noted, true);
  }),

  quotaCase('a flag is raised unless the one there lasts long enough', async (quotas, tenant) => {
    assert.equal(await quotas.flag(tenant), undefined);
    const first = { until: START + 60 * SECOND, reason: 'new_keys' } as const;
    assert.equal(await quotas.raise(tenant, first, START), true);
    const longer = { until: START + 90 * SECOND, reason: 'open_keys' } as const;
    assert.equal(await quotas.raise(tenant, longer, first.until), false);
    assert.deepEqual(await quotas.flag(tenant), first);
    assert.equal(await quotas.raise(tenant, longer, first.until + 1), true);
    assert.deepEqual(await quotas.flag(tenant), longer);
    assert.equal(await quotas.flag(`${tenant}-b`), undefined);
  }),
];
