import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { Opened } from '../../lib/local/opened.ts';
import { readStacks } from '../../lib/local/stacks.ts';

/** Tells where it runs, and then takes for ever; its assembly is made anew all the time. */
const ENDLESS = `
  import { mkdirSync, writeFileSync } from 'node:fs';
  const { CDK_OUTDIR } = process.env;
  writeFileSync('running.json', JSON.stringify({ pid: process.pid, outDir: CDK_OUTDIR }));
  setInterval(() => mkdirSync(CDK_OUTDIR, { recursive: true }), 1);
`;

function appWith(code: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'stacks-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'app.mjs'), code);
  writeFileSync(join(folder, 'cdk.json'), JSON.stringify({ app: 'node app.mjs' }));
  return folder;
}

async function runningIn(folder: string): Promise<{ readonly pid: number; readonly outDir: string }> {
  const path = join(folder, 'running.json');
  while (!existsSync(path) || readFileSync(path, 'utf8') === '') await pause(10);
  return JSON.parse(readFileSync(path, 'utf8'));
}

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

const options = (folder: string, signal: AbortSignal) => ({
  folder,
  environment: process.env,
  fast: false,
  assembly: undefined,
  signal,
});

it('an app that is being synthesised ends when everything else is closed, and leaves no folder', async () => {
  const folder = appWith(ENDLESS);
  const opened = new Opened();
  const read = readStacks(options(folder, new AbortController().signal), opened).catch(
    (error: unknown) => error,
  );
  const { pid, outDir } = await runningIn(folder);
  await opened.close();
  expect(await read).toBeInstanceOf(Error);
  while (isThere(pid)) await pause(10);
  expect(existsSync(outDir)).toBe(false);
});

it('an app that is being synthesised ends with the signal, and leaves no folder', async () => {
  const folder = appWith(ENDLESS);
  const [opened, ending] = [new Opened(), new AbortController()];
  const read = readStacks(options(folder, ending.signal), opened).catch((error: unknown) => error);
  const { pid, outDir } = await runningIn(folder);
  ending.abort();
  await Promise.all([opened.close(), read]);
  while (isThere(pid)) await pause(10);
  expect(existsSync(outDir)).toBe(false);
});
