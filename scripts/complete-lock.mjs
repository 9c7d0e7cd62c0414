// Run it after `npm install` has changed the lock file: npm run lock
// A registry mirror may not offer the optional packages of other platforms. npm then leaves them out of the lock file,
// and `npm ci` refuses that file on every machine. Their entries follow from the packages that ask for them.
import { readFileSync, writeFileSync } from 'node:fs';

const SYSTEMS = ['android', 'darwin', 'freebsd', 'linux', 'openharmony', 'win32'];
const CPUS = ['arm64', 'arm', 'ia32', 'ppc64', 'riscv64', 's390x', 'wasm32', 'x64'];

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'));
const added = [];
for (const asking of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(asking.optionalDependencies ?? {})) {
    const path = `node_modules/${name}`;
    if (lock.packages[path]) continue;
    const words = name.split(/[-/]/);
    const cpu = CPUS.filter((known) => words.includes(known));
    const os = SYSTEMS.filter((known) => words.includes(known));
    if (cpu.length !== 1)
      throw new Error(`${name} is missing, and its name does not say for which platform it is`);
    lock.packages[path] = {
      version,
      cpu,
      ...(asking.dev && { dev: true }),
      optional: true,
      ...(os.length > 0 && { os }),
      ...(asking.peer && { peer: true }),
    };
    added.push(name);
  }
}
const [root, ...others] = Object.entries(lock.packages);
others.sort(([a], [b]) => (a < b ? -1 : 1));
lock.packages = Object.fromEntries([root, ...others]);
if (added.length > 0) writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`);
process.stdout.write(`${added.length} entries added for other platforms.\n`);
