import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { afterEach } from 'vitest';
import { ledgerClient } from '../../../lib/ledger/table.ts';
import type { Report } from '../../../lib/local/ports.ts';
import { localClientConfig } from '../../../lib/local/store/client.ts';
import { storeProxy } from '../../../lib/local/store/store-proxy.ts';
import { type HandTimers, handTimers } from './hand-timers.ts';

/** Whatever was opened during a test, ended after it. */
export function useProxies() {
  const ends: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end();
  });

  async function proxyTo(target: string, random: () => number = () => 0) {
    const timers: HandTimers = handTimers();
    const reports: Report[] = [];
    const clock = () => Date.UTC(2030, 0, 15, 12);
    const proxy = await storeProxy({ target, clock, random, timers, report: (one) => reports.push(one) });
    ends.push(proxy.close);
    return { ...proxy, timers, reports };
  }

  /** Asks once, and for as long as it takes. */
  function clientOf(endpoint: string, maxAttempts = 1): DynamoDBClient {
    const client = new DynamoDBClient({ ...localClientConfig(endpoint), maxAttempts });
    ends.push(() => client.destroy());
    return client;
  }

  function ledgerClientOf(endpoint: string): DynamoDBClient {
    const client = ledgerClient(localClientConfig(endpoint));
    ends.push(() => client.destroy());
    return client;
  }

  return { proxyTo, clientOf, ledgerClientOf, ends };
}
