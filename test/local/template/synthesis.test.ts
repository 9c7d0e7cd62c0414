import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { readAssembly } from '../../../lib/local/template/assembly.ts';
import { modelOf } from '../../../lib/local/template/model-of.ts';
import { type Synthesis, SynthesisFailed, synthesise } from '../../../lib/local/template/synthesis.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** A project whose app is this program. */
function projectOf(program: string, cdk: object = {}): Synthesis {
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-synthesis-'));
  folders.push(folder);
  writeFileSync(join(folder, 'app.mjs'), program);
  writeFileSync(join(folder, 'cdk.json'), JSON.stringify({ app: 'node app.mjs', ...cdk }));
  return { folder, outDir: 'cdk.out', environment: process.env };
}

/** It writes down what it was told, as its assembly. */
const WRITES = `
  import { mkdirSync, writeFileSync } from 'node:fs';
  const { CDK_OUTDIR, CDK_CONTEXT_JSON, CDK_DEFAULT_ACCOUNT, CDK_DEFAULT_REGION, OWN } = process.env;
  mkdirSync(CDK_OUTDIR, { recursive: true });
  const told = { node: process.execPath, CDK_OUTDIR, CDK_DEFAULT_ACCOUNT, CDK_DEFAULT_REGION, OWN };
  writeFileSync(CDK_OUTDIR + '/manifest.json', JSON.stringify({ ...told, context: JSON.parse(CDK_CONTEXT_JSON) }));
  console.log('to stdout'); console.error('to stderr');`;

const written = ({ folder }: Synthesis) =>
  JSON.parse(readFileSync(join(folder, 'cdk.out/manifest.json'), 'utf8'));

describe('an app is run', () => {
  it('as the CLI runs it, by the Node that we are, and is heard', async () => {
    const project = projectOf(WRITES, { context: { a: 'of cdk.json', b: 'of cdk.json', d: 'of cdk.json' } });
    const ownContext = { c: 'looked up', d: 'looked up' };
    writeFileSync(join(project.folder, 'cdk.context.json'), JSON.stringify(ownContext));
    const lines: string[] = [];
    await synthesise({
      ...project,
      context: { b: 'given' },
      environment: { PATH: '/usr/bin:/bin', OWN: 'yes' },
      onLine: (line) => lines.push(line),
    });
    expect(written(project)).toEqual({
      node: process.execPath,
      CDK_OUTDIR: join(project.folder, 'cdk.out'),
      CDK_DEFAULT_ACCOUNT: '000000000000',
      CDK_DEFAULT_REGION: 'us-east-1',
      OWN: 'yes',
      context: {
        a: 'of cdk.json',
        b: 'given',
        c: 'looked up',
        d: 'of cdk.json',
        'aws:cdk:enable-path-metadata': true,
        'aws:cdk:enable-asset-metadata': true,
        'aws:cdk:bundling-stacks': ['**'],
      },
    });
    expect(lines.toSorted()).toEqual(['to stderr', 'to stdout']);
  });

  it('by a command of one’s own, where one is given', async () => {
    const project = projectOf('process.exit(3)');
    writeFileSync(join(project.folder, 'other.mjs'), WRITES);
    await synthesise({ ...project, app: 'node other.mjs' });
    expect(written(project).node).toBe(process.execPath);
  });
});

describe('an app that fails', () => {
  it('is told with the end of what it said', async () => {
    const project = projectOf(
      'for (let n = 0; n < 100; n++) console.log("line " + n); console.error("why"); process.exitCode = 7;',
    );
    const failure = await synthesise(project).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(SynthesisFailed);
    const { message } = failure as Error;
    expect(message).toMatch(/^node app\.mjs exited with 7\. It said at last:\n/);
    expect(message).toMatch(/^line 99$/m);
    expect(message).toMatch(/^why$/m);
    expect(message).not.toMatch(/^line 1$/m);
  });

  it.each<[string, string, RegExp]>([
    ['killed', 'process.kill(process.pid, "SIGKILL")', /app\.mjs (was ended by SIGKILL|exited with 137)/],
    [
      'silent',
      '',
      /left no assembly in .*cdk\.out; expected an app that writes to CDK_OUTDIR.* It said nothing/,
    ],
  ])('because it was %s', async (_, program, why) => {
    await expect(synthesise(projectOf(program))).rejects.toThrow(why);
  });

  it('leaves nothing of an earlier run that would be taken for its own', async () => {
    const project = projectOf(WRITES);
    await synthesise(project);
    await expect(synthesise({ ...project, app: 'node -e 0' })).rejects.toThrow(/left no assembly/);
    expect(existsSync(join(project.folder, 'cdk.out/manifest.json'))).toBe(false);
  });

  it.each<[string, object | undefined, RegExp]>([
    ['of no command', { app: undefined }, /cdk\.json has no app.*expected a command/],
    ['in a folder that is not there', undefined, /could not be started in .*gone/],
  ])('because it is one %s', async (_, cdk, why) => {
    const project = projectOf('', cdk);
    const asked = cdk ? project : { ...project, folder: join(project.folder, 'gone'), app: 'node app.mjs' };
    await expect(synthesise(asked)).rejects.toThrow(why);
  });

  it('because its cdk.json is none', async () => {
    const project = projectOf('');
    writeFileSync(join(project.folder, 'cdk.json'), '{');
    await expect(synthesise(project)).rejects.toThrow(/cdk\.json is not JSON/);
  });
});

describe('who asks it to end', () => {
  /** It starts another, as bundlers are, and both say who they are and stay. */
  const STAYS = `
    import { spawn } from 'node:child_process';
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    console.log('pids', process.pid, child.pid);
    setInterval(() => {}, 1000);`;

  it('ends it, and whatever it has started', async () => {
    const ending = new AbortController();
    const pids: number[] = [];
    const onLine = (line: string) => {
      pids.push(...line.split(' ').slice(1).map(Number));
      ending.abort(new Error('asked to end'));
    };
    const { signal } = ending;
    await expect(synthesise({ ...projectOf(STAYS), onLine, signal })).rejects.toThrow('asked to end');
    expect(pids).toHaveLength(2);
    for (const pid of pids) await gone(pid);
  });

  it('before it has begun, begins nothing', async () => {
    const project = projectOf(WRITES);
    const signal = AbortSignal.abort(new Error('asked to end'));
    await expect(synthesise({ ...project, signal })).rejects.toThrow('asked to end');
    expect(readdirSync(project.folder).toSorted()).toEqual(['app.mjs', 'cdk.json']);
  });

  /** Its end is the kernel's to tell: it takes the moment that it takes. */
  async function gone(pid: number): Promise<void> {
    while (isAlive(pid)) await pause(5);
  }

  function isAlive(pid: number): boolean {
    try {
      process.kill(pid, 0);
    } catch {
      return false;
    }
    return !/^\d+ \(.*\) Z/.test(statusOf(pid)); // A zombie has ended; nobody has asked yet how.
  }

  function statusOf(pid: number): string {
    const path = `/proc/${pid}/stat`;
    return existsSync(path) ? readFileSync(path, 'utf8') : '';
  }
});

it('the reference app runs as it is, bundled, and all its code is there', async () => {
  const outDir = mkdtempSync(join(tmpdir(), 'oncekey-reference-'));
  folders.push(outDir);
  await synthesise({ folder: process.cwd(), outDir, environment: process.env });
  const { functions } = modelOf(readAssembly(outDir), () => {});
  expect(functions).toHaveLength(13);
  for (const { codeDir, handler } of functions) {
    expect(handler).toBe('index.handler');
    expect(readdirSync(codeDir)).toContain('index.mjs');
  }
});
