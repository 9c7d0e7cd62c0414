import { describe, expect, it } from 'vitest';
import { type Row, RowEndedOtherwise } from '../../lambdas/service/rows.ts';
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
  });
});
