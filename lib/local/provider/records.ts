/*
 * What has happened, as it is kept. Nothing is ever changed: what changes has a next version, and whatever showed an object
 * once, an answer or an event, names the version that it showed.
 */

export interface Versioned {
  readonly id: string;
  /** 0, 1, 2 … */
  readonly version: number;
  /** In seconds, as Stripe writes time. */
  readonly created: number;
}

type IntentStatus =
  | 'requires_payment_method'
  | 'requires_confirmation'
  | 'requires_action'
  | 'succeeded'
  | 'canceled';

/** The payment method that was made of one of the test cards. */
export interface UsedCard {
  readonly id: string;
  /** Such as `pm_card_visa`. */
  readonly name: string;
}

/** What Stripe writes under `error`. The objects in it are written when it is answered. */
export interface Failure {
  readonly type: 'api_error' | 'card_error' | 'idempotency_error' | 'invalid_request_error';
  readonly message: string;
  readonly code?: string;
  readonly declineCode?: string;
  readonly param?: string;
  readonly charge?: string;
  readonly card?: UsedCard;
}

export interface Intent extends Versioned {
  /** When this version came about, in milliseconds: search sees it later. */
  readonly changedAt: number;
  readonly amount: number;
  readonly currency: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly status: IntentStatus;
  readonly clientSecret: string;
  readonly methodTypes: readonly string[];
  readonly description?: string;
  readonly receiptEmail?: string;
  readonly statementDescriptor?: string;
  readonly statementDescriptorSuffix?: string;
  readonly transferGroup?: string;
  readonly returnUrl?: string;
  readonly card?: UsedCard;
  /** The latest one, whether or not it went through. */
  readonly charge?: string;
  readonly failure?: Failure;
  readonly canceledAt?: number;
  readonly cancellationReason?: string;
}

export interface Charge extends Versioned {
  readonly intent: string;
  readonly amount: number;
  readonly currency: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly description?: string;
  readonly card: UsedCard;
  readonly amountRefunded: number;
  /** Declined: no money moved. */
  readonly failure?: Failure;
  /** Of the request that made it. */
  readonly idempotencyKey?: string;
}

export interface Refund extends Versioned {
  readonly intent: string;
  readonly charge: string;
  readonly amount: number;
  readonly currency: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly reason?: string;
}

/** An object as it was once. */
export interface Shown {
  readonly kind: 'intent' | 'charge' | 'refund';
  readonly id: string;
  readonly version: number;
}

export type EventType =
  | 'payment_intent.succeeded'
  | 'payment_intent.payment_failed'
  | 'payment_intent.canceled'
  | 'charge.refunded';

export interface ProviderEvent extends Versioned {
  readonly type: EventType;
  readonly subject: Shown;
  /** The version before that one differed in this. */
  readonly previous?: Readonly<Record<string, unknown>>;
  readonly request: string;
  readonly idempotencyKey?: string;
  /** Whether there was anybody to tell. */
  readonly isSent: boolean;
}

export interface Answer {
  readonly status: number;
  readonly shown?: Shown;
  readonly failure?: Failure;
}

/** What was answered under a key, and to what. */
export interface Remembered {
  readonly key: string;
  readonly path: string;
  /** Names the parameters without keeping them. */
  readonly params: string;
  /** In milliseconds. */
  readonly at: number;
  readonly request: string;
  readonly answer: Answer;
}

/** What one request changed, with what it was answered: one line of the journal, so it is there as a whole or not at all. */
export interface Entry {
  /** 1, 2, 3 … */
  readonly n: number;
  readonly intent?: Intent;
  readonly charge?: Charge;
  readonly refund?: Refund;
  readonly event?: ProviderEvent;
  readonly remembered?: Remembered;
  /** The id of an event that need not be sent any more: it was taken, or given up. */
  readonly told?: string;
}

export type Changes = Omit<Entry, 'n' | 'remembered' | 'told'>;
