/* What a user gets: nothing but what they need, and every entry of `exports` can be imported. */
import { execFileSync } from 'node:child_process';
import manifest from '../package.json' with { type: 'json' };

const WANTED = /^(package\.json|README\.md|LICENSE|CHANGELOG\.md|dist\/.+\.(js|d\.ts))$/;

const listing = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
  encoding: 'utf8',
});
const packed: { files: { path: string }[] }[] = JSON.parse(listing);
const paths = packed.flatMap(({ files }) => files.map(({ path }) => path));

const unwanted = paths.filter((path) => !WANTED.test(path));
if (unwanted.length > 0) throw new Error(`npm pack would ship ${unwanted.join(', ')}`);

for (const [entry, target] of Object.entries(manifest.exports)) {
  if (typeof target === 'string') continue;
  for (const file of Object.values(target)) {
    if (!paths.includes(file.replace('./', '')))
      throw new Error(`${entry} names ${file}, which is not in the package`);
  }
  const name = entry.replace('.', manifest.name);
  if (Object.keys(await import(name)).length === 0) throw new Error(`${name} exports nothing`);
}
process.stdout.write(`The package has ${paths.length} files; every entry can be imported.\n`);
