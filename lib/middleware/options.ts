import { InvalidArgument } from '../core/errors.ts';
import type { KeyMode } from '../core/key.ts';
import { limits } from '../core/limits.ts';
import type { EpochMs } from '../core/record.ts';
import { EVENT_OPERATION } from '../core/scope.ts';
import {
  OPERATION_OPTIONS,
  type OperationOptions,
  type OperationPolicy,
  operationPolicies,
} from '../effects/operations.ts';
import {
  refuse,
  requireBoolean,
  requireFunctions,
  requireKnown,
  requireLedger,
  requireList,
  requireOneOf,
  requireOptions,
  requireQuotas,
  requireWhole,
} from '../effects/option-checks.ts';
import { allowedHeaders, defaultStoredHeaders, isHeaderName } from '../http/headers.ts';
import { type Preset, requireDocsBase } from '../http/problem.ts';
import type { HttpRequest } from '../http/request.ts';
import type { TenantResolver } from '../http/tenant.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import type { WarmCacheLimits } from './warm-cache.ts';

export interface IdempotencyOptions<W = unknown> extends OperationOptions {
  readonly ledger: Ledger<W>;
  /** Whose keys these are: `jwtClaim('sub')`, `lambdaAuthorizer('tenantId')`, `iamPrincipal()`, or a function. */
  readonly tenant: TenantResolver;
  /** Names the operation where method and route do not. */
  readonly operation?: (request: HttpRequest) => string;
  /** By name, `POST /payments`: what differs from the top level. */
  readonly operations?: Readonly<Record<string, OperationOptions>>;
  readonly preset?: Preset;
  readonly docsBase?: string;
  readonly keyMode?: KeyMode;
  readonly minKeyLength?: number;
  /** Request headers that are part of what the request asks for. */
  readonly fingerprintHeaders?: readonly string[];
  readonly storedHeaders?: readonly string[];
  /** Request headers that `complete: 'auto'` keeps for the handler, beside those that describe the body. */
  readonly requestHeaders?: readonly string[];
  /** Keeps completed 2xx responses in memory: a replay in the same environment costs no call. Off by default. */
  readonly cache?: boolean | Partial<WarmCacheLimits>;
  /** Turns away new keys of tenants that take too many, as `sentinel()` with its own `quota` counts them. Off by default. */
  readonly quota?: boolean;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly sleep?: (ms: number) => Promise<void>;
  readonly newId?: () => string;
}

const TOP_OPTIONS = [
  ...OPERATION_OPTIONS,
  'ledger',
  'tenant',
  'operation',
  'operations',
  'preset',
  'docsBase',
  'keyMode',
  'minKeyLength',
  'fingerprintHeaders',
  'storedHeaders',
  'requestHeaders',
  'cache',
  'quota',
  'metrics',
  'log',
  'clock',
  'sleep',
  'newId',
] as const satisfies readonly (keyof IdempotencyOptions)[];

/** A mistake in the options stops the deployment, not a payment: everything is checked here, once. */
export function checkedOptions<W>(options: IdempotencyOptions<W>): (operation: string) => OperationPolicy {
  requireOptions(options, 'idempotency()');
  requireKnown(options, TOP_OPTIONS, 'idempotency()');
  requireLedger(options.ledger, 'idempotency()');
  if (typeof options.tenant !== 'function') {
    throw new InvalidArgument("idempotency() needs tenant, for example tenant: jwtClaim('sub').");
  }
  requireFunctions(options, ['operation', 'metrics', 'log', 'clock', 'sleep', 'newId']);
  requireCache(options.cache);
  requireQuota(options, 'idempotency()');
  requireOneOf(options, 'preset', ['ietf', 'stripe']);
  requireOneOf(options, 'keyMode', ['auto', 'ietf', 'bare']);
  requireWhole(options, 'minKeyLength', 1, limits.keyMaxLength);
  requireDocsBase(options.docsBase);
  for (const name of ['storedHeaders', 'requestHeaders', 'fingerprintHeaders']) requireList(options, name);
  allowedHeaders(options.storedHeaders ?? defaultStoredHeaders);
  allowedHeaders(options.requestHeaders ?? []);
  for (const name of options.fingerprintHeaders ?? []) {
    if (!isHeaderName(name)) refuse('fingerprintHeaders', name, 'names of headers');
  }
  const policyOf = operationPolicies('idempotency()', options, options.operations);
  for (const name of Object.keys(options.operations ?? {})) {
    requireNoEvent('operations', name);
    if (/^(POST|PATCH) \S/.test(name) || options.operation) continue;
    const expected = "names such as 'POST /payments', or an operation resolver that makes others";
    refuse('operations', name, expected);
  }
  return policyOf;
}

/** The records of a provider's events are told by their name, and no quota counts them. */
export function requireNoEvent(option: string, name: string): void {
  if (!name.startsWith(EVENT_OPERATION)) return;
  refuse(option, name, `a name that does not begin with ${EVENT_OPERATION.trim()}, as those of webhook() do`);
}

export function requireQuota(
  options: { readonly ledger: unknown; readonly quota?: unknown },
  where: string,
): void {
  requireBoolean(options, 'quota');
  if (options.quota) requireQuotas(options.ledger, where);
}

export function requireCache(cache: unknown): void {
  if (cache === undefined || typeof cache === 'boolean') return;
  if (typeof cache !== 'object' || cache === null) refuse('cache', cache, 'true, or { entries, bytes }');
  requireKnown(cache, ['entries', 'bytes'], 'cache');
  requireWhole(cache, 'entries', 1);
  requireWhole(cache, 'bytes', 1);
}
