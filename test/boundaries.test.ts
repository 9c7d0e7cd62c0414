import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import { describe, expect, it } from 'vitest';

const { forbidden, options } = createRequire(import.meta.url)('../.dependency-cruiser.cjs');

async function arrows(baseDir: string, folders = ['lib', 'lambdas']): Promise<ICruiseResult> {
  const cruised = await cruise(folders, { ...options, baseDir, validate: true, ruleSet: { forbidden } });
  if (typeof cruised.output === 'string') throw new TypeError(`expected a result, got ${cruised.output}`);
  return cruised.output;
}

/** A tree with these files, as far as imports go. */
async function violationsOf(files: Readonly<Record<string, string>>): Promise<string[]> {
  const baseDir = mkdtempSync(join(tmpdir(), 'oncekey-arrows-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(baseDir, path)), { recursive: true });
      writeFileSync(join(baseDir, path), text);
    }
    const folders = new Set(Object.keys(files).map((path) => path.split('/')[0] ?? ''));
    const { summary } = await arrows(baseDir, [...folders]);
    return summary.violations.map(({ rule }) => rule.name);
  } finally {
    rmSync(baseDir, { recursive: true });
  }
}

describe('the folders of lib', () => {
  it('and the functions import only along the arrows', async () => {
    const { summary } = await arrows(process.cwd());
    expect(summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`)).toEqual([]);
    expect(summary.totalDependenciesCruised).toBeGreaterThan(100);
  });

  it('are told of an arrow that points the wrong way, also if only for a type', async () => {
    const found = await violationsOf({
      'lib/core/decide.ts': "import type { Ledger } from '../ledger/ledger.ts';\nexport type D = Ledger;\n",
      'lib/ledger/ledger.ts': 'export type Ledger = 1;\n',
    });
    expect(found).toContain('core-imports-only-itself');
  });

  it('are told of I/O in the core, and of a folder that nobody listed', async () => {
    const found = await violationsOf({
      'lib/core/decide.ts': "import { readFileSync } from 'node:fs';\nreadFileSync('x');\n",
      'lib/helpers/all.ts': "import { join } from 'node:path';\njoin('x');\n",
    });
    expect(found.sort()).toEqual(['core-is-pure', 'every-folder-is-listed']);
  });
});

describe('the functions', () => {
  it('are told of an import that no user of the package could make, and of a service in a generic one', async () => {
    const found = await violationsOf({
      'lib/core/decide.ts': 'export const decide = 1;\n',
      'lambdas/service/rows.ts':
        "import { decide } from '../../lib/core/decide.ts';\nexport const rows = decide;\n",
      'lambdas/sentinel/index.ts':
        "import { rows } from '../service/rows.ts';\nexport const handler = rows;\n",
      'lambdas/redrive/index.ts': "import { handler } from '../sentinel/index.ts';\nhandler.toFixed();\n",
    });
    expect(found.sort()).toEqual([
      'a-function-is-nobodys-library',
      'generic-functions-know-no-service',
      'lambdas-import-what-users-can',
    ]);
  });
});
