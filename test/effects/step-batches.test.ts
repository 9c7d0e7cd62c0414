import type { SQSRecord } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { protectBatch } from '../../lib/middleware/protect-batch.ts';
import { boom, counted, HANDED_BACK_MS, LAPSE_MS, type Once } from './doors.ts';

/** A queue whose messages are orders, and the handler behind it. */
function queue(handler: (order: string, once: Once) => Promise<unknown>) {
  let now = Date.UTC(2030, 0, 15, 12);
  let sent = 0;
  const lambda = protectBatch<SQSRecord>(({ body }, { once }) => handler(body, once), {
    ledger: memoryLedger({ clock: () => now }),
    operation: 'ship',
    effects: 'steps',
    tenant: () => 'shop',
    key: ({ body }) => body,
    clock: () => now,
    log: () => {},
    metrics: () => {},
  });
  return {
    pass(ms: number) {
      now += ms;
    },
    /** Returns the orders that go back to the queue. */
    async deliver(...orders: string[]): Promise<string[]> {
      sent += 1; // Another id for every delivery.
      const ids = new Map(orders.map((order) => [`${sent}-${order}`, order]));
      const Records = [...ids].map(([messageId, body]) => ({ messageId, body, eventSource: 'aws:sqs' }));
      const { batchItemFailures } = await lambda({ Records }, { getRemainingTimeInMillis: () => 10_000 });
      return batchItemFailures.map(({ itemIdentifier }) => ids.get(itemIdentifier) ?? '');
    },
  };
}

describe('steps behind protectBatch()', () => {
  it('are resumed by the next delivery of a message, and leave its neighbours alone', async () => {
    const label = counted('label');
    const pickup = counted((call) => (call === 1 ? boom() : 'picked up'));
    const { deliver, pass } = queue(async (order, once) => {
      await once.step('label', label);
      if (order === 'unlucky') await once.step('pickup', pickup);
    });
    expect(await deliver('lucky', 'unlucky')).toEqual(['unlucky']);
    pass(HANDED_BACK_MS);
    expect(await deliver('lucky', 'unlucky')).toEqual([]);
    expect([label.calls.length, pickup.calls.length]).toEqual([2, 2]);
    const [first, second] = pickup.calls;
    expect(second?.key).toBe(first?.key);
  });

  it('that failed as an effect send the message back, again and again, and are not tried again', async () => {
    const mail = counted(boom);
    const { deliver, pass } = queue((_, once) => once.effect('mail', mail));
    for (const _ of [1, 2, 3]) {
      expect(await deliver('order-1')).toEqual(['order-1']);
      pass(LAPSE_MS);
    }
    expect(mail.calls).toHaveLength(1);
  });

  it('may return anything from the function, whose result is not kept', async () => {
    const { deliver } = queue(async (_, once) => {
      await once.step('label', () => 1);
      return new Date();
    });
    expect(await deliver('order-1')).toEqual([]);
  });
});
