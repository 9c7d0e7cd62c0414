import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { requireKnownPattern } from './events/pattern.ts';
import type { CloudModel } from './model.ts';
import type { Opened } from './opened.ts';
import { fastPace } from './pace.ts';
import { referenceContext } from './reference.ts';
import { readAssembly } from './template/assembly.ts';
import { hastened } from './template/hastened.ts';
import { modelOf } from './template/model-of.ts';
import { type Synthesis, synthesise } from './template/synthesis.ts';

export interface StacksOptions {
  /** Where cdk.json is. */
  readonly folder: string;
  /** What was synthesised before; then nothing is synthesised. */
  readonly assembly: string | undefined;
  readonly environment: NodeJS.ProcessEnv;
  readonly fast: boolean;
  readonly signal: AbortSignal;
}

/** What the app deploys. Synthesised anew, unless somebody says where it was before: what runs here is the code as it is now. */
export async function readStacks(options: StacksOptions, opened: Opened): Promise<CloudModel> {
  const assembly = options.assembly ?? (await synthesised(options, opened));
  const model = modelOf(readAssembly(assembly), (pattern) => requireKnownPattern(pattern, 'the pattern'));
  return options.fast ? hastened(model, fastPace) : model;
}

async function synthesised({ folder, environment, signal }: StacksOptions, opened: Opened): Promise<string> {
  // The bundles stay there for as long as functions may be started from them.
  const outDir = await mkdtemp(join(tmpdir(), 'oncekey-'));
  const ending = new AbortController();
  const synthesis = synthesiseReference({
    ...{ folder, outDir, environment },
    signal: AbortSignal.any([signal, ending.signal]),
  });
  await opened.keep({
    async close() {
      // What else was started may have failed meanwhile, and an app that goes on would make the folder anew.
      ending.abort();
      await synthesis.catch(() => undefined);
      await rm(outDir, { recursive: true, force: true });
    },
  });
  await synthesis;
  return outDir;
}

/** As it would be deployed, but with what stands here for the world outside of the stacks. */
export function synthesiseReference(synthesis: Omit<Synthesis, 'context'>): Promise<void> {
  // Whether the stacks may be deployed is for `cdk synth` to say; here it is to be known how they run.
  const environment = { ...synthesis.environment, CDK_VALIDATION: 'false' };
  return synthesise({ ...synthesis, context: referenceContext, environment });
}
