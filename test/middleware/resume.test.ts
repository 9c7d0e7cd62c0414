import { describe, expect, it } from 'vitest';
import type { InProgress } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { completionEvent } from '../../lib/http/completion.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { boom, counted, gate, HANDED_BACK_MS, LAPSE_MS } from '../effects/doors.ts';
import { post, stage, type TestHandler } from './stage.ts';

/** A payment that was abandoned after its first step, with the event that its completer was given. */
async function abandoned(handler: TestHandler<unknown>, died: Promise<void> = new Promise(() => {})) {
  let now = Date.UTC(2030, 0, 15, 12);
  const clock = () => now;
  const ledger = memoryLedger({ clock });
  const options = { effects: 'steps', complete: 'auto', clock } as const;
  const context = { invokedFunctionArn: 'arn:aws:lambda:eu-central-1:1:function:pay' };
  const lambda = (run: TestHandler<unknown>) => {
    const { middy, measured } = stage(ledger, run, options);
    const call = (event: unknown) =>
      (
        middy as unknown as (event: unknown, context: object) => Promise<{ statusCode: number; body: string }>
      )(event, { ...context, getRemainingTimeInMillis: () => 10_000 });
    return { call, measured };
  };
  const event = post({ key: 'k', body: { amount: 700 }, headers: { authorization: 'Bearer secret' } });
  await Promise.race([
    died,
    lambda(handler)
      .call(event)
      .catch(() => undefined),
  ]);
  const record = () => ledger.read(scopePk({ tenant: 'tenant-1', operation: 'POST /payments', key: 'k' }));
  const left = (await record()) as InProgress;
  const kept = await ledger.request(left);
  const scheduled = JSON.parse(
    Buffer.from(completionEvent(kept?.event ?? new Uint8Array(), left)).toString(),
  );
  return {
    ...{ lambda, event, scheduled, record, kept },
    pass(ms: number) {
      now += ms;
    },
  };
}

describe('an invocation by the completer', () => {
  const charge = () => counted((call) => (call === 1 ? boom() : call));

  it('finishes the abandoned attempt from its recovery point, without key or client', async () => {
    const [ride, pay] = [counted('ride'), charge()];
    const handler: TestHandler<unknown> = async ({ body }, { once }) => {
      await once.step('ride', ride);
      await once.step('pay', pay);
      return { statusCode: 201, headers: {}, body };
    };
    const { lambda, event, scheduled, record, kept, pass } = await abandoned(handler);
    expect(kept?.function).toBe('arn:aws:lambda:eu-central-1:1:function:pay');
    expect(JSON.stringify(scheduled)).not.toMatch(/secret|idempotency-key/i);
    pass(HANDED_BACK_MS);
    expect(await lambda(handler).call(scheduled)).toMatchObject({ statusCode: 201, body: '{"amount":700}' });
    expect([ride.calls.length, pay.calls.length]).toEqual([1, 2]);
    expect(await record()).toMatchObject({ status: 'completed', attempt: 2 });
    expect(await lambda(handler).call(event)).toMatchObject({ statusCode: 201, body: '{"amount":700}' });
  });

  it('knows which record it is for and whose, as the first attempt did', async () => {
    const told: unknown[] = [];
    const pay = charge();
    const handler: TestHandler<unknown> = async (_, { once }) => {
      told.push([once.operationRef, once.tenant, once.operationId]);
      await once.step('pay', pay);
      return { statusCode: 201, headers: {}, body: '' };
    };
    const { lambda, scheduled, record, pass } = await abandoned(handler);
    pass(HANDED_BACK_MS);
    await lambda(handler).call(scheduled);
    const { pk, operationId } = (await record()) as InProgress;
    expect(told).toEqual([
      [pk, 'tenant-1', operationId],
      [pk, 'tenant-1', operationId],
    ]);
  });

  it('that comes after another attempt does nothing', async () => {
    const pay = charge();
    const handler: TestHandler<unknown> = async (_, { once }) => {
      await once.step('pay', pay);
      return { statusCode: 500, headers: {}, body: '' };
    };
    const { lambda, event, scheduled, record, pass } = await abandoned(handler);
    pass(HANDED_BACK_MS);
    await lambda(handler).call(event);
    const before = await record();
    pass(LAPSE_MS);
    expect(await lambda(boom).call(scheduled)).toMatchObject({ statusCode: 204 });
    expect(await record()).toEqual(before);
  });

  it('that comes before the lease has passed does not run beside its owner', async () => {
    const { lambda, scheduled } = await abandoned((_, { once }) => once.step('pay', boom));
    expect(await lambda(boom).call(scheduled)).toMatchObject({ statusCode: 409 });
  });

  it('that finds an open effect makes the record unknown instead of running it', async () => {
    const { open: die, opened: died } = gate();
    const hangs = counted(() => {
      die();
      return new Promise(() => {});
    });
    const handler: TestHandler<unknown> = (_, { once }) => once.effect('pay', hangs);
    const { lambda, scheduled, record, pass } = await abandoned(handler, died);
    pass(LAPSE_MS);
    expect(await lambda(handler).call(scheduled)).toMatchObject({ statusCode: 409 });
    expect(await record()).toMatchObject({ status: 'unknown', errorCode: 'open_effect' });
    expect(hangs.calls).toHaveLength(1);
  });
});
