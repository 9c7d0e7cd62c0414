import { isDeepStrictEqual } from 'node:util';
import { conclude, decide, type Ending } from '../core/decide.ts';
import { NoTimeLeft, OncekeyError, StoreUnavailable } from '../core/errors.ts';
import type { Claim } from '../core/moves.ts';
import { expiryAfter, schedule } from '../core/policy.ts';
import {
  type Accepted,
  type Completed,
  type EpochMs,
  type InProgress,
  type LedgerRecord,
  openStep,
  type Reply,
  sameAttempt,
  type Unknown,
} from '../core/record.ts';
import type { UnitOfWork } from '../effects/unit-of-work.ts';
import type { Committed, Ledger } from '../ledger/ledger.ts';
import { dueShard } from '../ledger/schema.ts';
import { type Breaker, breaker } from './breaker.ts';
import { type Answer, type Finished, type Operation, START_MIN_MS } from './operation.ts';
import type { WarmCache } from './warm-cache.ts';

export interface EnginePorts<W> {
  readonly ledger: Ledger<W>;
  readonly clock: () => EpochMs;
  readonly sleep: (ms: number) => Promise<void>;
  readonly newId: () => string;
  readonly cache?: WarmCache | undefined;
}

type Claimed =
  | { readonly kind: 'run'; readonly mine: InProgress; readonly how: 'created' | 'failed_retry' | 'zombie' }
  | { readonly kind: 'answer'; readonly answer: Answer };

/** Each turn is a race that somebody else won; more than this many in one request is a fault, not bad luck. */
const TURNS = 8;

const WAIT_FIRST_MS = 50;

/** What it takes to answer, kept back from the time to claim in. */
const ANSWER_MS = 500;

/** For one more write or read after the deadline. */
const LATE_MS = 1_000;

/** Before the first look of the reconciliation, which knows better when to come back. */
const UNKNOWN_DUE_MS = 30_000;

export interface Engine<W> {
  claim(operation: Operation): Promise<Claimed>;
  finish(
    operation: Operation,
    mine: InProgress,
    work: UnitOfWork<W>,
    ending: Ending,
    reply: Reply | undefined,
  ): Promise<Finished<W>>;
  /** Near the deadline: what cannot be known any more is called so while there is time to say it. */
  giveUp(operation: Operation, mine: InProgress): Promise<void>;
}

/** Reserve, run, complete: the protocol of one request, without anything of HTTP. */
export function engine<W>(ports: EnginePorts<W>, fuse: Breaker = breaker()): Engine<W> {
  const { ledger, clock, sleep, newId, cache } = ports;

  return { claim, finish, giveUp };

  async function claim(operation: Operation): Promise<Claimed> {
    const warm = cache?.find(operation, clock());
    if (warm) return answered(warm);
    const closedMs = fuse.remainingMs(clock());
    if (closedMs > 0) return answered({ kind: 'unavailable', retryAfterMs: closedMs });
    try {
      const claimed = await claimInTurns(operation);
      fuse.succeeded();
      return claimed.kind === 'run' ? await inTime(operation, claimed) : claimed;
    } catch (error) {
      if (!(error instanceof OncekeyError)) throw error;
      if (isSilence(error)) fuse.failed(clock());
      return answered({ kind: 'unavailable', retryAfterMs: operation.policy.inFlightRetryMs, cause: error });
    }
  }

  /** Waiting for another call, or for the store, may have taken what time there was. Nothing has run yet. */
  async function inTime(operation: Operation, claimed: Claimed & { kind: 'run' }): Promise<Claimed> {
    const now = clock();
    if (operation.deadline - now >= START_MIN_MS) return claimed;
    const failure = { now, errorCode: 'no_time_left', ...expiryAfter(operation.policy, now) };
    await ledger.release(claimed.mine, failure, lastCall(operation));
    return answered({ kind: 'unavailable', retryAfterMs: START_MIN_MS });
  }

  async function claimInTurns(operation: Operation): Promise<Claimed> {
    const waitUntil = Math.min(clock() + operation.policy.waitMs, operation.deadline - START_MIN_MS);
    let waitMs = WAIT_FIRST_MS;
    let found = operation.onlyKnown ? await ledger.read(operation.pk, claimCall(operation)) : undefined;
    for (let turn = 0; turn < TURNS; ) {
      const { policy, pk, fingerprint } = operation;
      const now = clock();
      const by = { owner: newId(), effects: policy.effects, now, leaseUntil: leaseOf(operation) };
      const call = claimCall(operation);
      const decision = found
        ? decide(found, { fingerprint, leaseUntil: by.leaseUntil }, now, policy)
        : ({ kind: 'reserve' } as const);

      switch (decision.kind) {
        case 'reserve': {
          if (operation.onlyKnown) return answered({ kind: 'too_old' });
          const reserved = await ledger.reserve(claimOf(operation, by), policy, call);
          if (reserved.kind === 'owned') return running(reserved.record, 'created');
          found = reserved.record;
          break;
        }
        case 'retake': {
          const taken = await ledger.retake(decision.record, by, call);
          if (taken.kind === 'owned') return running(taken.record, 'failed_retry');
          found = taken.record;
          break;
        }
        case 'takeOver': {
          const taken = await ledger.takeOver(decision.record, { ...by, skewMs: policy.skewMs }, call);
          if (taken.kind === 'owned' && openStep(taken.record) === undefined)
            return running(taken.record, 'zombie');
          found = taken.kind === 'owned' ? await doubted(taken.record, 'open_effect') : taken.record;
          break;
        }
        case 'lapse': {
          const doubt = { errorCode: decision.doubt.kind, now, due: dueOf(pk, now) };
          const lapsed = await ledger.lapse(
            decision.record,
            { to: 'unknown', doubt: decision.doubt, skewMs: policy.skewMs, ...doubt },
            call,
          );
          found = lapsed.record;
          break;
        }
        case 'wait': {
          if (now >= waitUntil) {
            return answered({ kind: 'in_progress', accept: false, retryAfterMs: decision.retryAfterMs });
          }
          await sleep(Math.min(waitMs, waitUntil - now));
          waitMs *= 2;
          found = await ledger.read(pk, call);
          continue; // Waiting is bounded by time, not by turns.
        }
        default:
          return answered(await answerOf(decision));
      }
      turn += 1;
    }
    throw new StoreUnavailable(`The record ${operation.pk} kept changing hands; nothing was run.`);
  }

  async function doubted(mine: InProgress, errorCode: string): Promise<LedgerRecord | undefined> {
    const now = clock();
    return (await ledger.markUnknown(mine, { now, errorCode, due: dueOf(mine.pk, now) })).record;
  }

  /** Decisions that say something without changing anything. */
  async function answerOf(
    decision: Exclude<
      ReturnType<typeof decide>,
      { kind: 'reserve' | 'retake' | 'takeOver' | 'lapse' | 'wait' }
    >,
  ): Promise<Answer> {
    switch (decision.kind) {
      case 'replay':
      case 'pending':
        return answerFrom(decision.record);
      case 'reject':
      case 'accept': {
        const { retryAfterMs } = decision;
        return { kind: 'in_progress', accept: decision.kind === 'accept', retryAfterMs };
      }
      case 'unknown':
        return { kind: 'unknown', parked: decision.parked, retryAfterMs: decision.retryAfterMs };
      case 'misuse':
      case 'gone':
        return { kind: decision.kind };
      default:
        return decision satisfies never;
    }
  }

  async function answerFrom(record: Completed | Accepted): Promise<Answer> {
    if (record.status === 'accepted') {
      return { kind: 'pending', record, reply: await ledger.reply(record.pk, record.accepted.response) };
    }
    const reply = await ledger.reply(record.pk, record.response);
    cache?.keep(record, reply);
    return { kind: 'replay', record, reply };
  }

  async function finish(
    operation: Operation,
    mine: InProgress,
    work: UnitOfWork<W>,
    ending: Ending,
    reply: Reply | undefined,
  ): Promise<Finished<W>> {
    const { policy } = operation;
    const now = clock();
    const call = lastCall(operation);
    try {
      switch (conclude(policy.effects, ending)) {
        case 'complete':
          return await completed(operation, mine, work, reply ?? emptyReply);
        case 'accept': {
          const deferral = { now, reply: reply ?? emptyReply, outbox: work.outbox };
          return await settled(
            operation,
            mine,
            await ledger.accept(mine, deferral, work.writes, call),
            reply,
          );
        }
        case 'release': {
          const expiry = expiryAfter(policy, now);
          const released = await ledger.release(mine, { now, errorCode: codeOf(ending), ...expiry }, call);
          return released.kind === 'moved' ? failedAs('failed_retryable') : overtaken(mine, released.record);
        }
        case 'markUnknown': {
          const doubt = { now, errorCode: codeOf(ending), due: dueOf(mine.pk, now) };
          const marked = await ledger.markUnknown(mine, doubt, call);
          return marked.kind === 'moved' ? failedAs('unknown') : overtaken(mine, marked.record);
        }
      }
    } catch (error) {
      if (!(error instanceof OncekeyError)) throw error;
      if (isSilence(error)) fuse.failed(clock());
      // A failure that could not be written down is still the handler's failure: cleaning up must not mask it.
      if (ending.kind === 'threw' || ending.status >= 500) return failedAs('open');
      if (!(error instanceof StoreUnavailable)) throw error;
      return await lookAgain(operation, mine, error);
    }
  }

  /** The completing write may have happened without an answer. If the record cannot say, nobody may claim either. */
  async function lookAgain(
    operation: Operation,
    mine: InProgress,
    cause: StoreUnavailable,
  ): Promise<Finished<W>> {
    const found = await ledger.read(mine.pk, lastCall(operation)).catch(() => undefined);
    if (found && found.status !== 'in_progress') return overtaken(mine, found);
    const answer = { kind: 'unavailable', retryAfterMs: operation.policy.inFlightRetryMs, cause } as const;
    return { kind: 'answer', fenced: false, answer };
  }

  async function completed(
    operation: Operation,
    mine: InProgress,
    work: UnitOfWork<W>,
    reply: Reply,
  ): Promise<Finished<W>> {
    const now = clock();
    const call = lastCall(operation);
    const retentionSeconds = operation.retentionSeconds(reply);
    const expiry = expiryAfter({ ...operation.policy, retentionSeconds }, now);
    const outcome = { now, reply, outbox: work.outbox, ...expiry };
    const done = await ledger.complete(mine, outcome, work.writes, call);
    const found = done.kind === 'fenced' ? done.record : undefined;
    if (found?.status === 'unknown' && sameAttempt(found, mine) && operation.policy.effects === 'opaque') {
      // The watch on the deadline, or a sweep, gave up on us a moment ago. We know better.
      return settled(
        operation,
        mine,
        await ledger.completeLate(found, { now, reply, ...expiry }, call),
        reply,
      );
    }
    return settled(operation, mine, done, reply);
  }

  async function settled(
    operation: Operation,
    mine: InProgress,
    result: Committed<Completed | Accepted, W>,
    reply: Reply | undefined,
  ): Promise<Finished<W>> {
    switch (result.kind) {
      case 'moved': {
        const { record } = result;
        const stored = record.status === 'completed' ? record.response : record.accepted.response;
        if (reply && stored.status === reply.status && isDeepStrictEqual(stored.headers, reply.headers)) {
          if (record.status === 'completed') cache?.keep(record, reply);
          return { kind: 'stored', record };
        }
        return { kind: 'answer', fenced: false, answer: await answerFrom(record) };
      }
      case 'refused': {
        const now = clock();
        const failure = { now, errorCode: 'writes_refused', ...expiryAfter(operation.policy, now) };
        await ledger.release(mine, failure, lastCall(operation));
        return result;
      }
      case 'fenced':
        return overtaken(mine, result.record);
      default:
        return result satisfies never;
    }
  }

  /** Fenced out: the answer is the record as it is now, never what we remember. */
  async function overtaken(mine: InProgress, record: LedgerRecord | undefined): Promise<Finished<W>> {
    const fenced = !record || !sameAttempt(record, mine);
    const retryAfterMs = 1_000;
    switch (record?.status) {
      case 'completed':
      case 'accepted':
        return { kind: 'answer', fenced, answer: await answerFrom(record) };
      case 'unknown':
        return { kind: 'answer', fenced, answer: unknownAnswer(record, clock()) };
      case 'in_progress':
        return { kind: 'answer', fenced, answer: { kind: 'in_progress', accept: false, retryAfterMs } };
      case 'failed_retryable':
      case undefined:
        return { kind: 'answer', fenced, answer: { kind: 'unavailable', retryAfterMs } };
      default:
        return record satisfies never;
    }
  }

  async function giveUp(operation: Operation, mine: InProgress): Promise<void> {
    if (operation.policy.effects !== 'opaque') return;
    const now = clock();
    const doubt = { now, errorCode: 'deadline', due: dueOf(mine.pk, now) };
    await ledger.markUnknown(mine, doubt, { until: mine.leaseUntil });
  }

  /** Early enough to still be able to say that the store did not answer. */
  function claimCall({ deadline }: Operation) {
    return { until: Math.min(deadline - ANSWER_MS, clock() + schedule.storeBudgetMs) };
  }

  /** Where nobody enforces the deadline a handler may end after it. It is still owed an answer from the record. */
  function lastCall({ deadline }: Operation) {
    return { until: Math.max(deadline, clock() + LATE_MS) };
  }

  function claimOf(
    operation: Operation,
    by: Omit<Claim, 'pk' | 'tenant' | 'operation' | 'fingerprint' | 'operationId'>,
  ): Claim {
    const { pk, tenant, name, fingerprint } = operation;
    return { ...by, pk, tenant, operation: name, fingerprint: fingerprint.current, operationId: newId() };
  }
}

/** Only a store that was asked can be said not to have answered. */
function isSilence(error: unknown): boolean {
  return error instanceof StoreUnavailable && !(error instanceof NoTimeLeft);
}

function leaseOf({ deadline, policy }: Operation): EpochMs {
  return deadline + policy.leaseMarginMs;
}

function answered(answer: Answer): Claimed {
  return { kind: 'answer', answer };
}

function running(mine: InProgress, how: 'created' | 'failed_retry' | 'zombie'): Claimed {
  return { kind: 'run', mine, how };
}

function failedAs(status: 'failed_retryable' | 'unknown' | 'open') {
  return { kind: 'failed', status } as const;
}

function unknownAnswer(record: Unknown, now: EpochMs): Answer {
  const parked = record.due.parkedAt !== undefined;
  return { kind: 'unknown', parked, retryAfterMs: Math.max(1_000, record.due.at - now) };
}

function dueOf(pk: string, now: EpochMs) {
  return { shard: dueShard(pk), at: now + UNKNOWN_DUE_MS };
}

function codeOf(ending: Ending): string {
  if (ending.kind === 'replied') return `status_${ending.status}`;
  return ending.notExecuted ? 'not_executed' : 'handler_threw';
}

const emptyReply: Reply = { status: 204, headers: [], body: new Uint8Array(), base64: false };
