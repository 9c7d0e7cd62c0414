export type Preset = 'ietf' | 'stripe';

/** What a program may do next. There is no "with a new key": it may only be right where nothing ran. */
export type Retry = 'same-key' | 'fix-request' | 'never';

interface ProblemKind {
  readonly status: Readonly<Record<Preset, number>>;
  readonly retry: Retry;
  /** Says after how long, in `Retry-After` and in the body. */
  readonly waits: boolean;
  readonly title: string;
  readonly detail: string;
  /** The `error` that code written against Stripe looks for, with Stripe's own code where it has one. */
  readonly stripe: { readonly type: StripeType; readonly code?: string };
}

type StripeType = 'invalid_request_error' | 'idempotency_error' | 'rate_limit_error' | 'api_error';

export type ProblemCode =
  | 'key_missing'
  | 'key_malformed'
  | 'in_progress'
  | 'outcome_unknown'
  | 'key_reused'
  | 'key_expired'
  | 'request_too_old'
  | 'store_unavailable'
  | 'quota_exceeded'
  | 'validation_failed';

/**
 * The published contract as data. Read every `detail` as a program would: none may send it away with a new key while the work
 * under the old one may have run.
 */
export const problems: Readonly<Record<ProblemCode, ProblemKind>> = {
  key_missing: {
    status: { ietf: 400, stripe: 400 },
    retry: 'fix-request',
    waits: false,
    title: 'Idempotency-Key is missing',
    detail:
      'This operation needs an Idempotency-Key header. Send one key per intended action; a retry carries the key of its first attempt.',
    stripe: { type: 'invalid_request_error' },
  },
  key_malformed: {
    status: { ietf: 400, stripe: 400 },
    retry: 'fix-request',
    waits: false,
    title: 'Idempotency-Key is malformed',
    detail:
      'The Idempotency-Key header cannot be read. Send it once, as a quoted string of visible ASCII characters.',
    stripe: { type: 'invalid_request_error' },
  },
  in_progress: {
    status: { ietf: 409, stripe: 409 },
    retry: 'same-key',
    waits: true,
    title: 'A request with this Idempotency-Key is in progress',
    detail:
      'The first request with this key is still running. Send the same request with the same key again later to get its result.',
    stripe: { type: 'idempotency_error', code: 'idempotency_key_in_use' },
  },
  outcome_unknown: {
    status: { ietf: 409, stripe: 409 },
    retry: 'same-key',
    waits: true,
    title: 'The outcome of this request is not known yet',
    detail:
      'An earlier attempt with this key may have taken effect, and it is being found out whether it did. Send the same request with the same key again later.',
    stripe: { type: 'api_error' },
  },
  key_reused: {
    status: { ietf: 422, stripe: 400 },
    retry: 'fix-request',
    waits: false,
    title: 'Idempotency-Key was used for another request',
    detail:
      'This key was first used with another request. To retry that one, send its original body under this key. Only a different, new action takes a new key.',
    stripe: { type: 'idempotency_error' },
  },
  key_expired: {
    status: { ietf: 410, stripe: 400 },
    retry: 'never',
    waits: false,
    title: 'The result under this Idempotency-Key has expired',
    detail:
      'This key was used before, and its result is no longer kept. Its request may have taken effect: look up the resource it was about. It was not executed again.',
    stripe: { type: 'invalid_request_error' },
  },
  request_too_old: {
    status: { ietf: 412, stripe: 400 },
    retry: 'never',
    waits: false,
    title: 'The request was first sent too long ago',
    detail:
      'By its Repeatability-First-Sent header, this request was first sent outside the time for which results are kept. An earlier attempt may have taken effect: look up the resource it was about. It was not executed now.',
    stripe: { type: 'invalid_request_error' },
  },
  store_unavailable: {
    status: { ietf: 503, stripe: 503 },
    retry: 'same-key',
    waits: true,
    title: 'The request cannot be confirmed right now',
    detail:
      'The outcome of this request could not be recorded or read. Send the same request with the same key again later: it will not take effect twice.',
    stripe: { type: 'api_error' },
  },
  quota_exceeded: {
    status: { ietf: 429, stripe: 429 },
    retry: 'same-key',
    waits: true,
    title: 'Too many requests',
    detail: 'This request was not executed. Send it with the same key again later.',
    stripe: { type: 'rate_limit_error', code: 'rate_limit' },
  },
  validation_failed: {
    status: { ietf: 400, stripe: 400 },
    retry: 'fix-request',
    waits: false,
    title: 'The request is not valid',
    detail:
      'This request was not executed, and its key was not used up. Correct what `errors` lists; the corrected request may carry the same key.',
    stripe: { type: 'invalid_request_error' },
  },
};

/** Instead of the above once nobody but an operator can settle it. */
export const parkedDetail =
  'An earlier attempt with this key may have taken effect, and only an operator can find out. Do not send it again under any key: ask for support and name the operationRef.';
