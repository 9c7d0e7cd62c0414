import type { EpochMs, LedgerRecord, Reply } from '../core/record.ts';
import type { Retry } from './problem-table.ts';

/** What the owner of a key may know about its operation: where it stands, since when, and what to do next. */
export function statusReply(record: LedgerRecord, now: EpochMs): Reply {
  return json(200, {
    operationRef: record.pk,
    operation: record.operation,
    state: record.status,
    attempt: record.attempt,
    createdAt: iso(record.createdAt),
    lastRunAt: iso(record.lastRunAt),
    completedAt: 'completedAt' in record ? iso(record.completedAt) : undefined,
    expiresAt: 'expiresAt' in record ? iso(record.expiresAt) : undefined,
    ...nextStep(record, now),
  });
}

export function notFoundReply(): Reply {
  return json(
    404,
    {
      type: 'about:blank',
      title: 'No such operation',
      status: 404,
      code: 'operation_not_found',
      detail: 'There is no unexpired operation of yours under this key. It may never have arrived.',
    },
    'application/problem+json',
  );
}

export function badStatusRequest(detail: string): Reply {
  const title = 'The operation is not named';
  const body = { type: 'about:blank', title, status: 400, code: 'operation_missing', detail };
  return json(400, body, 'application/problem+json');
}

export function tooManyStatusRequests(retryAfterMs: number): Reply {
  const retryAfter = Math.max(1, Math.ceil(retryAfterMs / 1_000));
  const title = 'Too many questions';
  const detail = 'Ask again later. The operation goes on meanwhile, whether you ask or not.';
  const body = { type: 'about:blank', title, status: 429, code: 'too_many_requests', detail, retryAfter };
  const { headers, ...reply } = json(429, body, 'application/problem+json');
  return { ...reply, headers: [...headers, ['Retry-After', String(retryAfter)]] };
}

interface Next {
  readonly retry: Retry;
  readonly next: string;
  readonly retryAfter?: number;
}

function nextStep(record: LedgerRecord, now: EpochMs): Next {
  switch (record.status) {
    case 'completed':
      return {
        retry: 'same-key',
        next: 'Send the request again with the same key to get its stored response.',
      };
    case 'failed_retryable':
      return { retry: 'same-key', next: 'Nothing was executed. Send the request again with the same key.' };
    case 'accepted':
      if (record.due?.parkedAt !== undefined) {
        const next = 'It was accepted, and a person is looking after the rest. Do not send it again.';
        return { retry: 'never', next };
      }
      return { retry: 'same-key', next: 'It is still being worked on. Ask again later.', retryAfter: 1 };
    case 'in_progress':
      return { retry: 'same-key', next: 'It is still being worked on. Ask again later.', retryAfter: 1 };
    case 'unknown':
      if (record.due.parkedAt !== undefined) {
        return {
          retry: 'never',
          next: 'It may have been executed, and a person is finding out. Do not send it again.',
        };
      }
      return {
        retry: 'same-key',
        next: 'It may have been executed, and it is being found out whether it was. Ask again later.',
        retryAfter: Math.max(1, Math.ceil((record.due.at - now) / 1_000)),
      };
    default:
      return record satisfies never;
  }
}

function iso(at: EpochMs): string {
  return new Date(at).toISOString();
}

function json(status: number, body: object, mediaType = 'application/json'): Reply {
  const headers: Reply['headers'] = [
    ['Content-Type', mediaType],
    ['Cache-Control', 'no-store'],
  ];
  return { status, headers, body: new Uint8Array(Buffer.from(JSON.stringify(body))), base64: false };
}
