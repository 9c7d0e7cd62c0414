import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** A process of its own, which is told everything in its first argument. */
export function startChild(program: URL, told: object): ChildProcess {
  const args = ['--disable-warning=ExperimentalWarning', fileURLToPath(program), JSON.stringify(told)];
  return spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
}

/** The first line that a process prints. */
export async function lineOf(child: ChildProcess): Promise<string> {
  if (!child.stdout) throw new Error('the process has no output');
  for await (const line of createInterface(child.stdout)) return line;
  throw new Error('the process ended without a word');
}

/** What it said before it was killed, and what ended it. */
export async function killedAfterLine(child: ChildProcess): Promise<readonly [string, NodeJS.Signals]> {
  const line = await lineOf(child).finally(() => child.kill('SIGKILL'));
  const [, signal] = await once(child, 'exit');
  return [line, signal];
}

export function linesIn(folder: string, name: string): readonly string[] {
  const file = join(folder, name);
  return existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
}
