/* Function processes killed at random under load: what clients are told in the end, and what was charged. */
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededRandom } from '../support/random.ts';
import { Accounts } from './accounts.ts';
import { useAssembly } from './assembly.ts';
import { newRequest, OPERATIONS, send, sendUntilFinal } from './client.ts';
import { type LocalCloud, startLocalCloud } from './local-cloud.ts';

const SEED = 20_261_118;
const REQUESTS = 60;
const CLIENTS = 6;
const VICTIMS = ['payments', 'orders', 'transfers', 'dispatch', 'sentinel', 'sweep', 'webhook'];
const KILLS = 40;

const assembly = useAssembly();
let cloud: LocalCloud;
let accounts: Accounts;

beforeAll(async () => {
  cloud = await startLocalCloud(...assembly.options);
  accounts = new Accounts(cloud);
});

afterAll(async () => {
  await cloud.stop();
});

describe('with functions killed at random, and a provider that fails at random', () => {
  it('every key ends, charged exactly once if it was told so, and nothing is left open', async () => {
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
    await accounts.balance();
  });
});
