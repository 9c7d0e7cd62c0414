import { OncekeyError } from '../core/errors.ts';
import type { LedgerRecord } from '../core/record.ts';
import type { Moved } from '../ledger/ledger.ts';

/** The move is not legal for the record as it is. The message says why, and what is. */
export class IllegalMove extends OncekeyError {
  override readonly remedy = 'inspect-record';
}

export function illegal(record: LedgerRecord, why: string): IllegalMove {
  return new IllegalMove(`The record ${record.pk} is ${record.status}: ${why}. Nothing was changed.`);
}

/** The ledger has the last word: its conditions may know more than what was read. */
export function made<R extends LedgerRecord>(from: LedgerRecord, result: Moved<R>): R {
  if (result.kind === 'moved') return result.record;
  const now = result.record?.status ?? 'gone';
  throw new IllegalMove(
    `The record ${from.pk} did not allow it: it is ${now} now. Somebody may have changed it since it was read, or the move is not legal for it; inspect it again. Nothing was changed.`,
  );
}
