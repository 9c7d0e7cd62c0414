import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, Stack } from 'aws-cdk-lib';
import { afterAll, describe, expect, it } from 'vitest';
import flags from '../../cdk.json' with { type: 'json' };
import { IdempotencyLedger } from '../../lib/infra/ledger.ts';
import { Reconciliation } from '../../lib/infra/reconciliation.ts';

/** The functions that come with the layer, bundled as `cdk deploy` bundles them. */
describe('what is deployed of a function', () => {
  const outdir = mkdtempSync(join(tmpdir(), 'oncekey-assets-'));
  afterAll(() => rmSync(outdir, { recursive: true }));
  const app = new App({ context: flags.context, analyticsReporting: false, outdir });
  const stack = new Stack(app, 'Bundled');
  new Reconciliation(stack, 'Layer', { ledger: new IdempotencyLedger(stack, 'Ledger') });
  app.synth();
  const assets = readdirSync(outdir)
    .filter((name) => name.startsWith('asset.'))
    .map((name) => join(outdir, name));

  it('is one file with everything in it, and a map that leads its errors back to the sources', () => {
    expect(assets).toHaveLength(4);
    for (const asset of assets) {
      expect(readdirSync(asset).toSorted()).toEqual(['index.mjs', 'index.mjs.map']);
      const code = readFileSync(join(asset, 'index.mjs'), 'utf8');
      expect(code.split('\n').length).toBeLessThan(500); // Minified: a cold start reads all of it.
    }
  });

  it('names its errors as the sources do, in every log', () => {
    const codes = assets.map((asset) => readFileSync(join(asset, 'index.mjs'), 'utf8')).join('\n');
    for (const name of ['StoreUnavailable', 'RecordUnreadable', 'RedriveFailed']) {
      // As esbuild gives a class the name back that it has shortened.
      expect(codes).toMatch(new RegExp(`\\w+\\(this,"${name}"\\)`));
    }
  });

  // Lambda's own SDK changes under a function; this one was tested, and is inside.
  it('loads where there is nothing beside it', () => {
    const env = { ...process.env, LEDGER_TABLE: 'ledger', AWS_REGION: 'eu-central-1' };
    const script = 'console.log(typeof (await import(process.argv[1])).handler)';
    for (const asset of assets) {
      const args = ['--input-type=module', '-e', script, join(asset, 'index.mjs')];
      expect(execFileSync(process.execPath, args, { env, encoding: 'utf8' })).toBe('function\n');
    }
  });
});
