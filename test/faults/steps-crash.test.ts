import { randomUUID } from 'node:crypto';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, describe, expect, it } from 'vitest';
import { stepKey } from '../../lib/core/downstream-key.ts';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import { type EpochMs, type LedgerRecord, openStep } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import { HANDED_BACK_MS, LAPSE_MS } from '../effects/doors.ts';
import { post, stage } from '../middleware/stage.ts';
import { type Fault, neverArrived, responseLost, wireOf } from '../support/faults.ts';
import { pointed } from '../support/points.ts';
import { type Providers, rideHandler } from '../support/ride.ts';
import { useTable } from '../support/table.ts';

const { tableName, client, newClient } = useTable();

/** How an attempt ends at a point: it never goes on, or it gets an error there in place of an answer. */
type Fate = 'dies' | 'fails';

interface Told {
  readonly status: number;
  readonly code: string | undefined;
  readonly body: string;
  readonly replayed: boolean;
}

/** One ride with everything that outlives its attempts. */
function journey(ledgerOf: (clock: () => EpochMs) => Ledger<TransactWrite>) {
  let now = Date.UTC(2030, 0, 15, 12);
  const clock = () => now;
  const ledger = ledgerOf(clock);
  const key = randomUUID();
  const pk = scopePk({ tenant: 'tenant-1', operation: 'POST /payments', key });
  const charges = new Set<string>();
  const receipts: string[] = [];
  const ran: string[] = [];
  const providers: Providers = {
    async charge(downstreamKey) {
      charges.add(downstreamKey);
      return `ch-${downstreamKey}`;
    },
    async send(downstreamKey) {
      receipts.push(downstreamKey);
      return `re-${downstreamKey}`;
    },
  };

  /** A new process. It ends at the point with this number, if it gets that far; its points are returned. */
  async function attempt(end = Number.POSITIVE_INFINITY, fate: Fate = 'dies') {
    const points: string[] = [];
    let die = (): void => {};
    const died = new Promise<undefined>((resolve) => {
      die = () => resolve(undefined);
    });
    const at = async (point: string): Promise<void> => {
      if (points.length > end) return;
      points.push(point);
      if (points.length <= end) return;
      if (fate === 'fails') {
        throw point.includes(' the ') ? new Error('the provider hung up') : new StoreUnavailable('silence');
      }
      die();
      await new Promise(() => {});
    };
    const handler = rideHandler(tableName, providers, at, (step) => ran.push(step));
    const { call } = stage(pointed(ledger, at), handler, { effects: 'steps', clock });
    const answer = call(post({ key })).then(
      ({ statusCode, headers, body }): Told => {
        const replayed = headers['Idempotent-Replayed'] === 'true';
        return { status: statusCode, code: JSON.parse(body).code, body, replayed };
      },
      (): Told => ({ status: 500, code: undefined, body: '', replayed: false }),
    );
    const told = await Promise.race([answer, died]);
    return { told, points, last: points[end] };
  }

  /** What reconciliation does once the provider has said whether it has sent a receipt for this key. */
  async function resolve(): Promise<void> {
    const from = await ledger.read(pk);
    if (from?.status !== 'unknown') throw new Error(`nothing to resolve: ${from?.status}`);
    const name = openStep(from);
    const sent = receipts.find((sentKey) => sentKey === stepKey(from.operationId, 'receipt'));
    const done = { state: 'done', attempt: from.attempt, at: now, result: `"re-${sent}"` } as const;
    const step = name === undefined ? undefined : { name, step: sent ? done : undefined };
    const due = { shard: dueShard(pk), at: now };
    await ledger.settle(from, { to: 'in_progress', step, now, owner: randomUUID(), due });
  }

  return {
    ...{ attempt, resolve, charges, receipts, ran },
    record: (): Promise<LedgerRecord | undefined> => ledger.read(pk),
    pass(ms: number) {
      now += ms;
    },
    /** The client comes back, and reconciliation runs, until the outcome is final. */
    async finish(): Promise<{ told: Told; unknowns: number }> {
      let unknowns = 0;
      for (let tries = 0; tries < 5; tries += 1) {
        now += LAPSE_MS;
        const { told } = await attempt();
        if (told?.status === 201) return { told, unknowns };
        if (told?.code !== 'outcome_unknown') continue;
        unknowns += 1;
        await resolve();
        now += HANDED_BACK_MS;
      }
      throw new Error('the ride never came to an end');
    },
  };
}

type Journey = ReturnType<typeof journey>;

/** Everything happened once, and the client was told what happened. */
async function expectOneRide({ charges, receipts, record, attempt }: Journey, told: Told, where: string) {
  const operationId = (await record())?.operationId ?? '';
  expect([...charges], where).toEqual([stepKey(operationId, 'charge')]);
  expect(receipts, where).toEqual([stepKey(operationId, 'receipt')]);
  const { ride, charge, receipt } = JSON.parse(told.body);
  expect({ ride, charge, receipt }, where).toEqual({
    ride: `ride-${operationId}`,
    charge: `ch-${stepKey(operationId, 'charge')}`,
    receipt: `re-${stepKey(operationId, 'receipt')}`,
  });
  const again = (await attempt()).told;
  expect(again, where).toMatchObject({ status: 201, body: told.body, replayed: true });
  expect((await record())?.status, where).toBe('completed');
}

const doneSteps = (record: LedgerRecord | undefined): string[] =>
  [...(record?.steps ?? [])].filter(([, { state }]) => state === 'done').map(([name]) => name);

const POINTS = [
  ...['before reserve', 'after reserve'],
  ...['before saveStep ride', 'after saveStep ride'],
  ...['before the charge', 'after the charge', 'before saveStep charge', 'after saveStep charge'],
  ...['before openStep receipt', 'after openStep receipt', 'before the receipt', 'after the receipt'],
  ...['before saveStep receipt', 'after saveStep receipt', 'before complete', 'after complete'],
];

/** From the intent on, and until its result is recorded, nobody knows. */
const UNKNOWN = POINTS.slice(
  POINTS.indexOf('after openStep receipt'),
  POINTS.indexOf('after saveStep receipt'),
);

const onDynamoDb = (clock: () => EpochMs) => dynamoDbLedger({ tableName, client, clock, random: () => 0 });

async function rowExists(record: LedgerRecord | undefined): Promise<boolean> {
  const Key = { pk: { S: `ride-${record?.operationId}` }, sk: { S: 'ride' } };
  const { Item } = await client.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  return Item !== undefined;
}

describe('a ride whose process is killed', () => {
  it('has exactly these points to be killed at', async () => {
    const here = journey(onDynamoDb);
    const { told, points } = await here.attempt();
    expect(points).toEqual(POINTS);
    expect(here.ran).toEqual(['ride', 'charge', 'receipt']);
    await expectOneRide(here, told as Told, 'uninterrupted');
  });

  it.each(POINTS)('%s: each effect happens once, and what was recorded is not run again', async (point) => {
    const here = journey(onDynamoDb);
    const { told, last } = await here.attempt(POINTS.indexOf(point));
    expect([told, last]).toEqual([undefined, point]);

    const left = await here.record();
    const recorded = doneSteps(left);
    const ranBefore = here.ran.filter((step) => recorded.includes(step));
    expect(await rowExists(left)).toBe(recorded.includes('ride'));
    if (left?.status === 'in_progress') {
      expect(left).not.toHaveProperty('ttl');
      expect((await here.attempt()).told).toMatchObject({ status: 409, code: 'in_progress' });
    }

    const end = await here.finish();
    expect(end.unknowns).toBe(UNKNOWN.includes(point) ? 1 : 0);
    expect(here.ran.filter((step) => recorded.includes(step))).toEqual(ranBefore);
    await expectOneRide(here, end.told, point);
  });

  it('at any two points, one after the other: the same', async () => {
    let pairs = 0;
    for (const [first] of POINTS.entries()) {
      for (let second = 0; ; second += 1) {
        const here = journey((clock) => memoryLedger<TransactWrite>({ clock }));
        await here.attempt(first);
        here.pass(LAPSE_MS);
        const { told, last } = await here.attempt(second);
        if (told) break;
        pairs += 1;
        const { told: final, unknowns } = await here.finish();
        expect(unknowns).toBeLessThanOrEqual(1);
        await expectOneRide(here, final, `${POINTS[first]}, then ${last}`);
      }
    }
    expect(pairs).toBeGreaterThan(100);
  });
});

describe('a ride during which an answer is lost', () => {
  it('at any point, for good: each effect happens once, and the client is never told what the record does not say', async () => {
    for (const [end, point] of POINTS.entries()) {
      const here = journey((clock) => memoryLedger<TransactWrite>({ clock }));
      const { told, last } = await here.attempt(end, 'fails');
      expect(last).toBe(point);
      // Where the completion came through, the record says so; a provider's error is the handler's own.
      const expected = point === 'after complete' ? [201] : point.includes(' the ') ? [500] : [503, 409];
      expect(expected, point).toContain(told?.status);
      const { told: final } = await here.finish();
      await expectOneRide(here, final, point);
      if (told?.status === 201) expect(final.body).toBe(told.body);
    }
  });

  const CALLS = 6; // Reserve, row, charge, intent, receipt, complete: `test/effects` shows that there are no others.
  const faults: Readonly<Record<string, Fault>> = {
    'the response': responseLost,
    'the request': neverArrived,
  };
  for (const [what, fault] of Object.entries(faults)) {
    it(`between us and DynamoDB (${what}), once, at any call: nobody notices`, async () => {
      for (let lost = 0; lost < CALLS; lost += 1) {
        const lossy = newClient();
        clients.push(lossy);
        let calls = 0;
        wireOf(lossy, () => (calls++ === lost ? fault : undefined));
        const here = journey((clock) => dynamoDbLedger({ tableName, client: lossy, clock, random: () => 0 }));
        const { told } = await here.attempt();
        expect(calls).toBe(CALLS + 1);
        expect(here.ran).toEqual(['ride', 'charge', 'receipt']);
        expect(told).toMatchObject({ status: 201, replayed: false });
        await expectOneRide(here, told as Told, `${what} of call ${lost + 1}`);
      }
    });
  }
});

const clients: ReturnType<typeof newClient>[] = [];
afterAll(() => {
  for (const lossy of clients) lossy.destroy();
});
