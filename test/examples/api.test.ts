import { memoryLedger } from 'oncekey/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { post, type Result } from '../middleware/stage.ts';
import { handler } from './api.ts';

vi.mock('./ledger.ts', () => ({ ledger: memoryLedger() }));

const START = 1_900_000_000_000;
const DAY_MS = 86_400_000;

// Before the example is loaded, which takes its clock then.
vi.hoisted(() => vi.useFakeTimers({ toFake: ['Date'] }));

beforeEach(() => {
  vi.setSystemTime(START);
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
});

afterEach(() => {
  vi.restoreAllMocks();
});

async function send(request: Parameters<typeof post>[0]): Promise<Result> {
  const context = { getRemainingTimeInMillis: () => 10_000 } as never;
  const event = post({ headers: { 'api-version': '1' }, ...request });
  return (await handler(event as never, context)) as unknown as Result;
}

const problemOf = ({ body }: Result) => JSON.parse(body);
const keyOf = (name: string) => name.padEnd(16, '-');

describe('operations with policies of their own', () => {
  it('keep results for as long as each says, and answer 410 after that where it says so', async () => {
    const payment = { key: keyOf('kept'), path: '/payments' };
    const report = { key: keyOf('kept'), path: '/reports' };
    const expiries = [await send(payment), await send(report)].map(
      ({ headers }) => headers['Idempotency-Expires'],
    );
    expect(expiries.map((date) => Date.parse(String(date)) - START)).toEqual([7 * DAY_MS, 3_600_000]);
    vi.setSystemTime(START + 8 * DAY_MS);
    expect(problemOf(await send(payment))).toMatchObject({ code: 'key_expired', status: 410 });
    expect((await send(report)).headers).not.toHaveProperty('Idempotent-Replayed');
    vi.setSystemTime(START + 68 * DAY_MS);
    expect((await send(payment)).statusCode).toBe(201);
  });

  it('validate with a function, which consumes no key', async () => {
    const bad = await send({ key: keyOf('bad'), headers: {} });
    const errors = [{ path: 'header.api-version', detail: 'Name the version of the API.' }];
    expect(problemOf(bad)).toMatchObject({ code: 'validation_failed', errors });
    expect((await send({ key: keyOf('bad') })).statusCode).toBe(201);
  });

  it('differ in what a failure means', async () => {
    for (const [path, code] of [
      ['/payouts', 'outcome_unknown'],
      ['/refunds', undefined],
    ] as const) {
      const request = { key: keyOf('failing'), path, body: { amount: 666 } };
      await expect(send(request)).rejects.toThrow('no answer');
      const again = await send(request).catch(() => undefined);
      expect(again && problemOf(again).code).toBe(code);
    }
  });

  it('answer what waits, what is accepted, and what needs no key', async () => {
    for (const [path, status] of [
      ['/payments', 201],
      ['/reports', 202],
      ['/refunds', 409],
    ] as const) {
      const both = [send({ key: keyOf('twice'), path }), send({ key: keyOf('twice'), path })];
      expect((await Promise.all(both)).map(({ statusCode }) => statusCode)).toContain(status);
    }
    expect((await send({ method: 'PATCH', path: '/profile' })).statusCode).toBe(201);
    expect(problemOf(await send({ path: '/refunds' }))).toMatchObject({ code: 'key_missing' });
  });

  it('share the length of keys, the headers that count, those that are stored, and the documentation', async () => {
    const short = await send({ key: 'short' });
    expect(problemOf(short)).toMatchObject({
      code: 'key_malformed',
      type: 'https://docs.shop.example/problems/key_malformed',
    });
    const request = (version: string) => ({ key: keyOf('shared'), headers: { 'api-version': version } });
    expect((await send(request('1'))).headers).toMatchObject({ 'x-request-cost': '3', 'x-trace': 'abc' });
    const replay = await send(request('1'));
    expect(replay.headers).toMatchObject({ 'x-request-cost': '3', 'Idempotent-Replayed': 'true' });
    expect(replay.headers).not.toHaveProperty('x-trace');
    expect(problemOf(await send(request('2'))).code).toBe('key_reused');
  });
});
