import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { pkOf, post, stage } from '../middleware/stage.ts';

/** A request whose handler emits these events: the record that it leaves, or why it cannot. */
async function emitting(...events: readonly { readonly type: string; readonly payload: unknown }[]) {
  const key = randomUUID();
  const { call, ledger } = stage(memoryLedger(), async (_, { once }) => {
    for (const event of events) once.emit(event);
    return { statusCode: 201, headers: {}, body: '{}' };
  });
  const error = await call(post({ key })).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  return { error, record: await ledger.read(pkOf(key)) };
}

const refusedWith = (message: RegExp) => ({
  error: expect.objectContaining({
    name: InvalidArgument.name,
    message: expect.stringMatching(message),
  }),
  record: expect.objectContaining({ status: 'failed_retryable' }),
});

describe('the events of an operation', () => {
  it('are measured in bytes, as their record is, and not in characters', async () => {
    const room = limits.recordTextMaxBytes;
    const fits = await emitting({ type: 'charge', payload: '漢'.repeat(room / 4) });
    expect(fits.error).toBeUndefined();
    const characters = Math.ceil(room / 3);
    expect(characters).toBeLessThan(room);
    expect(await emitting({ type: 'charge', payload: '漢'.repeat(characters) })).toEqual(
      refusedWith(/events of this record have \d+ bytes/),
    );
  });

  it('are measured with their types', async () => {
    const type = 'x'.repeat(limits.recordTextMaxBytes / limits.eventsMax);
    const events = Array.from({ length: limits.eventsMax }, () => ({ type, payload: 1 }));
    expect(await emitting(...events)).toEqual(refusedWith(/events of this record have \d+ bytes/));
  });

  it('are at most 64', async () => {
    const events = Array.from({ length: 64 }, (_, payload) => ({ type: 'charge', payload }));
    const { error, record } = await emitting(...events);
    expect(error).toBeUndefined();
    expect(record?.status === 'completed' && record.outbox).toHaveLength(64);
    expect(await emitting(...events, { type: 'charge', payload: 65 })).toEqual(
      refusedWith(/may emit 64 events; this is one more/),
    );
  });
});
