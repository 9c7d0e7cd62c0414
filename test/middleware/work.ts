import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { TableOptions } from '../../lib/ledger/table.ts';

export const START = 1_900_000_000_000;

/** A ledger in memory, in a time that passes when the test says so. */
export function clocked() {
  let now = START;
  const clock = () => now;
  const pass = (ms: number) => {
    now += ms;
  };
  return { clock, pass, ledger: memoryLedger({ clock }) };
}

/** One time for the ledger and the middleware, which passes when the test says so. */
export function timeline(table: TableOptions) {
  let now = START;
  const clock = () => now;
  const pass = (ms: number) => {
    now += ms;
  };
  return { clock, pass, onTable: () => dynamoDbLedger({ ...table, clock }) };
}

export function created(body = '"paid"', headers: Record<string, string> = {}) {
  return { statusCode: 201, headers: { 'content-type': 'application/json', ...headers }, body };
}

/** Counts its runs and answers with the number of the run. */
export function counter(end: (run: number) => unknown = (run) => created(String(run))) {
  const counted = { runs: 0, handler };
  return counted;

  async function handler() {
    counted.runs += 1;
    return end(counted.runs);
  }
}

/** As `counter`, but its first run stops in the middle until it is told to go on. */
export function slow(end: (run: number) => unknown = (run) => created(String(run))) {
  const started = Promise.withResolvers<void>();
  const resumed = Promise.withResolvers<void>();
  const counted = { runs: 0, handler, started: started.promise, resume: resumed.resolve };
  return counted;

  async function handler() {
    counted.runs += 1;
    const mine = counted.runs;
    if (mine === 1) {
      started.resolve();
      await resumed.promise;
    }
    return end(mine);
  }
}
