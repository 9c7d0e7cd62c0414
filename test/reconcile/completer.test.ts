import { randomUUID } from 'node:crypto';
import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { defaultPolicy, schedule } from '../../lib/core/policy.ts';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotency, type OnceContext } from '../../lib/middleware/idempotency.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import { completer, lambdaInvoker } from '../../lib/reconcile/completer.ts';
import { post } from '../middleware/stage.ts';

const ARN = 'arn:aws:lambda:eu-central-1:123456789012:function:payments:live';
const START = Date.UTC(2030, 0, 15, 12);
const LEASE_OVER_MS = 60_000;

/** A function with two steps that dies after the first as often as it is told to, and its completer. */
function world({
  crashes = 1,
  throws = false,
  parser,
}: {
  crashes?: number;
  throws?: boolean;
  parser?: (request: { event: { body: unknown } }) => void;
} = {}) {
  const time = { now: START };
  const clock = () => time.now;
  const ledger: Ledger<unknown> = memoryLedger({ clock });
  const logged: LogEntry[] = [];
  const effects: string[] = [];
  const bodies: unknown[] = [];
  const invoked: { name: string; event: Uint8Array }[] = [];
  let alive = 0;

  const lambda = middy<unknown, unknown, Error, Context & OnceContext<unknown>>();
  if (parser) lambda.use({ before: parser } as never);
  lambda
    .use(
      idempotency({
        ledger,
        tenant: jwtClaim('sub'),
        effects: 'steps',
        complete: 'auto',
        requestHeaders: ['x-channel'],
        fingerprintHeaders: ['x-currency', 'authorization'],
        clock,
        log: (entry) => logged.push(entry),
        metrics: () => {},
      }),
    )
    .handler(async (received, { once }) => {
      const event = received as { body: unknown; headers: object };
      alive += 1;
      bodies.push(event.body);
      await once.step('row', () => void effects.push('row'));
      if (throws) throw new Error('always');
      if (alive <= crashes) await new Promise<never>(() => {});
      const { key } = await once.step('charge', ({ key }) => {
        effects.push('charge');
        return { key };
      });
      return { statusCode: 201, headers: {}, body: JSON.stringify({ key, headers: event.headers }) };
    });

  const run = (event: unknown) =>
    lambda(event, { invokedFunctionArn: ARN, getRemainingTimeInMillis: () => 10_000 } as never);
  const complete = completer({
    ledger,
    clock,
    random: Math.random, // Two who look at once differ in their jitter, and so in what they write.
    log: (entry) => logged.push(entry),
    metrics: () => {},
    invoke: async (name, event) => void invoked.push({ name, event }),
  });
  return { ledger, time, logged, effects, bodies, invoked, run, complete };
}

function parseBody(request: { event: { body: unknown } }): void {
  if (typeof request.event.body !== 'string') throw new Error('the body is not text');
  request.event.body = JSON.parse(request.event.body);
}

function parseForm(request: { event: { body: unknown } }): void {
  request.event.body = Object.fromEntries(new URLSearchParams(String(request.event.body)));
}

/** Starts a request whose function dies, and returns the record that it leaves. */
async function abandoned(
  stage: ReturnType<typeof world>,
  event = post({ key: randomUUID() }),
): Promise<InProgress> {
  const known: LedgerRecord[] = [];
  const { reserve } = stage.ledger;
  Object.assign(stage.ledger, {
    reserve: async (...args: Parameters<typeof reserve>) => {
      const reserved = await reserve(...args);
      known.push(reserved.record);
      return reserved;
    },
  });
  void stage.run(event).catch(() => {});
  await expect.poll(() => stage.effects).toContain('row');
  await expect.poll(async () => (await stage.ledger.read(known[0]?.pk ?? ''))?.steps.size).toBe(1);
  stage.time.now += LEASE_OVER_MS;
  return (await stage.ledger.read(known[0]?.pk ?? '')) as InProgress;
}

const decoded = (event: Uint8Array | undefined) => JSON.parse(Buffer.from(event ?? []).toString());

describe('an operation that was abandoned after a step', () => {
  it('is finished without its client: the steps before the crash do not run again', async () => {
    const stage = world();
    const record = await abandoned(
      stage,
      post({ key: randomUUID(), headers: { 'x-channel': 'app', cookie: 'a=b' } }),
    );
    expect(await stage.complete(record)).toBe('invoked');
    expect(stage.invoked.map(({ name }) => name)).toEqual([ARN]);
    const answer = await stage.run(decoded(stage.invoked[0]?.event));
    expect(stage.effects).toEqual(['row', 'charge']);
    expect(answer).toMatchObject({ statusCode: 201 });
    const done = await stage.ledger.read(record.pk);
    expect(done).toMatchObject({ status: 'completed', attempt: 2 });
    expect(done).not.toHaveProperty('request');
    expect(done).not.toHaveProperty('due');
    const headers = JSON.parse((answer as unknown as { body: string }).body).headers;
    expect(headers).toEqual({ 'content-type': 'application/json', 'x-channel': 'app' });
  });

  it('answers its client, who comes later, with what was stored', async () => {
    const stage = world();
    const key = randomUUID();
    const record = await abandoned(stage, post({ key }));
    await stage.complete(record);
    const answer = (await stage.run(decoded(stage.invoked[0]?.event))) as unknown as { body: string };
    const replay = (await stage.run(post({ key }))) as unknown as { body: string; headers: object };
    expect(replay.body).toBe(answer.body);
    expect(replay.headers).toMatchObject({ 'Idempotent-Replayed': 'true' });
    expect(stage.effects).toEqual(['row', 'charge']);
  });

  it('is read by the hooks in front as it was the first time', async () => {
    const stage = world({ parser: parseBody });
    const record = await abandoned(stage, post({ key: randomUUID(), body: { amount: 500 } }));
    await stage.complete(record);
    await stage.run(decoded(stage.invoked[0]?.event));
    expect(stage.bodies).toEqual([{ amount: 500 }, { amount: 500 }]);
    expect(await stage.ledger.read(record.pk)).toMatchObject({ status: 'completed' });
  });

  it('is left alone if somebody came in between: exactly the scheduled attempt, or none', async () => {
    const stage = world();
    const key = randomUUID();
    const record = await abandoned(stage, post({ key }));
    await stage.complete(record);
    await stage.run(post({ key })); // The client's own retry takes over and finishes.
    const before = await stage.ledger.read(record.pk);
    expect(await stage.run(decoded(stage.invoked[0]?.event))).toMatchObject({ statusCode: 204 });
    expect(await stage.ledger.read(record.pk)).toEqual(before);
    expect(stage.effects).toEqual(['row', 'charge']);
  });

  it('is not taken from an attempt that is alive', async () => {
    const stage = world();
    const record = await abandoned(stage);
    await stage.complete(record);
    stage.time.now = START; // As a clock that is far behind would see it.
    expect(await stage.run(decoded(stage.invoked[0]?.event))).toMatchObject({ statusCode: 409 });
    expect(await stage.ledger.read(record.pk)).toMatchObject({ status: 'in_progress', attempt: 1 });
  });

  it('is invoked again, later and later, while the function keeps dying, and is parked at last', async () => {
    const stage = world({ crashes: Number.POSITIVE_INFINITY });
    let record = await abandoned(stage);
    for (let tries = 1; tries <= schedule.reconcileTries; tries += 1) {
      expect(await stage.complete(record)).toBe('invoked');
      record = (await stage.ledger.read(record.pk)) as InProgress;
      expect(record.due).toMatchObject({ tries });
    }
    expect(await stage.complete(record)).toBe('parked');
    expect(await stage.ledger.read(record.pk)).toMatchObject({
      status: 'in_progress',
      due: { parkedAt: stage.time.now, tries: schedule.reconcileTries, error: 'completions_exhausted' },
    });
    expect(stage.invoked).toHaveLength(schedule.reconcileTries);
    expect(stage.logged.at(-1)).toMatchObject({ decision: 'parked', level: 'error' });
  });

  it('is put off, later and later, while the function keeps failing, and is parked at last', async () => {
    const stage = world({ throws: true });
    let record = await abandoned(stage);
    const pauses: number[] = [];
    while ((await stage.complete(record)) === 'invoked') {
      await stage.run(decoded(stage.invoked.at(-1)?.event)).catch(() => {});
      record = (await stage.ledger.read(record.pk)) as InProgress;
      pauses.push((record.due?.at ?? 0) - stage.time.now);
      stage.time.now = (record.due?.at ?? 0) + LEASE_OVER_MS;
    }
    expect(stage.invoked).toHaveLength(schedule.reconcileTries);
    for (const [tries, pauseMs] of pauses.entries()) {
      const longestMs = Math.min(defaultPolicy.reconcileCapMs, defaultPolicy.reconcileBaseMs * 2 ** tries);
      expect(pauseMs).toBeGreaterThanOrEqual(longestMs / 2);
      expect(pauseMs).toBeLessThanOrEqual(longestMs);
    }
    expect(await stage.ledger.read(record.pk)).toMatchObject({
      status: 'in_progress',
      due: { parkedAt: stage.time.now, error: 'completions_exhausted' },
    });
    expect(stage.effects).toEqual(['row']);
  });

  it('is invoked by one of two who look at once', async () => {
    const stage = world();
    const record = await abandoned(stage);
    const results = await Promise.all([stage.complete(record), stage.complete(record)]);
    expect(results.toSorted()).toEqual(['fenced', 'invoked']);
    expect(stage.invoked).toHaveLength(1);
  });
});

describe('a request that is kept', () => {
  it('is left out if it is too long, with a word in the log; only its client can finish it then', async () => {
    const stage = world();
    const body = { text: Array.from({ length: 8_000 }, () => randomUUID()).join() };
    const record = await abandoned(stage, post({ key: randomUUID(), body }));
    expect(stage.logged).toContainEqual(
      expect.objectContaining({ decision: 'request_not_kept', level: 'warn' }),
    );
    expect(await stage.complete(record)).toBe('no_request');
    expect(stage.invoked).toEqual([]);
  });

  it('is left out if its form was parsed in front of us: as text it would be read as another', async () => {
    const stage = world({ parser: parseForm });
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const record = await abandoned(stage, post({ key: randomUUID(), body: 'amount=5&to=a', headers }));
    expect(stage.bodies).toEqual([{ amount: '5', to: 'a' }]);
    expect(stage.logged).toContainEqual(
      expect.objectContaining({ decision: 'request_not_kept', level: 'warn' }),
    );
    expect(await stage.complete(record)).toBe('no_request');
    expect(stage.invoked).toEqual([]);
  });

  it('has the headers that are part of what it asks for, and no credentials', async () => {
    const stage = world();
    const headers = { 'x-currency': 'EUR', authorization: 'Bearer secret' };
    await stage.complete(await abandoned(stage, post({ key: randomUUID(), headers })));
    const answer = await stage.run(decoded(stage.invoked[0]?.event));
    const seen = JSON.parse((answer as unknown as { body: string }).body).headers;
    expect(seen).toEqual({ 'content-type': 'application/json', 'x-currency': 'EUR' });
  });

  it('needs to know which function to invoke', async () => {
    const stage = world();
    const lambda = middy<unknown, unknown, Error, Context & OnceContext<unknown>>().use(
      idempotency({
        ledger: stage.ledger,
        tenant: jwtClaim('sub'),
        effects: 'steps',
        complete: 'auto',
        log: () => {},
        metrics: () => {},
      }),
    );
    const context = { getRemainingTimeInMillis: () => 10_000 } as never;
    await expect(lambda(post({ key: randomUUID() }), context)).rejects.toThrow(/invokedFunctionArn/);
  });
});

it('a completer says at once what its options lack', () => {
  const make = (options: object) => () =>
    completer({ ledger: memoryLedger(), invoke: async () => {}, ...options });
  expect(make({})).not.toThrow();
  expect(make({ ledger: undefined })).toThrow(/completer\(\) needs ledger/);
  expect(make({ invoke: undefined })).toThrow(/completer\(\) needs invoke, for example/);
  expect(make({ invoke: 'payments' })).toThrow(/invoke is .*; expected a function/);
  expect(make({ invok: async () => {} })).toThrow(/completer\(\) has no option invok/);
});

it('in AWS the function is invoked asynchronously, with the event as its payload', async () => {
  const inputs: unknown[] = [];
  const event = new TextEncoder().encode('{}');
  await lambdaInvoker({ invoke: async (input) => void inputs.push(input) })(ARN, event);
  expect(inputs).toEqual([{ FunctionName: ARN, InvocationType: 'Event', Payload: event }]);
});
