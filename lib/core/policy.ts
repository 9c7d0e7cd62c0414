import { InvalidArgument } from './errors.ts';
import type { Effects } from './record.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 24 * HOUR_SECONDS;

/** What an operation chooses for itself. */
export interface Policy {
  readonly effects: Effects;
  readonly inFlight: 'reject' | 'accept' | 'wait';
  readonly afterExpiry: 'execute' | 'gone';
  readonly retentionSeconds: number;
  readonly goneSeconds: number;
  readonly leaseMarginMs: number;
  readonly skewMs: number;
  readonly waitMs: number;
  readonly dedupeWindowMs: number;
  readonly settlingMs: number;
  readonly inFlightRetryMs: number;
  readonly reconcileBaseMs: number;
  readonly reconcileCapMs: number;
}

/** How soon an open outcome is looked at, and how seldom at last. */
export type Pauses = Pick<Policy, 'reconcileBaseMs' | 'reconcileCapMs'>;

export const defaultPolicy: Policy = {
  /** Assumes least about the handler: after a crash nothing is known, so nothing is run again. */
  effects: 'opaque',

  /** An honest client backs off and comes back; holding its connection would pay for two Lambdas. */
  inFlight: 'reject',

  /** What Stripe does and clients expect; `gone` is for those whose clients retry for days. */
  afterExpiry: 'execute',

  /** Stripe's window, and longer than the retries of any client that has not been forgotten about. */
  retentionSeconds: DAY_SECONDS,

  /** A month of 410 answers covers batch jobs that are restarted by hand; a tombstone costs only its storage. */
  goneSeconds: 30 * DAY_SECONDS,

  /** Lambda kills at the deadline, not before; the margin covers the kill and a completing write already sent. */
  leaseMarginMs: 5 * SECOND_MS,

  /** Lambda hosts keep within milliseconds of each other; a second leaves three orders of magnitude. */
  skewMs: SECOND_MS,

  /** Under the 29 s of API Gateway by far, and longer than most requests take. */
  waitMs: 5 * SECOND_MS,

  /** Stripe may prune its own keys after 24 h; an hour is room for clocks and for an attempt that has just begun. */
  dedupeWindowMs: 23 * HOUR_MS,

  /** Longer than any client timeout towards a provider that we have seen (Stripe's SDK: 80 s). */
  settlingMs: 2 * MINUTE_MS,

  /** Most attempts are done within a second; a lease can be minutes and would send the client away for too long. */
  inFlightRetryMs: SECOND_MS,

  /** The first look at an open outcome, and the shortest pause between two. Most providers are back by then. */
  reconcileBaseMs: 30 * SECOND_MS,

  /** An outage of a provider lasts hours; asking more often than once an hour would only add to it. */
  reconcileCapMs: HOUR_MS,
};

/** What is the same for all operations of a deployment. */
export const schedule = {
  /** A mobile client on a bad network retries for minutes; under an hour of memory is no protection. */
  retentionMinSeconds: HOUR_SECONDS,

  /** Ten years: longer than any law wants receipts kept, and short enough to tell seconds from a timestamp. */
  retentionMaxSeconds: 3_650 * DAY_SECONDS,

  /** How much longer than `expiresAt` the item itself stays: longer than a delayed write can be on its way. */
  ttlMarginSeconds: HOUR_SECONDS,

  /** Chunks outlive their record, which DynamoDB's TTL may keep for days: a record never points at nothing. */
  chunkMarginSeconds: 7 * DAY_SECONDS,

  /** For bodies whose record has no end yet (an undelivered outbox): as long as an operator's audit trail. */
  openEndedSeconds: 400 * DAY_SECONDS,

  /** One store call, its retries included, when nobody sets an earlier end; two fit into the shortest useful Lambda. */
  storeBudgetMs: 3 * SECOND_MS,

  /** DynamoDB answers in single-digit milliseconds; a second of silence is a lost packet. */
  requestTimeoutMs: SECOND_MS,

  /** A connection in the same Region takes a few milliseconds. */
  connectTimeoutMs: 500,

  /** Full jitter from here, doubling: the first retry is quick because most losses are single packets. */
  retryBaseMs: 25,

  /** Up to an hour with the pauses above: longer than most outages, far inside a provider's memory of our keys. */
  outboxTries: 8,

  /** As many looks at an open outcome: some four hours, within which most providers have said what happened. */
  reconcileTries: 10,

  /** As long as Lambda lets any function run: so long a resumed attempt may still call a provider. */
  runMaxMs: 15 * MINUTE_MS,

  /**
   * One question to a provider, or one invocation: most answer within a second, and their own retries fit into it. A sweep of
   * a minute still gets to ask others when some never answer.
   */
  askMs: 10 * SECOND_MS,

  /** One delivery: as long as Stripe's own client waits at the most. */
  deliverMs: 80 * SECOND_MS,

  /** A throttled partition needs up to a second to split or refill; waiting longer only spends the budget. */
  retryCapMs: 500,

  /** As long as new keys are counted together, and as the stream's batches are late: the next ones are then known. */
  quotaFlagMs: MINUTE_MS,

  /** A tenant whose mistake is mended is not kept out for longer than it takes to call somebody. */
  quotaFlagMaxMs: 10 * MINUTE_MS,

  /** What came later than this from the stream is history: nobody is turned away now for what was sent then. */
  quotaLateMs: 5 * MINUTE_MS,

  /** The count of a minute is over after `quotaLateMs`; an hour of them shows an operator what happened. */
  quotaKeptSeconds: HOUR_SECONDS,

  /** Short beside the minute that the stream is late, long enough that a busy environment hardly ever asks. */
  quotaCacheMs: 5 * SECOND_MS,

  /** A first connection with its handshake; whoever does not get an answer by then goes on without one. */
  quotaReadMs: 250,
} as const;

/** Which minute a moment belongs to. */
export function minuteOf(at: number): number {
  return at - (at % MINUTE_MS);
}

/**
 * For how long a tenant gets no new keys: as long as those it has taken would have lasted at its limit. Whatever bursts
 * come, and however late they are seen, the average is then near the limit.
 */
export function quotaFlagMs(taken: number, limit: number): number {
  const { quotaFlagMs: leastMs, quotaFlagMaxMs } = schedule;
  return Math.min(quotaFlagMaxMs, Math.max(leastMs, Math.ceil((MINUTE_MS * taken) / limit)));
}

/** When a result stops being replayed, and when DynamoDB may drop the item. Counted from completion. */
export function expiryAfter(
  policy: Pick<Policy, 'retentionSeconds' | 'afterExpiry' | 'goneSeconds'>,
  completedAt: number,
): { expiresAt: number; ttl: number } {
  for (const [name, seconds, least] of [
    ['retentionSeconds', policy.retentionSeconds, schedule.retentionMinSeconds],
    ['goneSeconds', policy.goneSeconds, 1],
  ] as const) {
    if (Number.isSafeInteger(seconds) && seconds >= least) continue;
    throw new InvalidArgument(`${name} is ${seconds}; expected a whole number of at least ${least}.`);
  }
  const expiresAt = completedAt + policy.retentionSeconds * SECOND_MS;
  return { expiresAt, ttl: ttlAfter(policy, expiresAt) };
}

/** When DynamoDB may drop an item whose result stops being replayed then. */
export function ttlAfter(policy: Pick<Policy, 'afterExpiry' | 'goneSeconds'>, expiresAt: number): number {
  const keptSeconds =
    policy.afterExpiry === 'gone'
      ? Math.max(policy.goneSeconds, schedule.ttlMarginSeconds)
      : schedule.ttlMarginSeconds;
  return Math.ceil(expiresAt / SECOND_MS) + keptSeconds;
}

/** How long to wait after so many tries in vain. Half of it is jitter, so that what failed together does not return together. */
export function backoffMs(
  { reconcileBaseMs, reconcileCapMs }: Pauses,
  tries: number,
  random: () => number,
): number {
  const pauseMs = Math.min(reconcileCapMs, reconcileBaseMs * 2 ** tries);
  return Math.round(pauseMs * (0.5 + random() / 2));
}
