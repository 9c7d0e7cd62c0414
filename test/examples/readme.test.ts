import { readFileSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { renderReadme } from '../../scripts/readme.ts';

it('the README shows the examples as they are, and what they really print', async () => {
  const printed: string[] = [];
  vi.spyOn(console, 'log').mockImplementation((line: string) => void printed.push(line));
  await import('./payments.ts');
  vi.restoreAllMocks();
  expect(printed).toHaveLength(5);

  const readme = readFileSync('README.md', 'utf8');
  const current = renderReadme(readme, () => printed.join('\n'));
  expect(readme, 'README.md is stale; run npm run docs').toBe(current);
});
