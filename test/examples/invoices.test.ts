import { memoryLedger } from 'oncekey/testing';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => void vi.restoreAllMocks());

// #region memory
const ledger = memoryLedger();
vi.doMock('./ledger.ts', () => ({ ledger }));
const { pay, payOrPostpone } = await import('./invoices.ts');

it('pays an invoice once, and gives every caller the same result', async () => {
  const invoice = { customerId: 'ann', invoiceId: '2026-1', amount: 500 };
  expect(await pay(invoice)).toEqual(await pay(invoice));
  expect(ledger.written).toHaveLength(1);
});
// #endregion memory

it('does later what may be tried again, and hands a person what may not', async () => {
  const invoice = { customerId: 'ann', invoiceId: '2026-2', amount: 500 };
  const both = await Promise.all([payOrPostpone(invoice), payOrPostpone(invoice)]);
  expect(both).toEqual(['paid', 'later']);
  expect(await payOrPostpone({ ...invoice, amount: 900 })).toBe('for a person');
});
