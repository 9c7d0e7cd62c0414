/* A client as it should be: one key for one intent, and the same request until there is a final answer. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { LocalCloud } from './local-cloud.ts';

export const OPERATIONS = ['/payments', '/orders', '/transfers'] as const;
export type Path = (typeof OPERATIONS)[number];

export interface Request {
  readonly path: Path;
  readonly tenant: string;
  readonly key: string;
  readonly body: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly body: Record<string, unknown>;
}

export function newRequest(path: Path, fields: object = {}, tenant = 'acme'): Request {
  const body = JSON.stringify({ customerId: 'c-7', amount: 500, currency: 'EUR', ...fields });
  return { path, tenant, key: randomUUID(), body };
}

export async function send(
  cloud: Pick<LocalCloud, 'url' | 'token'>,
  { path, tenant, key, body }: Request,
  { signal, headers = {} }: { readonly signal?: AbortSignal; readonly headers?: Record<string, string> } = {},
): Promise<Answer> {
  const authorization = `Bearer ${await cloud.token(tenant)}`;
  const sent = { authorization, 'content-type': 'application/json', 'idempotency-key': key, ...headers };
  const response = await fetch(`${cloud.url}${path}`, {
    method: 'POST',
    headers: sent,
    body,
    ...(signal && { signal }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: parsed(text) };
}

function parsed(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return {};
  }
}

/** It will not change any more, whatever is sent again. */
function isFinal({ status, body }: Answer): boolean {
  if (status === 202 || status === 409 || status === 429 || status >= 500) return false;
  return body['retry'] !== 'same-key';
}

/** What a client waits at the most, whatever it is told: the tests have other things to do. */
const PAUSE_MAX_MS = 1_000;

/** The same request until its answer is final. A parked outcome is one for a person, and none that waiting changes. */
export async function sendUntilFinal(
  cloud: Pick<LocalCloud, 'url' | 'token'>,
  request: Request,
  tries = 120,
): Promise<Answer> {
  let last: Answer | undefined;
  for (let left = tries; left > 0; left -= 1) {
    last = await send(cloud, request).catch(() => undefined);
    if (last && (isFinal(last) || last.body['retry'] === 'never')) return last;
    const told = Number(last?.headers.get('retry-after') ?? 1) * 1_000;
    await pause(Math.min(PAUSE_MAX_MS, told));
  }
  throw new Error(`${request.path} ${request.key} has no final answer: ${last?.status} ${last?.text}`);
}

/** Until what it looks at is as it should be; says what it last saw if that never comes. */
export async function eventually<T>(
  look: () => Promise<T>,
  isRight: (seen: T) => boolean,
  tries = 240,
): Promise<T> {
  for (let left = tries; ; left -= 1) {
    const seen = await look();
    if (isRight(seen)) return seen;
    if (left <= 0) throw new Error(`it never came to be; last it was ${JSON.stringify(seen)}`);
    await pause(250);
  }
}
