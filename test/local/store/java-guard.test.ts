import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { lineOf } from '../../support/children.ts';
import type { StartedStore, StoreProcess } from '../../support/store-process.ts';
import { commandOf, hasEnded, until, usersOf } from './processes.ts';

const PROGRAM = fileURLToPath(new URL('../../support/store-process.ts', import.meta.url));

const folders = mkdtempSync(join(tmpdir(), 'oncekey-guarded-'));
afterAll(() => rmSync(folders, { recursive: true }));

/** A test that failed leaves nothing either: its process, its Java, and the guard that did not do its work. */
const started: { readonly child: ChildProcess; readonly folder: string }[] = [];
afterEach(() => {
  for (const { child, folder } of started.splice(0)) {
    child.kill('SIGKILL');
    for (const pid of usersOf(folder)) process.kill(pid, 'SIGKILL');
  }
});

/** Leads a process group, as whatever is started at a terminal does. */
function start(told: StoreProcess): ChildProcess {
  const args = ['--disable-warning=ExperimentalWarning', PROGRAM, JSON.stringify(told)];
  const child = spawn(process.execPath, args, { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  started.push({ child, folder: told.folder });
  return child;
}

/** Java and its guard: whoever counts on them being gone must have seen them running. */
async function running(folder: string): Promise<readonly number[]> {
  await until(() => usersOf(folder).length === 2);
  const pids = usersOf(folder);
  const commands = await Promise.all(pids.map(commandOf));
  expect(commands.join('\n')).toMatch(/DynamoDBLocal\.jar/);
  expect(commands.join('\n')).toMatch(/java-guard/);
  return pids;
}

const allEnded = async (pids: readonly number[]) => (await Promise.all(pids.map(hasEnded))).every(Boolean);

const WAYS: Readonly<Record<string, (child: ChildProcess, pid: number) => void>> = {
  'gets a SIGINT': (child) => child.kill('SIGINT'),
  'gets a SIGTERM': (child) => child.kill('SIGTERM'),
  'gets a SIGHUP': (child) => child.kill('SIGHUP'),
  'gets a SIGKILL': (child) => child.kill('SIGKILL'),
  'is killed with all of its process group': (_, pid) => process.kill(-pid, 'SIGKILL'),
  'crashes on an exception': (child) => child.kill('SIGUSR2'),
};

describe('no Java is left, and its folder is free, when the process that started it', () => {
  it.each(Object.entries(WAYS))('%s', async (_, end) => {
    const folder = mkdtempSync(join(folders, 'tables-'));
    const child = start({ folder });
    await lineOf(child);
    const pids = await running(folder);
    end(child, child.pid ?? 0);
    await until(() => allEnded(pids));
    expect(usersOf(folder)).toEqual([]);
  });

  it('is killed while Java is still coming up', async () => {
    const folder = mkdtempSync(join(folders, 'tables-'));
    const child = start({ folder });
    const pids = await running(folder);
    child.kill('SIGKILL');
    await until(() => allEnded(pids));
    expect(usersOf(folder)).toEqual([]);
  });

  it('is killed, and another child of it lives on', async () => {
    const folder = mkdtempSync(join(folders, 'tables-'));
    const child = start({ folder, withChild: true });
    const { childPid = 0 }: StartedStore = JSON.parse(await lineOf(child));
    try {
      const pids = await running(folder);
      child.kill('SIGKILL');
      await until(() => allEnded(pids));
      expect(await hasEnded(childPid)).toBe(false);
    } finally {
      process.kill(childPid, 'SIGKILL');
    }
  });
});
