import { readdirSync, readFileSync } from 'node:fs';
import * as oncekey from 'oncekey';
import { describe, expect, it, vi } from 'vitest';
import { pages, referencesIn, renderPage } from '../../scripts/pages.ts';

const textOf = (path: string) => readFileSync(path, 'utf8');
const references = pages.flatMap((page) => referencesIn(textOf(page)));
const pathsOf = (wanted: 'example' | 'output') =>
  new Set(references.filter(({ kind }) => kind === wanted).map(({ path }) => path));

/** The examples whose output is on a page. Here they run against the sources; npm run docs runs the built package. */
const scripts: Readonly<Record<string, () => Promise<unknown>>> = {
  'test/examples/payments.ts': () => import('./payments.ts'),
  'test/examples/ride.ts': () => import('./ride.ts'),
  'test/examples/reconcile.ts': () => import('./reconcile.ts'),
  'test/examples/audit.ts': () => import('./audit.ts'),
  'test/examples/quota.ts': () => import('./quota.ts'),
  'test/examples/outbox.ts': () => import('./outbox.ts'),
  'test/examples/runbook.ts': () => import('./runbook.ts'),
  'test/examples/restore.ts': () => import('./restore.ts'),
  'test/examples/webhook.ts': () => import('./webhook.ts'),
  'test/examples/lookup.ts': () => import('./lookup.ts'),
  'test/examples/redrive.ts': () => import('./redrive.ts'),
  'test/examples/erase.ts': () => import('./erase.ts'),
};

async function printedBy(path: string): Promise<string> {
  const run = scripts[path];
  if (!run) throw new Error(`${path} prints something on a page; add it to the scripts of this test`);
  const lines: string[] = [];
  const log = vi.spyOn(console, 'log').mockImplementation((line: string) => void lines.push(line));
  await run();
  log.mockRestore();
  expect(lines).not.toEqual([]);
  return lines.join('\n');
}

describe('the pages', () => {
  it('show the examples as they are, and what they really print', async () => {
    const printed = new Map<string, string>();
    for (const path of pathsOf('output')) printed.set(path, await printedBy(path));
    for (const page of pages) {
      const current = renderPage(textOf(page), (path) => printed.get(path) ?? '');
      expect(textOf(page), `${page} is stale; run npm run docs`).toBe(current);
    }
  });

  it('show no code that is not run: each is a test, prints what a page shows, or is imported by a test', () => {
    const shown = pathsOf('output');
    const tests = readdirSync('test/examples').filter((name) => name.endsWith('.test.ts'));
    const imported = tests.map((name) => textOf(`test/examples/${name}`)).join('\n');
    for (const path of pathsOf('example')) {
      if (path.endsWith('.test.ts') || shown.has(path)) continue;
      const name = path.replace('test/examples/', './');
      expect(imported, `${path} is on a page, and nothing runs it`).toMatch(
        new RegExp(`(from |await import\\()'${name}'`),
      );
    }
    for (const page of pages) {
      const blocks = textOf(page).match(/^```ts$/gm) ?? [];
      const marked = referencesIn(textOf(page)).filter(({ kind }) => kind === 'example');
      expect(marked, `${page} has TypeScript that comes from no file`).toHaveLength(blocks.length);
    }
  });
});

describe('the guide', () => {
  const guide = textOf('docs/usage.md');
  const named = (name: string) => new RegExp(`\\b${name}\\b`).test(guide);

  it('names everything that can be imported', () => {
    const missing = Object.keys(oncekey).filter((name) => !named(name));
    expect(missing).toEqual([]);
  });

  it('names every option there is', () => {
    const wrong = { nosuch: 1 } as never;
    const lists = [
      () => oncekey.idempotency(wrong),
      () => oncekey.protect(async () => {}, wrong),
      () => oncekey.protectBatch(async () => {}, wrong),
    ].map(optionsListed);
    for (const options of lists) expect(options.length).toBeGreaterThan(10);
    expect(lists.flat().filter((option) => !named(option))).toEqual([]);
  });

  /** An unknown option is refused with the list of those that exist. */
  function optionsListed(construct: () => unknown): readonly string[] {
    try {
      construct();
    } catch (error) {
      const [, list = ''] = /It has (.+)\.$/.exec(String(error)) ?? [];
      return list.split(', ');
    }
    return [];
  }
});
