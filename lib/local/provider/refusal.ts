import type { Failure } from './records.ts';

/** A request that is not carried out. `intent` is shown with the error, as it is. */
export class Refusal extends Error {
  readonly status: number;
  readonly failure: Failure;
  readonly intent: string | undefined;

  constructor(status: number, failure: Failure, intent?: string) {
    super(failure.message);
    this.name = 'Refusal';
    this.status = status;
    this.failure = failure;
    this.intent = intent;
  }
}

export function invalidRequest(
  message: string,
  rest: { readonly code?: string; readonly param?: string } = {},
): Refusal {
  return new Refusal(400, { type: 'invalid_request_error', message, ...rest });
}

/** An id in the path that names nothing is a 404, one among the parameters a 400. */
export function noSuch(what: string, id: string, param: string, status: 400 | 404): Refusal {
  return new Refusal(status, {
    type: 'invalid_request_error',
    code: 'resource_missing',
    message: `No such ${what}: '${id}'`,
    param,
  });
}

export function unexpectedState(message: string, intent: string): Refusal {
  const failure: Failure = {
    type: 'invalid_request_error',
    code: 'payment_intent_unexpected_state',
    message,
  };
  return new Refusal(400, failure, intent);
}

export function wrongKey(authorization: string | undefined, key: string | undefined): Refusal {
  const message =
    key === undefined || key === ''
      ? `You did not provide an API key. Send it in the Authorization header, as 'Authorization: Bearer YOUR_SECRET_KEY'${authorization ? '; what was sent is neither Bearer nor Basic' : ''}.`
      : `Invalid API Key provided: ${masked(key)}`;
  return new Refusal(401, { type: 'invalid_request_error', message });
}

/** Stripe shows how the key begins and ends, so that whoever reads it knows which it was. */
function masked(key: string): string {
  return key.length < 12 ? '*'.repeat(key.length) : `${key.slice(0, 8)}${'*'.repeat(8)}${key.slice(-4)}`;
}

export function keyInUse(key: string): Refusal {
  return new Refusal(409, {
    type: 'invalid_request_error',
    code: 'idempotency_key_in_use',
    message: `There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through): ${key}. Please try again later.`,
  });
}

export function keyReused(key: string, first: string, now: string): Refusal {
  const [what, detail] =
    first === now
      ? ['with the same parameters they were first used with', '']
      : ['for the same endpoint they were first used for', ` ('${now}' vs '${first}')`];
  return new Refusal(400, {
    type: 'idempotency_error',
    message: `Keys for idempotent requests can only be used ${what}${detail}. Try using a key other than '${key}' if you meant to execute a different request.`,
  });
}

export function ownFailure(message: string): Refusal {
  return new Refusal(500, { type: 'api_error', message });
}
