import { writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { returned, stage } from './stage.ts';

/** Stays with an event that names a file, until there is that file. */
const STAYING = `
  import { existsSync } from 'node:fs';
  export const handler = ({ until }) => new Promise((resolve) => {
    if (until) console.log('staying');
    const look = setInterval(() => {
      if (until && !existsSync(until)) return;
      clearInterval(look);
      resolve(process.pid);
    }, 5);
  });`;

function staying(options: Parameters<typeof stage>[1]) {
  const staged = stage({ f: STAYING, g: STAYING }, { maxEnvironments: 1, ...options });
  const until = `${staged.folder}/go`;
  return {
    ...staged,
    stay: (name = 'f') => staged.pool.invoke(name, JSON.stringify({ until })),
    go: () => writeFileSync(until, ''),
  };
}

it('lets requests wait for an environment, and throttles what is too many to wait', async () => {
  const { pool, stay, go, told } = staying({ maxWaiting: 2 });
  const first = stay();
  await told('staying');
  const waiting = [pool.invoke('f', '{}'), pool.invoke('f', '{}')];
  expect(await pool.invoke('f', '{}')).toEqual({ kind: 'throttled' });
  go();
  const answers = (await Promise.all([first, ...waiting])).map(returned);
  expect(new Set(answers).size).toBe(1);
});

it('starts the first environment for a request also where none may wait', async () => {
  const { pool, stay, go, told } = staying({ maxWaiting: 0 });
  const first = stay();
  await told('staying');
  expect(await pool.invoke('f', '{}')).toEqual({ kind: 'throttled' });
  go();
  returned(await first);
});

it('throttles a request that has waited too long, and runs nothing of it later', async () => {
  const { pool, stay, go, told, timers, reports } = staying({ waitMs: 77 });
  const first = stay();
  await told('staying');
  const waiting = pool.invoke('f', '{}');
  expect(timers.fire(77)).toBe(1);
  expect(await waiting).toEqual({ kind: 'throttled' });
  go();
  returned(await first);
  expect(reports.filter(({ message }) => message === 'returned')).toHaveLength(1);
});

it('ends the environment that was idle for the longest when another function needs its place', async () => {
  const { pool } = stage({ f: STAYING, g: STAYING, h: STAYING }, { maxProcesses: 2 });
  for (const name of ['f', 'g']) returned(await pool.invoke(name, '{}'));
  const [kept] = pool.pids('g');
  returned(await pool.invoke('h', '{}'));
  expect(pool.pids('f')).toEqual([]);
  expect(pool.pids('g')).toEqual([kept]);
});

it('gives every function one environment, however many the others have', async () => {
  const { pool, stay, go, told } = staying({ maxProcesses: 1 });
  const first = stay();
  await told('staying');
  returned(await pool.invoke('g', '{}'));
  go();
  returned(await first);
});

it('waits for its own environment where there is no place for a second one', async () => {
  const { pool, stay, go, told } = staying({ maxProcesses: 2, maxEnvironments: 2 });
  const [one, other] = [stay('f'), stay('g')];
  await told('staying');
  const second = pool.invoke('f', '{}');
  expect(pool.pids('f')).toHaveLength(1);
  go();
  expect(returned(await second)).toBe(returned(await one));
  returned(await other);
});

it('starts a second environment as soon as another function leaves its place', async () => {
  const { pool, stay, folder, told } = staying({ maxProcesses: 2, maxEnvironments: 2 });
  void stay('f');
  const g = pool.invoke('g', JSON.stringify({ until: `${folder}/g may go` }));
  await Promise.all([told('staying', 'f'), told('staying', 'g')]);
  const [busy] = pool.pids('f');
  const second = pool.invoke('f', '{}');
  writeFileSync(`${folder}/g may go`, '');
  returned(await g);
  expect(returned(await second)).not.toBe(busy);
  expect(pool.pids('g')).toEqual([]);
});

it('ends an environment that was idle for long, and starts another when it is needed', async () => {
  const { pool, call, timers } = staying({ idleMs: 555 });
  const pid = await call();
  expect(timers.fire(555)).toBe(1);
  expect(await call()).not.toBe(pid);
  expect(pool.pids('f')).toHaveLength(1);
});

it('prewarms one environment, which then takes the first request', async () => {
  const { pool, call } = staying({});
  await Promise.all([pool.prewarm(['f']), pool.prewarm(['f'])]);
  const [pid, ...others] = pool.pids('f');
  expect(others).toEqual([]);
  await pool.prewarm(['f', 'g']);
  expect(await call()).toBe(pid);
  expect(pool.pids('g')).toHaveLength(1);
});
