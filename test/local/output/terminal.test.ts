import { describe, expect, it } from 'vitest';
import { jsonReporter, terminalReporter } from '../../../lib/local/output/terminal.ts';
import { tryThis } from '../../../lib/local/output/try-this.ts';
import type { Report } from '../../../lib/local/ports.ts';

const AT = new Date(2030, 0, 15, 12, 30, 5).getTime();
const told: Report = { at: AT, source: 'payments', level: 'info', kind: 'log', message: 'created' };

/** What a terminal, or a file, gets of these. */
function written(reports: readonly Partial<Report>[], colour = false): string[] {
  const lines: string[] = [];
  const report = terminalReporter({ write: (text) => lines.push(text), colour });
  for (const one of reports) report({ ...told, ...one });
  return lines;
}

describe('a line in the terminal', () => {
  it('says when, who and what, and of whom', () => {
    const fields = {
      ...{ timestamp: '2030', logger: 'oncekey', level: 'info', message: 'created', attempt: 2, reason: '-' },
      ...{
        operation: 'POST /payments',
        tenant: 'acme',
        operationRef: 'ref',
        decision: 'created',
        none: null,
      },
    };
    expect(written([{ fields }])).toEqual([
      '12:30:05 payments     created POST /payments acme ref attempt=2\n',
    ]);
  });

  it('shows what is no text as JSON', () => {
    expect(written([{ fields: { seen: { a: [1] }, ok: false } }])[0]).toContain('seen={"a":[1]} ok=false\n');
  });

  it('is one line, whatever a function logs, and moves no cursor', () => {
    const message = 'one\r\ntwo\u001b[2J\u001b]0;title\u0007\u0000\u009b31mred\u007f\u0085end';
    const fields = { tenant: 'ac\u001bme\n12:30:05 local Ready', more: 'a\u001b[31m' };
    for (const kind of ['log', 'platform', 'access'] as const) {
      const [line = '', ...others] = written([{ kind, message, fields }]);
      expect(others).toEqual([]);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
      expect(line).toMatch(/^[^\u0000-\u001f\u007f-\u009f]+\n$/);
    }
  });

  it('says nothing of what is for debugging, and nothing where there is nothing to say', () => {
    expect(written([{ level: 'debug' }, { message: '' }, { message: '\n\t' }])).toEqual([]);
  });

  it('has colours only where somebody looks', () => {
    expect(written([{ level: 'error' }], true)[0]).toContain('\u001b[31mcreated\u001b[0m');
    expect(written([{ level: 'error' }])[0]).not.toContain('\u001b');
  });

  it('tells a request by its status, its route and its time, and what failed of it', () => {
    const access = { kind: 'access', message: '{"raw":1}' } as const;
    const fields = { requestId: 'r', route: 'POST /payments', status: '503', latencyMs: '17' };
    const [ok, failed, own] = written([
      { ...access, fields: { ...fields, status: '201', integrationError: '-', authorizerError: '-' } },
      { ...access, fields: { ...fields, integrationError: 'Rate Exceeded.', authorizerError: '-' } },
      { ...access, fields: { of: 'another format' } },
    ]);
    expect(ok).toContain(' 201 POST /payments 17 ms\n');
    expect(failed).toContain(' 503 POST /payments 17 ms Rate Exceeded.\n');
    expect(own).toContain(' {"raw":1}\n');
  });
});

describe('a measurement in the terminal', () => {
  const measured = (metrics: unknown, source = 'sweep') =>
    ({ source, kind: 'metric', message: 'raw', fields: { metrics } }) as const;

  it('is short', () => {
    const metrics = {
      'api.idempotency.reserve.created.count': 1,
      'api.idempotency.latency': 1.23456,
      other: 'x',
    };
    expect(written([measured(metrics)])[0]).toContain(' reserve.created 1 · latency 1.23 · other x\n');
  });

  it('that only repeats the one before is left out, and another source is another one', () => {
    const none = measured({ 'sweep.looked': 0 });
    const one = measured({ 'sweep.looked': 1 });
    expect(written([none, none, one, one, none])).toHaveLength(3);
    expect(written([none, measured({ 'sweep.looked': 0 }, 'audit'), none])).toHaveLength(2);
  });

  it('of nothing is not shown', () => {
    expect(written([measured(undefined), measured({}), measured(7)])).toEqual([]);
  });
});

it('a machine gets each report whole, as JSON on a line', () => {
  const lines: string[] = [];
  const message = 'two\nlines \u001b[31m';
  jsonReporter((text) => lines.push(text))({ ...told, level: 'debug', message, fields: { a: { b: 1 } } });
  expect(lines).toHaveLength(1);
  expect(lines[0]).toMatch(/^[^\n]+\n$/);
  expect(JSON.parse(lines[0] ?? '')).toEqual({
    ...told,
    ...{ at: new Date(AT).toISOString(), level: 'debug', message, fields: { a: { b: 1 } } },
  });
});

it('what to try next are three commands that go to where it runs', () => {
  const text = tryThis('http://127.0.0.1:4000');
  expect(text.match(/^ {2}(?:TOKEN=\$\()?curl /gm)).toHaveLength(3);
  expect(text.match(/https?:\/\/[^/\s]+/g)?.every((url) => url.startsWith('http://127.0.0.1:4000'))).toBe(
    true,
  );
});
