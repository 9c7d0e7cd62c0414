import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { describe, expect, it } from 'vitest';
import { dynamoDbRows, type Row, RowEndedOtherwise } from '../../lambdas/service/rows.ts';
import { ORDER, onBothLedgers, START } from './stage.ts';

const PENDING: Row = {
  ...{ kind: 'payment', tenant: 'shop-7', id: 'pay_1', operationRef: 'ref-1', status: 'pending' },
  ...{ createdAt: START, ...ORDER },
};
const PAID: Row = { ...PENDING, status: 'succeeded', charge: 'pi_1' };

describe('a row', () => {
  onBothLedgers((stage) => {
    it('that has ended stays as it is, whoever says the same again', async () => {
      const { rows } = stage().service;
      await rows.end(PAID);
      await rows.end({ ...PAID, createdAt: START + 1 });
      expect(await rows.read('payment', 'shop-7', 'pay_1')).toEqual(PAID);
    });

    it('that has ended is not changed by who says otherwise', async () => {
      const { rows } = stage().service;
      await rows.end(PAID);
      await expect(rows.end({ ...PAID, charge: 'pi_2' })).rejects.toThrow(RowEndedOtherwise);
      await expect(rows.end({ ...PENDING, status: 'declined', code: 'x' })).rejects.toThrow(
        RowEndedOtherwise,
      );
      expect(await rows.read('payment', 'shop-7', 'pay_1')).toEqual(PAID);
    });

    it('that was declined is not declined for another reason', async () => {
      const { rows } = stage().service;
      const declined: Row = { ...PENDING, status: 'declined', code: 'expired_card' };
      await rows.end(declined);
      await expect(rows.end({ ...declined, code: 'lost_card' })).rejects.toThrow(RowEndedOtherwise);
      expect(await rows.read('payment', 'shop-7', 'pay_1')).toEqual(declined);
    });
  });
});

describe('the rows of a table', () => {
  const sent: object[] = [];
  const client = new DynamoDBClient({ region: 'eu-central-1' });
  client.middlewareStack.add(
    () =>
      async ({ input }) => {
        sent.push(input);
        return { output: { $metadata: {} }, response: {} };
      },
    { step: 'initialize' },
  );
  const rows = dynamoDbRows('rows', client);

  it('are read as they are: whoever has just been answered looks for the row', async () => {
    await rows.read('order', 'shop-7', 'ord_1');
    expect(sent.at(-1)).toMatchObject({ ConsistentRead: true });
  });

  it('are made only where there is none: a second one would start what has ended anew', () => {
    expect(rows.created(PENDING)).toMatchObject({ Put: { ConditionExpression: 'attribute_not_exists(pk)' } });
  });
});
