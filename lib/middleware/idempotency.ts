import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import { InvalidArgument } from '../core/errors.ts';
import { fingerprintOf } from '../core/fingerprint.ts';
import { readKey } from '../core/key.ts';
import type { EpochMs, InProgress, Reply } from '../core/record.ts';
import { scopePk } from '../core/scope.ts';
import { NotExecuted, WritesRefused } from '../effects/errors.ts';
import { remainingMs } from '../effects/remaining.ts';
import type { Once, UnitOfWork } from '../effects/unit-of-work.ts';
import { type Scheduled, scheduledIn } from '../http/completion.ts';
import { defaultStoredHeaders, freshHeaders, isStorable, storableHeaders } from '../http/headers.ts';
import { kindOf } from '../http/kind.ts';
import { isProtected, operationOf } from '../http/operation.ts';
import { type ProblemCode, problem } from '../http/problem.ts';
import { renderReply } from '../http/render.ts';
import { isAcceptance, noContent, readReply } from '../http/reply.ts';
import { type HttpRequest, readEvent } from '../http/request.ts';
import { storableEvent } from '../http/stored-event.ts';
import { requiredTenant } from '../http/tenant.ts';
import { faultsOf } from '../http/validate.ts';
import { nameOf } from '../observe/report.ts';
import { pendingReply, replyTo } from './answers.ts';
import { engine } from './engine.ts';
import { lateness } from './lateness.ts';
import {
  type Answer,
  type Finished,
  type Operation,
  START_MIN_MS,
  tooLate,
  UNKNOWN_REMAINING_MS,
} from './operation.ts';
import { checkedOptions, type IdempotencyOptions, requireNoEvent } from './options.ts';
import type { Claimed, EnginePorts } from './protocol.ts';
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

/** What the handler finds on its context. */
export interface OnceContext<W> {
  readonly once: Once<W>;
}

/** Carries an answer past the handler. Middy runs outer hooks on errors too, which an early return would skip. */
class Answered extends Error {
  override readonly name = 'IdempotentAnswer';
  readonly reply: Reply;
  readonly http: HttpRequest;
  /** Which middleware said so: another one in the same chain has a record of its own to finish. */
  readonly by: object;

  constructor(reply: Reply, http: HttpRequest, by: object) {
    super('The request was answered without running the handler.');
    this.reply = reply;
    this.http = http;
    this.by = by;
  }
}

interface Running<W> {
  readonly http: HttpRequest;
  readonly operation: Operation;
  readonly mine: InProgress;
  readonly work: UnitOfWork<W>;
  readonly startedAt: EpochMs;
  stopWatch(): void;
}

interface MiddyRequest {
  event: unknown;
  context: object;
  response: unknown;
  error: unknown;
}

/**
 * Gives a Lambda function the Idempotency-Key contract: `middy().use(idempotency({ … })).handler(…)`. The key, the
 * fingerprint and the scope are taken once, before the handler, and kept per request: nothing of a request is
 * remembered by the module.
 */
export function idempotency<W>(
  options: IdempotencyOptions<W>,
): MiddlewareObj<unknown, unknown, Error, Context & OnceContext<W>> {
  const policyOf = checkedOptions(options);
  const { preset = 'ietf', docsBase, storedHeaders = defaultStoredHeaders } = options;
  const { clock = Date.now, sleep = pause, newId = randomUUID } = options;
  const { measure, tell } = teller(clock, options.metrics, options.log);
  const cache = warmCacheOf(options.cache);
  const quota = quotaGateOf(options, clock, { measure, tell });
  const warn: EnginePorts<W>['warn'] = (operation, decision, error) =>
    tell(operation, 'error', decision, { reason: nameOf(error) });
  const run = engine<W>({ ledger: options.ledger, clock, sleep, newId, cache, quota, warn });
  const runs = new WeakMap<object, Running<W>>();

  return { before, after, onError } as MiddlewareObj<unknown, unknown, Error, Context & OnceContext<W>>;

  async function before(request: MiddyRequest): Promise<void> {
    const http = readEvent(request.event);
    const scheduled = scheduledIn(request.event);
    if (scheduled) return resume(request, http, scheduled);
    if (!isProtected(http.method)) return;
    const name = nameOfOperation(options, http);
    const { required, validate, policy, retentionSeconds, assuredSeconds, autoComplete } = policyOf(name);

    const values = http.headers.get('idempotency-key') ?? [];
    if (values.length === 0 && !required) return;
    const key = readKey(values, options.keyMode ?? 'auto', options.minKeyLength);
    if (!key.ok) turnAway(http, name, key.code, problem(key.code, { detail: key.detail }, preset, docsBase));
    const late = lateness(http, clock(), assuredSeconds, policy.skewMs);
    const errors = [...late.faults, ...(validate ? await faultsOf(validate, http) : [])];
    if (errors.length > 0) {
      turnAway(http, name, 'validation_failed', problem('validation_failed', { errors }, preset, docsBase));
    }

    const tenant = requiredTenant(options.tenant(http));
    const now = clock();
    const leftMs = remainingMs(request.context, UNKNOWN_REMAINING_MS);
    const operation: Operation = {
      pk: scopePk({ tenant, operation: name, key: key.key }),
      tenant,
      name,
      label: labelOf(options, http, name),
      fingerprint: fingerprintOf({ ...http, ...fingerprintParts(http, options.fingerprintHeaders ?? []) }),
      policy,
      retentionSeconds,
      deadline: now + leftMs,
      onlyKnown: late.tooOld,
      ...(autoComplete && keptRequest(request, options)),
    };
    if (leftMs < START_MIN_MS) answer(http, operation, tooLate, now);
    begin(request, http, operation, await run.claim(operation), now);
  }

  /** The completer invoked us, with an event that we kept: its key and fingerprint are those of the record. */
  async function resume(request: MiddyRequest, http: HttpRequest, scheduled: Scheduled): Promise<void> {
    const now = clock();
    const deadline = now + remainingMs(request.context, UNKNOWN_REMAINING_MS);
    const from = await run.scheduled(scheduled, deadline);
    if (!from) throw new Answered(noContent, http, runs);
    const { pk, tenant, operation: name } = from;
    const { policy, retentionSeconds } = policyOf(name);
    const operation: Operation = {
      ...{ pk, tenant, name, label: labelOf(options, http, name), policy, retentionSeconds, deadline },
      fingerprint: { current: from.fingerprint, matches: (stored) => stored === from.fingerprint },
      onlyKnown: false,
    };
    begin(request, http, operation, await run.resume(operation, from), now);
  }

  function begin(
    request: MiddyRequest,
    http: HttpRequest,
    operation: Operation,
    claimed: Claimed,
    since: EpochMs,
  ): void {
    if (claimed.kind === 'answer') answer(http, operation, claimed.answer, since);
    const { mine, how } = claimed;
    const watch = watchDeadline(run, { measure, tell }, operation, mine, clock());
    const work = run.begin(operation, mine, watch.signal);
    runs.set(request, { http, operation, mine, work, startedAt: clock(), stopWatch: watch.stop });
    // Not on the context itself: requests at once may share one, and a later one must not find what is ours.
    request.context = Object.create(request.context, { once: { value: work.once, enumerable: true } });
    measure(operation, { [MADE[how]]: 1, 'reserve.latency_ms': clock() - since });
    tell(operation, 'info', how, { attempt: mine.attempt });
    if (policyOf(operation.name).autoComplete && !mine.request) tell(operation, 'warn', 'request_not_kept');
  }

  async function after(request: MiddyRequest): Promise<void> {
    const running = runs.get(request);
    if (!running) return;
    await running.work.close();
    running.stopWatch();
    const reply = readReply(request.response, running.http.source);
    if (running.work.deferred) requireDeferrable(running.work, reply);
    request.response = await concluded(request, running, reply);
  }

  /** The answer was made by the handler, or by a hook behind us in its place: it becomes the record's. */
  async function concluded(request: MiddyRequest, running: Running<W>, reply: Reply): Promise<unknown> {
    const { http, operation, mine, work, startedAt } = running;
    const endedAt = clock();
    const stored = { ...reply, headers: storableHeaders(reply.headers, storedHeaders) };
    const ending = { kind: 'replied', status: reply.status, deferred: work.deferred } as const;
    const finished = await run.finish(operation, work, ending, stored);
    runs.delete(request);

    const latency = { 'execute.latency_ms': endedAt - startedAt, 'complete.latency_ms': clock() - endedAt };
    measure(operation, { ...latency, ...faultsMeasured(finished) });
    const level = finished.kind === 'stored' ? 'info' : 'warn';
    tell(operation, level, outcomeOf(finished), { attempt: mine.attempt });
    if (finished.kind === 'refused') throw new WritesRefused(finished.reasons);
    return renderReply(replyAfter(finished, reply, operation), http);
  }

  function replyAfter(
    finished: Exclude<Finished<W>, { kind: 'refused' }>,
    reply: Reply,
    operation: Operation,
  ): Reply {
    switch (finished.kind) {
      case 'stored': {
        const { record } = finished;
        return record.status === 'accepted'
          ? pendingReply(reply)
          : { ...reply, headers: freshHeaders(reply.headers, record.expiresAt) };
      }
      case 'failed':
        return { ...reply, headers: freshHeaders(reply.headers) };
      case 'answer':
        return replyTo(finished.answer, operation.pk, preset, docsBase);
      default:
        return finished satisfies never;
    }
  }

  async function onError(request: MiddyRequest): Promise<void> {
    const { error } = request;
    if (error instanceof Answered && error.by === runs) {
      request.response = renderReply(error.reply, error.http);
      return;
    }
    const running = runs.get(request);
    if (!running) return;
    await running.work.close();
    running.stopWatch();
    if (request.response !== undefined) return answeredInside(request, running);
    const { http, operation, mine, work } = running;
    runs.delete(request);
    const ending = { kind: 'threw', notExecuted: error instanceof NotExecuted } as const;
    const finished = await run.finish(operation, work, ending, undefined);
    measure(operation, faultsMeasured(finished));
    tell(operation, 'warn', outcomeOf(finished), { attempt: mine.attempt, reason: nameOf(error) });
    if (finished.kind === 'answer') {
      request.response = renderReply(replyTo(finished.answer, operation.pk, preset, docsBase), http);
    }
  }

  /** An error hook behind us has made an answer of the error. What the handler had collected until it threw is not written. */
  async function answeredInside(request: MiddyRequest, running: Running<W>): Promise<void> {
    running.work.discard();
    const reply = readReply(request.response, running.http.source);
    request.response = await concluded(request, running, reply);
  }

  /** Before there is a record: the request says too little, or what it says is wrong. */
  function turnAway(http: HttpRequest, name: string, code: ProblemCode, reply: Reply): never {
    tell({ name, tenant: '-', pk: '-' }, 'info', code);
    throw new Answered(reply, http, runs);
  }

  function answer(http: HttpRequest, operation: Operation, given: Answer, since: EpochMs): never {
    const { measured, level, reason } = answerTold(given);
    measure(operation, { ...measured, 'reserve.latency_ms': clock() - since });
    tell(operation, level, given.kind, reason === undefined ? {} : { reason });
    throw new Answered(replyTo(given, operation.pk, preset, docsBase), http, runs);
  }
}

function nameOfOperation<W>({ operation }: IdempotencyOptions<W>, http: HttpRequest): string {
  const name: unknown = operation ? operation(http) : operationOf(http);
  if (typeof name === 'string' && name.trim() !== '') {
    requireNoEvent('operation', name);
    return name;
  }
  throw new InvalidArgument(
    `The operation resolver returned ${kindOf(name)}; expected a name, such as 'POST /payments'. Nothing was run.`,
  );
}

/** Behind a greedy route a caller chooses the path, and every new dimension of a metric is a metric that is billed. */
function labelOf<W>(
  { operation, operations = {} }: IdempotencyOptions<W>,
  { route, method }: HttpRequest,
  name: string,
): string {
  const chosenHere = operation !== undefined || route !== undefined || Object.hasOwn(operations, name);
  return chosenHere ? name : `${method.toUpperCase()} (any path)`;
}

/** The final response will come from delivering the outbox, and the caller must know where to look for it. */
function requireDeferrable({ outbox }: UnitOfWork<unknown>, reply: Reply): void {
  if (outbox.length === 0) {
    throw new InvalidArgument(
      'once.defer() without once.emit(): nothing would ever produce the final response.',
    );
  }
  if (isAcceptance(reply)) return;
  throw new InvalidArgument(
    `once.defer() answers 202 with a Location where the caller can look for the outcome; the handler returned ${reply.status}. Nothing was written.`,
  );
}

/** What counts in the fingerprint is part of what was asked, so it is kept as well; a credential never is. */
function keptRequest<W>({ event, context }: MiddyRequest, options: IdempotencyOptions<W>) {
  const arn: unknown = 'invokedFunctionArn' in context ? context.invokedFunctionArn : undefined;
  if (typeof arn !== 'string' || arn === '') {
    throw new InvalidArgument(
      "complete: 'auto' needs the context's invokedFunctionArn, which Lambda sets: it names the function to be invoked again.",
    );
  }
  const asked = (options.fingerprintHeaders ?? []).filter(isStorable);
  const kept = storableEvent(event, [...(options.requestHeaders ?? []), ...asked]);
  return kept && { request: { function: arn, event: kept } };
}

function fingerprintParts(http: HttpRequest, names: readonly string[]) {
  const [contentType] = http.headers.get('content-type') ?? [];
  const headers = names.flatMap((name) =>
    (http.headers.get(name.toLowerCase()) ?? []).map((value) => [name, value] as const),
  );
  return { contentType, headers };
}
