import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { StoreNotStarted } from './errors.ts';

/*
 * Two DynamoDB Locals on the same files would each overwrite what the other does not know of. Every process that uses a
 * folder leaves a file there that is named by its pid. Each writes its own before it looks for others, so that of two
 * that come at the same moment at least one sees the other; and a file of a process that is gone can be removed by
 * anybody, because only that process would ever write it.
 */

const CLAIM = /^in-use-by-([1-9]\d*)$/;

const claimPath = (folder: string, pid: number) => join(folder, `in-use-by-${pid}`);

/** For this process, or for one that it started. */
export function claimFolder(folder: string, pid: number): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(claimPath(folder, pid), '');
}

/** Where the folder is none, there is no claim on it either. */
export function releaseFolder(folder: string, pid: number): void {
  try {
    rmSync(claimPath(folder, pid), { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOTDIR') throw error;
  }
}

/** The pid of another process that uses the folder. What those that are gone left is removed. */
export function otherClaim(folder: string, own: number): number | undefined {
  for (const name of readdirSync(folder)) {
    const pid = Number(CLAIM.exec(name)?.[1] ?? own);
    if (pid === own) continue;
    if (isAlive(pid)) return pid;
    releaseFolder(folder, pid);
  }
  return undefined;
}

export function folderInUse(folder: string, pid: number): StoreNotStarted {
  return new StoreNotStarted(
    `The tables in ${folder} are in use by process ${pid}: end that one, or give another folder. If process ${pid} has nothing to do with them, remove ${claimPath(folder, pid)}.`,
  );
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Somebody else's process is one as well.
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}
