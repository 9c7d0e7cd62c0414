import { OncekeyError } from '../core/errors.ts';
import type { WriteRefusal } from '../ledger/ledger.ts';

/** Thrown by a handler that knows that nothing has happened: the key may run again. */
export class NotExecuted extends Error {
  override readonly name = 'NotExecuted';
}

/** The handler's own items were refused by their conditions. Nothing was written, and the key may be retried. */
export class WritesRefused<W = unknown> extends Error {
  override readonly name = 'WritesRefused';
  readonly reasons: readonly WriteRefusal<W>[];

  constructor(reasons: readonly WriteRefusal<W>[]) {
    const refused = reasons
      .filter(({ code }) => code !== 'None')
      .map(({ index, code }) => `write ${index}: ${code}`);
    super(`The transaction was refused (${refused.join(', ')}); nothing was written.`);
    this.reasons = reasons;
  }
}

/** The code no longer has the steps that the record has: renamed, reordered or left out. It must not guess. */
export class StepsChanged extends OncekeyError {
  override readonly remedy = 'fix-code';
}

/** Another attempt has the record by now. Whatever this one still does is refused; the record answers in its place. */
export class AttemptOvertaken extends OncekeyError {
  override readonly remedy = 'retry-same-key';
}
