import { randomBytes, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { type MemoryLedger, memoryLedger } from '../../lib/ledger/memory.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import { post, stage } from './stage.ts';

const START = 1_900_000_000_000;

/** Counts how often it is asked. */
function counted(memory: MemoryLedger) {
  let asked = 0;
  const reserve: typeof memory.reserve = (...args) => {
    asked += 1;
    return memory.reserve(...args);
  };
  return { ...memory, reserve, asked: () => asked };
}

/** A function with a cache, and a ledger that counts how often it is asked. */
function scene(cache: IdempotencyOptions['cache'], status = 201, body = '"paid"', headers = {}) {
  let now = START;
  const clock = () => now;
  const ledger = counted(memoryLedger({ clock }));
  const handler = async () => ({ statusCode: status, headers, body });
  return {
    ...stage(ledger, handler, { effects: 'transactional', clock, ...(cache !== undefined && { cache }) }),
    reservesAsked: ledger.asked,
    setNow(next: number) {
      now = next;
    },
  };
}

describe('the warm cache', () => {
  it('replays without asking the store, and says the same as the record', async () => {
    const { call, reservesAsked } = scene(true);
    const key = randomUUID();
    const first = await call(post({ key }));
    const second = await call(post({ key }));
    expect(reservesAsked()).toBe(1);
    expect(second).toMatchObject({ statusCode: 201, body: first.body });
    expect(second.headers['Idempotent-Replayed']).toBe('true');
    expect(second.headers['Idempotency-Expires']).toBe(first.headers['Idempotency-Expires']);
  });

  it('is off unless it is asked for', async () => {
    const { call, reservesAsked } = scene(undefined);
    const key = randomUUID();
    await call(post({ key }));
    await call(post({ key }));
    expect(reservesAsked()).toBe(2);
  });

  it('refuses the key with another body as the record does', async () => {
    const { call } = scene(true);
    const key = randomUUID();
    await call(post({ key }));
    expect((await call(post({ key, body: { amount: 9 } }))).statusCode).toBe(422);
  });

  it('forgets what has expired', async () => {
    const { call, reservesAsked, setNow } = scene(true);
    const key = randomUUID();
    await call(post({ key }));
    setNow(START + 86_400_000);
    await call(post({ key }));
    expect(reservesAsked()).toBe(2);
  });

  it('never keeps a failure, which an operator may reopen', async () => {
    const { call, reservesAsked } = scene(true, 402);
    const key = randomUUID();
    await call(post({ key }));
    await call(post({ key }));
    expect(reservesAsked()).toBe(2);
  });

  it('keeps no more entries and bytes than it may, and drops the oldest first', async () => {
    for (const cache of [
      { entries: 2, bytes: 100_000 },
      { entries: 9, bytes: 1_300 }, // Two entries with all that they hold beside their bodies.
    ]) {
      const { call, reservesAsked } = scene(cache);
      const keys = [randomUUID(), randomUUID(), randomUUID()];
      for (const key of keys) await call(post({ key }));
      for (const key of [...keys].reverse()) await call(post({ key }));
      expect(reservesAsked()).toBe(4);
    }
  });

  it('takes what was asked for last for the newest', async () => {
    const { call, reservesAsked } = scene({ entries: 2 });
    const [first, second, third] = [randomUUID(), randomUUID(), randomUUID()];
    for (const key of [first, second, first, third]) await call(post({ key }));
    expect(reservesAsked()).toBe(3);
    await call(post({ key: first }));
    expect(reservesAsked()).toBe(3);
    await call(post({ key: second }));
    expect(reservesAsked()).toBe(4);
  });

  it('gives out copies: what is done to one answer changes no other', async () => {
    const { call } = scene(true);
    const key = randomUUID();
    await call(post({ key }));
    const spoiled = await call(post({ key }));
    spoiled.body = 'spoiled';
    spoiled.headers['location'] = '/spoiled';
    expect(await call(post({ key }))).toMatchObject({ body: '"paid"' });
    expect((await call(post({ key }))).headers).not.toHaveProperty('location');
  });

  it("counts the record's own copy of a body too", async () => {
    const body = randomBytes(3_000).toString('base64'); // 4,000 bytes, and some 3,000 in the record.
    const { call, reservesAsked } = scene({ entries: 9, bytes: 12_000 }, 201, body);
    const [first, second] = [randomUUID(), randomUUID()];
    for (const key of [first, second, second, first]) await call(post({ key }));
    expect(reservesAsked()).toBe(3);
  });

  it('counts headers as bytes too: what is larger than all of it is not kept', async () => {
    const headers = { link: 'x'.repeat(10_000) };
    const { call, reservesAsked } = scene({ entries: 9, bytes: 15_000 }, 201, '""', headers);
    const key = randomUUID();
    await call(post({ key }));
    await call(post({ key }));
    expect(reservesAsked()).toBe(2);
  });

  it('never keeps a result whose events are not delivered yet: its record still changes', async () => {
    const ledger = counted(memoryLedger());
    const { call } = stage(
      ledger,
      async (_, { once }) => {
        once.emit({ type: 'charged', payload: {} });
        return { statusCode: 201, headers: {}, body: '' };
      },
      { effects: 'transactional', cache: true },
    );
    const key = randomUUID();
    await call(post({ key }));
    expect((await call(post({ key }))).headers['Idempotent-Replayed']).toBe('true');
    expect(ledger.asked()).toBe(2);
  });
});
