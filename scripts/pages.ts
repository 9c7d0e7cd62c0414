/*
 * Fills the pages' examples from the files that the tests run: npm run docs. The text between a marker and the end of
 * the code block that follows it belongs to this script.
 *
 *   <!-- example: test/examples/payments.ts -->          the whole file
 *   <!-- example: test/examples/orders.ts#refusal -->    what is between // #region refusal and // #endregion refusal
 *   <!-- output: test/examples/payments.ts -->           what it prints
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

export const pages = [
  'README.md',
  'docs/usage.md',
  'docs/steps.md',
  'docs/reconciliation.md',
  'docs/outbox.md',
  'docs/runbook.md',
  'docs/deploy.md',
] as const;

const MARKED = /<!-- (example|output): ([^\s#]+)(?:#(\S+))? -->\n```(\w+)\n[\s\S]*?```/g;
const REGION_MARK = /^\s*\/\/ #(?:end)?region \S+\n/gm;

export interface Reference {
  readonly kind: 'example' | 'output';
  readonly path: string;
}

/** What the page takes from files. */
export function referencesIn(page: string): readonly Reference[] {
  return Array.from(page.matchAll(MARKED), ([, kind, path = '']) => ({
    kind: kind === 'output' ? 'output' : 'example',
    path,
  }));
}

export function renderPage(page: string, outputOf: (path: string) => string): string {
  return page.replace(
    MARKED,
    (_, kind: string, path: string, region: string | undefined, language: string) => {
      const text = kind === 'output' ? outputOf(path) : exampleText(path, region);
      const name = region === undefined ? path : `${path}#${region}`;
      return `<!-- ${kind}: ${name} -->\n\`\`\`${language}\n${text.trimEnd()}\n\`\`\``;
    },
  );
}

function exampleText(path: string, region: string | undefined): string {
  const file = readFileSync(path, 'utf8');
  const text = region === undefined ? file : regionOf(file, path, region);
  return text.replace(REGION_MARK, '');
}

/** Moved to the left, as far as its first line allows: on a page nothing stands around it. */
function regionOf(file: string, path: string, region: string): string {
  const [, rest] = file.split(`// #region ${region}\n`);
  const [text, after] = rest?.split(new RegExp(`^ *// #endregion ${region}\n`, 'm')) ?? [];
  if (text === undefined || after === undefined) throw new Error(`${path} has no region ${region}`);
  const [indent = ''] = /^ */.exec(text) ?? [];
  return text.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
}

/** What the example prints when it is run against the built package, as a user would run it. */
function printed(path: string): string {
  return execFileSync(process.execPath, [path], { encoding: 'utf8' });
}

if (import.meta.main) {
  for (const path of pages) writeFileSync(path, renderPage(readFileSync(path, 'utf8'), printed));
}
