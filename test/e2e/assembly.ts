import { createHash, randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll } from 'vitest';
import { synthesiseReference } from '../../lib/local/stacks.ts';

/** All that an assembly is made of. */
const SOURCES = ['lib', 'lambdas', 'bin', 'cdk.json', 'package.json', 'package-lock.json'];

/**
 * The reference service, synthesised as `npm start` does it for each cloud; here once for all clouds of all files, and again
 * when a source has changed.
 */
export function useAssembly(): { readonly options: readonly string[] } {
  const folder = join('node_modules', '.cache', 'oncekey-assembly', digestOf(SOURCES));
  beforeAll(async () => {
    if (existsSync(folder)) return;
    const making = `${folder}-${randomUUID()}`;
    mkdirSync(dirname(folder), { recursive: true });
    await synthesiseReference({ folder: process.cwd(), outDir: making, environment: process.env });
    try {
      renameSync(making, folder);
    } catch (error) {
      if (!existsSync(folder)) throw error;
      rmSync(making, { recursive: true }); // Another file was faster, and made the same.
    }
  });
  return { options: ['--assembly', folder, '--fast'] };
}

function digestOf(paths: readonly string[]): string {
  const hash = createHash('sha256');
  for (const path of paths.flatMap(filesIn)) hash.update(`${path}\0`).update(readFileSync(path)).update('\0');
  return hash.digest('hex').slice(0, 16);
}

function filesIn(path: string): readonly string[] {
  if (!/^(lib|lambdas|bin)$/.test(path)) return [path];
  const entries = readdirSync(path, { recursive: true, withFileTypes: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name));
  return files.toSorted();
}
