import { stripeSimulator } from '../../../lib/local/provider/simulator.ts';
import { realTimers } from '../../../lib/local/timers.ts';
import { seededRandom } from '../../support/random.ts';

/* A payment provider in a process of its own, which a test can kill. It prints its address. */

const told = JSON.parse(process.argv[2] ?? '{}') as { readonly folder: string; readonly apiKey: string };

const { url } = await stripeSimulator({
  ...told,
  clock: Date.now,
  random: seededRandom(3),
  timers: realTimers,
  report: () => undefined,
});
process.stdout.write(`${url}\n`);
