import { OncekeyError, protect } from 'oncekey';
import { ledger } from './ledger.ts';

export interface Invoice {
  readonly customerId: string;
  readonly invoiceId: string;
  readonly amount: number;
}

// #region protect
export const pay = protect(
  async ({ invoiceId, amount }: Invoice, { once }) => {
    const paidAt = new Date().toISOString();
    once.write({ Put: { TableName: 'payments', Item: { id: once.operationId, invoiceId, amount, paidAt } } });
    return { paymentId: once.operationId, paidAt }; // Whoever calls again gets a copy of this.
  },
  {
    ledger,
    operation: 'pay-invoice',
    tenant: ({ customerId }) => customerId,
    key: ({ invoiceId }) => invoiceId, // From what is to be done; never a time, a counter or a random number.
    effects: 'transactional',
    deadlineMs: 20_000,
  },
);
// #endregion protect

// #region remedy
/** What a worker does with an invoice that was not paid. */
export async function payOrPostpone(invoice: Invoice): Promise<'paid' | 'later' | 'for a person'> {
  try {
    await pay(invoice);
    return 'paid';
  } catch (error) {
    if (!(error instanceof OncekeyError)) throw error; // Your function's own failure.
    switch (error.remedy) {
      case 'retry-same-key': // OperationInProgress, OperationUnavailable, OperationNotExecuted, OutcomeUnknown
        return 'later';
      case 'fix-code': // KeyReused, ResultNotJson, InvalidArgument
      case 'fix-deployment': // StoreRefused: a permission, or the table
      case 'inspect-record': // KeyExpired, RecordUnreadable, OutcomeUnknown once it is parked
        return 'for a person';
      default:
        return error.remedy satisfies never;
    }
  }
}
// #endregion remedy
