import { OncekeyError, type Remedy, StoreUnavailable } from '../core/errors.ts';

/* What a caller is told when its call does not count. Split by what the caller must do. */

abstract class OperationError extends OncekeyError {
  /** Names the record, in logs and for an operator. */
  readonly operationRef: string;

  constructor(operationRef: string, message: string, cause?: unknown) {
    super(message, cause);
    this.operationRef = operationRef;
  }
}

/** A call with this key is still running, or its outcome is still being delivered. Call again later, with the same key. */
export class OperationInProgress extends OperationError {
  override readonly remedy = 'retry-same-key';
  readonly retryAfterMs: number;

  constructor(operationRef: string, retryAfterMs: number, cause?: unknown) {
    super(
      operationRef,
      `The operation ${operationRef} is in progress; call again with the same key after ${retryAfterMs} ms.`,
      cause,
    );
    this.retryAfterMs = retryAfterMs;
  }
}

/** It may have run, and is not run again. Reconciliation finds out; once parked, only an operator does. */
export class OutcomeUnknown extends OperationError {
  override readonly remedy: Remedy;
  readonly parked: boolean;
  /** There is no use in waiting for a parked one. */
  readonly retryAfterMs: number | undefined;

  constructor(operationRef: string, parked: boolean, retryAfterMs: number, cause?: unknown) {
    const next = parked
      ? 'It waits for an operator.'
      : `It is being found out; call again with the same key after ${retryAfterMs} ms.`;
    super(operationRef, `The operation ${operationRef} may have run, and is not run again. ${next}`, cause);
    this.remedy = parked ? 'inspect-record' : 'retry-same-key';
    this.parked = parked;
    this.retryAfterMs = parked ? undefined : retryAfterMs;
  }
}

/** The key belongs to a call with another input. Nothing was run. */
export class KeyReused extends OperationError {
  override readonly remedy = 'fix-code';

  constructor(operationRef: string) {
    super(
      operationRef,
      `The key of ${operationRef} was used with another input. One key is one intent: select one that differs where the input does, or choose with fingerprint: (input) => … what counts as the same.`,
    );
  }
}

/** The key was used so long ago that its result is no longer kept. Nothing was run; whether it ran then, its records say. */
export class KeyExpired extends OperationError {
  override readonly remedy = 'inspect-record';

  constructor(operationRef: string) {
    super(
      operationRef,
      `The key of ${operationRef} was used before, and its result is no longer kept. It is not run again.`,
    );
  }
}

/** The tenant takes too many keys, and this one is new. Nothing was run; call again later, with the same key. */
export class QuotaExceeded extends OperationError {
  override readonly remedy = 'retry-same-key';
  readonly retryAfterMs: number;

  constructor(operationRef: string, retryAfterMs: number) {
    super(
      operationRef,
      `The operation ${operationRef} was not run: its tenant has taken too many keys; call again with the same key after ${retryAfterMs} ms.`,
    );
    this.retryAfterMs = retryAfterMs;
  }
}

/** The record could not be reached, or there was no time to. Call again with the same key. */
export class OperationUnavailable extends StoreUnavailable {
  readonly operationRef: string;
  readonly retryAfterMs: number;

  constructor(operationRef: string, retryAfterMs: number, message: string, cause?: unknown) {
    super(message, cause);
    this.operationRef = operationRef;
    this.retryAfterMs = retryAfterMs;
  }
}

/** The function threw `NotExecuted`. Call again with the same key. */
export class OperationNotExecuted extends OperationError {
  override readonly remedy = 'retry-same-key';
}

/** The function ran, and returned what could not be given to the next caller. Its key is as after a throw. */
export class ResultNotJson extends OperationError {
  override readonly remedy = 'fix-code';
}
