// Runs before `npm test` on whatever Node the host has, before anything is installed: no dependencies, no TypeScript.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

// npm writes this file last, so its absence also tells of an install that was interrupted.
if (!existsSync('node_modules/.package-lock.json')) {
  const install = spawnSync('npm', ['ci'], { stdio: 'inherit', shell: process.platform === 'win32' });
  process.exit(install.status ?? 1);
}
