import type { Ending } from '../core/decide.ts';
import { NoTimeLeft, StoreUnavailable } from '../core/errors.ts';
import { expiryAfter, type Pauses } from '../core/policy.ts';
import type {
  Accepted,
  Completed,
  Due,
  EpochMs,
  FailedRetryable,
  InProgress,
  Reply,
} from '../core/record.ts';
import type { UnitOfWork } from '../effects/unit-of-work.ts';
import type { Scheduled } from '../http/completion.ts';
import type { Ledger, Moved } from '../ledger/ledger.ts';
import { dueShard } from '../ledger/schema.ts';
import type { Answer, Finished, Operation } from './operation.ts';
import type { QuotaGate } from './quota-gate.ts';
import type { WarmCache } from './warm-cache.ts';

export interface EnginePorts<W> {
  readonly ledger: Ledger<W>;
  readonly clock: () => EpochMs;
  readonly sleep: (ms: number) => Promise<void>;
  readonly newId: () => string;
  readonly cache?: WarmCache | undefined;
  readonly quota?: QuotaGate | undefined;
  /** Hears of what is odd and was mended. */
  readonly warn?: (operation: Operation, decision: string, error: unknown) => void;
}

export type Claimed =
  | { readonly kind: 'run'; readonly mine: InProgress; readonly how: 'created' | 'failed_retry' | 'zombie' }
  | { readonly kind: 'answer'; readonly answer: Answer };

export interface Engine<W> {
  claim(operation: Operation): Promise<Claimed>;
  /** The record that the completer scheduled, if it is still as it was then. */
  scheduled(scheduled: Scheduled, until: EpochMs): Promise<InProgress | undefined>;
  /** Exactly that attempt: whoever came in between has the record, and answers for it. */
  resume(operation: Operation, from: InProgress): Promise<Claimed>;
  /** What the handler of a claimed attempt works with. */
  begin(operation: Operation, mine: InProgress, signal: AbortSignal): UnitOfWork<W>;
  finish(
    operation: Operation,
    work: UnitOfWork<W>,
    ending: Ending,
    reply: Reply | undefined,
  ): Promise<Finished<W>>;
  /** Near the deadline: what cannot be known any more is called so while there is time to. Says whether it was. */
  giveUp(operation: Operation, mine: InProgress): Promise<boolean>;
}

/** What it takes to answer, kept back from the time to ask the store in. */
export const ANSWER_MS = 500;

/** Less is not worth a try. */
const TRY_MS = 250;

/** For one more write or read after the deadline. */
const LATE_MS = 1_000;

/**
 * Until when the record may be asked once the handler has ended. Where nobody enforces the deadline a handler may end after
 * it; it is still owed an answer from the record. Where somebody does, time must be left to give that answer.
 */
export function lastCall(
  { deadline }: Operation,
  now: EpochMs,
  keptMs: number = ANSWER_MS,
): { until: EpochMs } {
  const until = deadline - keptMs;
  if (until - now >= TRY_MS) return { until };
  return { until: now < deadline ? deadline : now + LATE_MS };
}

/** Before the first look of the reconciliation, which knows better when to come back. */
export function dueOf(pk: string, now: EpochMs, { reconcileBaseMs }: Pauses): Due {
  return { shard: dueShard(pk), at: now + reconcileBaseMs };
}

/** Only a store that was asked can be said not to have answered. */
export function isSilence(error: unknown): boolean {
  return error instanceof StoreUnavailable && !(error instanceof NoTimeLeft);
}

/** What the record has to say to whoever asks again. */
export async function answerFrom<W>(
  { ledger, cache }: Pick<EnginePorts<W>, 'ledger' | 'cache'>,
  record: Completed | Accepted,
): Promise<Answer> {
  if (record.status === 'accepted') {
    return { kind: 'pending', record, reply: await ledger.reply(record.pk, record.accepted.response) };
  }
  const reply = await ledger.reply(record.pk, record.response);
  cache?.keep(record, reply);
  return { kind: 'replay', record, reply };
}

/** Nothing of this attempt is to be completed: back to whoever comes next, with its recovery points if it has any. */
export async function giveBack<W>(
  { ledger, clock }: Pick<EnginePorts<W>, 'ledger' | 'clock'>,
  operation: Operation,
  mine: InProgress,
  began: boolean,
  errorCode: string,
): Promise<Moved<InProgress | FailedRetryable>> {
  const now = clock();
  const call = lastCall(operation, now);
  if (mine.effects === 'steps' && began)
    return ledger.handBack(mine, now, dueOf(mine.pk, now, operation.policy), call);
  return ledger.release(mine, { now, errorCode, ...expiryAfter(operation.policy, now) }, call);
}
