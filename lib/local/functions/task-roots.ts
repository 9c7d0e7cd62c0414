import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { FunctionModel } from '../model.ts';
import { CodeMissing } from './errors.ts';

export interface TaskRoots {
  of(name: string): string;
  remove(): void;
}

/**
 * Where each function sees its code, as `/var/task` on Lambda: links in a folder of their own. Node asks the folders above
 * a file whether `.js` is CommonJS or ESM. On Lambda there is nothing above; here there is the project that was
 * synthesised, and its `"type": "module"` would break every CommonJS bundle. The empty package.json ends that search.
 */
export function taskRoots(models: readonly FunctionModel[]): TaskRoots {
  for (const { name, codeDir } of models) {
    if (!statSync(codeDir, { throwIfNoEntry: false })?.isDirectory()) throw new CodeMissing(name, codeDir);
  }
  const folder = mkdtempSync(join(tmpdir(), 'oncekey-functions-'));
  const pathOf = (name: string) => join(folder, encodeURIComponent(name));
  writeFileSync(join(folder, 'package.json'), '{}\n');
  for (const { name, codeDir } of models) symlinkSync(resolve(codeDir), pathOf(name), 'dir');
  return { of: pathOf, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
