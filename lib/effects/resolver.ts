import type { EpochMs } from '../core/record.ts';

/** An operation that may have taken effect, as far as its record knows it. */
export interface UnknownOperation {
  /** Names the record, in logs and for an operator; what a provider's metadata should carry. */
  readonly operationRef: string;
  readonly operation: string;
  readonly tenant: string;
  /** What a handler that is opaque gives its provider as a reference or key: the same in every attempt. */
  readonly operationId: string;
  readonly attempt: number;
  readonly createdAt: EpochMs;
  readonly lastRunAt: EpochMs;
  /** The effect that the verdict is about, with the key under which the provider has seen it; none if it is opaque. */
  readonly open: { readonly name: string; readonly key: string } | undefined;
  /** What earlier steps returned, and their keys. */
  readonly steps: ReadonlyMap<string, { readonly key: string; readonly result: unknown }>;
  /** The provider's references of what was delivered, in the order of the events. */
  readonly references: readonly (string | undefined)[];
}

/** What a resolver found out. It says what it knows, and never guesses. */
export type Verdict =
  /**
   * It happened. With the response of the whole operation, or with the result of the open effect. Where no effect is open
   * (the provider may have forgotten a key), `step` names the one that turned out to have happened.
   */
  | { readonly kind: 'executed'; readonly result: unknown; readonly step?: string }
  | { readonly kind: 'notExecuted' }
  /** Ask again, after so long if it knows how long. */
  | { readonly kind: 'undetermined'; readonly retryAfterMs?: number };

/**
 * Asks the provider what became of an operation. Reconciliation calls it; a request never waits for it. After ten seconds
 * nobody waits for it any more: then its signal aborts, and it is asked again later.
 */
export type Resolver = (
  operation: UnknownOperation,
  context: { readonly signal: AbortSignal },
) => Verdict | Promise<Verdict>;

export function executed(result?: unknown, step?: string): Verdict {
  return { kind: 'executed', result, ...(step !== undefined && { step }) };
}

export function notExecuted(): Verdict {
  return { kind: 'notExecuted' };
}

export function undetermined(retryAfterMs?: number): Verdict {
  return { kind: 'undetermined', ...(retryAfterMs !== undefined && { retryAfterMs }) };
}
