/*
 * A process between us and Java, of a process group of its own: Ctrl-C in a terminal or a SIGKILL to our group does not
 * reach it. The channel to us closes whenever we are gone, however that came about, and then Java goes as well. Nothing
 * else holds its other end, so that no child which outlives us can keep Java alive.
 */
import type { ChildProcess } from 'node:child_process';
import { setTimeout as pause } from 'node:timers/promises';
import dynamoDbLocal from 'dynamodb-local';
import { StoreNotStarted } from './errors.ts';
import { claimFolder, folderInUse, otherClaim, releaseFolder } from './folder.ts';

export interface GuardOrder {
  readonly jarFolder: string;
  readonly port: number;
  /** Without one, all is in memory. */
  readonly folder?: string;
}

export type ToGuard = { readonly kind: 'end' } | { readonly kind: 'signal'; readonly signal: NodeJS.Signals };

export type FromGuard =
  | { readonly kind: 'started'; readonly javaPid: number }
  | { readonly kind: 'refused'; readonly message: string };

/** Java ends within milliseconds of a SIGTERM, unless it is stopped or has no memory left to do it in. */
const GRACE_MS = 5_000;

/** Whoever is started right after us was killed finds our Java still ending. */
const CLAIM_POLLS = 20;
const CLAIM_POLL_MS = 100;

const order: GuardOrder = JSON.parse(process.argv[2] ?? '{}');
let java: ChildProcess | undefined;
let ending = false;
let killing: NodeJS.Timeout | undefined;

process.on('disconnect', end);
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end);
process.on('exit', () => java?.kill('SIGKILL'));
process.on('message', (told: ToGuard) => {
  if (told.kind === 'end') end();
  else java?.kill(told.signal);
});

if (!process.connected)
  end(); // They were gone before we could listen.
else await guard();

async function guard(): Promise<void> {
  try {
    await claim();
  } catch (error) {
    tell({ kind: 'refused', message: refusalOf(error) });
    return leave(1);
  }
  if (ending) return leave(0);
  dynamoDbLocal.configureInstaller({ installPath: order.jarFolder, downloadUrl: 'nothing is downloaded' });
  java = await dynamoDbLocal.launch(order.port, order.folder ?? null, ['-sharedDb']);
  java.once('exit', () => leave(ending ? 0 : 1));
  const javaPid = java.pid ?? 0;
  if (order.folder !== undefined) claimFolder(order.folder, javaPid); // It would outlive us if somebody killed us.
  tell({ kind: 'started', javaPid });
  if (ending) endJava(java);
}

async function claim(): Promise<void> {
  const { folder } = order;
  if (folder === undefined) return;
  claimFolder(folder, process.pid);
  let other = otherClaim(folder, process.pid);
  for (let polls = 0; other !== undefined && polls < CLAIM_POLLS && !ending; polls += 1) {
    await pause(CLAIM_POLL_MS);
    other = otherClaim(folder, process.pid);
  }
  if (other !== undefined) throw folderInUse(folder, other);
}

function refusalOf(error: unknown): string {
  if (error instanceof StoreNotStarted) return error.message;
  return `The tables cannot be kept in ${order.folder} (${error instanceof Error ? error.message : error}): give a folder that can be written to.`;
}

/** Whoever it was for may be gone. */
function tell(what: FromGuard): void {
  if (process.connected) process.send?.(what, () => {});
}

function end(): void {
  if (ending) return;
  ending = true;
  if (java) endJava(java);
}

function endJava(running: ChildProcess): void {
  running.kill('SIGTERM');
  killing = setTimeout(() => running.kill('SIGKILL'), GRACE_MS);
}

/** Nothing is left to wait for, so the process ends by itself once all is said. */
function leave(exitCode: number): void {
  process.exitCode = exitCode;
  ending = true;
  clearTimeout(killing);
  for (const pid of [java?.pid, process.pid]) {
    if (order.folder !== undefined && pid !== undefined) releaseFolder(order.folder, pid);
  }
  if (process.connected) process.disconnect();
}
