/* The local cloud as a user runs it: a process of its own, spoken to over HTTP alone. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../../lib/local/store/port.ts';

export interface LocalCloud {
  readonly url: string;
  readonly child: ChildProcess;
  /** What it has said so far. */
  readonly lines: string[];
  /** Of the control plane: its answer's body. */
  control<T>(method: string, path: string, body?: unknown): Promise<T>;
  token(tenant: string): Promise<string>;
  /** As Ctrl-C does. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

export interface Charge {
  readonly id: string;
  readonly amount: number;
  readonly operationRef?: string;
}

export interface ShownRecord {
  readonly operationRef: string;
  readonly operation: string;
  readonly tenant: string;
  readonly status: string;
  readonly attempt: number;
  readonly open: boolean;
  readonly createdAt: string;
  readonly dueAt?: string;
  readonly parkedAt?: string;
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const POLL_MS = 50;

export async function startLocalCloud(...options: string[]): Promise<LocalCloud> {
  const port = (await freePort(0)) ?? 0;
  const cloud = launch(port, options);
  const tokens = new Map<string, Promise<string>>();
  const started: LocalCloud = {
    ...cloud,
    url: `http://127.0.0.1:${port}`,
    control,
    token(tenant) {
      const known =
        tokens.get(tenant) ??
        control<{ token: string }>('POST', '/token', { tenant }).then(({ token }) => token);
      tokens.set(tenant, known);
      return known;
    },
    async stop(signal = 'SIGINT') {
      if (cloud.child.exitCode === null && cloud.child.signalCode === null) {
        cloud.child.kill(signal);
        await once(cloud.child, 'exit');
      }
      return cloud.child.exitCode;
    },
  };
  await ready(started);
  return started;

  async function control<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(`http://127.0.0.1:${port}/_local${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return JSON.parse(text) as T;
  }
}

/** As `npm start` does, on the Node that runs the tests. */
export function launch(
  port: number | string,
  options: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Pick<LocalCloud, 'child' | 'lines'> {
  const args = ['--disable-warning=ExperimentalWarning', 'bin/oncekey.ts', 'local', ...options];
  const env = { ...process.env, PORT: String(port), ...environment };
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on('line', (line) => lines.push(line));
  }
  return { child, lines };
}

async function ready({ url, child, lines }: LocalCloud): Promise<void> {
  for (;;) {
    const health = await fetch(`${url}/_local/health`).catch(() => undefined);
    if (health?.ok) return;
    if (child.exitCode !== null) throw new Error(`the local cloud has ended:\n${lines.join('\n')}`);
    await pause(POLL_MS);
  }
}
