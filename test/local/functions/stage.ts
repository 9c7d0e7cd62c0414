import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { memoryQueues } from '../../../lib/local/functions/memory-queues.ts';
import { type FunctionPool, functionPool } from '../../../lib/local/functions/pool.ts';
import type { PoolLimits } from '../../../lib/local/functions/pool-limits.ts';
import type { FunctionModel } from '../../../lib/local/model.ts';
import type { Invoked, Queues, Report } from '../../../lib/local/ports.ts';
import type { Timers } from '../../../lib/local/timers.ts';

export const TIMEOUT_MS = 29_000;

/** Answers when so many processes have come to the folder: only environments that run at the same time ever do. */
export const MEETING = `
  import { readdirSync, writeFileSync } from 'node:fs';
  export const handler = ({ folder, count }) => new Promise((resolve) => {
    if (!folder) return resolve(process.pid);
    writeFileSync(folder + '/' + process.pid, '');
    const look = setInterval(() => {
      if (readdirSync(folder).filter(Number).length < count) return;
      clearInterval(look);
      resolve(process.pid);
    }, 5);
  });`;

export type Model = Partial<FunctionModel> & { readonly code: string; readonly file?: string };

export interface Stage {
  readonly pool: FunctionPool;
  readonly reports: Report[];
  readonly timers: HeldTimers;
  readonly queues: Queues;
  readonly folder: string;
  /** Resolves with the first report that has this in its message, past or to come. */
  told(text: string, source?: string): Promise<Report>;
  /** What the function f returned. */
  call(event?: unknown): Promise<unknown>;
}

interface StageOptions extends Partial<PoolLimits> {
  readonly timers?: Timers;
  readonly clock?: () => number;
  /** An error is thrown. */
  readonly endpoints?: Readonly<Record<string, string>> | Error;
}

/** A pool of functions with this code. Nothing of it is left when the test is over. */
export function stage(models: Readonly<Record<string, string | Model>>, options: StageOptions = {}): Stage {
  const folder = temporaryFolder();
  const reports: Report[] = [];
  const waiting = new Set<(report: Report) => void>();
  const report = (told: Report) => {
    reports.push(told);
    for (const look of [...waiting]) look(told);
  };
  const timers = heldTimers();
  const queues = memoryQueues();
  const pool = functionPool({
    timers,
    clock: Date.now,
    queues,
    report,
    ...options,
    endpoints: () => {
      if (options.endpoints instanceof Error) throw options.endpoints;
      return options.endpoints ?? {};
    },
    models: Object.entries(models).map(([name, model]) => written(folder, name, model)),
  });
  onTestFinished(() => pool.close());
  return {
    pool,
    reports,
    timers,
    queues,
    folder,
    told: (text, source) =>
      new Promise((resolve) => {
        const look = (told: Report) => {
          if (!told.message.includes(text) || (source !== undefined && source !== told.source)) return;
          waiting.delete(look);
          resolve(told);
        };
        waiting.add(look);
        for (const told of reports) look(told);
      }),
    call: async (event = {}) => returned(await pool.invoke('f', JSON.stringify(event))),
  };
}

/** Gone when the test is over. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-test-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return folder;
}

function written(folder: string, name: string, model: string | Model): FunctionModel {
  const { code, file = 'index.mjs', ...rest } = typeof model === 'string' ? { code: model } : model;
  const codeDir = join(folder, name);
  mkdirSync(codeDir);
  writeFileSync(join(codeDir, file), code);
  return modelOf({ name, codeDir, ...rest });
}

export function modelOf(given: Partial<FunctionModel>): FunctionModel {
  const { name = 'f' } = given;
  return {
    name,
    arn: `arn:aws:lambda:us-east-1:000000000000:function:${name}`,
    codeDir: '/',
    handler: 'index.handler',
    timeoutMs: TIMEOUT_MS,
    memoryMb: 512,
    environment: {},
    later: { retries: 2, maxAgeSeconds: 21_600 },
    ...given,
  };
}

export function returned(invoked: Invoked): unknown {
  if (invoked.kind === 'returned') return JSON.parse(invoked.payload);
  throw new Error(`expected an answer, got ${JSON.stringify(invoked)}`);
}

/** Of a failure: its kind and Lambda's error. */
export function failure(invoked: Invoked): { error: string; errorType: string; errorMessage: string } {
  if (invoked.kind === 'failed') return { error: invoked.error, ...JSON.parse(invoked.payload) };
  throw new Error(`expected a failure, got ${JSON.stringify(invoked)}`);
}

export interface HeldTimers extends Timers {
  readonly waiting: readonly number[];
  /** Lets everything happen now that is to happen after so long. Returns how much. */
  fire(ms: number): number;
}

/** Time does not pass by itself. */
export function heldTimers(): HeldTimers {
  const held = new Set<{ readonly ms: number; readonly act: () => void }>();
  return {
    get waiting() {
      return [...held].map(({ ms }) => ms);
    },
    fire(ms) {
      const due = [...held].filter((timer) => timer.ms === ms);
      for (const timer of due) {
        held.delete(timer);
        timer.act();
      }
      return due.length;
    },
    after(ms, act) {
      const timer = { ms, act };
      held.add(timer);
      return () => held.delete(timer);
    },
  };
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
