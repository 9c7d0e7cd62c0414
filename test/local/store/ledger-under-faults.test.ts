import { randomUUID } from 'node:crypto';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { describe, expect, inject, it } from 'vitest';
import { StoreUnavailable } from '../../../lib/core/errors.ts';
import type { InProgress } from '../../../lib/core/record.ts';
import { dynamoDbLedger } from '../../../lib/ledger/dynamodb.ts';
import { RECORD_SK } from '../../../lib/ledger/schema.ts';
import type { StoreFault } from '../../../lib/local/store/store-faults.ts';
import {
  attemptAt,
  claimOf,
  execute,
  movedRecord,
  outcomeAt,
  START,
} from '../../../lib/testing/contract/subject.ts';
import { pkOf, post, type Result, stage } from '../../middleware/stage.ts';
import { seededRandom } from '../../support/random.ts';
import { useTable } from '../../support/table.ts';
import { until } from './processes.ts';
import { useProxies } from './proxied.ts';

/* The product behind the proxy: what each fault is there to show. */

const { tableName, client: direct } = useTable();
const { proxyTo, ledgerClientOf } = useProxies();

/** So many requests meet the fault, and then none. */
function firstOnes(count: number): () => number {
  let drawn = 0;
  return () => {
    drawn += 1;
    return drawn <= count ? 0 : 1;
  };
}

/** Time passes only while the ledger pauses, so that nobody is out of time because the machine is busy. */
async function behindProxy(random?: () => number, target = inject('dynamoDbEndpoint')) {
  const proxy = await proxyTo(target, random);
  const time = { now: START };
  const clock = () => time.now;
  const sleep = async (ms: number) => {
    time.now += ms;
  };
  const newLedger = (pause = sleep) =>
    dynamoDbLedger({ tableName, client: ledgerClientOf(proxy.url), clock, random: () => 0.5, sleep: pause });
  return { ...proxy, clock, newLedger, ledger: newLedger(), time };
}

const rowOf = (id: string) => ({ Put: { TableName: tableName, Item: { pk: id, sk: 'row' } } });
async function isThere(pk: string, sk: string): Promise<boolean> {
  const Key = { pk: { S: pk }, sk: { S: sk } };
  const { Item } = await direct.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  return Item !== undefined;
}

describe('an owner whose reserve was applied and never answered', () => {
  it('owns the key on its next try, and nobody else does', async () => {
    const { newLedger, faults, seen } = await behindProxy(firstOnes(3));
    faults.set({ mode: 'drop-response', probability: 0.5, latencyMs: 0 });
    const claim = claimOf();
    const wasApplied: boolean[] = [];
    const ledger = newLedger(async () => {
      wasApplied.push(await isThere(claim.pk, RECORD_SK));
    });
    expect(await ledger.reserve(claim, execute)).toMatchObject({
      kind: 'owned',
      record: { attempt: 1, owner: claim.owner },
    });
    expect(wasApplied).toEqual([true, true, true]);
    expect(seen().operations.PutItem).toEqual({ requests: 4, faulted: { 'drop-response': 3 } });
    const second = await newLedger().reserve(claimOf({ pk: claim.pk }), execute);
    expect(second).toMatchObject({ kind: 'held', record: { owner: claim.owner } });
  });

  it('gives up the silent connection by itself, and then as well', async () => {
    const { ledger, faults, timers, seen } = await behindProxy(firstOnes(1));
    faults.set({ mode: 'drop-response', probability: 0.5 });
    expect((await ledger.reserve(claimOf(), execute)).kind).toBe('owned');
    expect(seen().faulted).toEqual({ 'drop-response': 1 });
    await until(() => timers.waiting.length === 0);
  });
});

describe('a ledger', () => {
  it.each(['drop-request', 'drop-response', 'throttle', 'error', 'conflict', 'down'] satisfies StoreFault[])(
    'reserves and completes once under %s, with the row that belongs to it',
    async (mode) => {
      const { ledger, faults, seen } = await behindProxy(firstOnes(2));
      const mine = movedRecord<InProgress>(await ledger.reserve(claimOf(), execute));
      faults.set({ mode, probability: 0.5, latencyMs: 0 });
      const row = `row-${randomUUID()}`;
      const completed = await ledger.complete(mine, outcomeAt(START), [rowOf(row)]);
      expect(completed).toMatchObject({ kind: 'moved', record: { status: 'completed', attempt: 1 } });
      expect(seen().operations.TransactWriteItems).toEqual({ requests: 3, faulted: { [mode]: 2 } });
      expect(await isThere(row, 'row')).toBe(true);
    },
  );

  it('is told of a conflict also by a write of one item, and tries again', async () => {
    const { ledger, faults, seen } = await behindProxy(firstOnes(2));
    const mine = movedRecord<InProgress>(await ledger.reserve(claimOf(), execute));
    faults.set({ mode: 'conflict', probability: 0.5 });
    expect((await ledger.complete(mine, outcomeAt(START))).kind).toBe('moved');
    expect(seen().operations.UpdateItem).toEqual({ requests: 3, faulted: { conflict: 2 } });
  });

  it('whose first try arrives when all is over overwrites nothing', async () => {
    const wire = await proxyTo(inject('dynamoDbEndpoint'));
    const { ledger, faults, timers } = await behindProxy(firstOnes(1), wire.url);
    faults.set({ mode: 'delay', probability: 0.5 });
    const mine = movedRecord<InProgress>(await ledger.reserve(claimOf(), execute));
    expect((await ledger.complete(mine, outcomeAt(START))).kind).toBe('moved');
    wire.faults.set({ mode: 'drop-response' });
    timers.fire();
    await until(() => wire.timers.waiting.length === 1); // DynamoDB has answered it.
    expect(wire.seen().operations.PutItem).toEqual({ requests: 2, faulted: { 'drop-response': 1 } });
    wire.faults.set({ mode: 'none' });
    expect(await ledger.read(mine.pk)).toMatchObject({ status: 'completed', owner: mine.owner });
  });

  it('finds the store unavailable while it is down, and works when it is back', async () => {
    const { ledger, faults, clock } = await behindProxy();
    faults.set({ mode: 'down' });
    await expect(ledger.reserve(claimOf({ ...attemptAt(clock()) }), execute)).rejects.toBeInstanceOf(
      StoreUnavailable,
    );
    faults.set({ mode: 'none' });
    expect((await ledger.reserve(claimOf({ ...attemptAt(clock()) }), execute)).kind).toBe('owned');
  });
});

describe('a function behind the middleware', () => {
  const created = { statusCode: 201, body: '{"paid":true}' };

  it('answers 503 while the store is down, without running, and 201 when it is back', async () => {
    const { ledger, faults, clock } = await behindProxy();
    let ran = 0;
    const { call } = stage(
      ledger,
      async () => {
        ran += 1;
        return created;
      },
      { clock, effects: 'transactional' },
    );
    const event = post({ key: randomUUID() });
    faults.set({ mode: 'down' });
    const refused = await call(event);
    expect([refused.statusCode, JSON.parse(refused.body).code, ran]).toEqual([503, 'store_unavailable', 0]);
    faults.set({ mode: 'none' });
    expect((await call(event)).statusCode).toBe(201);
    expect(ran).toBe(1);
  });

  it('answers 503 if the store goes down under it, and does not run again when it is back', async () => {
    const { ledger, faults, clock } = await behindProxy();
    let ran = 0;
    const { call } = stage(
      ledger,
      async () => {
        ran += 1;
        faults.set({ mode: 'down' });
        return created;
      },
      { clock, effects: 'opaque', onUnknown: 'park' },
    );
    const key = randomUUID();
    expect((await call(post({ key }))).statusCode).toBe(503);
    faults.set({ mode: 'none' });
    expect((await call(post({ key }))).statusCode).toBe(409);
    expect((await ledger.read(pkOf(key)))?.status).toBe('in_progress');
    expect(ran).toBe(1);
  });

  it.each(['drop-request', 'drop-response', 'throttle', 'error', 'conflict', 'down'] satisfies StoreFault[])(
    'runs once for each key, however many ask for it, under %s of every third request',
    async (mode) => {
      const { newLedger, faults, clock, seen } = await behindProxy(seededRandom(11));
      faults.set({ mode, probability: 0.33, latencyMs: 0 });
      const ran = new Map<string, number>();
      // Nobody gives up: a ledger's pauses take no time here.
      const functions = Array.from({ length: 3 }, () =>
        stage(
          newLedger(async () => {}),
          async (event) => {
            const key = String(event.headers['idempotency-key']);
            ran.set(key, (ran.get(key) ?? 0) + 1);
            return { statusCode: 201, body: JSON.stringify({ key }) };
          },
          { clock, effects: 'opaque', onUnknown: 'park' },
        ),
      );
      const untilDone = async (ask: () => Promise<Result>): Promise<Result> => {
        for (;;) {
          const answer = await ask();
          if (answer.statusCode !== 409) return answer;
        }
      };
      const keys = Array.from({ length: 8 }, () => randomUUID());
      const answers = await Promise.all(
        keys.flatMap((key) => functions.map(({ call }) => untilDone(() => call(post({ key }))))),
      );
      expect(answers.map(({ statusCode }) => statusCode)).toEqual(answers.map(() => 201));
      expect(answers.map(({ body }) => body)).toEqual(
        keys.flatMap((key) => functions.map(() => JSON.stringify({ key }))),
      );
      expect(ran).toEqual(new Map(keys.map((key) => [key, 1])));
      expect(seen().faulted[mode]).toBeGreaterThan(0);
    },
  );
});
