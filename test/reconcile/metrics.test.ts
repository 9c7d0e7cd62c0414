import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { type MetricName, metricUnits } from '../../lib/observe/metrics.ts';
import { bankWorld, type Fate, pkOf, type Route, settled } from '../support/bank.ts';
import { START } from './stage.ts';

type World = ReturnType<typeof bankWorld>;
type Story = (world: World, key: string) => Promise<unknown>;

/** One request with this fate; then all is well, and time passes until nothing is left to happen. */
const after =
  (route: Route, fate: Fate): Story =>
  async (world, key) => {
    world.plan.fate = fate;
    await world.request(route, key);
    if (route.startsWith('/de')) await world.dispatch(world.stream.splice(0));
    world.plan.fate = 'fine';
    await settled(world);
  };

const then =
  (...stories: readonly Story[]): Story =>
  async (world, key) => {
    for (const story of stories) await story(world, key);
  };

const again =
  (route: Route, body?: unknown): Story =>
  (world, key) =>
    world.request(route, key, body);

const pruned: Story = async (world, key) => {
  const record = await world.inner.read(pkOf('/plain', key));
  world.saw('ttl', pkOf('/plain', key), record, undefined);
  await world.watch(world.stream.splice(0));
};

/** Where each is measured, and how often in that story. What the store, webhooks, quotas and the audit measure is with them. */
const stories: Partial<Record<MetricName, readonly [Story, number]>> = {
  'reserve.created.count': [again('/plain'), 1],
  'reserve.replay.count': [then(again('/plain'), again('/plain'), again('/plain')), 2],
  'reserve.in_progress.count': [
    async (world, key) => {
      world.plan.fate = 'dies after';
      await world.request('/opaque', key);
      await world.request('/opaque', key);
    },
    1,
  ],
  'reserve.key_misuse.count': [then(again('/plain'), again('/plain', { amount: 6 })), 1],
  'reserve.failed_retry.count': [then(after('/plain', 'answers 500'), again('/plain')), 1],
  'reserve.unknown.count': [
    async (world, key) => {
      world.plan.fate = 'charges and times out';
      await world.request('/opaque', key);
      await world.request('/opaque', key);
    },
    1,
  ],
  'reserve.latency_ms': [again('/plain'), 1],
  'execute.latency_ms': [again('/plain'), 1],
  'complete.latency_ms': [again('/plain'), 1],
  'zombie_key.count': [after('/plain', 'dies before'), 1],
  'reconcile.scheduled.count': [after('/opaque', 'charges and times out'), 1],
  'reconcile.resolved.count': [after('/opaque', 'charges and times out'), 1],
  'reconcile.failed.count': [
    async (world, key) => {
      world.bank.silent = true;
      await after('/opaque', 'charges and times out')(world, key);
    },
    10,
  ],
  parked: [
    async (world, key) => {
      world.bank.silent = true;
      await after('/opaque', 'charges and times out')(world, key);
    },
    1,
  ],
  'outbox.delivered': [after('/deduped', 'fine'), 1],
  'outbox.failed': [after('/deduped', 'answers 500'), 1],
  fenced: [
    async (world, key) => {
      world.plan.fate = 'freezes after';
      await world.request('/step', key);
      world.plan.fate = 'fine';
      await settled(world);
      for (const wake of world.frozen.splice(0)) wake();
      await expect.poll(() => world.samples.some(({ metrics }) => metrics.fenced === 1)).toBe(true);
    },
    1,
  ],
  'ttl_pruned.count': [then(again('/plain'), pruned), 1],
  evidence_removed: [
    async (world, key) => {
      world.plan.fate = 'dies before';
      await world.request('/plain', key);
      await pruned(world, key);
    },
    1,
  ],
};

function countOf({ samples }: World, name: MetricName): number {
  const values = samples.flatMap(({ metrics }) => metrics[name] ?? []);
  return name.endsWith('_ms') ? values.length : values.reduce((sum, value) => sum + value, 0);
}

describe('measured where it happens', () => {
  it.each(Object.entries(stories))('%s', async (name, [story, times]) => {
    const world = bankWorld((clock) => memoryLedger({ clock }), START);
    await story(world, randomUUID());
    expect(countOf(world, name as MetricName)).toBe(times);
  });

  it('with the part of reservations that did not end within their batch', async () => {
    const world = bankWorld((clock) => memoryLedger({ clock }), START);
    for (const key of ['a', 'b', 'c']) await world.request('/plain', key);
    world.plan.fate = 'dies before';
    await world.request('/plain', 'd');
    await world.watch(world.stream.splice(0));
    expect(world.samples.flatMap(({ metrics }) => metrics.leftover_ratio ?? [])).toEqual([0.25]);
  });
});

it('every metric is explained: what it counts, and what to do about it', () => {
  const pages = ['docs/runbook.md', 'docs/usage.md'].map((page) => readFileSync(page, 'utf8')).join('');
  const silent = Object.keys(metricUnits).filter((name) => !pages.includes(`\`${name}\``));
  expect(silent).toEqual([]);
});
