import { InvalidArgument } from '../core/errors.ts';
import type { Reply } from '../core/record.ts';
import { type Preset, type ProblemCode, parkedDetail, problems, type Retry } from './problem-table.ts';

export type { Preset, ProblemCode } from './problem-table.ts';

/** One thing that is wrong with a request: in its body (`#/items/0/price`), or elsewhere (`query.limit`). */
export type Fault =
  | { readonly pointer: string; readonly detail: string }
  | { readonly path: string; readonly detail: string };

interface About {
  /** The record's pk: what a client quotes to support, and an operator looks up. */
  readonly operationRef?: string;
}

interface Waiting extends About {
  readonly retryAfterMs: number;
}

/** The reason as `readKey` words it. Other problems take no words: none of theirs may promise what is not so. */
interface Unreadable extends About {
  readonly detail?: string;
}

/** What each code has to tell. */
export interface ProblemDetails {
  key_missing: Unreadable;
  key_malformed: Unreadable;
  in_progress: Waiting;
  outcome_unknown: Waiting | (About & { readonly parked: true });
  key_reused: About;
  key_expired: About;
  request_too_old: About;
  store_unavailable: Waiting;
  quota_exceeded: Waiting;
  validation_failed: About & { readonly errors: readonly Fault[] };
}

/** Where the header is explained, unless an API points to its own documentation. */
const defaultDocsBase = 'https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header';

/**
 * RFC 9457 in both presets, so that a client finds `code` and `retry` in one place whatever the statuses are. The
 * `stripe` preset has Stripe's statuses and, as an extension member (RFC 9457 3.2), Stripe's `error`: code written
 * against Stripe reads `body.error.type` and never looks at the media type.
 */
export function problem<Code extends ProblemCode>(
  code: Code,
  details: ProblemDetails[Code],
  preset: Preset,
  docsBase: string = defaultDocsBase,
): Reply {
  const kind = problems[code];
  const given: Partial<Waiting & Unreadable & ProblemDetails['validation_failed'] & { parked: true }> =
    details;
  const parked = given.parked === true;
  const detail = parked ? parkedDetail : (given.detail ?? kind.detail);
  const retryAfter = kind.waits && !parked ? seconds(given.retryAfterMs) : undefined;
  const retry: Retry = parked ? 'never' : kind.retry;
  const { type, code: stripeCode = code } = kind.stripe;
  return answer(kind.status[preset], 'application/problem+json', docsUri(docsBase, code), retryAfter, {
    type: docsUri(docsBase, code),
    title: kind.title,
    status: kind.status[preset],
    detail,
    code,
    retry,
    retryAfter,
    operationRef: given.operationRef,
    errors: given.errors,
    error: preset === 'stripe' ? { type, code: stripeCode, message: detail } : undefined,
  });
}

/**
 * The in-flight policy `accept`: the same news as a 202. Not a problem, so plain JSON; its `code` tells it from the
 * stored 202 of an accepted operation, whose body is the handler's.
 */
export function stillRunning(details: Waiting, docsBase: string = defaultDocsBase): Reply {
  const retryAfter = seconds(details.retryAfterMs);
  return answer(202, 'application/json', docsUri(docsBase, 'in_progress'), retryAfter, {
    code: 'in_progress',
    detail: problems.in_progress.detail,
    retry: problems.in_progress.retry,
    retryAfter,
    operationRef: details.operationRef,
  });
}

function answer(
  status: number,
  mediaType: string,
  docs: string,
  retryAfter: number | undefined,
  body: object,
) {
  const headers: Reply['headers'] = [
    ['Content-Type', mediaType],
    ['Cache-Control', 'no-store'],
    ['Link', `<${docs}>; rel="describedby"`],
    ...(retryAfter === undefined ? [] : [['Retry-After', String(retryAfter)] as const]),
  ];
  return { status, headers, body: new Uint8Array(Buffer.from(JSON.stringify(body))), base64: false };
}

/** Rounded up: whoever comes back earlier finds nothing new. */
function seconds(ms = 0): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}

/** Checked when options are: a bad link would turn every problem into an error. */
export function requireDocsBase(base: unknown): void {
  if (base === undefined) return;
  if (typeof base === 'string' && /^https?:\/\/[^\s<>"]+$/.test(base) && URL.canParse(base)) return;
  throw new InvalidArgument(
    'docsBase, the base of the documentation links, is not an absolute http(s) URL; expected something like "https://developer.example.com/idempotency".',
  );
}

/** A page per code below a folder (`…/problems/`), else an anchor per code on one page. */
function docsUri(base: string, code: ProblemCode): string {
  requireDocsBase(base);
  return /[/#=]$/.test(base) ? `${base}${code}` : `${base}#${code}`;
}

/** RFC 6901 as a URI fragment, which is how RFC 9457 points into a body: `#/items/0/price`. */
export function pointerTo(path: readonly PropertyKey[]): string {
  const segments = path.map((key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1'));
  return `#${segments.map((segment) => `/${encodeURIComponent(segment.toWellFormed())}`).join('')}`;
}
