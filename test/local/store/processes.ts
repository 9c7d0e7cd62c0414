import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

/* What is seen from outside of processes that are not the test's own children. */

const POLL_MS = 20;

/** Java and its guard, each of which leaves a file while it uses a folder. */
export function usersOf(folder: string): readonly number[] {
  return readdirSync(folder).flatMap((name) =>
    name.startsWith('in-use-by-') ? [Number(name.slice(10))] : [],
  );
}

export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await pause(POLL_MS);
}

/** A zombie, which nobody has fetched yet, has ended. */
export function hasEnded(pid: number): Promise<boolean> {
  return new Promise((resolve) => {
    execFile('ps', ['-o', 'stat=', '-p', String(pid)], (_, stdout) => {
      resolve(stdout.trim() === '' || stdout.trim().startsWith('Z'));
    });
  });
}

export async function commandOf(pid: number): Promise<string> {
  return new Promise((resolve) => {
    execFile('ps', ['-o', 'args=', '-p', String(pid)], (_, stdout) => resolve(stdout.trim()));
  });
}
