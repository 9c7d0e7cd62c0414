import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { lineOf, startChild } from '../../support/children.ts';
import { failure, isAlive, modelOf, stage, temporaryFolder } from './stage.ts';

const HOLDING =
  'setInterval(() => {}, 2 ** 30); export const handler = () => new Promise(() => console.log("busy"));';

/** Whatever holds on to a process of its own. */
const PARENT = `
  import { spawn } from 'node:child_process';
  export const handler = async ({ stay }) => {
    const { pid } = spawn('sleep', ['1000'], { stdio: 'inherit' });
    if (stay) { console.log('child ' + pid); await new Promise((resolve) => setInterval(resolve, 2 ** 30)); }
    return pid;
  };`;

async function gone(pids: readonly number[]): Promise<void> {
  await expect.poll(() => pids.filter(isAlive), { timeout: 60_000 }).toEqual([]);
}

describe('a pool that is closed', () => {
  it('leaves no process: busy, idle or starting', async () => {
    const starting = `console.log('starting'); await new Promise(() => setInterval(() => {}, 2 ** 30));`;
    const idle = 'export const handler = async () => {};';
    const { pool, told } = stage({ busy: HOLDING, idle, starting });
    const answers = [pool.invoke('busy', '{}'), pool.invoke('starting', '{}')];
    await pool.invoke('idle', '{}');
    await Promise.all([told('busy'), told('starting')]);
    const pids = pool.names.flatMap(pool.pids);
    expect(pids).toHaveLength(3);
    await pool.close();
    expect(pids.filter(isAlive)).toEqual([]);
    const [busy, waiting] = await Promise.all(answers);
    expect(busy && failure(busy).error).toBe('Crash');
    expect(waiting).toEqual({ kind: 'throttled' });
  });

  it('leaves no process that was just being started', async () => {
    const { pool } = stage({ f: HOLDING, g: HOLDING });
    const answers = [pool.invoke('f', '{}'), pool.invoke('f', '{}'), pool.prewarm(['g'])];
    const pids = pool.names.flatMap(pool.pids);
    expect(pids).toHaveLength(3);
    await pool.close();
    expect(pids.filter(isAlive)).toEqual([]);
    expect(await Promise.all(answers)).toEqual([{ kind: 'throttled' }, { kind: 'throttled' }, undefined]);
  });

  it('calls nothing a failure that was ended with it', async () => {
    const { pool, reports, told } = stage({ busy: HOLDING });
    const answer = pool.invoke('busy', '{}');
    await told('busy');
    await pool.close();
    expect(failure(await answer).error).toBe('Crash');
    expect(reports.filter(({ level }) => level === 'error')).toEqual([]);
  });

  it('starts nothing any more, and says so', async () => {
    const { pool, reports, timers } = stage({ f: HOLDING });
    await pool.close();
    expect(await pool.invoke('f', '{}')).toEqual({ kind: 'throttled' });
    await pool.prewarm(['f']);
    pool.invokeLater('f', '{}');
    expect(reports.map(({ message }) => message)).toEqual([
      'throttled',
      'an event was dropped: the cloud is closed',
    ]);
    expect(pool.pids('f')).toEqual([]);
    await pool.close();
    expect(timers.waiting).toEqual([]);
  });

  it('leaves no timer and no folder', async () => {
    const code = 'export const handler = async () => process.env.LAMBDA_TASK_ROOT;';
    const { pool, timers, told, call } = stage({ busy: HOLDING, f: code });
    const taskRoot = String(await call());
    void pool.invoke('busy', '{}');
    await told('busy');
    expect(existsSync(taskRoot)).toBe(true);
    expect(timers.waiting.length).toBeGreaterThan(0);
    await pool.close();
    expect(timers.waiting).toEqual([]);
    expect(existsSync(dirname(taskRoot))).toBe(false);
  });
});

describe('what a function has started', () => {
  it('ends with its environment, however that ends', async () => {
    const { pool, call, told } = stage({ f: PARENT });
    const child = Number(await call());
    void pool.invoke('f', '{"stay":true}');
    const { message } = await told('child ');
    const other = Number(message.split(' ')[1]);
    expect([child, other].map(isAlive)).toEqual([true, true]);
    pool.kill('f');
    await gone([child, other]);
  });

  it('does not keep a pool from closing, though it has left the group and holds on to the output', async () => {
    const code = `
      import { spawn } from 'node:child_process';
      export const handler = async () => spawn('sleep', ['1000'], { stdio: 'inherit', detached: true }).pid;`;
    const { pool, call, timers } = stage({ f: code });
    const pid = Number(await call());
    onTestFinished(() => {
      process.kill(pid, 'SIGKILL');
    });
    const closed = pool.close();
    await expect.poll(() => timers.fire(500)).toBe(1);
    await closed;
    expect(isAlive(pid)).toBe(true);
  });
});

it('an environment ends with the process that started it, though that was killed', async () => {
  const codeDir = temporaryFolder();
  // Whoever is killed cannot clean up behind itself.
  vi.stubEnv('TMPDIR', codeDir);
  onTestFinished(() => {
    vi.unstubAllEnvs();
  });
  writeFileSync(join(codeDir, 'index.mjs'), HOLDING);
  const model = modelOf({ codeDir, timeoutMs: 900_000 });
  const parent = startChild(new URL('./pool-process.ts', import.meta.url), model);
  const pid = Number(await lineOf(parent));
  expect(isAlive(pid)).toBe(true);
  parent.kill('SIGKILL');
  await gone([pid]);
});

it('a bundle in CommonJS is CommonJS, also inside a project of ES modules', async () => {
  const project = temporaryFolder();
  writeFileSync(join(project, 'package.json'), '{"type":"module"}');
  const codeDir = join(project, 'asset');
  const { call } = stage({ f: { code: '', codeDir: makeCommonJs(codeDir) } });
  expect(await call()).toBe('object');
  expect(existsSync(join(codeDir, 'package.json'))).toBe(false);
});

function makeCommonJs(codeDir: string): string {
  mkdirSync(codeDir);
  writeFileSync(join(codeDir, 'part.js'), 'module.exports = typeof module;');
  writeFileSync(join(codeDir, 'index.js'), 'exports.handler = async () => require("./part.js");');
  return codeDir;
}
