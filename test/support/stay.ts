/* What a process that is to be killed has in common with others: providers that outlive it, and a point to stay at. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Passing } from './points.ts';
import type { Providers } from './ride.ts';

/** Both are files in a folder: one charges once per key, the other sends whenever it is asked. */
export function filedProviders(folder: string): Providers {
  return {
    async charge(downstreamKey) {
      const file = join(folder, 'charges');
      const known = existsSync(file) && readFileSync(file, 'utf8').includes(downstreamKey);
      if (!known) appendFileSync(file, `${downstreamKey}\n`);
      return `ch-${downstreamKey}`;
    },
    async send(downstreamKey) {
      appendFileSync(join(folder, 'receipts'), `${downstreamKey}\n`);
      return `re-${downstreamKey}`;
    },
  };
}

/** Says that it is there, and stays. */
export function stayingAt(stayAt: string | undefined): Passing {
  return async (point) => {
    if (point !== stayAt) return;
    setInterval(() => {}, 60_000); // Something to live for.
    process.stdout.write(`at ${point}\n`);
    await new Promise(() => {});
  };
}
