import type { ChargeRequest } from './requests.ts';

/** The operation that a charge is made for, as the provider keeps it with the charge. */
export interface Purpose {
  readonly operationRef: string;
  readonly operationId: string;
  readonly tenant: string;
}

/** How a charge ended. Plain JSON, so that a step can keep it. */
export type Outcome =
  | { readonly kind: 'succeeded'; readonly charge: string }
  /** The customer's bank said no, for good under this key. */
  | { readonly kind: 'declined'; readonly code: string; readonly charge?: string }
  /** The provider does not take such a request, and has not moved any money for it. */
  | { readonly kind: 'rejected'; readonly code: string };

/** A charge as the provider has it: enough to answer for an operation whose request is not at hand any more. */
export interface Found {
  readonly kind: 'ended';
  readonly purpose: Partial<Purpose>;
  readonly request: ChargeRequest;
  readonly outcome: Outcome;
  readonly createdAt: number;
}

export type Finding =
  | Found
  /** It is there, and how it ends is not decided. */
  | { readonly kind: 'pending' }
  /** It is certain that there is none. */
  | { readonly kind: 'absent' }
  /** None was found, and there may be one. */
  | { readonly kind: 'unclear' };

interface ChargeCall {
  /** The provider does the same thing once under one key. */
  readonly key: string;
  /** Nothing is sent once it has aborted. */
  readonly signal: AbortSignal;
}

/** Between two moments, in epoch milliseconds. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** A charge as an audit compares it. What was declined counts as not there; what is not decided raises no alarm. */
export interface MadeCharge extends Partial<Pick<Purpose, 'operationRef' | 'operationId'>> {
  readonly id: string;
  readonly at: number;
  readonly state: 'succeeded' | 'refused' | 'pending';
}

/**
 * All that the service wants of a payment provider. `charge` throws `NotExecuted` where it is certain that this request
 * did nothing, and anything else where it is not: who catches it may not conclude that nothing happened.
 */
export interface Provider {
  charge(request: ChargeRequest, purpose: Purpose, call: ChargeCall): Promise<Outcome>;
  /** By what was put into the charge's metadata; `created` bounds where it can be. */
  find(purpose: Pick<Purpose, 'operationRef' | 'operationId'>, created: Span): Promise<Finding>;
  /** By the provider's own name for it. */
  read(charge: string): Promise<Finding>;
  /** All that were made in that time, whoever made them; throws rather than leave one out. */
  made(created: Span): AsyncIterable<MadeCharge>;
}

/** The request may have been carried out. Sending it again under the same key is safe; under another it is not. */
export class OutcomeUncertain extends Error {
  override readonly name = 'OutcomeUncertain';
}
