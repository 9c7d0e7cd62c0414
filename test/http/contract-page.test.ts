import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { problems } from '../../lib/http/problem-table.ts';

it('docs/contract.md lists every problem with its statuses and what to do', () => {
  const page = readFileSync('docs/contract.md', 'utf8');
  const rows = [...page.matchAll(/^\| `(\w+)` +\| (\d{3}) +\| (\d{3}) +\| ([\w-]+) +\|/gm)].map(
    ([, code, ietf, stripe, retry]) => [code, Number(ietf), Number(stripe), retry],
  );
  const known = Object.entries(problems).map(([code, { status, retry }]) => [
    code,
    status.ietf,
    status.stripe,
    retry,
  ]);
  expect(rows.toSorted()).toEqual(known.toSorted());
});
