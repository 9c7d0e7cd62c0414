import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { MiddlewareObj } from '@middy/core';
import type { Context } from 'aws-lambda';
import { InvalidArgument } from '../core/errors.ts';
import { fingerprintOf } from '../core/fingerprint.ts';
import { readKey } from '../core/key.ts';
import type { EpochMs, InProgress, Reply } from '../core/record.ts';
import { scopePk } from '../core/scope.ts';
import { NotExecuted, type Once, type UnitOfWork, unitOfWork } from '../effects/unit-of-work.ts';
import { defaultStoredHeaders, freshHeaders, storableHeaders } from '../http/headers.ts';
import { isProtected, operationOf } from '../http/operation.ts';
import { problem } from '../http/problem.ts';
import { renderReply } from '../http/render.ts';
import { readReply } from '../http/reply.ts';
import { type HttpRequest, readEvent } from '../http/request.ts';
import { replyTo } from './answers.ts';
import { engine } from './engine.ts';
import { lateness } from './lateness.ts';
import {
  type Answer,
  type Finished,
  type Operation,
  START_MIN_MS,
  UNKNOWN_REMAINING_MS,
} from './operation.ts';
import { WritesRefused } from './operation-errors.ts';
import { checkedOptions, type IdempotencyOptions } from './options.ts';
import { ANSWERED, faultsMeasured, MADE, nameOf, outcomeOf, teller, watchDeadline } from './telling.ts';
import { faultsOf } from './validate.ts';
import { defaultWarmCache, warmCache } from './warm-cache.ts';

/** What the handler finds on its context. */
export interface OnceContext<W> {
  readonly once: Once<W>;
}

/** Carries an answer past the handler. Middy runs outer hooks on errors too, which an early return would skip. */
class Answered extends Error {
  override readonly name = 'IdempotentAnswer';
  readonly reply: Reply;
  readonly http: HttpRequest;

  constructor(reply: Reply, http: HttpRequest) {
    super('The request was answered without running the handler.');
    this.reply = reply;
    this.http = http;
  }
}

interface Running<W> {
  readonly http: HttpRequest;
  readonly operation: Operation;
  readonly mine: InProgress;
  readonly work: UnitOfWork<W>;
  readonly startedAt: EpochMs;
  /** Stops the watch on the deadline, and waits for what it may already have begun. */
  stopWatch(): Promise<void>;
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
  const {
    preset = 'ietf',
    docsBase,
    clock = Date.now,
    sleep = pause,
    newId = randomUUID,
    storedHeaders = defaultStoredHeaders,
  } = options;
  const limits = options.cache === true ? defaultWarmCache : options.cache;
  const cache = limits ? warmCache({ ...defaultWarmCache, ...limits }) : undefined;
  const run = engine<W>({ ledger: options.ledger, clock, sleep, newId, cache });
  const { measure, tell } = teller(clock, options.metrics, options.log);
  const runs = new WeakMap<object, Running<W>>();
  const respond = { preset, docsBase };

  return { before, after, onError } as MiddlewareObj<unknown, unknown, Error, Context & OnceContext<W>>;

  async function before(request: MiddyRequest): Promise<void> {
    const http = readEvent(request.event);
    if (!isProtected(http.method)) return;
    const name = options.operation?.(http) ?? operationOf(http);
    const { required, validate, policy, retentionSeconds } = policyOf(name);

    const values = http.headers.get('idempotency-key') ?? [];
    if (values.length === 0 && !required) return;
    const key = readKey(values, options.keyMode ?? 'auto', options.minKeyLength);
    if (!key.ok) throw new Answered(problem(key.code, { detail: key.detail }, preset, docsBase), http);
    const late = lateness(http, clock(), policy);
    const faults = [...late.faults, ...(validate ? await faultsOf(validate, http) : [])];
    if (faults.length > 0) {
      throw new Answered(problem('validation_failed', { errors: faults }, preset, docsBase), http);
    }

    const tenant = tenantOf(options, http);
    const pk = scopePk({ tenant, operation: name, key: key.key });
    const now = clock();
    const remainingMs = remainingOf(request.context);
    const fingerprint = fingerprintOf({
      ...http,
      ...fingerprintParts(http, options.fingerprintHeaders ?? []),
    });
    const operation: Operation = {
      onlyKnown: late.tooOld,
      pk,
      tenant,
      name,
      fingerprint,
      policy,
      retentionSeconds,
      deadline: now + remainingMs,
    };
    if (remainingMs < START_MIN_MS) {
      return answer(http, operation, { kind: 'unavailable', retryAfterMs: START_MIN_MS }, now);
    }

    const claimed = await run.claim(operation);
    if (claimed.kind === 'answer') return answer(http, operation, claimed.answer, now);
    const { mine, how } = claimed;
    measure(operation, { [MADE[how]]: 1, 'reserve.latency_ms': clock() - now });
    tell(operation, 'info', how, { attempt: mine.attempt });
    begin(request, http, operation, mine);
  }

  function begin(request: MiddyRequest, http: HttpRequest, operation: Operation, mine: InProgress): void {
    const watch = watchDeadline(run, { measure, tell }, operation, mine, clock());
    const work = unitOfWork<W>(mine, watch.signal);
    runs.set(request, {
      http,
      operation,
      mine,
      work,
      startedAt: clock(),
      stopWatch: watch.stop,
    });
    Object.assign(request.context, { once: work.once });
  }

  async function after(request: MiddyRequest): Promise<void> {
    const running = runs.get(request);
    if (!running) return;
    const { http, operation, mine, work, startedAt } = running;
    const endedAt = clock();
    work.close();
    await running.stopWatch();
    const reply = readReply(request.response, http.source);
    if (work.deferred && work.outbox.length === 0) {
      throw new InvalidArgument(
        'once.defer() without once.emit(): nothing would ever produce the final response.',
      );
    }
    const stored = { ...reply, headers: storableHeaders(reply.headers, storedHeaders) };
    const ending = { kind: 'replied', status: reply.status, deferred: work.deferred } as const;
    const finished = await run.finish(operation, mine, work, ending, stored);
    runs.delete(request);

    const latency = { 'execute.latency_ms': endedAt - startedAt, 'complete.latency_ms': clock() - endedAt };
    measure(operation, { ...latency, ...faultsMeasured(finished) });
    tell(operation, levelOf(finished), outcomeOf(finished), { attempt: mine.attempt });
    if (finished.kind === 'refused') throw new WritesRefused(finished.reasons);
    request.response = renderReply(replyAfter(finished, reply, operation), http);
  }

  function replyAfter(
    finished: Exclude<Finished<W>, { kind: 'refused' }>,
    reply: Reply,
    operation: Operation,
  ): Reply {
    switch (finished.kind) {
      case 'stored': {
        const expiresAt = finished.record.status === 'completed' ? finished.record.expiresAt : undefined;
        return { ...reply, headers: freshHeaders(reply.headers, expiresAt) };
      }
      case 'failed':
        return { ...reply, headers: freshHeaders(reply.headers) };
      case 'answer':
        return replyTo(finished.answer, operation.pk, respond.preset, respond.docsBase);
      default:
        return finished satisfies never;
    }
  }

  async function onError(request: MiddyRequest): Promise<void> {
    if (request.error instanceof Answered) {
      request.response = renderReply(request.error.reply, request.error.http);
      return;
    }
    const running = runs.get(request);
    if (!running) return;
    runs.delete(request);
    const { http, operation, mine, work } = running;
    work.close();
    await running.stopWatch();
    const ending = { kind: 'threw', notExecuted: request.error instanceof NotExecuted } as const;
    const finished = await run.finish(operation, mine, work, ending, undefined);
    measure(operation, faultsMeasured(finished));
    tell(operation, 'warn', outcomeOf(finished), { attempt: mine.attempt, reason: nameOf(request.error) });
    if (finished.kind === 'answer') {
      request.response = renderReply(replyTo(finished.answer, operation.pk, preset, docsBase), http);
    }
  }

  function answer(http: HttpRequest, operation: Operation, given: Answer, since: EpochMs): never {
    const measured = ANSWERED[given.kind];
    measure(operation, { ...(measured && { [measured]: 1 }), 'reserve.latency_ms': clock() - since });
    const reason = given.kind === 'unavailable' && given.cause ? { reason: nameOf(given.cause) } : {};
    tell(operation, given.kind === 'unavailable' ? 'error' : 'info', given.kind, reason);
    throw new Answered(replyTo(given, operation.pk, preset, docsBase), http);
  }
}

function levelOf(finished: Finished<unknown>): 'info' | 'warn' {
  return finished.kind === 'stored' ? 'info' : 'warn';
}

function tenantOf<W>({ tenant }: IdempotencyOptions<W>, http: HttpRequest): string {
  const found = tenant(http);
  if (typeof found === 'string' && found !== '') return found;
  throw new InvalidArgument(
    'The tenant resolver found no tenant in this request. Put an authorizer in front of the route, or name the claim that it sets: without a tenant, callers would share their keys.',
  );
}

function fingerprintParts(http: HttpRequest, names: readonly string[]) {
  const [contentType] = http.headers.get('content-type') ?? [];
  const headers = names.flatMap((name) =>
    (http.headers.get(name.toLowerCase()) ?? []).map((value) => [name, value] as const),
  );
  return { contentType, headers };
}

function remainingOf(context: object): number {
  const ask: unknown = 'getRemainingTimeInMillis' in context ? context.getRemainingTimeInMillis : undefined;
  const remaining: unknown = typeof ask === 'function' ? ask.call(context) : UNKNOWN_REMAINING_MS;
  return typeof remaining === 'number' && Number.isFinite(remaining) ? remaining : UNKNOWN_REMAINING_MS;
}
