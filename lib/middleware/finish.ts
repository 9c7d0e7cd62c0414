import { conclude, type Ending } from '../core/decide.ts';
import { InvalidArgument, StoreUnavailable } from '../core/errors.ts';
import {
  type Accepted,
  type Completed,
  type EpochMs,
  type InProgress,
  type LedgerRecord,
  type Reply,
  sameAttempt,
  type Unknown,
} from '../core/record.ts';
import { AttemptOvertaken, StepsChanged } from '../effects/errors.ts';
import { expiryOf } from '../effects/operations.ts';
import type { UnitOfWork } from '../effects/unit-of-work.ts';
import { noContent } from '../http/reply.ts';
import type { Committed } from '../ledger/ledger.ts';
import type { Breaker } from './breaker.ts';
import type { Answer, Finished, Operation } from './operation.ts';
import {
  answerFrom,
  dueOf,
  type Engine,
  type EnginePorts,
  giveBack,
  isSilence,
  lastCall,
} from './protocol.ts';

/** Reading is quicker than writing with its retries; so much is left to answer after it. */
const READ_KEPT_MS = 100;

/** From the handler's end to the record's. */
export function finisher<W>(ports: EnginePorts<W>, fuse: Breaker): Pick<Engine<W>, 'finish' | 'giveUp'> {
  const { ledger, clock, cache } = ports;

  return {
    async finish(operation, work, ending, reply) {
      const { mine, broken } = work.steps;
      // Whoever has the record now may be done with it.
      if (broken instanceof AttemptOvertaken) return lookAgain(operation, mine, broken);
      if (broken !== undefined && !isFailure(ending)) throw broken; // The handler caught what ended its attempt.
      try {
        return await concluded(operation, work, ending, reply ?? noContent);
      } catch (error) {
        if (isSilence(error)) fuse.failed(clock());
        // A failure that could not be written down is still the handler's failure: cleaning up must not mask it.
        if (isFailure(ending) && !(broken instanceof StoreUnavailable)) return failedAs('open');
        // Nothing was written, and what the handler returned can never be: its own mistake, which it is told.
        if (error instanceof InvalidArgument || error instanceof StepsChanged) throw error;
        return await lookAgain(operation, mine, error);
      }
    },

    async giveUp({ policy, deadline }, mine) {
      if (policy.effects !== 'opaque') return false;
      const now = clock();
      const doubt = { now, errorCode: 'deadline', due: dueOf(mine.pk, now, policy) };
      const marked = await ledger.markUnknown(mine, doubt, { until: deadline });
      return marked.kind === 'moved';
    },
  };

  async function concluded(
    operation: Operation,
    work: UnitOfWork<W>,
    ending: Ending,
    reply: Reply,
  ): Promise<Finished<W>> {
    const { mine, progress } = work.steps;
    const now = clock();
    const call = lastCall(operation, now);
    const conclusion = conclude(mine.effects, ending, progress);
    if (conclusion === 'complete' || conclusion === 'accept') work.steps.requireAllTaken();
    switch (conclusion) {
      case 'complete':
        return completed(operation, work, reply);
      case 'accept': {
        const deferral = { now, reply, outbox: work.outbox };
        return settled(operation, work, await ledger.accept(mine, deferral, work.writes, call), reply);
      }
      case 'release':
      case 'handBack': {
        // A step that still runs may call its provider; until the lease has passed nobody else should.
        if (conclusion === 'handBack' && work.steps.running !== undefined) {
          return failedWith(operation, work, 'open');
        }
        const given = await giveBack(ports, operation, mine, progress.began, codeOf(ending));
        if (given.kind === 'fenced') return overtaken(mine, given.record);
        return failedWith(operation, work, conclusion === 'release' ? 'failed_retryable' : 'handed_back');
      }
      case 'markUnknown': {
        const doubt = { now, errorCode: codeOf(ending), due: dueOf(mine.pk, now, operation.policy) };
        const marked = await ledger.markUnknown(mine, doubt, call);
        return marked.kind === 'moved'
          ? failedWith(operation, work, 'unknown')
          : overtaken(mine, marked.record);
      }
    }
  }

  /** The handler failed because the record did not answer one of its steps: that is not its own failure to tell. */
  function failedWith(
    { policy }: Operation,
    { steps: { broken } }: UnitOfWork<W>,
    status: Extract<Finished<W>, { kind: 'failed' }>['status'],
  ): Finished<W> {
    if (!(broken instanceof StoreUnavailable)) return failedAs(status);
    const answer = { kind: 'unavailable', retryAfterMs: policy.inFlightRetryMs, cause: broken } as const;
    return { kind: 'answer', fenced: false, answer };
  }

  /** A write may have happened without an answer. If the record cannot say, nobody may claim either. */
  async function lookAgain(operation: Operation, mine: InProgress, cause: unknown): Promise<Finished<W>> {
    try {
      const found = await ledger.read(mine.pk, lastCall(operation, clock(), READ_KEPT_MS));
      const mayBeLost = !(cause instanceof AttemptOvertaken) && found?.status === 'in_progress';
      if (found && !mayBeLost) return await overtaken(mine, found);
    } catch {
      // Neither can it be read now. What could not be written is the better reason to tell.
    }
    const answer = { kind: 'unavailable', retryAfterMs: operation.policy.inFlightRetryMs, cause } as const;
    return { kind: 'answer', fenced: false, answer };
  }

  async function completed(operation: Operation, work: UnitOfWork<W>, reply: Reply): Promise<Finished<W>> {
    const { mine } = work.steps;
    const now = clock();
    const call = lastCall(operation, now);
    const expiry = expiryOf(operation, reply, now, (error) =>
      ports.warn?.(operation, 'retention_refused', error),
    );
    const outcome = { now, reply, outbox: work.outbox, ...expiry };
    const done = await ledger.complete(mine, outcome, work.writes, call);
    const found = done.kind === 'fenced' ? done.record : undefined;
    if (found?.status === 'unknown' && sameAttempt(found, mine) && mine.effects === 'opaque') {
      // The watch on the deadline, or a sweep, gave up on us a moment ago. We know better.
      const late = await ledger.completeLate(found, { now, reply, ...expiry }, call);
      return settled(operation, work, late, reply);
    }
    return settled(operation, work, done, reply);
  }

  async function settled(
    operation: Operation,
    work: UnitOfWork<W>,
    result: Committed<Completed | Accepted, W>,
    reply: Reply,
  ): Promise<Finished<W>> {
    switch (result.kind) {
      case 'moved':
        if (result.record.status === 'completed') cache?.keep(result.record, reply);
        return { kind: 'stored', record: result.record };
      case 'refused':
        return refused(operation, work, result);
      case 'fenced':
        return overtaken(work.steps.mine, result.record);
      default:
        return result satisfies never;
    }
  }

  /** The caller's own items did not fit. Nothing of the completion was written; the steps before it stay. */
  async function refused(
    operation: Operation,
    { steps: { mine, progress } }: UnitOfWork<W>,
    refusal: Finished<W> & { kind: 'refused' },
  ): Promise<Finished<W>> {
    try {
      await giveBack(ports, operation, mine, progress.began, 'writes_refused');
    } catch (error) {
      ports.warn?.(operation, 'open', error); // The refusal stands all the same, and the lease will pass.
    }
    return refusal;
  }

  /** Fenced out: the answer is the record as it is now, never what we remember. */
  async function overtaken(mine: InProgress, record: LedgerRecord | undefined): Promise<Finished<W>> {
    const fenced = !record || !sameAttempt(record, mine);
    const retryAfterMs = 1_000;
    switch (record?.status) {
      case 'completed':
      case 'accepted':
        return { kind: 'answer', fenced, answer: await answerFrom(ports, record) };
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
}

function isFailure(ending: Ending): boolean {
  return ending.kind === 'threw' || ending.status >= 500;
}

function failedAs(status: 'failed_retryable' | 'unknown' | 'handed_back' | 'open') {
  return { kind: 'failed', status } as const;
}

function unknownAnswer(record: Unknown, now: EpochMs): Answer {
  const parked = record.due.parkedAt !== undefined;
  return { kind: 'unknown', parked, retryAfterMs: Math.max(1_000, record.due.at - now) };
}

function codeOf(ending: Ending): string {
  if (ending.kind === 'replied') return `status_${ending.status}`;
  return ending.notExecuted ? 'not_executed' : 'handler_threw';
}
