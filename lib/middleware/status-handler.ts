import { isReusable } from '../core/decide.ts';
import { InvalidArgument, OncekeyError } from '../core/errors.ts';
import { type KeyMode, readKey } from '../core/key.ts';
import { defaultPolicy } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';
import { scopePk } from '../core/scope.ts';
import {
  refuse,
  requireFunctions,
  requireKnown,
  requireLedger,
  requireOneOf,
  requireOptions,
  requireWhole,
} from '../effects/option-checks.ts';
import { type Preset, problem, requireDocsBase } from '../http/problem.ts';
import { type RenderedReply, renderReply } from '../http/render.ts';
import { type HttpRequest, readEvent } from '../http/request.ts';
import { badStatusRequest, notFoundReply, statusReply, tooManyStatusRequests } from '../http/status.ts';
import { requiredTenant, type TenantResolver } from '../http/tenant.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { type ThrottleLimits, throttle } from './throttle.ts';

export interface StatusOptions {
  readonly ledger: Pick<Ledger<unknown>, 'read'>;
  /** The same resolver as the protected operations have: a caller sees its own operations and no others. */
  readonly tenant: TenantResolver;
  /** Limits each tenant, in the memory of one environment: `{ perSecond: 5, burst: 20 }`. Off by default. */
  readonly throttle?: ThrottleLimits;
  readonly keyMode?: KeyMode;
  readonly clock?: () => EpochMs;
  readonly preset?: Preset;
  readonly docsBase?: string;
}

const OPTIONS = [
  'ledger',
  'tenant',
  'throttle',
  'keyMode',
  'clock',
  'preset',
  'docsBase',
] as const satisfies readonly (keyof StatusOptions)[];

/**
 * GET /operations/{key}?operation=POST%20/payments: where the caller's own operation stands. Another tenant's key is
 * not found, exactly as one that was never used. A key that does not fit into a path, such as one with a slash, comes in
 * the Idempotency-Key header instead.
 */
export function statusHandler(options: StatusOptions): (event: unknown) => Promise<RenderedReply> {
  requireOptions(options, 'statusHandler()');
  requireKnown(options, OPTIONS, 'statusHandler()');
  requireLedger(options.ledger, 'statusHandler()', ['read']);
  requireOneOf(options, 'keyMode', ['auto', 'ietf', 'bare']);
  requireOneOf(options, 'preset', ['ietf', 'stripe']);
  requireFunctions(options, ['clock']);
  requireDocsBase(options.docsBase);
  requireThrottle(options.throttle);
  const { ledger, tenant, keyMode = 'auto', clock = Date.now, preset = 'ietf', docsBase } = options;
  const limited = options.throttle && throttle(options.throttle);
  if (typeof tenant !== 'function')
    throw new InvalidArgument("statusHandler() needs tenant, as in jwtClaim('sub').");

  return async (event) => {
    const request = readEvent(event);
    return renderReply(await statusOf(request), request);
  };

  async function statusOf(request: HttpRequest) {
    const caller = requiredTenant(tenant(request));
    const waitMs = limited?.(caller, clock());
    if (waitMs !== undefined) return tooManyStatusRequests(waitMs);
    const operation = request.query.find(([name]) => name === 'operation')?.[1];
    if (!operation) return badStatusRequest('Name it in the query, as in ?operation=POST%20/payments.');
    const key = readKey(request.headers.get('idempotency-key') ?? [lastSegment(request.path)], keyMode);
    if (!key.ok) return notFoundReply();
    const pk = scopePk({ tenant: caller, operation, key: key.key });
    try {
      return await foundReply(pk);
    } catch (error) {
      if (!(error instanceof OncekeyError)) throw error;
      return problem('store_unavailable', { operationRef: pk, retryAfterMs: 1_000 }, preset, docsBase);
    }
  }

  async function foundReply(pk: string) {
    const now = clock();
    const record = await ledger.read(pk);
    const expired =
      record && isReusable(record, now, { afterExpiry: 'execute', skewMs: defaultPolicy.skewMs });
    return record && !expired ? statusReply(record, now) : notFoundReply();
  }
}

function requireThrottle(limits: unknown): void {
  if (limits === undefined) return;
  requireOptions(limits, 'statusHandler(): throttle');
  requireKnown(limits as object, ['perSecond', 'burst'], 'throttle');
  for (const name of ['perSecond', 'burst']) {
    requireWhole(limits as object, name, 1);
    if ((limits as Readonly<Record<string, unknown>>)[name] === undefined)
      refuse('throttle', limits, '{ perSecond, burst }');
  }
}

function lastSegment(path: string): string {
  const segment = path.slice(path.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
