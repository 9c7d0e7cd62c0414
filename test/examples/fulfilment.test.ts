import type { EventBridgeEvent, SQSRecord } from 'aws-lambda';
import { memoryLedger } from 'oncekey/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { fromBus, fromQueue } from './fulfilment.ts';
import { ledger } from './ledger.ts';

vi.mock('./ledger.ts', () => ({ ledger: memoryLedger() }));

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => void vi.restoreAllMocks());

const context = { getRemainingTimeInMillis: () => 60_000 };
const shipped = () => (ledger as unknown as { written: { Put: { Item: object } }[] }).written;

const message = (messageId: string, body: string) =>
  ({
    messageId,
    body,
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-west-1:1:orders',
  }) as SQSRecord;

describe('the fulfilment example', () => {
  it('ships each order once, and returns only what it could not read', async () => {
    const order = '{"shop":"tea","orderId":"1"}';
    const batch = { Records: [message('a', order), message('b', 'not json')] };
    expect(await fromQueue(batch, context)).toEqual({ batchItemFailures: [{ itemIdentifier: 'b' }] });
    const again = { Records: [message('c', order)] };
    expect(await fromQueue(again, context)).toEqual({ batchItemFailures: [] });
    expect(shipped()).toHaveLength(1);
  });

  it('ships once for an event that is delivered twice', async () => {
    const event = {
      source: 'shop',
      'detail-type': 'OrderPlaced',
      detail: { shop: 'tea', orderId: '2' },
    } as EventBridgeEvent<'OrderPlaced', object>;
    await fromBus({ ...event, id: 'x' }, context);
    await fromBus({ ...event, id: 'y' }, context);
    expect(shipped().map(({ Put }) => Put.Item)).toEqual([
      expect.objectContaining({ orderId: '1' }),
      expect.objectContaining({ orderId: '2' }),
    ]);
  });
});
