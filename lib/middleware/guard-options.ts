import { InvalidArgument } from '../core/errors.ts';
import type { Reply } from '../core/record.ts';
import { readResult } from '../effects/json-result.ts';
import {
  OPERATION_OPTIONS,
  type OperationOptions,
  type OperationPolicy,
  operationPolicies,
} from '../effects/operations.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { kindOf } from '../http/kind.ts';
import { type IdempotencyOptions, requireCache, requireNoEvent, requireQuota } from './options.ts';

/** HTTP's own, or told apart from it here: there is no request to validate or to keep, and retention goes by the result. */
const HTTP_OPTIONS = ['required', 'validate', 'retentionSeconds', 'complete'] as const;
type HttpOption = (typeof HTTP_OPTIONS)[number];

/** As in `idempotency()`, but for HTTP's own, and there is no 202 to answer. */
type SharedOptions = Omit<OperationOptions, 'inFlight' | HttpOption> &
  Pick<IdempotencyOptions, 'metrics' | 'log' | 'clock' | 'sleep' | 'newId' | 'cache' | 'quota'>;

export interface GuardOptions<I, W> extends SharedOptions {
  readonly ledger: IdempotencyOptions<W>['ledger'];
  /** Names what the function does; the same key for another operation is another key. */
  readonly operation: string;
  /** Whose keys these are. */
  readonly tenant: (input: I) => string;
  /** What makes this call this call and no other: an order's id, never a time, a counter or a random number. */
  readonly key: (input: I) => string;
  /** What a duplicate gets while the first call runs: an error at once, or the result if it comes within `waitMs`. */
  readonly inFlight?: 'reject' | 'wait';
  /** The part of the input that must be the same for the same key, as JSON. */
  readonly fingerprint?: (input: I) => unknown;
}

export type RetentionOf<R> = { readonly retentionSeconds?: number | ((result: R) => number) };

const POLICY_OPTIONS = OPERATION_OPTIONS.filter(
  (name): name is Exclude<typeof name, HttpOption> => !HTTP_OPTIONS.some((one) => one === name),
);

const GUARD_OPTIONS = [
  ...POLICY_OPTIONS,
  'ledger',
  'operation',
  'tenant',
  'key',
  'fingerprint',
  'cache',
  'quota',
  'metrics',
  'log',
  'clock',
  'sleep',
  'newId',
] as const satisfies readonly (keyof GuardOptions<unknown, unknown>)[];

/** The policy is checked by the code that checks the middleware's; here is only what differs. */
export function guardPolicy<I, R, W>(
  where: string,
  fn: unknown,
  options: GuardOptions<I, W> & RetentionOf<R>,
  more: readonly string[],
): OperationPolicy {
  requireOptions(options, where);
  requireKnown(options, [...GUARD_OPTIONS, ...more], where);
  if (typeof fn !== 'function') {
    throw new InvalidArgument(`${where} takes an async function first; received ${kindOf(fn)}.`);
  }
  const { ledger, operation, tenant, key, inFlight, retentionSeconds } = options;
  requireLedger(ledger, where);
  requireCache(options.cache);
  requireQuota(options, where);
  if (typeof operation !== 'string' || operation.trim() === '') missing(where, 'operation', "'charge'");
  requireNoEvent('operation', operation);
  if (typeof tenant !== 'function') missing(where, 'tenant', '(input) => input.customerId');
  if (typeof key !== 'function') missing(where, 'key', '(input) => input.orderId');
  requireFunctions(options, ['fingerprint', 'metrics', 'log', 'clock', 'sleep', 'newId']);
  if ((inFlight as string | undefined) === 'accept') {
    throw new InvalidArgument(`${where}: inFlight: 'accept' is an HTTP 202; write 'reject' or 'wait'.`);
  }
  const own = Object.fromEntries(
    POLICY_OPTIONS.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  );
  const retention =
    typeof retentionSeconds === 'function'
      ? (reply: Reply) => retentionSeconds(readResult(reply, operation) as R)
      : retentionSeconds;
  return operationPolicies(where, {
    ...own,
    ...(retention !== undefined && { retentionSeconds: retention }),
  })(operation);
}

function missing(where: string, name: string, example: string): never {
  throw new InvalidArgument(`${where} needs ${name}, for example ${name}: ${example}.`);
}
