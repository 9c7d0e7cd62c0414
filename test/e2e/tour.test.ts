/* The README's two minutes, pasted as a reader would. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tryThis } from '../../lib/local/output/try-this.ts';
import { useAssembly } from './assembly.ts';
import { eventually } from './client.ts';
import { type LocalCloud, startLocalCloud } from './local-cloud.ts';

const SHOWN_AT = 'http://127.0.0.1:3000';

interface Step {
  readonly command: string;
  /** What it prints, with … for what differs from run to run. */
  readonly prints: string | undefined;
}

const readme = readFileSync('README.md', 'utf8');
const [, tour = ''] = /\n## Two minutes\n([\s\S]*?)\n## /.exec(readme) ?? [];
const steps = Array.from(
  tour.matchAll(/```sh\n([\s\S]*?)```\n(?:\n```text\n([\s\S]*?)```)?/g),
  ([, command = '', prints]): Step => ({ command, prints }),
);

const assembly = useAssembly();
let cloud: LocalCloud;
beforeAll(async () => {
  cloud = await startLocalCloud(...assembly.options);
});
afterAll(async () => {
  await cloud.stop();
});

/** Of a shell in which what was pasted before has been pasted as well. */
async function pasted(before: string, command: string): Promise<string> {
  const script = `${before}\n${command}`.replaceAll(SHOWN_AT, cloud.url);
  const { stdout } = await promisify(execFile)('bash', ['-c', script]);
  return stdout.replaceAll('\r', '').trim();
}

function patternOf(prints: string): RegExp {
  const lines = prints.trim().split('\n');
  const escaped = lines.map((line) =>
    line === '…'
      ? '[\\s\\S]*?'
      : line
          .split('…')
          .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
          .join('.*'),
  );
  return new RegExp(`^${escaped.join('\\n')}$`);
}

/** What is so for a moment only is shown at once; for anything else the reader may have to wait. */
const PASSING = /"pending"|provider_unavailable/;

describe('the two minutes of the README', () => {
  it('print what is shown, when they are pasted one after another', async () => {
    expect(steps.length).toBeGreaterThanOrEqual(6);
    const [token, ...rest] = steps;
    expect(token?.command).toContain('TOKEN=');
    for (const { command, prints } of rest) {
      const pattern = patternOf(prints ?? '');
      await eventually(
        () => pasted(token?.command ?? '', command),
        (printed) => pattern.test(printed),
        PASSING.test(prints ?? '') ? 0 : 100,
      );
    }
  });

  it('begin with the commands that npm start itself suggests', () => {
    const words = (text: string) => text.replace(/\s+\\?\s*/g, ' ').trim();
    const suggested = words(tryThis(SHOWN_AT));
    const [token, pay, , charges] = steps;
    for (const step of [token, pay, charges]) expect(suggested).toContain(words(step?.command ?? 'nothing'));
  });
});
