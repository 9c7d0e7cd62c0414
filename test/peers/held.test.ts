import { randomUUID } from 'node:crypto';
import { DeleteItemCommand } from '@aws-sdk/client-dynamodb';
import middy from '@middy/core';
import httpCors from '@middy/http-cors';
import { describe, expect, it } from 'vitest';
import { StoreRefused, StoreUnavailable } from '../../lib/core/errors.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { RECORD_SK } from '../../lib/ledger/schema.ts';
import { idempotency } from '../../lib/middleware/idempotency.ts';
import { post, type Result, stage } from '../middleware/stage.ts';
import { counter, created, slow, timeline } from '../middleware/work.ts';
import { always, neverArrived, responseLost, times, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';

/*
 * What other libraries get wrong, held here: one test per numbered line of the list. `powertools.test.ts` runs many of
 * the same scenarios against the peer.
 */

const table = useTable();
const transactional = { effects: 'transactional' } as const;
const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

/** Longer than the lease of any call here: ten seconds of remaining time, the margin and the skew. */
const PAST_THE_LEASE_MS = 60_000;

const codeOf = ({ body }: Result): unknown => JSON.parse(body).code;
const isReplay = ({ headers }: Result) => headers['Idempotent-Replayed'] === 'true';

describe('ownership and fencing', () => {
  it('1: a rejected duplicate leaves the live lock alone, so that a third caller does not execute', async () => {
    const { clock, onTable } = timeline(table);
    const work = slow();
    const { call } = stage(onTable(), work.handler, { ...transactional, clock });
    const key = randomUUID();
    const first = call(post({ key }));
    await work.started;
    expect(codeOf(await call(post({ key })))).toBe('in_progress');
    expect(codeOf(await call(post({ key })))).toBe('in_progress');
    work.resume();
    expect((await first).body).toBe('1');
    expect(work.runs).toBe(1);
  });

  it('2: another payload under a used key is refused, and the completed record stays', async () => {
    const { clock, onTable } = timeline(table);
    const work = counter();
    const { call } = stage(onTable(), work.handler, { ...transactional, clock });
    const key = randomUUID();
    await call(post({ key }));
    expect(codeOf(await call(post({ key, body: { amount: 900 } })))).toBe('key_reused');
    expect(isReplay(await call(post({ key })))).toBe(true);
    expect(work.runs).toBe(1);
  });

  it("3: a late owner does not overwrite its successor's result, and answers with that result itself", async () => {
    const { clock, pass, onTable } = timeline(table);
    const work = slow();
    const { call } = stage(onTable(), work.handler, { ...transactional, clock });
    const key = randomUUID();
    const late = call(post({ key }));
    await work.started;
    pass(PAST_THE_LEASE_MS);
    expect((await call(post({ key }))).body).toBe('2');
    work.resume();
    expect((await late).body).toBe('2');
    expect((await call(post({ key }))).body).toBe('2');
  });

  it("4: a late owner that throws removes neither its successor's lock nor its completed record", async () => {
    const { clock, pass, onTable } = timeline(table);
    for (const successor of ['still runs', 'has completed'] as const) {
      const gate = Promise.withResolvers<void>();
      const second = Promise.withResolvers<void>();
      const work = slow(async (run) => {
        if (run === 1) throw new Error('the late one failed');
        second.resolve();
        if (successor === 'still runs') await gate.promise;
        return created(String(run));
      });
      const { call } = stage(onTable(), work.handler, { ...transactional, clock });
      const key = randomUUID();
      const late = call(post({ key })).catch(() => undefined);
      await work.started;
      pass(PAST_THE_LEASE_MS);
      const next = call(post({ key }));
      await second.promise;
      if (successor === 'has completed') await next;
      work.resume();
      await late;
      const third = await call(post({ key }));
      expect(third.statusCode).toBe(successor === 'still runs' ? 409 : 201);
      gate.resolve();
      expect((await next).body).toBe('2');
      expect(work.runs).toBe(2);
    }
  });

  it('5: a live lock lasts as long as its run may, however short the retention', async () => {
    const { clock, pass, onTable } = timeline(table);
    const work = slow();
    const hour = 3_600;
    const retention = (retentionSeconds: number) => ({ ...transactional, clock, retentionSeconds });
    expect(() => stage(onTable(), work.handler, retention(hour - 1))).toThrow(/retentionSeconds is 3599/);
    const { call } = stage(onTable(), work.handler, retention(hour));
    const key = randomUUID();
    const first = call(post({ key }), 3 * hour * 1_000);
    await work.started;
    pass(2 * hour * 1_000);
    expect(codeOf(await call(post({ key })))).toBe('in_progress');
    work.resume();
    await first;
    expect(work.runs).toBe(1);
  });

  it("6: the framework's early timeout does not free a key whose side effect may still finish", async () => {
    const work = slow();
    const { clock } = timeline(table); // It stands still, however long the machine takes to reserve.
    const lambda = middy<unknown, unknown>({ timeoutEarlyInMillis: 1_000 })
      .use(
        idempotency({
          ledger: memoryLedger({ clock }),
          clock,
          tenant: jwtClaim('sub'),
          log: () => {},
          metrics: () => {},
          ...opaque,
        }) as middy.MiddlewareObj<unknown, unknown>,
      )
      .handler(work.handler);
    const call = (event: unknown, remainingMs: number) =>
      lambda(event, { getRemainingTimeInMillis: () => remainingMs } as never);
    const key = randomUUID();
    await expect(call(post({ key }), 1_005)).rejects.toMatchObject({ name: 'TimeoutError' });
    work.resume();
    expect(codeOf((await call(post({ key }), 10_000)) as Result)).toBe('outcome_unknown');
    expect(work.runs).toBe(1);
  });

  it('7: a remaining time of 0 starts nothing and leaves nothing locked', async () => {
    const work = counter();
    const { call } = stage(memoryLedger(), work.handler);
    const key = randomUUID();
    expect((await call(post({ key }), 0)).statusCode).toBe(503);
    expect(work.runs).toBe(0);
    expect((await call(post({ key }))).statusCode).toBe(201);
  });

  it('7: a reservation that took all the time starts nothing either', async () => {
    const { clock, pass } = timeline(table);
    const ledger = memoryLedger({ clock });
    const work = counter();
    let delayMs = 9_990;
    const reserve: typeof ledger.reserve = (...args) => {
      pass(delayMs);
      return ledger.reserve(...args);
    };
    const { call } = stage({ ...ledger, reserve }, work.handler, { ...transactional, clock });
    const key = randomUUID();
    expect((await call(post({ key }))).statusCode).toBe(503);
    expect(work.runs).toBe(0);
    delayMs = 0;
    expect((await call(post({ key }))).statusCode).toBe(201);
  });

  it('8: a lost response to the reservation does not lock the caller out of its own key', async () => {
    const client = table.newClient();
    const wire = wireOf(client, times(1, responseLost));
    const work = counter();
    const ledger = dynamoDbLedger({ ...table, client, sleep: async () => {} });
    const { call } = stage(ledger, work.handler);
    const key = randomUUID();
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: '1' });
    expect(isReplay(await call(post({ key })))).toBe(true);
    expect(work.runs).toBe(1);
    expect(wire.sent.length).toBeGreaterThan(3);
    client.destroy();
  });

  it('9: between looking and reserving there is no gap for a second process to run through', async () => {
    const work = slow();
    const processes = [1, 2].map(() => stage(dynamoDbLedger(table), work.handler));
    const key = randomUUID();
    const answers = processes.map(({ call }) => call(post({ key })));
    const loser = await Promise.race(answers);
    work.resume();
    expect(codeOf(loser)).toBe('in_progress');
    await Promise.all(answers);
    expect(work.runs).toBe(1);
  });

  it('10: of many concurrent duplicates one runs, and all get its answer', async () => {
    const work = counter();
    const { call } = stage(dynamoDbLedger(table), work.handler, { ...transactional, inFlight: 'wait' });
    const key = randomUUID();
    const answers = await Promise.all(Array.from({ length: 30 }, () => call(post({ key }))));
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['1']));
    expect(work.runs).toBe(1);
  });
});

describe('identity', () => {
  it('11: a handler that mutates the event completes the record it reserved', async () => {
    let runs = 0;
    const { call } = stage(memoryLedger(), async (event) => {
      runs += 1;
      event.headers['idempotency-key'] = 'another';
      event.body = '{"amount":0}';
      event.rawPath = '/elsewhere';
      event.requestContext.authorizer.jwt.claims.sub = 'somebody-else';
      return created();
    });
    const key = randomUUID();
    await call(post({ key }));
    expect(isReplay(await call(post({ key })))).toBe(true);
    expect(runs).toBe(1);
  });

  it('12: parallel calls through one function complete under their own keys', async () => {
    const { call } = stage(memoryLedger(), async (event) => {
      const { amount } = JSON.parse(event.body);
      await new Promise((resolve) => setTimeout(resolve, 10 - amount));
      return created(String(amount));
    });
    const requests = Array.from({ length: 10 }, (_, amount) => ({ key: randomUUID(), body: { amount } }));
    await Promise.all(requests.map((request) => call(post(request))));
    for (const request of requests) {
      const replay = await call(post(request));
      expect([isReplay(replay), replay.body]).toEqual([true, String(request.body.amount)]);
    }
  });

  it('13: an empty, blank or missing key is refused, so that nobody shares it', async () => {
    const work = counter();
    const { call } = stage(memoryLedger(), work.handler);
    for (const key of ['', '  ', '""']) expect(codeOf(await call(post({ key })))).toBe('key_malformed');
    expect(codeOf(await call(post({})))).toBe('key_missing');
    expect(work.runs).toBe(0);
  });

  it('14: the same key on /refund does not replay /charge', async () => {
    const { call } = stage(memoryLedger(), async (event) => created(event.rawPath));
    const key = randomUUID();
    expect((await call(post({ key, path: '/charge' }))).body).toBe('/charge');
    expect((await call(post({ key, path: '/refund' }))).body).toBe('/refund');
  });

  it('15: the name of the header protects in any case', async () => {
    const work = counter();
    const { call } = stage(memoryLedger(), work.handler, { ...opaque, required: false });
    const key = randomUUID();
    for (const name of ['Idempotency-Key', 'idempotency-key', 'IDEMPOTENCY-KEY']) {
      expect((await call(post({ headers: { [name]: key } }))).body).toBe('1');
    }
    expect(work.runs).toBe(1);
  });

  it('16: /1/refund and /2/refund of one route are different requests', async () => {
    const work = counter();
    const { call } = stage(memoryLedger(), work.handler);
    const key = randomUUID();
    const refund = (id: number) => ({
      ...post({ key, path: `/payments/${id}/refund` }),
      routeKey: 'POST /payments/{id}/refund',
    });
    await call(refund(1));
    expect(codeOf(await call(refund(2)))).toBe('key_reused');
    expect(isReplay(await call(refund(1)))).toBe(true);
  });

  it("17: one tenant's key never replays another tenant's response", async () => {
    const { call } = stage(memoryLedger(), async (event) =>
      created(event.requestContext.authorizer.jwt.claims.sub),
    );
    const key = randomUUID();
    expect((await call(post({ key, sub: 'ann' }))).body).toBe('ann');
    expect((await call(post({ key, sub: 'bob' }))).body).toBe('bob');
  });
});

describe('fingerprint', () => {
  const second = async (before: string, after: string) => {
    const { call } = stage(memoryLedger(), async () => created());
    const key = randomUUID();
    await call(post({ key, body: before }));
    return call(post({ key, body: after }));
  };

  it('18: member order never matters, and a member named __proto__ always does', async () => {
    expect(isReplay(await second('{"a":1,"A":2}', '{"A":2,"a":1}'))).toBe(true);
    expect(codeOf(await second('{"a":1,"A":2}', '{"a":2,"A":1}'))).toBe('key_reused');
    expect(codeOf(await second('{"__proto__":{"amount":1}}', '{"__proto__":{"amount":2}}'))).toBe(
      'key_reused',
    );
  });

  it('19: amounts that JSON.parse cannot tell apart are different requests', async () => {
    expect(codeOf(await second('{"amount":9007199254740992}', '{"amount":9007199254740993}'))).toBe(
      'key_reused',
    );
  });

  it('20: nesting without end crashes nothing', async () => {
    const levels = 100_000;
    const deep = (inner: string) => '['.repeat(levels) + inner + ']'.repeat(levels);
    expect(isReplay(await second(deep('1'), deep('1')))).toBe(true);
    expect(codeOf(await second(deep('1'), deep('2')))).toBe('key_reused');
  });
});

describe('storing and replaying', () => {
  const replayOf = async (response: unknown): Promise<[Result, Result]> => {
    const { call } = stage(dynamoDbLedger(table), async () => response);
    const key = randomUUID();
    return [await call(post({ key })), await call(post({ key }))];
  };

  it('21: what a peer cannot store is stored: a Date, an absent value, more than 400 KB', async () => {
    const [, date] = await replayOf({ at: new Date(0), nothing: undefined, number: Number.NaN });
    expect([isReplay(date), date.body]).toEqual([true, '{"at":"1970-01-01T00:00:00.000Z","number":null}']);
    const large = randomUUID().repeat(20_000);
    const [, replay] = await replayOf(created(large));
    expect([isReplay(replay), replay.body === large]).toEqual([true, true]);
  });

  it('22: a success that is no response at all does not release the key: nothing runs twice', async () => {
    const work = counter(() => undefined);
    const { call } = stage(memoryLedger(), work.handler, opaque);
    const key = randomUUID();
    await expect(call(post({ key }))).rejects.toThrow(/no HTTP response/);
    expect(codeOf(await call(post({ key })))).toBe('outcome_unknown');
    expect(work.runs).toBe(1);
  });

  it('23: a binary body is replayed byte for byte', async () => {
    const body = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)).toString('base64');
    const [first, replay] = await replayOf({ ...created(body), isBase64Encoded: true });
    expect(replay).toMatchObject({ body, isBase64Encoded: true });
    expect(replay.body).toBe(first.body);
  });

  it('24: a cookie goes to the caller that earned it and to no replay', async () => {
    const [first, replay] = await replayOf(created('"in"', { 'Set-Cookie': 'session=1' }));
    expect(JSON.stringify(first)).toContain('session=1');
    expect(JSON.stringify(replay)).not.toMatch(/session=1|set-cookie/i);
  });

  it('25: a returned 500 is not replayed: the retry runs, or is told that the outcome is unknown', async () => {
    for (const options of [transactional, opaque]) {
      const work = counter((run) => (run === 1 ? { statusCode: 500, body: 'oops' } : created()));
      const { call } = stage(memoryLedger(), work.handler, options);
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(500);
      const retry = await call(post({ key }));
      expect(retry.statusCode).toBe(options === transactional ? 201 : 409);
      expect(isReplay(retry)).toBe(false);
    }
  });

  it('26: a failure that a fix cures is gone once it is fixed', async () => {
    let broken = true;
    const { call } = stage(
      memoryLedger(),
      async () => {
        if (broken) throw new Error('a bug');
        return created();
      },
      {
        ...transactional,
        validate: ({ body }) => (body.length > 0 ? [] : [{ pointer: '', detail: 'empty' }]),
      },
    );
    const key = randomUUID();
    expect(codeOf(await call(post({ key, body: '' })))).toBe('validation_failed');
    await expect(call(post({ key }))).rejects.toThrow('a bug');
    broken = false;
    expect((await call(post({ key }))).statusCode).toBe(201);
  });

  it('27: outer hooks run on a replay too: the CORS headers are there', async () => {
    const cors = httpCors({ origins: ['https://shop.example'] }) as middy.MiddlewareObj;
    const { call } = stage(memoryLedger(), async () => created(), transactional, [cors]);
    const request = { key: randomUUID(), headers: { Origin: 'https://shop.example' } };
    await call(post(request));
    const replay = await call(post(request));
    expect(isReplay(replay)).toBe(true);
    expect(replay.headers['Access-Control-Allow-Origin']).toBe('https://shop.example');
  });

  it('28: what a caller does to a response never reaches a replay, from the table or from memory', async () => {
    for (const cache of [false, true]) {
      const mine = created('"paid"');
      const { call } = stage(dynamoDbLedger(table), async () => mine, { ...transactional, cache });
      const key = randomUUID();
      for (const answer of [await call(post({ key })), await call(post({ key }))]) {
        answer.body = '"poison"';
        answer.headers['content-type'] = 'text/poison';
      }
      mine.body = '"poison"';
      expect(await call(post({ key }))).toMatchObject({
        body: '"paid"',
        headers: { 'content-type': 'application/json', 'Idempotent-Replayed': 'true' },
      });
    }
  });

  it('28: without the optional cache nothing outlives its record', async () => {
    const work = counter();
    const { call } = stage(dynamoDbLedger(table), work.handler);
    const key = randomUUID();
    await call(post({ key }));
    const pk = scopePk({ tenant: 'tenant-1', operation: 'POST /payments', key });
    await table.client.send(
      new DeleteItemCommand({ TableName: table.tableName, Key: { pk: { S: pk }, sk: { S: RECORD_SK } } }),
    );
    expect(await call(post({ key }))).toMatchObject({ body: '2' });
  });

  it('29: Location and ETag are on the replay', async () => {
    const headers = { Location: '/payments/1', ETag: '"v1"' };
    const [, replay] = await replayOf(created('{}', headers));
    expect(isReplay(replay)).toBe(true);
    expect(replay.headers).toMatchObject(headers);
  });

  it('30: the result is stored before anybody sees it', async () => {
    const ledger = memoryLedger();
    const asked = Promise.withResolvers<void>();
    const stored = Promise.withResolvers<void>();
    const { call } = stage(
      {
        ...ledger,
        async complete(...args) {
          asked.resolve();
          await stored.promise;
          return ledger.complete(...args);
        },
      },
      async () => created(),
    );
    let answered = false;
    const answer = call(post({ key: randomUUID() })).then(() => {
      answered = true;
    });
    await asked.promise;
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(answered).toBe(false);
    stored.resolve();
    await answer;
  });

  it('31: neither a client nor a handler can claim that an answer is a replay', async () => {
    const spoof = { 'Idempotent-Replayed': 'true', 'x-hit': 'true' };
    const work = counter(() => created('"paid"', { 'Idempotent-Replayed': 'true' }));
    const { call } = stage(memoryLedger(), work.handler);
    const key = randomUUID();
    expect(isReplay(await call(post({ key, headers: spoof })))).toBe(false);
    expect(work.runs).toBe(1);
    expect(isReplay(await call(post({ key })))).toBe(true);
  });
});

describe('crashes and outages', () => {
  it('32: after a crash the key is free when the lease is over, not when the retention is', async () => {
    const { clock, pass, onTable } = timeline(table);
    const work = slow();
    const { call } = stage(onTable(), work.handler, { ...transactional, clock });
    const key = randomUUID();
    const crashed = call(post({ key }));
    await work.started;
    expect((await call(post({ key }))).statusCode).toBe(409);
    pass(PAST_THE_LEASE_MS);
    expect(await call(post({ key }))).toMatchObject({ statusCode: 201, body: '2' });
    work.resume();
    await crashed;
  });

  it('33: after a timeout of an opaque operation nothing runs again by itself', async () => {
    const { clock, pass, onTable } = timeline(table);
    const work = slow();
    const { call } = stage(onTable(), work.handler, { ...opaque, clock });
    const key = randomUUID();
    const killed = call(post({ key }));
    await work.started;
    pass(PAST_THE_LEASE_MS);
    for (const retry of [await call(post({ key })), await call(post({ key }))]) {
      expect(codeOf(retry)).toBe('outcome_unknown');
    }
    expect(work.runs).toBe(1);
    work.resume();
    await killed;
  });

  it('34: with the store down nothing runs, and the caller is answered before its deadline', async () => {
    const { clock, pass } = timeline(table);
    const client = table.newClient();
    wireOf(client, always(neverArrived));
    const sleep = async (ms: number) => pass(Math.max(1, ms));
    const work = counter();
    const { call } = stage(dynamoDbLedger({ ...table, client, clock, sleep }), work.handler, {
      ...transactional,
      clock,
    });
    const since = clock();
    expect(codeOf(await call(post({ key: randomUUID() })))).toBe('store_unavailable');
    expect(clock() - since).toBeLessThan(10_000);
    expect(work.runs).toBe(0);
    client.destroy();
  });

  it("35: a cleanup that fails does not mask the handler's error", async () => {
    for (const fault of [new StoreUnavailable('silence'), new StoreRefused('no permission')]) {
      const fails = () => Promise.reject(fault);
      const ledger = { ...memoryLedger(), release: fails, markUnknown: fails };
      for (const options of [transactional, opaque]) {
        const { call } = stage(ledger, () => Promise.reject(new Error('card declined')), options);
        await expect(call(post({ key: randomUUID() }))).rejects.toThrow('card declined');
      }
    }
  });
});
