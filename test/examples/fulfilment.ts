import type { EventBridgeEvent, SQSRecord } from 'aws-lambda';
import { protectBatch } from 'oncekey';
import { ledger } from './ledger.ts';

interface Order {
  readonly shop: string;
  readonly orderId: string;
}

type OrderPlaced = EventBridgeEvent<'OrderPlaced', Order>;

const orderIn = ({ body }: SQSRecord): Order => JSON.parse(body);
const shipment = ({ shop, orderId }: Order, id: string) => ({
  Put: { TableName: 'shipments', Item: { id, shop, orderId } },
});

// #region sqs
export const fromQueue = protectBatch(
  async (message: SQSRecord, { once }) => once.write(shipment(orderIn(message), once.operationId)),
  {
    ledger,
    operation: 'ship-order',
    tenant: (message) => orderIn(message).shop,
    key: (message) => orderIn(message).orderId, // Not the messageId: the producer's retry has another one.
    effects: 'transactional',
  },
);
// #endregion sqs

// #region eventbridge
export const fromBus = protectBatch(
  async ({ detail }: OrderPlaced, { once }) => once.write(shipment(detail, once.operationId)),
  {
    ledger,
    operation: 'ship-order',
    tenant: ({ detail }) => detail.shop,
    key: ({ detail }) => detail.orderId,
    effects: 'transactional',
  },
);
// #endregion eventbridge
