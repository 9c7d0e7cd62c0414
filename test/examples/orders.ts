import middy from '@middy/core';
import type { APIGatewayProxyEventV2WithJWTAuthorizer } from 'aws-lambda';
import { idempotency, jwtClaim, WritesRefused } from 'oncekey';
import * as z from 'zod';
import { ledger } from './ledger.ts';

const Order = z.object({ sku: z.string().min(1), quantity: z.int().positive() });

const soldOut: middy.MiddlewareObj = {
  onError(request) {
    if (!(request.error instanceof WritesRefused)) return;
    const conditions = request.error.reasons.filter(({ code }) => code === 'ConditionalCheckFailed');
    if (conditions.length > 0) request.response = { statusCode: 409, body: '{"error":"sold out"}' };
  },
};

export const handler = middy<APIGatewayProxyEventV2WithJWTAuthorizer>()
  .use(soldOut) // Before idempotency(), so it is outside of it and sees how the writes went.
  .use(idempotency({ ledger, tenant: jwtClaim('sub'), effects: 'transactional', validate: Order }))
  .handler(async (event, { once }) => {
    const { sku, quantity } = Order.parse(JSON.parse(event.body ?? ''));
    const id = once.operationId; // The same in every attempt.
    once.write(
      {
        Update: {
          TableName: process.env['STOCK_TABLE'],
          Key: { sku },
          UpdateExpression: 'SET inStock = inStock - :n',
          ConditionExpression: 'inStock >= :n',
          ExpressionAttributeValues: { ':n': quantity },
        },
      },
      { Put: { TableName: process.env['ORDERS_TABLE'], Item: { id, sku, quantity } } },
    );
    return { statusCode: 201, headers: { location: `/orders/${id}` }, body: JSON.stringify({ id }) };
  });
