/* The local cloud as a process: how it starts, how it refuses to, and that nothing is left of it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { freePort } from '../../lib/local/store/port.ts';
import { useAssembly } from './assembly.ts';
import { eventually, newRequest, send, sendUntilFinal } from './client.ts';
import { type Charge, launch, type ShownRecord, startLocalCloud } from './local-cloud.ts';

const assembly = useAssembly();
const folder = mkdtempSync(join(tmpdir(), 'oncekey-e2e-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Of the processes of this machine, those that descend from one. */
function descendants(pid: number): number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
        return [[Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])] as const];
      } catch {
        return []; // It has just ended.
      }
    });
  const children = parents.filter(([, parent]) => parent === pid).map(([child]) => child);
  return children.flatMap((child) => [child, ...descendants(child)]);
}

const isThere = (pid: number) => existsSync(`/proc/${pid}`) && !isZombie(pid);

function isZombie(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/\(.*\)/, ''));
  } catch {
    return true;
  }
}

/** A folder for PATH in which there is a shell and nothing else. */
function shellWithoutJava(): string {
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  symlinkSync('/bin/sh', join(bin, 'sh'));
  return bin;
}

async function refusal(port: number | string, options: readonly string[], env: Record<string, string> = {}) {
  const { child, lines } = launch(port, options, env);
  const [code] = await once(child, 'close');
  return { code, said: lines.filter((line) => !/^\d\d:\d\d:\d\d local /.test(line)).join('\n') };
}

describe('npm start', () => {
  it('says in one sentence what is wrong with its options, and starts nothing', async () => {
    expect(await refusal(3_000, ['--quick'])).toEqual({
      code: 2,
      said: 'oncekey local: there is no option --quick. Usage: oncekey local [--data DIR] [--assembly DIR] [--fast] [--json]',
    });
    expect(await refusal('http', [])).toEqual({
      code: 2,
      said: 'oncekey local: PORT is http; expected a number from 1 to 65535, as in PORT=4000 npm start.',
    });
    expect((await refusal(3_000, ['--data'])).said).toContain('--data needs a folder');
  });

  it('says which port is taken, and how to take another', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const { port } = taken.address() as { port: number };
    const { code, said } = await refusal(port, []);
    taken.close();
    expect(code).toBe(1);
    expect(said).toMatch(new RegExp(`^oncekey local: Port ${port} is taken .*PORT=\\d+ npm start\\.$`));
  });

  it('says that it needs Java, where there is none', async () => {
    // The app is run by a shell, which must still be there.
    const path = `${dirname(process.execPath)}:${shellWithoutJava()}`;
    const { code, said } = await refusal((await freePort(0)) ?? 0, [], {
      PATH: path,
      ONCEKEY_DYNAMODB_ENDPOINT: '',
    });
    expect(code).toBe(1);
    expect(said).toMatch(/^oncekey local: .*Java 17/);
    expect(said.split('\n')).toHaveLength(1);
  });

  it.each(['SIGINT', 'SIGKILL'] as const)('leaves nothing behind when it is ended by %s', async (signal) => {
    const cloud = await startLocalCloud(...assembly.options, '--json');
    const pid = cloud.child.pid ?? 0;
    await Promise.all(['/payments', '/orders'].map((path) => send(cloud, newRequest(path as '/orders'))));
    const children = descendants(pid);
    expect(children.length).toBeGreaterThan(8); // Java and its guard, and a process for each function that was called.
    await cloud.stop(signal);
    await eventually(
      async () => children.filter(isThere),
      (left) => left.length === 0,
    );
    expect(cloud.child.signalCode ?? cloud.child.exitCode).toBe(signal === 'SIGKILL' ? signal : 0);
  });

  it('ends in order when Ctrl-C reaches npm as well, which passes it on', async () => {
    const env = { ...process.env, PORT: String(await freePort(0)) };
    const stdio = ['ignore', 'pipe', 'ignore'] as const;
    const npm = spawn('npm', ['start', '--', ...assembly.options], {
      env,
      detached: true,
      stdio: [...stdio],
    });
    let said = '';
    npm.stdout?.on('data', (chunk) => {
      said += String(chunk);
    });
    const pid = npm.pid ?? 0;
    await eventually(
      async () => said,
      (now) => now.includes('Ctrl-C ends it.'),
    );
    const children = descendants(pid);
    process.kill(-pid, 'SIGINT'); // As a terminal does: to all of its foreground group.
    await once(npm, 'close');
    expect(said).toMatch(/ Ended\n$/);
    await eventually(
      async () => children.filter(isThere),
      (left) => left.length === 0,
    );
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    'leaves nothing behind when it is ended by %s while it starts',
    async (signal) => {
      const { child } = launch((await freePort(0)) ?? 0, ['--fast']);
      const pid = child.pid ?? 0;
      const children = await eventually(
        async () => descendants(pid),
        (seen) => seen.length >= 3,
      );
      child.kill(signal);
      await once(child, 'exit');
      expect(child.exitCode).toBe(0);
      await eventually(
        async () => children.filter(isThere),
        (left) => left.length === 0,
      );
    },
  );
});

describe('the local cloud with a folder of its own', () => {
  it('remembers every key and every charge over a restart that it did not see coming', async () => {
    const requests = [newRequest('/payments'), newRequest('/orders'), newRequest('/transfers')];
    const answers: string[][] = [];
    for (const signal of ['SIGKILL', 'SIGINT'] as const) {
      const cloud = await startLocalCloud(...assembly.options, '--data', folder);
      const seen = await Promise.all(requests.map((request) => sendUntilFinal(cloud, request)));
      answers.push(seen.map(({ text }) => text));
      expect(seen.map(({ status }) => status)).toEqual([201, 201, 201]);
      expect(await cloud.control<Charge[]>('GET', '/provider/charges')).toHaveLength(3);
      const records = await cloud.control<ShownRecord[]>('GET', '/records');
      expect(records.filter(({ operation }) => !operation.startsWith('WEBHOOK'))).toHaveLength(3);
      await cloud.stop(signal);
    }
    expect(answers[1]).toEqual(answers[0]);
  });
});
