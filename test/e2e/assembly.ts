import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { synthesiseReference } from '../../lib/local/stacks.ts';

/** The reference service, synthesised once for all clouds of a file, as `npm start` does it for each. */
export function useAssembly(): { readonly options: readonly string[] } {
  const outDir = mkdtempSync(join(tmpdir(), 'oncekey-e2e-assembly-'));
  beforeAll(() => synthesiseReference({ folder: process.cwd(), outDir, environment: process.env }));
  afterAll(() => rmSync(outDir, { recursive: true, force: true }));
  return { options: ['--assembly', outDir, '--fast'] };
}
