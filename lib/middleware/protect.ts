import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { InvalidArgument, OncekeyError, StoreUnavailable } from '../core/errors.ts';
import { fingerprintOf } from '../core/fingerprint.ts';
import { limits } from '../core/limits.ts';
import type { EpochMs, InProgress, Reply } from '../core/record.ts';
import { scopePk } from '../core/scope.ts';
import { NotExecuted, WritesRefused } from '../effects/errors.ts';
import { jsonText, NotJson, readResult, resultReply } from '../effects/json-result.ts';
import { requireOptions } from '../effects/option-checks.ts';
import { REMAINING_MAX_MS } from '../effects/remaining.ts';
import type { Once, UnitOfWork } from '../effects/unit-of-work.ts';
import { kindOf } from '../http/kind.ts';
import { nameOf } from '../observe/report.ts';
import { engine } from './engine.ts';
import { type GuardOptions, guardPolicy, type RetentionOf } from './guard-options.ts';
import {
  type Answer,
  type Finished,
  type Operation,
  START_MIN_MS,
  UNKNOWN_REMAINING_MS,
} from './operation.ts';
import {
  KeyExpired,
  KeyReused,
  OperationInProgress,
  OperationNotExecuted,
  OperationUnavailable,
  OutcomeUnknown,
  QuotaExceeded,
  ResultNotJson,
} from './operation-errors.ts';
import type { EnginePorts } from './protocol.ts';
import {
  answerTold,
  faultsMeasured,
  MADE,
  outcomeOf,
  quotaGateOf,
  teller,
  watchDeadline,
} from './telling.ts';
import { warmCacheOf } from './warm-cache.ts';

export interface ProtectOptions<I, R = unknown, W = unknown> extends GuardOptions<I, W> {
  /** How long a result is replayed, counted from completion; a number, or a function of the result. */
  readonly retentionSeconds?: number | ((result: R) => number);
  /** How long one call may take. Default 29 s. */
  readonly deadlineMs?: number;
  /** How long this call may take, where the runtime knows: `() => context.getRemainingTimeInMillis()`. */
  readonly remaining?: (input: I) => number;
}

/** What the function gets beside its input. There is nobody to answer early, so nothing can be deferred. */
export interface CallContext<W> {
  readonly once: Omit<Once<W>, 'defer'>;
}

/**
 * Gives any async function the protection of `idempotency()`: per tenant and key it runs once, and whoever calls again
 * gets a copy of the first result. Every caller gets such a copy, the first one included, so all see the same.
 */
export function protect<I, R, W = unknown>(
  fn: (input: I, context: CallContext<W>) => Promise<R>,
  options: ProtectOptions<I, R, W>,
): (input: I) => Promise<R> {
  requireOptions(options, 'protect()');
  const { deadlineMs, remaining, clock = Date.now } = options;
  if (deadlineMs !== undefined && remaining !== undefined) {
    throw new InvalidArgument('protect() takes deadlineMs or remaining, not both.');
  }
  if (remaining !== undefined && typeof remaining !== 'function') {
    throw new InvalidArgument(`protect(): remaining is ${kindOf(remaining)}; expected a function.`);
  }
  if (deadlineMs !== undefined) checkMs('deadlineMs is', deadlineMs, START_MIN_MS);
  const guard = guarded('protect()', fn, options, ['retentionSeconds', 'deadlineMs', 'remaining']);

  return async (input) => {
    const leftMs = remaining
      ? checkMs('remaining returned', remaining(input), Number.NEGATIVE_INFINITY)
      : (deadlineMs ?? UNKNOWN_REMAINING_MS);
    return guard.call(input, guard.select(input, clock() + leftMs));
  };
}

/** A lease without an end, or one that a timer cannot hold, is a mistake that a crash would make permanent. */
function checkMs(what: string, ms: number, least: number): number {
  if (typeof ms === 'number' && ms >= least && ms <= REMAINING_MAX_MS) return ms;
  const received = typeof ms === 'number' ? ms : kindOf(ms);
  const expected =
    least > 0
      ? `milliseconds from ${least} to ${REMAINING_MAX_MS}`
      : `milliseconds up to ${REMAINING_MAX_MS}`;
  throw new InvalidArgument(`protect(): ${what} ${received}; expected ${expected}.`);
}

interface Guard<I, R> {
  /** Selects key, tenant and fingerprint: once, before anything runs. Throws where there are none. */
  select(input: I, deadline: EpochMs): Operation;
  call(input: I, operation: Operation): Promise<R>;
}

/** One function under the engine. `bodyOf` gives the bytes that identify an input where no `fingerprint` is chosen. */
export function guarded<I, R, W>(
  where: string,
  fn: (input: I, context: CallContext<W>) => Promise<R>,
  options: GuardOptions<I, W> & RetentionOf<R>,
  more: readonly string[],
  bodyOf: (input: I) => Uint8Array = (input) => jsonBody(where, 'input', input),
): Guard<I, R> {
  const { policy, retentionSeconds } = guardPolicy(where, fn, options, more);
  const { ledger, operation: name, clock = Date.now, sleep = pause, newId = randomUUID } = options;
  const { measure, tell } = teller(clock, options.metrics, options.log);
  const cache = warmCacheOf(options.cache);
  const quota = quotaGateOf(options, clock, { measure, tell });
  const warn: EnginePorts<W>['warn'] = (operation, decision, error) =>
    tell(operation, 'error', decision, { reason: nameOf(error) });
  const run = engine<W>({ ledger, clock, sleep, newId, cache, quota, warn });

  return { select, call };

  function select(input: I, deadline: EpochMs): Operation {
    const tenant = selected(where, 'tenant', options.tenant(input));
    const key = selected(where, 'key', options.key(input));
    if (key.length > limits.keyMaxLength) {
      throw new InvalidArgument(
        `${where}: the key has ${key.length} characters; expected at most ${limits.keyMaxLength}. Hash what it is made of.`,
      );
    }
    const body = options.fingerprint ? chosenBody(where, options.fingerprint(input)) : bodyOf(input);
    const fingerprint = fingerprintOf({
      method: 'CALL',
      path: name,
      query: [],
      headers: [],
      contentType: 'application/json',
      body,
    });
    const pk = scopePk({ tenant, operation: name, key });
    const selectedKey = { pk, tenant, name, label: name, fingerprint };
    return { ...selectedKey, policy, retentionSeconds, deadline, onlyKnown: false };
  }

  async function call(input: I, operation: Operation): Promise<R> {
    const since = clock();
    if (operation.deadline - since < START_MIN_MS) {
      tell(operation, 'warn', 'too_late', {});
      throw tooLate(operation);
    }
    const claimed = await run.claim(operation);
    if (claimed.kind === 'answer') {
      const { answer } = claimed;
      const { measured, level, reason } = answerTold(answer);
      measure(operation, { ...measured, 'reserve.latency_ms': clock() - since });
      // A reused key is a mistake in the calling code, not of a client: somebody here should look at it.
      const seen = answer.kind === 'misuse' ? 'warn' : level;
      tell(operation, seen, answer.kind, reason === undefined ? {} : { reason });
      return answered(answer, operation);
    }
    const { mine, how } = claimed;
    measure(operation, { [MADE[how]]: 1, 'reserve.latency_ms': clock() - since });
    tell(operation, 'info', how, { attempt: mine.attempt });
    return execute(input, operation, mine);
  }

  async function execute(input: I, operation: Operation, mine: InProgress): Promise<R> {
    const watch = watchDeadline(run, { measure, tell }, operation, mine, clock());
    const work = run.begin(operation, mine, watch.signal);
    const startedAt = clock();
    const ran = await ranOnce(input, work, operation);
    const endedAt = clock();
    await work.close();
    watch.stop();
    if ('error' in ran) return failed(operation, mine, work, ran.error);

    const ending = { kind: 'replied', status: ran.reply.status, deferred: false } as const;
    let finished: Finished<W>;
    try {
      finished = await run.finish(operation, work, ending, ran.reply);
    } catch (error) {
      return failed(operation, mine, work, error);
    }
    const latency = { 'execute.latency_ms': endedAt - startedAt, 'complete.latency_ms': clock() - endedAt };
    measure(operation, { ...latency, ...faultsMeasured(finished) });
    tell(operation, finished.kind === 'stored' ? 'info' : 'warn', outcomeOf(finished), {
      attempt: mine.attempt,
    });
    switch (finished.kind) {
      case 'stored':
        return readResult(ran.reply, operation.pk) as R;
      case 'answer':
        return answered(finished.answer, operation);
      case 'refused':
        throw new WritesRefused(finished.reasons);
      case 'failed':
        throw unavailable(operation, policy.inFlightRetryMs);
      default:
        return finished satisfies never;
    }
  }

  async function ranOnce(
    input: I,
    work: UnitOfWork<W>,
    operation: Operation,
  ): Promise<{ readonly reply: Reply } | { readonly error: unknown }> {
    try {
      return { reply: resultReply(await fn(input, { once: { ...work.once, ...noDeferring } })) };
    } catch (error) {
      return { error: error instanceof NotJson ? resultNotJson(operation, error) : error };
    }
  }

  /** The function's own failure is what its caller sees, unless the record says otherwise by now. */
  async function failed(
    operation: Operation,
    mine: InProgress,
    work: UnitOfWork<W>,
    failure: unknown,
  ): Promise<R> {
    const notExecuted = failure instanceof NotExecuted;
    const ending = { kind: 'threw', notExecuted } as const;
    // Its caller may be protected as well, and must not be taken to say the same of all that it has done.
    const error = notExecuted ? new OperationNotExecuted(operation.pk, failure.message, failure) : failure;
    let finished: Finished<W>;
    try {
      finished = await run.finish(operation, work, ending, undefined);
    } catch (unwritten) {
      measure(operation, { 'store.error.count': 1 });
      tell(operation, 'error', 'open', { attempt: mine.attempt, reason: nameOf(unwritten) });
      throw error;
    }
    measure(operation, faultsMeasured(finished));
    tell(operation, 'warn', outcomeOf(finished), { attempt: mine.attempt, reason: nameOf(failure) });
    if (finished.kind === 'answer') return answered(finished.answer, operation, error);
    throw error;
  }

  /** The record's word, as a result or as an error. */
  function answered(answer: Answer, operation: Operation, cause?: unknown): R {
    const { pk } = operation;
    switch (answer.kind) {
      case 'replay':
        return readResult(answer.reply, pk) as R;
      case 'pending':
        throw new OperationInProgress(pk, policy.inFlightRetryMs, cause);
      case 'in_progress':
        throw new OperationInProgress(pk, answer.retryAfterMs, cause);
      case 'unknown':
        throw new OutcomeUnknown(pk, answer.parked, answer.retryAfterMs, cause);
      case 'misuse':
        throw new KeyReused(pk);
      case 'gone':
      case 'too_old':
        throw new KeyExpired(pk);
      case 'over_quota':
        throw new QuotaExceeded(pk, answer.retryAfterMs);
      case 'unavailable': {
        const why = answer.cause ?? cause;
        // A refused call or an unreadable record needs another remedy than patience, and says so itself.
        if (why instanceof OncekeyError && !(why instanceof StoreUnavailable)) throw why;
        throw unavailable(operation, answer.retryAfterMs, why);
      }
      default:
        return answer satisfies never;
    }
  }
}

/* How it is refused. */

function tooLate({ pk }: Operation): OperationUnavailable {
  return new OperationUnavailable(
    pk,
    START_MIN_MS,
    `Less than ${START_MIN_MS} ms were left for ${pk}, so it was not started; call again with the same key.`,
  );
}

function unavailable({ pk }: Operation, retryAfterMs: number, cause?: unknown): OperationUnavailable {
  return new OperationUnavailable(
    pk,
    retryAfterMs,
    `The record of ${pk} cannot say now what came of it; call again with the same key after ${retryAfterMs} ms.`,
    cause,
  );
}

function resultNotJson({ pk, name, policy }: Operation, { message }: NotJson): ResultNotJson {
  const key = {
    transactional: 'Nothing was written, and the key may be retried.',
    steps: 'Its steps are kept, and the key may be retried.',
    opaque: 'What it has done stays done, so its outcome is unknown now.',
  }[policy.effects];
  return new ResultNotJson(
    pk,
    `${name} ran, and its result cannot be replayed: ${message}. Return what JSON holds, such as a Date as its text. ${key}`,
  );
}

const noDeferring = {
  defer() {
    throw new InvalidArgument(
      'once.defer() answers an HTTP request early; a function has nobody to answer. Leave it out: what once.emit() takes is delivered all the same.',
    );
  },
};

/** What a template makes of a value that is not there; as a key it would be everybody's. */
const NOTHING = new Set(['undefined', 'null', 'NaN', '[object Object]', '[object Promise]']);

/** Without a value of its own, a call would be given the result of a stranger's. The message never quotes a key. */
function selected(where: string, name: 'key' | 'tenant', value: unknown): string {
  if (typeof value === 'string' && value.trim() !== '' && !NOTHING.has(value)) return value;
  const received =
    typeof value !== 'string' ? kindOf(value) : value.trim() === '' ? 'an empty text' : `the text "${value}"`;
  throw new InvalidArgument(
    `${where}: the ${name} selector returned ${received}; expected a text that tells this ${name} from every other. Nothing was run.`,
  );
}

function chosenBody(where: string, part: unknown): Uint8Array {
  if (part !== undefined) return jsonBody(where, 'fingerprint(input)', part);
  throw new InvalidArgument(
    `${where}: fingerprint returned undefined, so that every input would be the same. Return what must not change for a key, or null if nothing counts.`,
  );
}

/** As strict as for results: an input that JSON would flatten could be taken for another one. */
export function jsonBody(where: string, name: string, value: unknown): Uint8Array {
  if (value === undefined) return new Uint8Array();
  try {
    return new Uint8Array(Buffer.from(jsonText(value, name)));
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new InvalidArgument(
      `${where}: ${error.message}, so inputs cannot be compared. Choose what counts, as JSON: fingerprint: (input) => …. Nothing was run.`,
    );
  }
}
