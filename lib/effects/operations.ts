import { InvalidArgument } from '../core/errors.ts';
import type { Expiry } from '../core/moves.ts';
import { defaultPolicy, expiryAfter, type Policy, schedule } from '../core/policy.ts';
import type { Effects, EpochMs, Reply } from '../core/record.ts';
import type { Validation } from '../http/validate.ts';
import {
  refuse,
  requireBoolean,
  requireFunctions,
  requireKnown,
  requireOneOf,
  requireOptions,
  requireWhole,
} from './option-checks.ts';
import type { Resolver } from './resolver.ts';

/** What one operation may choose. The function that runs it and what reconciles it are given the same. */
export interface OperationOptions {
  /** Where the handler's effects are; this decides what is safe after a crash. Default `opaque`. */
  readonly effects?: Effects;
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
  /** Finds out what became of an operation whose outcome is unknown. */
  readonly resolver?: Resolver;
  /** Without a resolver: what becomes unknown waits for an operator. */
  readonly onUnknown?: 'park';
  /** For how long providers remember the keys of steps and events, from the first attempt on. Default 23 h. */
  readonly dedupeWindowMs?: number;
  /**
   * For how long after its lease a request of an attempt may still take effect: longer than the timeout of your provider's
   * client. Only then "not executed" is believed. Default 2 minutes.
   */
  readonly settlingMs?: number;
  /** How soon an open outcome is looked at first, and the pause that doubles from there. Default 30 seconds. */
  readonly reconcileBaseMs?: number;
  /** The longest pause between two looks. Default one hour, which is also the most. */
  readonly reconcileCapMs?: number;
  /** `auto`, with `steps`: keeps the request, so that an abandoned operation is finished without its client. */
  readonly complete?: 'auto';
}

export const OPERATION_OPTIONS = [
  'effects',
  'inFlight',
  'waitMs',
  'afterExpiry',
  'goneSeconds',
  'retentionSeconds',
  'required',
  'validate',
  'resolver',
  'onUnknown',
  'dedupeWindowMs',
  'settlingMs',
  'reconcileBaseMs',
  'reconcileCapMs',
  'complete',
] as const satisfies readonly (keyof OperationOptions)[];

const ONE_OF = {
  effects: ['transactional', 'steps', 'opaque'],
  inFlight: ['reject', 'accept', 'wait'],
  afterExpiry: ['execute', 'gone'],
  onUnknown: ['park'],
  complete: ['auto'],
} as const;

/** How long a result is kept. Never throws: what a function of the user's own does wrong is told to `odd`. */
export type Retention = (reply: Reply, odd?: (error: unknown) => void) => number;

/** One operation's options, complete and checked. */
export interface OperationPolicy {
  readonly policy: Policy;
  readonly retentionSeconds: Retention;
  /** For how long every result is kept, whatever it is. */
  readonly assuredSeconds: number;
  readonly required: boolean;
  readonly validate: Validation | undefined;
  readonly resolver: Resolver | undefined;
  readonly autoComplete: boolean;
}

/** Of each operation by its name; where it has no options of its own, those at the top level count. */
export function operationPolicies(
  where: string,
  options: OperationOptions,
  operations: Readonly<Record<string, OperationOptions>> = {},
): (operation: string) => OperationPolicy {
  requireOptions(operations, `${where}: operations`);
  const base = operationPolicy(where, options);
  const named = new Map(
    Object.entries(operations).map(([name, own]) => {
      const what = `the operation ${name}`;
      requireOptions(own, what);
      requireKnown(own, OPERATION_OPTIONS, what);
      return [name, operationPolicy(what, inherited(options, given(own)))];
    }),
  );
  return (operation) => named.get(operation) ?? base;
}

/**
 * For what reconciles: the same options as the functions are given. An operation that is declared nowhere is taken for one
 * whose unknown outcomes wait for an operator.
 */
export function reconciledPolicies(
  where: string,
  options: OperationOptions,
  operations?: Readonly<Record<string, OperationOptions>>,
): (operation: string) => OperationPolicy {
  const { effects = defaultPolicy.effects, resolver, onUnknown } = options;
  const undeclared = effects === 'opaque' && !resolver && !onUnknown;
  return operationPolicies(where, undeclared ? { ...options, onUnknown: 'park' } : options, operations);
}

/** An option that is there without a value is not there: it must not hide the one above. */
function given(options: OperationOptions): OperationOptions {
  return Object.fromEntries(
    OPERATION_OPTIONS.filter((name) => options[name] !== undefined).map((name) => [name, options[name]]),
  );
}

/** What only makes sense together with something else is taken over with it, or not at all. */
function inherited(defaults: OperationOptions, own: OperationOptions): OperationOptions {
  const { effects = defaultPolicy.effects, inFlight, afterExpiry } = { ...given(defaults), ...own };
  const senseless: readonly (keyof OperationOptions | false)[] = [
    inFlight !== 'wait' && 'waitMs',
    afterExpiry !== 'gone' && 'goneSeconds',
    effects !== 'steps' && 'complete',
    effects === 'opaque' && 'dedupeWindowMs',
    own.resolver !== undefined && 'onUnknown',
    own.onUnknown !== undefined && 'resolver',
  ];
  const kept = Object.entries(given(defaults)).filter(
    ([name]) => !senseless.some((option) => option === name),
  );
  return { ...Object.fromEntries(kept), ...own };
}

function operationPolicy(where: string, options: OperationOptions): OperationPolicy {
  for (const [name, allowed] of Object.entries(ONE_OF)) requireOneOf(options, name, allowed);
  requireWhole(options, 'waitMs', 0, WAIT_MAX_MS);
  requireWhole(options, 'goneSeconds', 1, schedule.retentionMaxSeconds);
  requireWhole(options, 'dedupeWindowMs', 1);
  requireWhole(options, 'settlingMs', SETTLING_MIN_MS, SETTLING_MAX_MS);
  requirePauses(where, options);
  requireFunctions(options, ['resolver']);
  requireBoolean(options, 'required');
  requireValidation(options.validate);
  requireSense(where, options);
  const { effects = defaultPolicy.effects, retentionSeconds = defaultPolicy.retentionSeconds } = options;
  if (typeof retentionSeconds !== 'function') checkRetention(where, retentionSeconds);
  return {
    policy: { ...defaultPolicy, ...chosen(options), effects },
    retentionSeconds: (reply, odd) => retained(where, retentionSeconds, reply, odd),
    assuredSeconds: typeof retentionSeconds === 'number' ? retentionSeconds : schedule.retentionMinSeconds,
    required: options.required ?? true,
    validate: options.validate,
    resolver: options.resolver,
    autoComplete: options.complete === 'auto',
  };
}

/** A gateway has long given up by then; a day of it would be a mistake in the unit. */
const WAIT_MAX_MS = 15 * 60_000;

/** A client that gives up sooner than this is none that we have seen; a zero here would be a second charge. */
const SETTLING_MIN_MS = 1_000;
const SETTLING_MAX_MS = 24 * 3_600_000;

/** The sweep itself comes once a minute; more often than once a second nothing could look. */
const RECONCILE_MIN_MS = 1_000;

function requirePauses(where: string, options: OperationOptions): void {
  // The audit calls a record forgotten that nobody has looked at for two of the longest pauses.
  for (const name of ['reconcileBaseMs', 'reconcileCapMs'] as const)
    requireWhole(options, name, RECONCILE_MIN_MS, defaultPolicy.reconcileCapMs);
  const { reconcileBaseMs, reconcileCapMs } = { ...defaultPolicy, ...given(options) };
  if (reconcileBaseMs <= reconcileCapMs) return;
  throw new InvalidArgument(
    `${where}: reconcileBaseMs is ${reconcileBaseMs}, and reconcileCapMs is ${reconcileCapMs}; the first pause cannot be longer than the longest.`,
  );
}

function requireValidation(validate: unknown): void {
  const schema = typeof validate === 'object' && validate !== null && '~standard' in validate;
  if (validate === undefined || typeof validate === 'function' || schema) return;
  refuse('validate', validate, 'a function, or a Standard Schema such as one of Zod');
}

/** What is fine by itself and contradicts something else. */
function requireSense(where: string, options: OperationOptions): void {
  const { effects = defaultPolicy.effects, resolver, onUnknown } = options;
  const wrong = (why: string): never => {
    throw new InvalidArgument(`${where}${why}`);
  };
  if (effects === 'opaque' && !resolver && !onUnknown) {
    wrong(
      " is opaque, so a crash leaves its outcome unknown, and nothing here can find it out. Give it a resolver that asks the provider, or write onUnknown: 'park' to have an operator decide, or declare effects: 'transactional' if every change goes through once.write and once.emit.",
    );
  }
  if (resolver && onUnknown) wrong(" has a resolver and onUnknown: 'park'; write one of them.");
  if (effects !== 'steps' && options.complete) {
    wrong(
      `: complete: 'auto' resumes steps, and this is ${effects}; declare effects: 'steps' or leave it out.`,
    );
  }
  if (effects === 'opaque' && options.dedupeWindowMs !== undefined) {
    wrong(': dedupeWindowMs is about steps and events, and an opaque operation has neither.');
  }
  if (effects !== 'opaque' && options.required === false) {
    wrong(
      `: a request without a key has no record that ${effects} effects could be written with. Leave required: false out, or declare effects: 'opaque'.`,
    );
  }
  if (options.goneSeconds !== undefined && options.afterExpiry !== 'gone') {
    wrong(": goneSeconds needs afterExpiry: 'gone'.");
  }
  if (options.waitMs !== undefined && options.inFlight !== 'wait') wrong(": waitMs needs inFlight: 'wait'.");
}

function chosen(options: OperationOptions): Partial<Policy> {
  const { inFlight, waitMs, afterExpiry, goneSeconds, retentionSeconds, dedupeWindowMs } = options;
  const { settlingMs, reconcileBaseMs, reconcileCapMs } = options;
  return {
    ...(inFlight !== undefined && { inFlight }),
    ...(waitMs !== undefined && { waitMs }),
    ...(afterExpiry !== undefined && { afterExpiry }),
    ...(goneSeconds !== undefined && { goneSeconds }),
    ...(dedupeWindowMs !== undefined && { dedupeWindowMs }),
    ...(settlingMs !== undefined && { settlingMs }),
    ...(reconcileBaseMs !== undefined && { reconcileBaseMs }),
    ...(reconcileCapMs !== undefined && { reconcileCapMs }),
    ...(typeof retentionSeconds === 'number' && { retentionSeconds }),
  };
}

/** When an operation's reply stops being replayed, and when its item may go. */
export function expiryOf(
  { policy, retentionSeconds }: Pick<OperationPolicy, 'policy' | 'retentionSeconds'>,
  reply: Reply,
  now: EpochMs,
  odd?: (error: unknown) => void,
): Expiry {
  return expiryAfter({ ...policy, retentionSeconds: retentionSeconds(reply, odd) }, now);
}

/** A function that returns nonsense must not cost a payment that went through: the default is kept instead. */
function retained(
  where: string,
  retention: number | ((reply: Reply) => number),
  reply: Reply,
  odd: (error: unknown) => void = () => undefined,
): number {
  if (typeof retention === 'number') return retention;
  try {
    return checkRetention(where, retention(reply));
  } catch (error) {
    odd(error);
    return defaultPolicy.retentionSeconds;
  }
}

function checkRetention(where: string, seconds: unknown): number {
  const { retentionMinSeconds: least, retentionMaxSeconds: most } = schedule;
  if (Number.isSafeInteger(seconds) && Number(seconds) >= least && Number(seconds) <= most)
    return Number(seconds);
  throw new InvalidArgument(
    `${where}: retentionSeconds is ${JSON.stringify(seconds) ?? typeof seconds}; expected a whole number of at least ${least}, since a client on a bad network retries for longer than less, and of at most ${most}.`,
  );
}
