import { type DynamoDBClient, GetItemCommand, UpdateItemCommand } from '@aws-sdk/client-dynamodb';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { post, stage } from '../middleware/stage.ts';
import { created, START } from '../middleware/work.ts';

const rowOf = (order: string) => ({ pk: { S: `charges of ${order}` }, sk: { S: 'row' } });

/** How often an order was charged, whoever did it. */
export async function chargesOf(client: DynamoDBClient, tableName: string, order: string): Promise<number> {
  const input = { TableName: tableName, Key: rowOf(order), ConsistentRead: true };
  const { Item } = await client.send(new GetItemCommand(input));
  return Number(Item?.['charges']?.N ?? 0);
}

/**
 * One node of a payment API. Its charge is an effect beside the ledger: nothing but the key keeps it from happening
 * twice. Its time stands still, so that a slow machine is not taken for a store that does not answer.
 */
export function paymentNode(
  client: DynamoDBClient,
  tableName: string,
  now = START,
  afterCharge: () => Promise<void> = async () => {},
) {
  const clock = () => now;
  const { call } = stage(
    dynamoDbLedger({ tableName, client, clock }),
    async ({ body }) => {
      await client.send(
        new UpdateItemCommand({
          TableName: tableName,
          Key: rowOf(JSON.parse(body).order),
          UpdateExpression: 'ADD charges :one',
          ExpressionAttributeValues: { ':one': { N: '1' } },
        }),
      );
      await afterCharge();
      return created('"charged"');
    },
    { effects: 'opaque', onUnknown: 'park', clock },
  );
  return (order: string) => call(post({ key: order, body: { order } }));
}
