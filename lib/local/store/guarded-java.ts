import { fork } from 'node:child_process';
import { extname } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Environment } from './java.ts';
import type { FromGuard, GuardOrder, ToGuard } from './java-guard.ts';

export interface GuardedJava {
  /** Resolves when Java and its guard are gone, whoever ended them. */
  readonly ended: Promise<void>;
  hasEnded(): boolean;
  /** Why it was not even tried. */
  refusal(): string | undefined;
  /** SIGTERM, and SIGKILL if that does not help. */
  end(): Promise<void>;
  /** Sends it to Java, and does not wait for what comes of it. */
  kill(signal: NodeJS.Signals): void;
}

/** Beside the sources here, beside the build in the package. */
const GUARD = fileURLToPath(new URL(`./java-guard${extname(import.meta.url)}`, import.meta.url));

/** DynamoDB Local under its guard. `say` gets what the two write to stderr, line by line. */
export function guardedJava(
  order: GuardOrder,
  environment: Environment,
  say: (line: string) => void,
): GuardedJava {
  const guard = fork(GUARD, [JSON.stringify(order)], {
    detached: true,
    // NODE_OPTIONS is for us: a guard that waits for a debugger guards nothing. Telemetry would call home.
    env: { ...environment, NODE_OPTIONS: undefined, DDB_LOCAL_TELEMETRY: '0' },
    execArgv: ['--disable-warning=ExperimentalWarning'],
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  let [hasEnded, refusal]: [boolean, string | undefined] = [false, undefined];
  let javaPid: number | undefined;

  guard.on('message', (told: FromGuard) => {
    if (told.kind === 'refused') refusal = told.message;
    else javaPid = told.javaPid;
    killOrphan();
  });
  guard.once('exit', killOrphan);
  guard.on('error', (error) => say(`The guard of DynamoDB Local cannot be reached: ${error.message}`));
  if (guard.stderr) createInterface(guard.stderr).on('line', say);

  /** Java holds the other end of stderr: this comes after the end of both. */
  const ended = new Promise<void>((resolve) => {
    guard.once('close', () => {
      hasEnded = true;
      resolve();
    });
  });

  /** Somebody has killed the guard, and it could not take Java with it. */
  function killOrphan(): void {
    if (guard.signalCode === null || javaPid === undefined) return;
    try {
      process.kill(javaPid, 'SIGKILL');
    } catch {} // It was gone already.
  }

  function tell(what: ToGuard): void {
    if (guard.connected) guard.send(what, () => {}); // If it is lost, the guard is gone, or going.
  }

  return {
    ended,
    hasEnded: () => hasEnded,
    refusal: () => refusal,
    end() {
      tell({ kind: 'end' });
      return ended;
    },
    kill: (signal) => tell({ kind: 'signal', signal }),
  };
}
