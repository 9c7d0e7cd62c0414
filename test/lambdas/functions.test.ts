import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { build, type Metafile } from 'esbuild';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { eventOf } from './stage.ts';

const STRIPE = ['LEDGER_TABLE', 'SERVICE_TABLE', 'STRIPE_KEY_SECRET'];

/** What each function must be told, and is told here. */
const NEEDS: Readonly<Record<string, readonly string[]>> = {
  payments: ['LEDGER_TABLE', 'SERVICE_TABLE', 'TENANT_CLAIM'],
  orders: [...STRIPE, 'TENANT_CLAIM'],
  transfers: [...STRIPE, 'TENANT_CLAIM'],
  reads: ['SERVICE_TABLE', 'TENANT_CLAIM'],
  operations: ['LEDGER_TABLE', 'TENANT_CLAIM'],
  webhook: [...STRIPE, 'STRIPE_WEBHOOK_SECRET'],
  health: [],
  dispatch: STRIPE,
  sweep: STRIPE,
  sentinel: ['LEDGER_TABLE'],
  backstop: ['LEDGER_TABLE'],
  redrive: [],
  'default-sweep': ['LEDGER_TABLE'],
  audit: STRIPE,
};

const ALL = [...new Set(Object.values(NEEDS).flat()), 'STRIPE_BASE_URL'];

function told(names: readonly string[]): void {
  for (const name of ALL) vi.stubEnv(name, names.includes(name) ? `the-${name.toLowerCase()}` : undefined);
}

/** Anew, as in an environment that has just started. */
async function started(name: string): Promise<{ handler?: unknown }> {
  vi.resetModules();
  return import(`../../lambdas/${name}/index.ts`);
}

async function functions(): Promise<string[]> {
  const folders = await readdir('lambdas', { withFileTypes: true });
  const shared = ['runtime', 'service'];
  return folders.map(({ name }) => name).filter((name) => !shared.includes(name));
}

describe('a function', () => {
  afterEach(() => vi.unstubAllEnvs());

  it('is one of those that are told here what they need', async () => {
    expect((await functions()).sort()).toEqual(Object.keys(NEEDS).sort());
  });

  it.each(Object.keys(NEEDS))('starts with what %s is told, and asks for nothing else', async (name) => {
    told(NEEDS[name] ?? []);
    expect(typeof (await started(name)).handler).toBe('function');
  });

  it('limits how often one tenant may ask where its operations stand, and nobody else for it', async () => {
    told(NEEDS['operations'] ?? []);
    vi.stubEnv('TENANT_CLAIM', 'client_id');
    type Handler = (event: object) => Promise<{ readonly statusCode: number }>;
    const { handler } = (await started('operations')) as { readonly handler: Handler };
    const asked = (tenant: string) =>
      handler(eventOf('GET', '/operations/{key}', '/operations/k-1', { tenant }));
    const statuses = new Set<number>();
    // Without an operation it is told so before any store is asked.
    for (let calls = 0; calls < 50; calls += 1) statuses.add((await asked('shop-7')).statusCode);
    expect([...statuses]).toEqual([400]);
    const flood = await Promise.all(Array.from({ length: 1_000 }, () => asked('shop-7')));
    expect(flood.map(({ statusCode }) => statusCode)).toContain(429);
    expect((await asked('shop-8')).statusCode).toBe(400);
  });

  it.each(['NEW_KEYS_PER_MINUTE', 'OPEN_KEYS'])('the sentinel obeys %s, or does not start', async (name) => {
    told(['LEDGER_TABLE']);
    vi.stubEnv(name, 'many');
    await expect(started('sentinel')).rejects.toThrow(`${name} is many; expected a whole number of keys`);
  });

  it('asks the provider where it is told to, or does not start', async () => {
    told([...STRIPE, 'TENANT_CLAIM']);
    vi.stubEnv('STRIPE_BASE_URL', 'stripe');
    await expect(started('orders')).rejects.toThrow('STRIPE_BASE_URL is "stripe"');
  });

  const missing = Object.entries(NEEDS).flatMap(([name, needs]) =>
    needs.map((need) => [name, need] as const),
  );
  it.each(missing)('%s does not start without %s, and names it', async (name, need) => {
    told((NEEDS[name] ?? []).filter((other) => other !== need));
    await expect(started(name)).rejects.toThrow(`The environment variable ${need} is not set; set it to `);
  });
});

/** In KiB, minified. A little over what they are: whoever adds to them should notice. Without the provider's client first. */
const BUDGET_KIB = { bundle: 540, withStripe: 800, library: 110 };

type Output = Metafile['outputs'][string];

const kib = (bytes: number) => Math.ceil(bytes / 1_024);

function partOf({ inputs }: Output, of: RegExp): number {
  const own = Object.entries(inputs).filter(([path]) => of.test(path));
  return kib(own.reduce((sum, [, { bytesInOutput }]) => sum + bytesInOutput, 0));
}

function overBudget(output: Output | undefined): string[] {
  if (!output) return ['it is not there'];
  const { bundle, withStripe, library } = BUDGET_KIB;
  const whole = partOf(output, /node_modules\/stripe\//) > 0 ? withStripe : bundle;
  const [total, own] = [kib(output.bytes), partOf(output, /^lib\//)];
  return [
    ...(total > whole ? [`${total} KiB of ${whole}`] : []),
    ...(own > library ? [`${own} KiB of ${library} of the library's own`] : []),
  ];
}

/** For whoever reads the test's report. */
function sizes({ outputs }: Metafile): string {
  const lines = Object.entries(outputs).map(([path, output]) => {
    const name = path.split('/').at(-1)?.replace('.mjs', '').padEnd(14);
    const parts = { library: /^lib\//, SDK: /\/@(aws-sdk|smithy|aws-crypto|aws)\//, Stripe: /\/stripe\// };
    const told = Object.entries(parts).map(([part, of]) => `${part} ${partOf(output, of)}`);
    return `${name} ${String(kib(output.bytes)).padStart(4)} KiB (${told.join(', ')})`;
  });
  return lines.join('\n');
}

describe('the bundle of a function', () => {
  it('loads as it is deployed, and of the generic ones has nothing of the service in it', async () => {
    const outdir = await mkdtemp(join(tmpdir(), 'oncekey-bundles-'));
    try {
      const names = await functions();
      const { metafile } = await build({
        entryPoints: names.map((name) => `lambdas/${name}/index.ts`),
        ...{ outdir, outbase: 'lambdas', outExtension: { '.js': '.mjs' }, entryNames: '[dir]' },
        ...{ bundle: true, minify: true, format: 'esm', platform: 'node', target: 'node24' },
        mainFields: ['module', 'main'], // Else AWS's SDK comes as CommonJS, which an ESM bundle cannot load.
        ...{ metafile: true, logLevel: 'silent' },
      });
      process.stdout.write(`${sizes(metafile)}\n`);
      for (const [path, { inputs }] of Object.entries(metafile.outputs)) {
        expect([path, overBudget(metafile.outputs[path])]).toEqual([path, []]);
        const ofService = Object.keys(inputs).filter((input) => input.startsWith('lambdas/service/'));
        const isGeneric = /(sentinel|default-sweep|backstop|redrive)\.mjs$/.test(path);
        expect([path, isGeneric && ofService.length > 0]).toEqual([path, false]);
      }
      const script =
        'for (const path of process.argv.slice(1)) console.log(typeof (await import(path)).handler)';
      const env = { ...process.env, ...Object.fromEntries(ALL.map((name) => [name, `http://${name}`])) };
      const paths = names.map((name) => join(outdir, `${name}.mjs`));
      const run = promisify(execFile);
      const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script, ...paths], {
        env,
      });
      expect(stdout.trim().split('\n')).toEqual(names.map(() => 'function'));
    } finally {
      await rm(outdir, { recursive: true });
    }
  });
});
