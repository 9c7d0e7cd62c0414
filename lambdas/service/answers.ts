import type { Outcome } from './provider.ts';
import type { ChargeRequest } from './requests.ts';
import type { Row } from './rows.ts';

/** What a handler returns to an HTTP API. */
export interface ApiAnswer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

interface Problem {
  readonly status: number;
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  readonly [member: string]: unknown;
}

/** A charge takes about as long as a provider's answer; before that there is nothing new to see. */
const PENDING_RETRY_SECONDS = 2;

export function problem(members: Problem, headers: Readonly<Record<string, string>> = {}): ApiAnswer {
  return json(members.status, { type: 'about:blank', ...members }, headers, 'application/problem+json');
}

export function json(
  statusCode: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
  mediaType = 'application/json',
): ApiAnswer {
  const fixed = { 'content-type': mediaType, 'cache-control': 'no-store' };
  return { statusCode, headers: { ...fixed, ...headers }, body: JSON.stringify(body) };
}

/** A row as it is after its charge. What was asked for comes from the row, never from a later request. */
export function endedRow(pending: Row, outcome: Outcome, receipt?: string): Row {
  const { charge, code } = outcome as { readonly charge?: string; readonly code?: string };
  return {
    ...pending,
    status: outcome.kind,
    ...(charge !== undefined && { charge }),
    ...(code !== undefined && { code }),
    ...(receipt !== undefined && { receipt }),
  };
}

/** What a row keeps of its request. */
export function described({ customerId, amount, currency, description, reference }: ChargeRequest) {
  return {
    ...{ customerId, amount, currency },
    ...(description !== undefined && { description }),
    ...(reference !== undefined && { reference }),
  };
}

export function acceptedAnswer({ kind, id, status }: Row): ApiAnswer {
  const headers = { location: pathOf(kind, id), 'retry-after': String(PENDING_RETRY_SECONDS) };
  return json(202, { id, status }, headers);
}

/** The last word on an operation, whoever says it: the handler, a delivery, a resolver or a webhook. */
export function finalAnswer(row: Row): ApiAnswer {
  const { kind, id, status, code = 'unknown' } = row;
  switch (status) {
    case 'succeeded':
      return json(201, shown(row), { location: pathOf(kind, id) });
    case 'declined':
      return problem({
        ...{ status: 402, code: 'card_declined', title: 'The card was declined', id, reason: code },
        detail: 'The card was declined, and nothing was charged. This key keeps answering so.',
        retry: 'never',
      });
    case 'rejected':
      return problem({
        ...{ status: 422, code: 'charge_rejected', title: 'The provider does not take this charge', id },
        detail:
          'The payment provider refused this request, and nothing was charged. This key keeps answering so.',
        reason: code,
        retry: 'never',
      });
    case 'pending':
      throw new TypeError(`The ${kind} ${id} is pending and has no last word yet.`);
    default:
      return status satisfies never;
  }
}

/** What its owner sees of a row. The same members in every answer, whatever led to it. */
export function shown(row: Row): object {
  const { id, status, charge, code, receipt } = row;
  return { id, status, ...described(row), charge, reason: code, receipt };
}

function pathOf(kind: Row['kind'], id: string): string {
  return `/${kind}s/${id}`;
}
