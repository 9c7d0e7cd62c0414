import { isReusable } from '../core/decide.ts';
import { InvalidArgument } from '../core/errors.ts';
import { type KeyMode, readKey } from '../core/key.ts';
import { defaultPolicy } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';
import { scopePk } from '../core/scope.ts';
import { type RenderedReply, renderReply } from '../http/render.ts';
import { type HttpRequest, readEvent } from '../http/request.ts';
import { badStatusRequest, notFoundReply, statusReply } from '../http/status.ts';
import type { TenantResolver } from '../http/tenant.ts';
import type { Ledger } from '../ledger/ledger.ts';

export interface StatusOptions {
  readonly ledger: Pick<Ledger<unknown>, 'read'>;
  /** The same resolver as the protected operations have: a caller sees its own operations and no others. */
  readonly tenant: TenantResolver;
  readonly keyMode?: KeyMode;
  readonly clock?: () => EpochMs;
}

/**
 * GET /operations/{key}?operation=POST%20/payments: where the caller's own operation stands. Another tenant's key is
 * not found, exactly as one that was never used.
 */
export function statusHandler(options: StatusOptions): (event: unknown) => Promise<RenderedReply> {
  const { ledger, tenant, keyMode = 'auto', clock = Date.now } = options;
  if (typeof tenant !== 'function')
    throw new InvalidArgument("statusHandler() needs tenant, as in jwtClaim('sub').");

  return async (event) => {
    const request = readEvent(event);
    return renderReply(await statusOf(request), request);
  };

  async function statusOf(request: HttpRequest) {
    const operation = request.query.find(([name]) => name === 'operation')?.[1];
    if (!operation) return badStatusRequest('Name it in the query, as in ?operation=POST%20/payments.');
    const key = readKey([lastSegment(request.path)], keyMode);
    const owner = tenant(request);
    if (!key.ok || !owner) return notFoundReply();
    const now = clock();
    const record = await ledger.read(scopePk({ tenant: owner, operation, key: key.key }));
    const expired =
      record && isReusable(record, now, { afterExpiry: 'execute', skewMs: defaultPolicy.skewMs });
    return record && !expired ? statusReply(record, now) : notFoundReply();
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
