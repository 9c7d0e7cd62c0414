/*
 * Fills the README's examples from the files that the tests run: npm run docs. The text between a marker and the end of
 * the code block that follows it belongs to this script.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const MARKED = /<!-- (example|output): (\S+) -->\n```(\w+)\n[\s\S]*?```/g;

export function renderReadme(readme: string, outputOf: (path: string) => string): string {
  return readme.replace(MARKED, (_, kind: string, path: string, language: string) => {
    const text = kind === 'example' ? readFileSync(path, 'utf8') : outputOf(path);
    return `<!-- ${kind}: ${path} -->\n\`\`\`${language}\n${text.trimEnd()}\n\`\`\``;
  });
}

/** What the example prints when it is run against the built package, as a user would run it. */
export function runExample(path: string): string {
  return execFileSync(process.execPath, [path], { encoding: 'utf8' });
}

if (import.meta.main) {
  const readme = readFileSync('README.md', 'utf8');
  writeFileSync('README.md', renderReadme(readme, runExample));
}
