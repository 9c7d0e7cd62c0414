import { spawn } from 'node:child_process';
import { extname } from 'node:path';
import { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Timers } from '../timers.ts';
import { frame, frameReader, type Invocation, type Word } from './frames.ts';
import { eachLine } from './lines.ts';

/** `gone` without `began`: it never saw the request, and another may have it. */
export type Outcome =
  | { readonly kind: 'returned' | 'threw' | 'fatal'; readonly payload: string }
  | { readonly kind: 'gone'; readonly began: boolean; readonly how: string | undefined };

export type Started =
  | { readonly kind: 'ready' }
  | { readonly kind: 'fatal'; readonly payload: string }
  | { readonly kind: 'gone'; readonly how: string | undefined };

/** One process that runs one function, one request at a time. */
export interface EnvironmentProcess {
  readonly pid: number | undefined;
  readonly started: Promise<Started>;
  /** It is over, and everything that it wrote was read. */
  readonly ended: Promise<void>;
  run(invocation: Invocation, event: string): Promise<Outcome>;
  kill(signal: NodeJS.Signals): void;
}

export interface EnvironmentOptions {
  readonly name: string;
  readonly taskRoot: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly timers: Timers;
  readonly takeLine: (line: string, stream: 'stdout' | 'stderr') => void;
}

const SUFFIX = extname(import.meta.url);
const PROGRAM = fileURLToPath(new URL(`./environment${SUFFIX}`, import.meta.url));

/** The code is seen through a link, and its folder is the link's; what runs as TypeScript need not say so in every log. */
const FLAGS = ['--preserve-symlinks', ...(SUFFIX === '.ts' ? ['--disable-warning=ExperimentalWarning'] : [])];

/** What a process of the function's own still holds open is closed so much later. */
const DRAIN_MS = 500;

export function startEnvironment(options: EnvironmentOptions): EnvironmentProcess {
  const { name, taskRoot, variables, timers, takeLine } = options;
  const started = Promise.withResolvers<Started>();
  const ended = Promise.withResolvers<void>();
  let request: { began: boolean; readonly settle: (outcome: Outcome) => void } | undefined;
  let isOver = false;

  // The name is for whoever looks at a list of processes. In a group of its own, it ends together with what it has started.
  const child = spawn(process.execPath, [...FLAGS, PROGRAM, name], {
    cwd: taskRoot,
    env: variables,
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    detached: true,
  });
  const channel = child.stdio[3];
  // There is neither where the machine has no more files to open.
  if (child.stdout) eachLine(child.stdout, (line) => takeLine(line, 'stdout'));
  if (child.stderr) eachLine(child.stderr, (line) => takeLine(line, 'stderr'));

  const take = frameReader(({ type }: Word, payload) => {
    if (type === 'ready') started.resolve({ kind: 'ready' });
    else if (type !== 'began') settle({ kind: type, payload });
    else if (request) request.began = true;
  });

  function settle(outcome: Outcome): void {
    if (outcome.kind === 'fatal') started.resolve({ kind: 'fatal', payload: outcome.payload });
    const settled = request;
    request = undefined;
    settled?.settle(outcome);
  }

  function over(how: string | undefined): void {
    if (isOver) return;
    isOver = true;
    started.resolve({ kind: 'gone', how });
    settle({ kind: 'gone', began: request?.began ?? false, how });
    ended.resolve();
  }

  function kill(signal: NodeJS.Signals): void {
    if (child.pid === undefined || isOver) return;
    try {
      process.kill(-child.pid, signal);
    } catch {
      // It has just ended by itself.
    }
  }

  if (channel instanceof Duplex) {
    channel.on('data', (chunk: Buffer) => {
      try {
        take(chunk);
      } catch {
        // Its own code has written into our pipe: nothing that it says can be relied on.
        channel.destroy();
        kill('SIGKILL');
      }
    });
    channel.on('error', () => {}); // It was killed while it was written to; 'close' follows.
  }
  child.once('error', (error) => over(error.message));
  child.once('exit', () => {
    kill('SIGKILL');
    const cancel = timers.after(DRAIN_MS, () => {
      for (const stream of child.stdio) stream?.destroy();
    });
    child.once('close', cancel);
  });
  child.once('close', (code, signal) => over(howOf(code, signal)));

  return {
    pid: child.pid,
    started: started.promise,
    ended: ended.promise,
    kill,
    run(invocation, event) {
      return new Promise((resolve) => {
        if (isOver || !(channel instanceof Duplex)) {
          resolve({ kind: 'gone', began: false, how: undefined });
          return;
        }
        request = { began: false, settle: resolve };
        channel.write(frame(invocation, event));
      });
    },
  };
}

/** In Lambda's words. Nothing, where a process ended as if all were well. */
function howOf(code: number | null, signal: NodeJS.Signals | null): string | undefined {
  if (signal !== null) return `signal: ${SIGNALS[signal] ?? signal}`;
  return code === 0 || code === null ? undefined : `exit status ${code}`;
}

const SIGNALS: Partial<Record<NodeJS.Signals, string>> = {
  SIGKILL: 'killed',
  SIGTERM: 'terminated',
  SIGABRT: 'aborted',
  SIGSEGV: 'segmentation fault',
};
