import { randomUUID } from 'node:crypto';
import httpCors from '@middy/http-cors';
import { describe, expect, it } from 'vitest';
import { NotExecuted } from '../../lib/effects/errors.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import { useTable } from '../support/table.ts';
import { post, type Result, stage, type TestHandler } from './stage.ts';

const table = useTable();
const ledger = dynamoDbLedger(table);

const problemOf = ({ body }: Result): Record<string, unknown> => JSON.parse(body);

/** Runs at a twentieth: a hundred requests at once on two cores are slow without anything being lost. */
function slowClock(): () => number {
  const start = Date.now();
  return () => Math.floor(start + (Date.now() - start) / 20);
}

/** A payment that counts how often it happened. */
function payments() {
  const made: number[] = [];
  const handler: TestHandler<TransactWrite> = async (event) => {
    made.push(JSON.parse(event.body).amount);
    return { statusCode: 201, headers: { location: '/payments/1' }, body: `{"paid":${made.length}}` };
  };
  return { made, handler };
}

describe('a protected function', () => {
  it('runs once per key, and replays the stored response byte for byte', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler);
    const key = randomUUID();
    const first = await call(post({ key }));
    const second = await call(post({ key }));
    expect(made).toEqual([500]);
    expect(first).toMatchObject({ statusCode: 201, body: '{"paid":1}' });
    expect(first.headers).not.toHaveProperty('Idempotent-Replayed');
    expect(second.statusCode).toBe(201);
    expect(second.body).toBe(first.body);
    expect(second.headers).toMatchObject({ location: '/payments/1', 'Idempotent-Replayed': 'true' });
    expect(second.headers['Idempotency-Expires']).toBe(first.headers['Idempotency-Expires']);
    expect(second.headers['Cache-Control']).toBe('no-store');
  });

  it('takes a quoted and an unquoted key, and other JSON spacing, for the same request', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler);
    const key = randomUUID();
    await call(post({ key: `"${key}"`, body: '{"amount":500,"currency":"EUR"}' }));
    const again = await call(post({ key, body: '{ "currency": "EUR", "amount": 500 }' }));
    expect(again.headers['Idempotent-Replayed']).toBe('true');
    expect(made).toHaveLength(1);
  });

  it('refuses the key with another body, with 422, or with 400 as Stripe does', async () => {
    for (const [preset, status] of [
      ['ietf', 422],
      ['stripe', 400],
    ] as const) {
      const { made, handler } = payments();
      const { call } = stage(ledger, handler, { effects: 'transactional', preset });
      const key = randomUUID();
      await call(post({ key }));
      const other = await call(post({ key, body: { amount: 900 } }));
      expect(other.statusCode).toBe(status);
      expect(problemOf(other)).toMatchObject({ code: 'key_reused', retry: 'fix-request' });
      expect(made).toEqual([500]);
    }
  });

  it('wants a key for POST and PATCH, and for nothing else', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler);
    for (const method of ['POST', 'PATCH']) {
      const missing = await call(post({ method }));
      expect(missing.statusCode).toBe(400);
      expect(problemOf(missing)['code']).toBe('key_missing');
    }
    expect(made).toEqual([]);
    for (const method of ['PUT', 'DELETE', 'GET'])
      expect((await call(post({ method }))).statusCode).toBe(201);
    expect(made).toHaveLength(3);
  });

  it('simply runs without a key where none is required', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler, { effects: 'opaque', onUnknown: 'park', required: false });
    await call(post({}));
    await call(post({}));
    expect(made).toHaveLength(2);
  });

  it('says what is wrong with a malformed key, and never repeats it', async () => {
    const { call } = stage(ledger, payments().handler);
    const answer = await call(post({ key: '"secret-key-1234' }));
    expect(answer.statusCode).toBe(400);
    expect(problemOf(answer)['code']).toBe('key_malformed');
    expect(answer.body).not.toContain('secret-key');
  });

  it('keeps tenants and operations apart', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler);
    const key = randomUUID();
    for (const event of [post({ key }), post({ key, sub: 'tenant-2' }), post({ key, path: '/refunds' })]) {
      expect((await call(event)).headers).not.toHaveProperty('Idempotent-Replayed');
    }
    expect(made).toHaveLength(3);
  });

  it('does not run without a tenant', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler);
    const event = post({ key: randomUUID() });
    await expect(
      call({ ...event, requestContext: { ...event.requestContext, authorizer: {} } }),
    ).rejects.toThrow(/found no tenant/);
    expect(made).toEqual([]);
  });

  it('answers a duplicate in flight with 409 and Retry-After, or 202, or the result if it waits', async () => {
    for (const [inFlight, status] of [
      ['reject', 409],
      ['accept', 202],
      ['wait', 201],
    ] as const) {
      const key = randomUUID();
      let finish = (): void => {};
      const gate = new Promise<void>((resolve) => {
        finish = resolve;
      });
      let started = (): void => {};
      const running = new Promise<void>((resolve) => {
        started = resolve;
      });
      const { call } = stage(
        ledger,
        async () => {
          started();
          await gate;
          return { statusCode: 201, headers: {}, body: '"done"' };
        },
        { effects: 'transactional', inFlight },
      );
      const first = call(post({ key }));
      await running;
      const second = call(post({ key }));
      if (inFlight === 'wait') setTimeout(finish, 60);
      const answer = await second;
      finish();
      await first;
      expect(answer.statusCode).toBe(status);
      if (inFlight === 'wait') expect(answer.headers['Idempotent-Replayed']).toBe('true');
      else expect(answer.headers['Retry-After']).toBe('1');
    }
  });

  it('runs one of 100 concurrent duplicates, and those that wait have its response within the bound', async () => {
    const { made, handler } = payments();
    const clock = slowClock();
    const patient = dynamoDbLedger({ ...table, clock });
    const waitMs = 4_000;
    const { call } = stage(patient, handler, { effects: 'transactional', inFlight: 'wait', waitMs, clock });
    const key = randomUUID();
    const start = clock();
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => ({ ...(await call(post({ key }))), afterMs: clock() - start })),
    );
    expect(Math.max(...answers.map(({ afterMs }) => afterMs))).toBeLessThan(waitMs);
    expect(made).toEqual([500]);
    expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['{"paid":1}']));
  });

  it('validates before it reserves: a bad request lists every fault and consumes no key', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler, {
      effects: 'transactional',
      validate: ({ body }) => {
        const { amount } = JSON.parse(Buffer.from(body).toString());
        const faults = [];
        if (typeof amount !== 'number') faults.push({ pointer: '#/amount', detail: 'expected a number' });
        if (amount === undefined) faults.push({ pointer: '#/amount', detail: 'is required' });
        return faults;
      },
    });
    const key = randomUUID();
    const bad = await call(post({ key, body: {} }));
    expect(bad.statusCode).toBe(400);
    expect(problemOf(bad)).toMatchObject({ code: 'validation_failed', errors: [{}, {}] });
    expect((await call(post({ key }))).statusCode).toBe(201);
    expect(made).toEqual([500]);
  });

  it('runs outer hooks on replays: CORS headers are there', async () => {
    const { call } = stage(ledger, payments().handler, { effects: 'transactional' }, [
      httpCors({ origins: ['https://shop.example'] }) as never,
    ]);
    const key = randomUUID();
    const event = () =>
      post({ key, headers: { origin: 'https://shop.example', Origin: 'https://shop.example' } });
    await call(event());
    const replay = await call(event());
    expect(replay.headers['Idempotent-Replayed']).toBe('true');
    expect(replay.headers['Access-Control-Allow-Origin']).toBe('https://shop.example');
  });

  it('never stores a cookie, and answers it to the first caller only', async () => {
    const { call } = stage(ledger, async () => ({
      statusCode: 201,
      headers: { 'set-cookie': 'session=1', 'content-type': 'text/plain' },
      body: 'ok',
    }));
    const key = randomUUID();
    const first = (await call(post({ key }))) as Result & { cookies?: string[] };
    expect(first.cookies).toEqual(['session=1']);
    const replay = await call(post({ key }));
    expect(JSON.stringify(replay)).not.toContain('session=1');
    expect(replay.headers['content-type']).toBe('text/plain');
  });
});

describe('a transactional operation', () => {
  const row = (pk: string, condition = 'attribute_not_exists(pk)'): TransactWrite => ({
    Put: { TableName: table.tableName, Item: { pk, sk: 'row' }, ConditionExpression: condition },
  });

  it('commits its writes with its response, once', async () => {
    const pk = randomUUID();
    const { call } = stage<TransactWrite>(ledger, async (_, { once }) => {
      once.write(row(pk));
      return { statusCode: 201, headers: {}, body: '{}' };
    });
    const key = randomUUID();
    expect((await call(post({ key }))).statusCode).toBe(201);
    expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
  });

  it('hands a failed business condition to the function, and the key may be retried', async () => {
    const pk = randomUUID();
    let condition = 'attribute_exists(pk)';
    const { call } = stage<TransactWrite>(
      ledger,
      async (_, { once }) => {
        once.write(row(pk, condition));
        return { statusCode: 201, headers: {}, body: '{}' };
      },
      { effects: 'transactional' },
      [
        {
          onError(request) {
            if (request.error?.name === 'WritesRefused')
              request.response = { statusCode: 409, body: 'sold out' };
          },
        },
      ],
    );
    const key = randomUUID();
    expect(await call(post({ key }))).toMatchObject({ statusCode: 409, body: 'sold out' });
    condition = 'attribute_not_exists(pk)';
    expect((await call(post({ key }))).statusCode).toBe(201);
  });

  it('that throws, or returns a 5xx or 429, may run again under its key', async () => {
    let runs = 0;
    const ends = [
      () => Promise.reject(new Error('the database is away')),
      async () => ({ statusCode: 503, headers: {}, body: 'later' }),
      async () => ({ statusCode: 429, headers: {}, body: 'slower' }),
      async () => ({ statusCode: 201, headers: {}, body: '"paid"' }),
    ];
    const { call } = stage(ledger, async () => {
      const end = ends[runs];
      runs += 1;
      return end?.();
    });
    const key = randomUUID();
    await expect(call(post({ key }))).rejects.toThrow('the database is away');
    expect((await call(post({ key }))).statusCode).toBe(503);
    expect((await call(post({ key }))).statusCode).toBe(429);
    expect((await call(post({ key }))).statusCode).toBe(201);
    expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
    expect(runs).toBe(4);
  });

  it('stores a 4xx as its final answer', async () => {
    let runs = 0;
    const { call } = stage(ledger, async () => {
      runs += 1;
      return { statusCode: 402, headers: {}, body: '"declined"' };
    });
    const key = randomUUID();
    await call(post({ key }));
    expect(await call(post({ key }))).toMatchObject({ statusCode: 402, body: '"declined"' });
    expect(runs).toBe(1);
  });

  it('that defers answers its 202 to every duplicate until it is settled', async () => {
    let runs = 0;
    const { call } = stage<TransactWrite>(ledger, async (_, { once }) => {
      runs += 1;
      once.emit({ type: 'charge', payload: { amount: 500 } });
      once.defer();
      return { statusCode: 202, headers: { location: '/payments/1' }, body: '{"status":"pending"}' };
    });
    const key = randomUUID();
    const first = await call(post({ key }));
    const second = await call(post({ key }));
    expect([first.statusCode, second.statusCode]).toEqual([202, 202]);
    expect(second.body).toBe(first.body);
    expect(second.headers['Retry-After']).toBe('2');
    expect(second.headers).not.toHaveProperty('Idempotency-Expires');
    expect(runs).toBe(1);
  });

  it('that defers without an event is told, and nothing is stored', async () => {
    const { call } = stage<TransactWrite>(ledger, async (_, { once }) => {
      once.defer();
      return { statusCode: 202, headers: {}, body: '' };
    });
    await expect(call(post({ key: randomUUID() }))).rejects.toThrow(/once.defer\(\) without once.emit\(\)/);
  });
});

describe('an opaque operation', () => {
  const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

  it('that throws or returns a 5xx is unknown, and is never run again', async () => {
    for (const end of [
      () => Promise.reject(new Error('timeout')),
      async () => ({ statusCode: 500, headers: {}, body: '' }),
    ]) {
      let runs = 0;
      const { call } = stage(
        ledger,
        async () => {
          runs += 1;
          return end();
        },
        opaque,
      );
      const key = randomUUID();
      await call(post({ key })).catch(() => undefined);
      const again = await call(post({ key }));
      expect(again.statusCode).toBe(409);
      expect(problemOf(again)).toMatchObject({ code: 'outcome_unknown', retry: 'same-key' });
      expect(Number(again.headers['Retry-After'])).toBeGreaterThan(1);
      expect(runs).toBe(1);
    }
  });

  it('that throws NotExecuted may run again', async () => {
    let runs = 0;
    const { call } = stage(
      ledger,
      async () => {
        runs += 1;
        if (runs === 1) throw new NotExecuted('the provider was never called');
        return { statusCode: 201, headers: {}, body: '' };
      },
      opaque,
    );
    const key = randomUUID();
    await expect(call(post({ key }))).rejects.toThrow('the provider was never called');
    expect((await call(post({ key }))).statusCode).toBe(201);
  });

  it('may not use once.write or once.emit', async () => {
    const { call } = stage<TransactWrite>(
      ledger,
      async (_, { once }) => {
        once.emit({ type: 'charge', payload: {} });
        return { statusCode: 201, headers: {}, body: '' };
      },
      opaque,
    );
    await expect(call(post({ key: randomUUID() }))).rejects.toThrow(/refused with effects: 'opaque'/);
  });

  it('that runs into its deadline is called unknown at once, and knows better if it still finishes', async () => {
    const clock = () => Date.UTC(2030, 0, 15, 12); // It stands still: how long the machine takes is not the matter.
    const memory = memoryLedger({ clock });
    const givenUp = Promise.withResolvers<void>();
    const markUnknown: typeof memory.markUnknown = async (...args) => {
      const marked = await memory.markUnknown(...args);
      givenUp.resolve();
      return marked;
    };
    let aborted = false;
    const { call } = stage<unknown>(
      { ...memory, markUnknown },
      async (_, { once }) => {
        await givenUp.promise;
        aborted = once.signal.aborted;
        return { statusCode: 201, headers: {}, body: '"just in time"' };
      },
      { ...opaque, clock },
    );
    const key = randomUUID();
    const first = await call(post({ key }), 1_000);
    expect(aborted).toBe(true);
    expect(first).toMatchObject({ statusCode: 201, body: '"just in time"' });
    expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
  });
});

describe('when the store does not answer', () => {
  it('nothing runs, and the caller is told to come back with the same key', async () => {
    const away = { ...table, client: table.newClient(), clock: Date.now };
    away.client.middlewareStack.add(
      () => async () => {
        throw Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
      },
      { step: 'deserialize', priority: 'low', name: 'away' },
    );
    const { made, handler } = payments();
    const { call, measured } = stage(dynamoDbLedger({ ...away, sleep: async () => {} }), handler);
    const answer = await call(post({ key: randomUUID() }), 1_100);
    expect(answer.statusCode).toBe(503);
    expect(problemOf(answer)).toMatchObject({ code: 'store_unavailable', retry: 'same-key' });
    expect(answer.headers['Retry-After']).toBe('1');
    expect(made).toEqual([]);
    expect(measured.at(-1)?.metrics['store.error.count']).toBe(1);
  });

  it('a body that cannot be sealed at once is sealed a moment later, and one that never is is not answered for', async () => {
    for (const [failures, status] of [
      [1, 201],
      [Number.POSITIVE_INFINITY, 503],
    ] as const) {
      let left = failures;
      const seal = (body: Uint8Array) => {
        left -= 1;
        if (left >= 0) throw new Error('the key service is throttled');
        return body;
      };
      const sealing = dynamoDbLedger({
        ...table,
        seals: { seal, open: (body) => body },
        sleep: async () => {},
      });
      const { made, handler } = payments();
      const { call } = stage(sealing, handler, { effects: 'opaque', onUnknown: 'park' });
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(status);
      const again = await call(post({ key }));
      if (status === 201) expect(again.headers['Idempotent-Replayed']).toBe('true');
      else expect(problemOf(again)).toMatchObject({ code: 'in_progress', retry: 'same-key' });
      expect(made).toEqual([500]);
    }
  });

  it('a request with no time left does not start', async () => {
    const { made, handler } = payments();
    const { call } = stage(ledger, handler);
    const answer = await call(post({ key: randomUUID() }), 900);
    expect(answer.statusCode).toBe(503);
    expect(made).toEqual([]);
  });
});

describe('what is observed', () => {
  it('by a listener that fails changes nothing', async () => {
    const fails = () => {
      throw new Error('the collector is away');
    };
    const rejects = async () => fails();
    for (const listener of [fails, rejects]) {
      const { made, handler } = payments();
      const { call } = stage(ledger, handler, { effects: 'transactional', log: listener, metrics: listener });
      const key = randomUUID();
      expect((await call(post({ key }))).statusCode).toBe(201);
      expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
      expect(made).toEqual([500]);
    }
  });

  it('tells each decision in one line and one sample, never with the key or the body', async () => {
    const { call, logged, measured } = stage(ledger, payments().handler);
    const key = `very-secret-${randomUUID()}`;
    await call(post({ key, body: { amount: 500, card: '4242424242424242' } }));
    await call(post({ key, body: { amount: 500, card: '4242424242424242' } }));
    expect(logged.map(({ decision }) => decision)).toEqual(['created', 'completed', 'replay']);
    expect(measured.flatMap(({ metrics }) => Object.keys(metrics))).toEqual([
      'reserve.created.count',
      'reserve.latency_ms',
      'execute.latency_ms',
      'complete.latency_ms',
      'reserve.replay.count',
      'reserve.latency_ms',
    ]);
    const said = JSON.stringify([logged, measured]);
    expect(said).not.toContain('very-secret');
    expect(said).not.toContain('4242');
  });
});
