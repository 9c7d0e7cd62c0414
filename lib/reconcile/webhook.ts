import { randomUUID } from 'node:crypto';
import { decideHint } from '../core/decide.ts';
import { defaultPolicy, schedule } from '../core/policy.ts';
import type { EpochMs, InProgress, LedgerRecord, Reply, Unknown } from '../core/record.ts';
import { reconciledPolicies } from '../effects/operations.ts';
import { remainingMs } from '../effects/remaining.ts';
import type { Resolver } from '../effects/resolver.ts';
import { type RenderedReply, renderReply } from '../http/render.ts';
import { type HttpRequest, readEvent } from '../http/request.ts';
import { acknowledged, comeAgain, unchecked, unreadableEvent, unsigned } from '../http/webhook.ts';
import { nameOf, reporter } from '../observe/report.ts';
import { type EventRef, eventClaims, eventRef } from './event-claim.ts';
import { type Judged, judgement } from './judge.ts';
import {
  requireWebhookOptions,
  type WebhookEvent,
  type WebhookOptions,
  type WebhookSubject,
} from './webhook-options.ts';

/** Kept back from the invocation, to answer. */
const ANSWER_MS = 500;

/** Kept back as well, to write down what was learnt and that the event is handled. */
const SETTLE_MS = 2_000;

/** As long as a gateway waits at the most. */
const UNKNOWN_REMAINING_MS = 29_000;

/** As long as any id or metadata of a provider that we have seen; no record has a longer name. */
const TEXT_MAX_LENGTH = 500;

/** How long the provider is asked to wait: until a running attempt has most likely ended, or a first look has been taken. */
const RETRY_MS = defaultPolicy.reconcileBaseMs;

/** What becomes of a delivery: why it is to come again, or nothing. */
type Handled = { readonly kind: 'done' } | { readonly kind: 'again'; readonly afterMs: number };
const DONE: Handled = { kind: 'done' };
const again = (afterMs: number = RETRY_MS): Handled => ({ kind: 'again', afterMs });

/**
 * A provider says that something has happened: whether to an operation whose outcome is unknown is asked of the provider
 * itself, and its record settled as a resolver's verdict would. The event is only a hint, and moves nothing by itself.
 * A 2xx means that it need not come again.
 */
export function webhook<W, E extends WebhookEvent = WebhookEvent>(
  options: WebhookOptions<E, W>,
): (event: unknown, context?: object) => Promise<RenderedReply> {
  requireWebhookOptions(options);
  const { ledger, operations, verify, subject, fetch, types, name = 'webhook' } = options;
  const { clock = Date.now, newId = randomUUID } = options;
  const readOf = options.event ?? ((request: HttpRequest) => jsonEvent(request) as E);
  const policyOf = reconciledPolicies('webhook()', options, operations);
  const report = reporter(clock, options.metrics, options.log);
  const judge = judgement({ ledger, policyOf, clock, newId, report });
  const { claim, done, giveBack } = eventClaims({ ledger, clock, newId });

  return async (event, context = {}) => {
    const deadline = clock() + remainingMs(context, UNKNOWN_REMAINING_MS);
    const request = readEvent(event);
    return renderReply(await answer(request, deadline), request);
  };

  async function answer(request: HttpRequest, deadline: EpochMs): Promise<Reply> {
    const endpoint = { ...eventRef(name, ''), pk: '-' };
    const signed = await signature(request, endpoint);
    if (signed !== 'valid') return signed === 'invalid' ? unsigned() : unchecked(RETRY_MS);
    const event = await read(request, endpoint);
    if (!event) return unreadableEvent();
    if (types && !types.includes(event.type)) return acknowledged();
    const ref = eventRef(name, event.id);
    try {
      const handled = await handle(event, ref, deadline);
      return handled.kind === 'done' ? acknowledged() : comeAgain(handled.afterMs);
    } catch (error) {
      report.measure(ref, { 'reconcile.failed.count': 1 });
      report.tell(ref, 'error', 'webhook_failed', { reason: nameOf(error) });
      return comeAgain(RETRY_MS);
    }
  }

  /**
   * Whatever is not a clear yes passes nobody. But a verifier that throws has found out nothing: if the secrets cannot be
   * read, a 400 would make some providers drop the event, and tell the operator of forgeries.
   */
  async function signature(request: HttpRequest, endpoint: EventRef) {
    try {
      if ((await verify(request)) === true) return 'valid';
    } catch (error) {
      report.measure(endpoint, { 'reconcile.failed.count': 1 });
      report.tell(endpoint, 'error', 'webhook_unchecked', { reason: nameOf(error) });
      return 'unchecked';
    }
    report.measure(endpoint, { 'webhook.rejected': 1 });
    report.tell(endpoint, 'warn', 'webhook_unsigned', { reason: 'signature' });
    return 'invalid';
  }

  async function read(request: HttpRequest, endpoint: EventRef): Promise<E | undefined> {
    let reason = 'event';
    try {
      const event: Partial<E> | null | undefined = await readOf(request);
      if (isText(event?.id) && isText(event?.type)) return event as E;
    } catch (error) {
      reason = nameOf(error);
    }
    report.measure(endpoint, { 'webhook.rejected': 1 });
    report.tell(endpoint, 'error', 'webhook_unreadable', { reason });
    return undefined;
  }

  /** What needs no asking is not noted either: most events are about what was completed long ago, and cost one read. */
  async function handle(event: E, ref: EventRef, deadline: EpochMs): Promise<Handled> {
    const about = await subject(event);
    const named = about?.operationRef ?? ''; // Some providers write null for what is not there.
    if (!about || named === '') return DONE;
    const record = isText(named) ? await ledger.read(named, { until: storeUntil(deadline) }) : undefined;
    if (record && !isAbout(record, about)) return unmatched(ref, about, 'another_operation');
    const hint = decideHint(record);
    switch (hint.kind) {
      case 'ask':
        return ask(event, ref, hint.record, deadline);
      case 'wait':
        report.tell({ ...ref, pk: named }, 'info', 'webhook_early', { reason: record?.status ?? '' });
        return again();
      case 'ended':
        return DONE;
      case 'missing':
        return unmatched(ref, about, 'no_record');
      default:
        return hint satisfies never;
    }
  }

  /**
   * It may have expired, or be another deployment's: sending it again changes nothing, and somebody should know. They are
   * told all that the event carries, by which it is found at the provider.
   */
  function unmatched(ref: EventRef, named: WebhookSubject, reason: string): Handled {
    const { operationRef, operationId, tenant } = named;
    const pk = isText(operationRef) ? operationRef : '-';
    const about = { ...ref, pk, ...(isText(tenant) && { tenant }) };
    const known = { fullRef: pk, ...(isText(operationId) && { operationId }) };
    report.measure(about, { 'webhook.unmatched': 1 });
    report.tell(about, 'warn', 'webhook_unmatched', { ...known, reason });
    return DONE;
  }

  async function ask(event: E, ref: EventRef, record: Unknown, deadline: EpochMs): Promise<Handled> {
    const claimed = await claim(ref, deadline, storeUntil(deadline));
    if (claimed.kind === 'handled') return DONE;
    if (claimed.kind === 'busy') return again(claimed.retryAfterMs);
    const mine = claimed.record;
    try {
      const handled = await asked(event, record, deadline);
      if (handled.kind === 'again') await leave(mine, 'not_settled', deadline);
      else if (!(await done(mine, acknowledged(), storeUntil(deadline)))) return again();
      return handled;
    } catch (error) {
      await leave(mine, nameOf(error), deadline);
      throw error;
    }
  }

  async function asked(event: E, record: Unknown, deadline: EpochMs): Promise<Handled> {
    const { resolver } = policyOf(record.operation);
    const source: Resolver | undefined = fetch
      ? (operation, context) => fetch(event, operation, context)
      : resolver;
    const judged: Judged = source
      ? await judge(record, source, deadline - SETTLE_MS)
      : { kind: 'failed', error: 'no_resolver' };
    switch (judged.kind) {
      case 'settled':
        return DONE;
      case 'fenced': // A sweep was faster, or another event; what it made of the record counts.
        return decideHint(judged.record).kind === 'ended' ? DONE : again();
      case 'tooEarly':
        return again(Math.max(RETRY_MS, judged.at - clock()));
      case 'undetermined':
        return unresolved(record, 'info', judged.kind, judged.retryAfterMs);
      case 'failed':
        return unresolved(record, 'warn', judged.error);
      case 'withoutEffect':
        return unresolved(record, 'error', 'verdict_without_effect');
      default:
        return judged satisfies never;
    }
  }

  /** Its place in the sweep's list stays as it is: a provider that sends often must not use up the tries. */
  function unresolved(
    record: Unknown,
    level: 'info' | 'warn' | 'error',
    reason: string,
    afterMs: number = RETRY_MS,
  ): Handled {
    report.measure(record, { 'reconcile.failed.count': 1 });
    report.tell(record, level, 'webhook_unresolved', { attempt: record.attempt, reason });
    return again(Math.max(RETRY_MS, afterMs));
  }

  /** So that the next delivery need not wait for the lease. If it cannot be written now, that is what happens. */
  async function leave(mine: InProgress, errorCode: string, deadline: EpochMs): Promise<void> {
    try {
      await giveBack(mine, errorCode, storeUntil(deadline));
    } catch (error) {
      report.tell(mine, 'warn', 'webhook_not_released', { reason: nameOf(error) });
    }
  }

  function storeUntil(deadline: EpochMs): EpochMs {
    return Math.min(deadline - ANSWER_MS, clock() + schedule.storeBudgetMs);
  }
}

function isAbout(record: LedgerRecord, { operationId, tenant }: WebhookSubject): boolean {
  const sameOperation = operationId === undefined || operationId === record.operationId;
  return sameOperation && (tenant === undefined || tenant === record.tenant);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= TEXT_MAX_LENGTH;
}

function jsonEvent({ body }: HttpRequest): unknown {
  return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body));
}
