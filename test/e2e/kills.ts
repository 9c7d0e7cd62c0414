/* Function processes killed at random under load: what clients are told in the end, and what was charged. */
import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { seededRandom } from '../support/random.ts';
import type { Accounts } from './accounts.ts';
import { newRequest, OPERATIONS, send, sendUntilFinal } from './client.ts';
import type { LocalCloud } from './local-cloud.ts';

const SEED = 20_261_118;
const REQUESTS = 60;
const CLIENTS = 6;
const VICTIMS = ['payments', 'orders', 'transfers', 'dispatch', 'sentinel', 'sweep', 'webhook'];
const KILLS = 40;

/** Every key ends, whoever dies in the middle of it. What was charged for them is in the accounts. */
export async function loadUnderKills(cloud: LocalCloud, accounts: Accounts): Promise<void> {
  const random = seededRandom(SEED);
  const modes = ['timeout-after-charge', 'timeout-before-charge', 'error', 'slow', 'none'];
  const requests = Array.from({ length: REQUESTS }, (_, index) =>
    newRequest(OPERATIONS[index % OPERATIONS.length] ?? '/orders', { amount: 100 + index }),
  );
  const waiting = [...requests];
  let killed = 0;
  let isOver = false;

  async function client(): Promise<void> {
    for (let request = waiting.shift(); request; request = waiting.shift()) {
      // Some send it twice at once, as a double click does.
      const twin = random() < 0.3 ? send(cloud, request).catch(() => undefined) : undefined;
      accounts.told(request, await sendUntilFinal(cloud, request));
      await twin;
    }
  }

  async function killer(): Promise<void> {
    for (let kills = 0; kills < KILLS && !isOver; kills += 1) {
      const name = VICTIMS[Math.floor(random() * VICTIMS.length)];
      killed += (await cloud.control<{ signalled: number }>('POST', `/functions/${name}/kill`)).signalled;
      const mode = modes[Math.floor(random() * modes.length)];
      await cloud.control('PUT', '/provider/faults', { mode, probability: 0.2, latencyMs: 1_000 });
      await pause(250);
    }
    await cloud.control('PUT', '/provider/faults', { mode: 'none' });
  }

  const killing = killer();
  await Promise.all(Array.from({ length: CLIENTS }, client));
  isOver = true;
  await killing;
  expect(killed).toBeGreaterThan(10);
  for (const request of requests) accounts.told(request, await sendUntilFinal(cloud, request));
}
