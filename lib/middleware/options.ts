import { InvalidArgument } from '../core/errors.ts';
import type { KeyMode } from '../core/key.ts';
import { defaultPolicy, type Policy, schedule } from '../core/policy.ts';
import type { EpochMs, Reply } from '../core/record.ts';
import { allowedHeaders, defaultStoredHeaders, isHeaderName } from '../http/headers.ts';
import type { Preset } from '../http/problem.ts';
import type { HttpRequest } from '../http/request.ts';
import type { TenantResolver } from '../http/tenant.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import type { Validation } from './validate.ts';
import type { WarmCacheLimits } from './warm-cache.ts';

/** What one operation may choose. Given at the top level, it is the default of all. */
export interface OperationOptions {
  /** Where the handler's effects are; this decides what is safe after a crash. Default `opaque`. */
  readonly effects?: 'transactional' | 'opaque';
  /** What a duplicate gets while the first request runs. Default `reject` (409). */
  readonly inFlight?: Policy['inFlight'];
  readonly waitMs?: number;
  /** Default `execute`: after expiry the key is new. `gone` answers 410 for `goneSeconds` more. */
  readonly afterExpiry?: Policy['afterExpiry'];
  readonly goneSeconds?: number;
  /** How long a result is replayed, counted from completion; a number, or a function of the response. */
  readonly retentionSeconds?: number | ((reply: Reply) => number);
  /** `false`: a request without a key simply runs, unprotected. */
  readonly required?: boolean;
  /** Runs before the reservation; a request that fails it consumes no key. */
  readonly validate?: Validation;
  /** Of an `opaque` operation without a resolver: unknown outcomes wait for an operator. */
  readonly onUnknown?: 'park';
}

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
  /** Keeps completed 2xx responses in memory: a replay in the same environment costs no call. Off by default. */
  readonly cache?: boolean | WarmCacheLimits;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly sleep?: (ms: number) => Promise<void>;
  readonly newId?: () => string;
}

const ONE_OF = {
  effects: ['transactional', 'opaque'],
  inFlight: ['reject', 'accept', 'wait'],
  afterExpiry: ['execute', 'gone'],
  onUnknown: ['park'],
  preset: ['ietf', 'stripe'],
  keyMode: ['auto', 'ietf', 'bare'],
} as const;

const OPERATION_OPTIONS = [
  'effects',
  'inFlight',
  'waitMs',
  'afterExpiry',
  'goneSeconds',
  'retentionSeconds',
  'required',
  'validate',
  'onUnknown',
] as const satisfies readonly (keyof OperationOptions)[];

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
  'cache',
  'metrics',
  'log',
  'clock',
  'sleep',
  'newId',
] as const satisfies readonly (keyof IdempotencyOptions)[];

/** One operation's options, complete and checked. */
export interface OperationPolicy {
  readonly policy: Policy & { readonly effects: 'transactional' | 'opaque' };
  readonly retentionSeconds: (reply: Reply) => number;
  readonly required: boolean;
  readonly validate: Validation | undefined;
}

/** A mistake in the options stops the deployment, not a payment: everything is checked here, once. */
export function checkedOptions<W>(options: IdempotencyOptions<W>): (operation: string) => OperationPolicy {
  requireKnown(options, TOP_OPTIONS, 'idempotency()');
  if (typeof options.ledger !== 'object') missing('ledger', 'dynamoDbLedger({ tableName, client })');
  if (typeof options.tenant !== 'function') missing('tenant', "jwtClaim('sub')");
  for (const name of ['operation', 'metrics', 'log', 'clock', 'sleep', 'newId'] as const) {
    if (options[name] !== undefined && typeof options[name] !== 'function')
      refuse(name, options[name], 'a function');
  }
  if (typeof options.cache === 'object') {
    wholeFrom(options.cache, 'entries', 1);
    wholeFrom(options.cache, 'bytes', 1);
  } else if (options.cache !== undefined && typeof options.cache !== 'boolean') {
    refuse('cache', options.cache, 'true, or { entries, bytes }');
  }
  oneOf(options, 'preset');
  oneOf(options, 'keyMode');
  wholeFrom(options, 'minKeyLength', 1);
  allowedHeaders(options.storedHeaders ?? defaultStoredHeaders);
  for (const name of options.fingerprintHeaders ?? []) {
    if (!isHeaderName(name)) refuse('fingerprintHeaders', name, 'names of headers');
  }

  const base = operationPolicy('idempotency()', options);
  const named = new Map(
    Object.entries(options.operations ?? {}).map(([name, own]) => {
      if (!/^(POST|PATCH) \S/.test(name) && !options.operation) {
        refuse(
          'operations',
          name,
          "names such as 'POST /payments', or an operation resolver that makes others",
        );
      }
      requireKnown(own, OPERATION_OPTIONS, `the operation ${name}`);
      return [name, operationPolicy(`the operation ${name}`, { ...operationDefaults(options), ...own })];
    }),
  );
  return (operation) => named.get(operation) ?? base;
}

function operationDefaults(options: OperationOptions): OperationOptions {
  return Object.fromEntries(
    OPERATION_OPTIONS.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  );
}

function operationPolicy(where: string, options: OperationOptions): OperationPolicy {
  if ((options.effects as string | undefined) === 'steps') {
    throw new InvalidArgument(
      `${where}: effects: 'steps' is not available yet; declare 'transactional' or 'opaque'.`,
    );
  }
  for (const name of ['effects', 'inFlight', 'afterExpiry', 'onUnknown'] as const) oneOf(options, name);
  wholeFrom(options, 'waitMs', 0);
  wholeFrom(options, 'goneSeconds', 1);
  const effects = options.effects ?? 'opaque';
  if (effects === 'opaque' && options.onUnknown !== 'park') {
    throw new InvalidArgument(
      `${where} is opaque, so a crash leaves its outcome unknown, and nothing here can find it out. Write onUnknown: 'park' to have an operator decide, or declare effects: 'transactional' if every change goes through once.write and once.emit.`,
    );
  }
  if (effects === 'transactional' && options.onUnknown !== undefined) {
    throw new InvalidArgument(`${where} is transactional and never unknown; leave onUnknown out.`);
  }
  if (options.goneSeconds !== undefined && options.afterExpiry !== 'gone') {
    throw new InvalidArgument(`${where}: goneSeconds needs afterExpiry: 'gone'.`);
  }
  if (options.waitMs !== undefined && options.inFlight !== 'wait') {
    throw new InvalidArgument(`${where}: waitMs needs inFlight: 'wait'.`);
  }
  const { retentionSeconds = defaultPolicy.retentionSeconds } = options;
  if (typeof retentionSeconds === 'number') checkRetention(where, retentionSeconds);
  return {
    policy: { ...defaultPolicy, ...chosen(options), effects },
    retentionSeconds: (reply) =>
      typeof retentionSeconds === 'number'
        ? retentionSeconds
        : checkRetention(where, retentionSeconds(reply)),
    required: options.required ?? true,
    validate: options.validate,
  };
}

function chosen({
  inFlight,
  waitMs,
  afterExpiry,
  goneSeconds,
  retentionSeconds,
}: OperationOptions): Partial<Policy> {
  return {
    ...(inFlight !== undefined && { inFlight }),
    ...(waitMs !== undefined && { waitMs }),
    ...(afterExpiry !== undefined && { afterExpiry }),
    ...(goneSeconds !== undefined && { goneSeconds }),
    ...(typeof retentionSeconds === 'number' && { retentionSeconds }),
  };
}

function checkRetention(where: string, seconds: number): number {
  if (Number.isSafeInteger(seconds) && seconds >= schedule.retentionMinSeconds) return seconds;
  throw new InvalidArgument(
    `${where}: retentionSeconds is ${seconds}; expected a whole number of at least ${schedule.retentionMinSeconds}: a client on a bad network retries for longer than less.`,
  );
}

function requireKnown(options: object, known: readonly string[], where: string): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    throw new InvalidArgument(`${where} has no option ${name}. ${suggestion(name, known)}`);
  }
}

function suggestion(name: string, known: readonly string[]): string {
  const close = known.find((option) => {
    const [longer, shorter] = option.length > name.length ? [option, name] : [name, option];
    return longer.toLowerCase().includes(shorter.toLowerCase().slice(0, 6));
  });
  return close ? `Did you mean ${close}?` : `It has ${known.join(', ')}.`;
}

function missing(name: string, example: string): never {
  throw new InvalidArgument(`idempotency() needs ${name}, for example ${name}: ${example}.`);
}

function oneOf(options: object, name: keyof typeof ONE_OF): void {
  const value: unknown = (options as Record<string, unknown>)[name];
  const allowed: readonly unknown[] = ONE_OF[name];
  if (value !== undefined && !allowed.includes(value)) refuse(name, value, `one of ${allowed.join(', ')}`);
}

function wholeFrom(options: object, name: string, least: number): void {
  const value: unknown = (options as Record<string, unknown>)[name];
  if (value === undefined || (Number.isSafeInteger(value) && Number(value) >= least)) return;
  refuse(name, value, `a whole number of at least ${least}`);
}

function refuse(name: string, value: unknown, expected: string): never {
  throw new InvalidArgument(
    `The option ${name} is ${JSON.stringify(value) ?? typeof value}; expected ${expected}.`,
  );
}
