import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { delimiter, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { OncekeyError } from '../../core/errors.ts';
import { type Fields, fieldsOf } from '../fields.ts';
import { LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';

export interface Synthesis {
  /** Where cdk.json is. */
  readonly folder: string;
  /** What is run there. Default: the `app` of cdk.json. */
  readonly app?: string;
  /** Where the assembly goes. */
  readonly outDir: string;
  /** Over that of cdk.json and cdk.context.json, as `cdk -c` has it. */
  readonly context?: Fields;
  readonly environment: NodeJS.ProcessEnv;
  /** What the app says while it is synthesised. */
  readonly onLine?: (line: string) => void;
  /** Ends the app, and all that it has started. */
  readonly signal?: AbortSignal;
}

export class SynthesisFailed extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

/** As the CLI says it: names by path, code that is bundled, and where to find it. */
const CLI_CONTEXT = {
  'aws:cdk:enable-path-metadata': true,
  'aws:cdk:enable-asset-metadata': true,
  'aws:cdk:bundling-stacks': ['**'],
};

/** An error and its stack fit into this. */
const LINES_KEPT = 40;

/** Runs the app as `cdk synth` does, and leaves its assembly in the folder. */
export async function synthesise(synthesis: Synthesis): Promise<void> {
  const { folder, onLine, signal } = synthesis;
  const outDir = resolve(folder, synthesis.outDir);
  const { app: ownApp, context } = projectIn(folder);
  const app = synthesis.app ?? ownApp;
  if (typeof app !== 'string') {
    throw new SynthesisFailed(
      `${join(folder, 'cdk.json')} has no app, and none was given; expected a command such as "node bin/app.ts".`,
    );
  }
  signal?.throwIfAborted();
  // What an earlier run left there would be taken for what this one made.
  rmSync(join(outDir, 'manifest.json'), { force: true });
  const said: string[] = [];
  const ended = await run(app, environmentOf(synthesis, outDir, context), folder, signal, (line) => {
    onLine?.(line);
    said.push(line);
    if (said.length > LINES_KEPT) said.shift();
  });
  signal?.throwIfAborted();
  if (ended !== 'exited with 0') throw failure(`${app} ${ended}`, said);
  if (existsSync(join(outDir, 'manifest.json'))) return;
  throw failure(
    `${app} left no assembly in ${outDir}; expected an app that writes to CDK_OUTDIR, and so has no outdir of its own`,
    said,
  );
}

function projectIn(folder: string): { readonly app: unknown; readonly context: Fields } {
  const { app, context } = jsonIn(join(folder, 'cdk.json'));
  return { app, context: { ...jsonIn(join(folder, 'cdk.context.json')), ...fieldsOf(context) } };
}

/** Nothing, where there is no such file. */
function jsonIn(path: string): Fields {
  if (!existsSync(path)) return {};
  try {
    return fieldsOf(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    throw new SynthesisFailed(`${path} is not JSON: ${String(cause)}.`, cause);
  }
}

function environmentOf(
  { environment, context }: Synthesis,
  outDir: string,
  projectContext: Fields,
): NodeJS.ProcessEnv {
  return {
    ...environment,
    // The app is `node …`: it must be the Node that we are.
    PATH: [dirname(process.execPath), environment['PATH'] ?? ''].join(delimiter),
    CDK_OUTDIR: outDir,
    CDK_CONTEXT_JSON: JSON.stringify({ ...projectContext, ...CLI_CONTEXT, ...context }),
    // Some constructs are only made where it is known for which account and Region.
    CDK_DEFAULT_ACCOUNT: LOCAL_ACCOUNT,
    CDK_DEFAULT_REGION: LOCAL_REGION,
  };
}

async function run(
  command: string,
  env: NodeJS.ProcessEnv,
  cwd: string,
  signal: AbortSignal | undefined,
  onLine: (line: string) => void,
): Promise<string> {
  // A group of its own: the shell, the app and its bundlers end together, and with us.
  const child = spawn(command, { cwd, env, shell: true, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const end = () => endGroup(child);
  signal?.addEventListener('abort', end);
  process.on('exit', end);
  try {
    for (const stream of [child.stdout, child.stderr]) createInterface(stream).on('line', onLine);
    // Not `exit`: what was said last comes after it.
    const [code, killedBy] = await once(child, 'close');
    return killedBy === null ? `exited with ${code}` : `was ended by ${killedBy}`;
  } catch (cause) {
    throw new SynthesisFailed(`${command} could not be started in ${cwd}: ${String(cause)}.`, cause);
  } finally {
    signal?.removeEventListener('abort', end);
    process.off('exit', end);
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // It has just ended by itself.
  }
}

function failure(what: string, said: readonly string[]): SynthesisFailed {
  const end = said.length > 0 ? ` It said at last:\n${said.join('\n')}` : ' It said nothing.';
  return new SynthesisFailed(`${what}.${end}`);
}
