/** One event of an outbox, as it was emitted. */
export interface EmittedEvent {
  readonly type: string;
  readonly payload: unknown;
}

export interface DeliveryContext {
  /** The same in every try, another for every event: the provider's own idempotency key. */
  readonly key: string;
  /** From 1. */
  readonly attempt: number;
  /** Aborts when this try must be over. */
  readonly signal: AbortSignal;
  /** Names the record; put it into the provider's metadata, so that its webhooks and reports lead back here. */
  readonly operationRef: string;
  readonly tenant: string;
}

/** What came of a try. Throwing means that it is to be tried again. */
export type DeliveryOutcome =
  | ({ readonly kind: 'delivered' } & Receipt)
  /** The provider has decided against it, for good: a declined card. It ends a deferred operation, events after it included. */
  | ({ readonly kind: 'refused' } & Receipt)
  /** It may have happened, and asking again could make it happen twice. */
  | { readonly kind: 'uncertain'; readonly reason: string };

interface Receipt {
  /** The provider's own name for what it made of it, such as `ch_3Nk`. */
  readonly reference?: string;
  /** What a deferred operation answers from now on, as a handler would return it. */
  readonly response?: unknown;
}

export interface DeliveryHandler {
  /** Whether the provider does the same thing once, given the same key. If not, it is tried at most once. */
  readonly dedupes: boolean;
  deliver(
    event: EmittedEvent,
    context: DeliveryContext,
  ): DeliveryOutcome | undefined | Promise<DeliveryOutcome | undefined> | Promise<void>;
}

/** By the type of their events. */
export type DeliveryHandlers = Readonly<Record<string, DeliveryHandler>>;

export function delivered(receipt: Receipt = {}): DeliveryOutcome {
  return { kind: 'delivered', ...receipt };
}

export function refused(receipt: Receipt = {}): DeliveryOutcome {
  return { kind: 'refused', ...receipt };
}

export function uncertain(reason: string): DeliveryOutcome {
  return { kind: 'uncertain', reason };
}
