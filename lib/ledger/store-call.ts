import { InvalidArgument, NoTimeLeft, StoreRefused, StoreUnavailable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { schedule } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';

export interface StoreCallOptions {
  readonly clock: () => EpochMs;
  readonly random: () => number;
  readonly sleep: (ms: number) => Promise<void>;
  readonly requestTimeoutMs: number;
}

/** Cancellation codes that say "not now", as opposed to "not like this". */
const TRANSIENT_REASONS = new Set([
  'TransactionConflict',
  'ThrottlingError',
  'ProvisionedThroughputExceeded',
]);

const TRANSIENT_NAMES = new Set([
  'Throttling',
  'TooManyRequestsException',
  'ReplicatedWriteConflictException',
  'ThrottlingException',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'InternalServerError',
  'TransactionConflictException',
  'TransactionInProgressException',
  'TimeoutError',
  'AbortError',
]);

/** Time ends the loop long before; this is for a clock that goes backwards. */
const MAX_TRIES = 10_000;

/**
 * One retry policy for every store call, in place of the SDK's: its retry quota is shared by the whole client and
 * runs out under sustained loss, and it would go on sending after the caller's lease. No try leaves after `until`,
 * and the last one is aborted then. Backoff has full jitter.
 */
export function storeCaller({ clock, random, sleep, requestTimeoutMs }: StoreCallOptions) {
  return async function call<T>(send: (signal: AbortSignal) => Promise<T>, until: EpochMs): Promise<T> {
    let last: unknown;
    for (let tries = 0; ; tries += 1) {
      const leftMs = until - clock();
      if (leftMs <= 0 || tries >= MAX_TRIES) throw tries === 0 ? new NoTimeLeft() : unavailable(tries, last);
      try {
        return await send(AbortSignal.timeout(Math.ceil(Math.min(requestTimeoutMs, leftMs))));
      } catch (error) {
        if (!isTransient(error)) throw asRefusal(error);
        last = error;
      }
      await sleep(Math.min(retryPauseMs(tries, random), Math.max(0, until - clock())));
    }
  };
}

/** Full jitter, doubling. */
export function retryPauseMs(tries: number, random: () => number): number {
  return random() * Math.min(schedule.retryCapMs, schedule.retryBaseMs * 2 ** tries);
}

function unavailable(tries: number, last: unknown): StoreUnavailable {
  const why = last instanceof Error ? `${last.name}: ${last.message}` : String(last);
  return new StoreUnavailable(
    `The ledger's table did not answer in time, after ${tries} ${tries === 1 ? 'try' : 'tries'} (${why}). A write may have happened all the same; retry with the same key.`,
    last,
  );
}

function isTransient(error: unknown): boolean {
  const { name, code, $fault, $metadata, CancellationReasons } = shape(error);
  if (name === 'TransactionCanceledException') return isTransientCancellation(CancellationReasons);
  if (name !== undefined && TRANSIENT_NAMES.has(name)) return true;
  if ($metadata?.httpStatusCode === 429) return true;
  if ($fault === 'client' || error instanceof TypeError) return false;
  if ($metadata !== undefined) return true; // A 5xx, or a response cut off so that it could not be read.
  return typeof code === 'string' && /^E(?!RR_)[A-Z_]+$/.test(code); // A socket's error, ECONNRESET and its like.
}

/**
 * The record's own failed condition (always the first item) decides, whatever else happened. Otherwise a conflict
 * means that another transaction, perhaps our own lost one, is still being decided: a condition that failed beside it
 * may have failed because of that, so only asking again tells.
 */
function isTransientCancellation(reasons: readonly { readonly Code?: string }[] = []): boolean {
  if (reasons.length === 0) return true; // It does not say why; only asking again tells.
  if (reasons[0]?.Code === 'ConditionalCheckFailed') return false;
  return reasons.some(({ Code }) => Code !== undefined && TRANSIENT_REASONS.has(Code));
}

/** A refusal that the caller reads as a result passes through; any other is a fault of the deployment. */
function asRefusal(error: unknown): unknown {
  const { name, $fault, message } = shape(error);
  if (name === 'ConditionalCheckFailedException' || name === 'TransactionCanceledException') return error;
  if ($fault !== 'client' && name !== 'CredentialsProviderError') return error;
  return refusal(`${name}: ${message}`, error);
}

export function refusal(why: string, cause: unknown): StoreRefused {
  return new StoreRefused(
    `DynamoDB refused the ledger's call with ${why}. Check the table's name, its keys, the function's permissions and the size of what is stored.`,
    cause,
  );
}

export function tooManyWrites(count: number): InvalidArgument {
  const most = limits.transactionMaxItems;
  return new InvalidArgument(
    `${count} writes were given; DynamoDB takes ${most} in one transaction, and one of them is the record: pass at most ${most - 1}.`,
  );
}

interface ErrorShape {
  readonly name?: string;
  readonly message?: string;
  readonly code?: unknown;
  readonly $fault?: string;
  readonly $metadata?: { readonly httpStatusCode?: number };
  readonly CancellationReasons?: readonly { readonly Code?: string }[];
}

function shape(error: unknown): ErrorShape {
  return typeof error === 'object' && error !== null ? error : {};
}
