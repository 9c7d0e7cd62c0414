import type { Reply } from '../core/record.ts';

/* What a provider's webhook is answered with. Anything but a 2xx makes it send the event again. */

/** Handled, or none of our business: it need not come again. */
export function acknowledged(): Reply {
  return json(200, 'application/json', { received: true });
}

/** It was not the provider, or not now. Says nothing about which part of the signature was wrong. */
export function unsigned(): Reply {
  return problemOf(400, 'signature_invalid', 'The signature is not valid', {
    detail: 'The signature is missing, too old, or made with another secret. Nothing was done.',
  });
}

export function unreadableEvent(): Reply {
  return problemOf(400, 'event_unreadable', 'The event cannot be read', {
    detail: 'The body is no event with an id and a type. Nothing was done.',
  });
}

/** 503 and not 409: some providers take a 4xx as the last word, and do not send the event again. */
export function comeAgain(retryAfterMs: number): Reply {
  return later('not_settled', 'The event cannot be settled yet', retryAfterMs);
}

/** We could not look: that is our failure, and says nothing about who sent it. */
export function unchecked(retryAfterMs: number): Reply {
  return later('signature_unchecked', 'The signature cannot be checked now', retryAfterMs);
}

function later(code: string, title: string, retryAfterMs: number): Reply {
  const retryAfter = Math.ceil(retryAfterMs / 1_000);
  const detail = 'Send the same event again later.';
  const { headers, ...reply } = problemOf(503, code, title, { detail, retryAfter });
  return { ...reply, headers: [...headers, ['Retry-After', String(retryAfter)]] };
}

function problemOf(status: number, code: string, title: string, more: object): Reply {
  return json(status, 'application/problem+json', { type: 'about:blank', title, status, code, ...more });
}

function json(status: number, mediaType: string, body: object): Reply {
  const headers: Reply['headers'] = [
    ['Content-Type', mediaType],
    ['Cache-Control', 'no-store'],
  ];
  return { status, headers, body: new Uint8Array(Buffer.from(JSON.stringify(body))), base64: false };
}
