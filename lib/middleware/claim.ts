import { type Decision, decide, progressOf } from '../core/decide.ts';
import { OncekeyError, StoreUnavailable } from '../core/errors.ts';
import type { Attempt } from '../core/moves.ts';
import { schedule } from '../core/policy.ts';
import { type EpochMs, type InProgress, type LedgerRecord, openStep } from '../core/record.ts';
import type { Breaker } from './breaker.ts';
import { type Answer, type Operation, START_MIN_MS, tooLate } from './operation.ts';
import {
  ANSWER_MS,
  answerFrom,
  type Claimed,
  dueOf,
  type Engine,
  type EnginePorts,
  giveBack,
  isSilence,
} from './protocol.ts';

/** Each turn is a race that somebody else won; more than this many in one request is a fault, not bad luck. */
const TURNS = 8;

const WAIT_FIRST_MS = 50;

/** A decision that only says something; the others change the record first. */
type Said = Exclude<Decision, { kind: 'reserve' | 'retake' | 'takeOver' | 'lapse' | 'wait' }>;

/** One turn: the attempt is ours, the caller has its answer, or the record is another than it was. */
type Turn = Claimed | { readonly kind: 'again'; readonly found: LedgerRecord | undefined };

/** From a request to an attempt of its own, or to an answer. */
export function claimer<W>(ports: EnginePorts<W>, fuse: Breaker): Pick<Engine<W>, 'claim' | 'resume'> {
  const { ledger, clock, sleep, newId, cache, quota } = ports;

  return {
    async claim(operation) {
      const warm = cache?.find(operation, clock());
      return warm ? answered(warm) : guarded(operation, () => claimInTurns(operation));
    },

    async resume(operation, from) {
      return guarded(operation, async () => {
        const turn = await taken(operation, decided(operation, from, nextAttempt(operation)));
        if (turn.kind !== 'again') return turn;
        const { inFlightRetryMs } = operation.policy;
        return answered({ kind: 'in_progress', accept: false, retryAfterMs: inFlightRetryMs });
      });
    },
  };

  /** Nothing runs while the store does not answer, and nobody waits for it to. */
  async function guarded(operation: Operation, claim: () => Promise<Claimed>): Promise<Claimed> {
    const closedMs = fuse.remainingMs(clock());
    if (closedMs > 0) return answered({ kind: 'unavailable', retryAfterMs: closedMs });
    try {
      const claimed = await claim();
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
    const { mine } = claimed;
    await giveBack(ports, operation, mine, progressOf(mine).began, 'no_time_left');
    return answered(tooLate);
  }

  async function claimInTurns(operation: Operation): Promise<Claimed> {
    const waitUntil = Math.min(clock() + operation.policy.waitMs, operation.deadline - START_MIN_MS);
    let waitMs = WAIT_FIRST_MS;
    const barred = await barredFrom(operation);
    let found = barred && (await ledger.read(operation.pk, claimCall(operation)));
    for (let turn = 0; turn < TURNS; ) {
      const by = nextAttempt(operation);
      const decision: Decision = found ? decided(operation, found, by).decision : { kind: 'reserve' };
      if (decision.kind === 'wait') {
        if (by.now >= waitUntil) {
          return answered({ kind: 'in_progress', accept: false, retryAfterMs: decision.retryAfterMs });
        }
        await sleep(Math.min(waitMs, waitUntil - by.now));
        waitMs *= 2;
        found = await ledger.read(operation.pk, claimCall(operation));
        continue; // Waiting is bounded by time, not by turns.
      }
      if (decision.kind === 'reserve' && barred) return answered(barred);
      const next = await taken(operation, { decision, by });
      if (next.kind !== 'again') return next;
      found = next.found;
      turn += 1;
    }
    throw new StoreUnavailable(`The record ${operation.pk} kept changing hands; nothing was run.`);
  }

  /** What a request gets that must not start anything: then the record is looked for before it is written. */
  async function barredFrom(operation: Operation): Promise<Answer | undefined> {
    if (operation.onlyKnown) return { kind: 'too_old' };
    const retryAfterMs = (await quota?.(operation)) ?? 0;
    return retryAfterMs > 0 ? { kind: 'over_quota', retryAfterMs } : undefined;
  }

  function decided({ fingerprint, policy }: Operation, found: LedgerRecord, by: Attempt) {
    return { decision: decide(found, { fingerprint, leaseUntil: by.leaseUntil }, by.now, policy), by };
  }

  /** Makes the move that was decided on. */
  async function taken(
    operation: Operation,
    { decision, by }: { readonly decision: Decision; readonly by: Attempt },
  ): Promise<Turn> {
    const { policy, pk, tenant, name, fingerprint, request } = operation;
    const call = claimCall(operation);
    const keeping = request && { request };
    switch (decision.kind) {
      case 'reserve': {
        const scope = { pk, tenant, operation: name, fingerprint: fingerprint.current, operationId: newId() };
        const reserved = await ledger.reserve({ ...by, ...scope, ...keeping }, policy, call);
        return reserved.kind === 'owned' ? running(reserved.record, 'created') : again(reserved.record);
      }
      case 'retake': {
        const retaken = await ledger.retake(decision.record, { ...by, ...keeping }, call);
        return retaken.kind === 'owned' ? running(retaken.record, 'failed_retry') : again(retaken.record);
      }
      case 'takeOver': {
        const took = await ledger.takeOver(decision.record, { ...by, skewMs: policy.skewMs }, call);
        if (took.kind !== 'owned') return again(took.record);
        if (openStep(took.record) === undefined) return running(took.record, 'zombie');
        const doubt = { now: by.now, errorCode: 'open_effect', due: dueOf(pk, by.now, policy) };
        return again((await ledger.markUnknown(took.record, doubt, call)).record);
      }
      case 'lapse': {
        const { record, doubt } = decision;
        const why = { doubt, errorCode: doubt.kind, now: by.now, due: dueOf(pk, by.now, policy) };
        const target = { to: 'unknown', ...why, skewMs: policy.skewMs } as const;
        return again((await ledger.lapse(record, target, call)).record);
      }
      case 'wait':
        return again(decision.record);
      default:
        return answered(await said(decision));
    }
  }

  async function said(decision: Said): Promise<Answer> {
    switch (decision.kind) {
      case 'replay':
      case 'pending':
        return answerFrom(ports, decision.record);
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

  function nextAttempt({ policy, deadline }: Operation): Attempt {
    const leaseUntil = deadline + policy.leaseMarginMs;
    return { owner: newId(), effects: policy.effects, now: clock(), leaseUntil };
  }

  /** Early enough to still be able to say that the store did not answer. */
  function claimCall({ deadline }: Operation): { until: EpochMs } {
    return { until: Math.min(deadline - ANSWER_MS, clock() + schedule.storeBudgetMs) };
  }
}

function answered(answer: Answer): Claimed {
  return { kind: 'answer', answer };
}

function again(found: LedgerRecord | undefined): Turn {
  return { kind: 'again', found };
}

function running(mine: InProgress, how: 'created' | 'failed_retry' | 'zombie'): Claimed {
  return { kind: 'run', mine, how };
}
