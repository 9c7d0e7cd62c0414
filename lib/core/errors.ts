/**
 * Errors are split by what whoever catches them must do, and each says it in `remedy`.
 * A lost race is not an error: the ledger returns it as a result.
 */
export type Remedy = 'retry-same-key' | 'fix-code' | 'fix-deployment' | 'inspect-record';

export abstract class OncekeyError extends Error {
  abstract readonly remedy: Remedy;

  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
  }
}

/** The store did not answer in time. The write may or may not have happened; the same key may be retried. */
export class StoreUnavailable extends OncekeyError {
  override readonly remedy = 'retry-same-key';
}

/** The time given was over before anything was sent. Says nothing about the store. */
export class NoTimeLeft extends StoreUnavailable {
  constructor() {
    super('There was no time left to ask the ledger; nothing was sent.');
  }
}

/** The store answered and refused the call itself: no permission, no such table, an item it cannot take. */
export class StoreRefused extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

/**
 * There is a record, and this release cannot read it: a newer format, or a damaged item. Whether the operation
 * ran is written there, so it is never treated as absent.
 */
export class RecordUnreadable extends OncekeyError {
  override readonly remedy = 'inspect-record';
}

/** The calling code passed something that can never work. Nothing was written. */
export class InvalidArgument extends OncekeyError {
  override readonly remedy = 'fix-code';
}
