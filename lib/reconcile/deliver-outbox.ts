import { StoreUnavailable } from '../core/errors.ts';
import { schedule, ttlAfter } from '../core/policy.ts';
import {
  type Due,
  type EpochMs,
  isUndelivered,
  type OutboxEvent,
  outboxOf,
  type Reply,
  type Undelivered,
} from '../core/record.ts';
import type { DeliveryHandlers } from '../effects/deliveries.ts';
import { expiryOf, type OperationPolicy } from '../effects/operations.ts';
import { noContent } from '../http/reply.ts';
import type { DeliveryNote, Ledger } from '../ledger/ledger.ts';
import { dueShard } from '../ledger/schema.ts';
import { type Level, type Measured, nameOf, type Report } from '../observe/report.ts';
import { type Tried, tryDelivery } from './attempt.ts';
import { park } from './park.ts';
import { retryPlace, waitPlace } from './places.ts';

export interface DeliveryPorts<W> {
  readonly ledger: Ledger<W>;
  readonly deliveries: DeliveryHandlers;
  readonly policyOf: (operation: string) => OperationPolicy;
  readonly storedHeaders: readonly string[];
  readonly clock: () => EpochMs;
  readonly random: () => number;
  readonly newId: () => string;
  readonly report: Report;
}

/** Where one record's outbox stands after it was looked at. */
export type Delivered =
  /** All of it is delivered, or its refusal has ended the operation. */
  | 'settled'
  /** There is nothing to deliver, or not yet, or not by us. */
  | 'nothing'
  | 'rescheduled'
  | 'parked'
  | 'unknown'
  /** Not enough time was left to begin. */
  | 'no_time';

/** Under this no provider is asked: the answer could not be waited for. */
const TRY_MIN_MS = 1_000;

/** Each turn is an event delivered, or a race lost; a race lost this often is a fault. */
const SPARE_TURNS = 8;

/** Delivers one record's events in their order, from the first that is not delivered yet. */
export function outboxDelivery<W>(ports: DeliveryPorts<W>) {
  const { ledger, deliveries, policyOf, clock, newId, report } = ports;

  return async function deliverOutbox(pk: string, until: EpochMs): Promise<Delivered> {
    const record = await undelivered(pk, until);
    if (!record || !isDue(record.due, clock())) return 'nothing';
    try {
      return await deliverFrom(record, until);
    } catch (error) {
      // Silence passes, and whoever called us comes again. Anything else would only be the same again: it is put off, and
      // counted, until an operator sees it.
      if (error instanceof StoreUnavailable) throw error;
      const now = await undelivered(pk, until);
      return now ? reschedule(now, nameOf(error), until) : 'nothing';
    }
  };

  async function deliverFrom(from: Undelivered, until: EpochMs): Promise<Delivered> {
    let record = from;
    for (let turns = outboxOf(record).length + SPARE_TURNS; turns > 0; turns -= 1) {
      const index = nextEvent(record);
      if (index === undefined) return settle(record, until);
      const next = await deliverEvent(record, index, until);
      if (typeof next === 'string') return next;
      const now = next.record ?? (await undelivered(record.pk, until));
      if (!now) return 'nothing'; // Whoever was faster has settled it.
      record = now;
    }
    return reschedule(record, 'kept_changing', until);
  }

  /** The record as it is now: what the stream showed may be long past. */
  async function undelivered(pk: string, until: EpochMs): Promise<Undelivered | undefined> {
    const record = await ledger.read(pk, { until });
    return record && isUndelivered(record) ? record : undefined;
  }

  /** One event, and what to go on with: the record as it is then, or nothing if somebody else changed it. */
  async function deliverEvent(
    record: Undelivered,
    index: number,
    until: EpochMs,
  ): Promise<Delivered | { readonly record: Undelivered | undefined }> {
    const event = outboxOf(record)[index] as OutboxEvent;
    const now = clock();
    if (event.delivery?.state === 'claimed') return claimedBefore(record, index, event.delivery, until);
    const handler = Object.hasOwn(deliveries, event.type) ? deliveries[event.type] : undefined;
    if (!handler) return reschedule(record, `no delivery for ${event.type}`, until);
    const { policy } = policyOf(record.operation);
    const tryUntil = Math.floor(Math.min(now + schedule.deliverMs, until));
    if (tryUntil - now < TRY_MIN_MS) return 'no_time';
    if (handler.dedupes && tryUntil > sentSince(record) + policy.dedupeWindowMs) {
      return doubt(record, 'dedupe_window_over', until, { index });
    }

    const claimed = handler.dedupes ? undefined : await claim(record, index, tryUntil, until);
    if (claimed === 'lost') return { record: undefined };
    const mine = claimed?.record ?? record;
    const startedAt = clock();
    if (tryUntil - startedAt < TRY_MIN_MS) {
      // Claiming took what time there was, and by the end of a claim others may act on it: nothing is sent any more.
      if (claimed) await ledger.noteDelivery(mine, index, { to: 'none', claim: claimed.id }, lastCall(until));
      return 'no_time';
    }
    const attempt = (record.due?.tries ?? 0) + 1;
    const { storedHeaders } = ports;
    const tried = await tryDelivery(handler, mine, event, {
      ...{ index, attempt, now: startedAt, until: tryUntil, storedHeaders },
    });
    return learnt(mine, index, tried, claimed?.id, until);
  }

  async function claim(record: Undelivered, index: number, tryUntil: EpochMs, until: EpochMs) {
    const id = newId();
    const note = { to: 'claimed', id, until: tryUntil } as const;
    const claimed = await ledger.noteDelivery(record, index, note, { until });
    return claimed.kind === 'moved' ? { id, record: claimed.record } : 'lost';
  }

  async function learnt(
    record: Undelivered,
    index: number,
    tried: Tried,
    claimId: string | undefined,
    until: EpochMs,
  ) {
    switch (tried.kind) {
      case 'delivered':
      case 'refused': {
        const noted = await note(record, index, tried, claimId, until);
        if (noted.kind === 'fenced') {
          say(record, 'warn', 'delivery_fenced', { fenced: 1 });
          return { record: undefined };
        }
        const failed = tried.kind === 'refused';
        say(record, failed ? 'warn' : 'info', `event_${tried.kind}`, {
          [failed ? 'outbox.failed' : 'outbox.delivered']: 1,
        });
        return { record: noted.record };
      }
      case 'later': {
        if (!claimId) return reschedule(record, tried.error, until);
        const freed = await ledger.noteDelivery(
          record,
          index,
          { to: 'none', claim: claimId },
          lastCall(until),
        );
        return freed.kind === 'moved' ? reschedule(freed.record, tried.error, until) : { record: undefined };
      }
      case 'uncertain':
        return doubt(record, tried.error, until, { index, ...(claimId !== undefined && { id: claimId }) });
      default:
        return tried satisfies never;
    }
  }

  /** The provider's reference is kept before anything is called delivered, with the answer it makes final. */
  async function note(
    record: Undelivered,
    index: number,
    tried: Extract<Tried, { kind: 'delivered' | 'refused' }>,
    claimId: string | undefined,
    until: EpochMs,
  ) {
    const { reference } = tried;
    const reply = record.status === 'accepted' ? tried.reply : undefined; // Else the operation has long been answered.
    const entry: DeliveryNote = {
      to: tried.kind === 'refused' ? 'refused' : 'done',
      at: clock(),
      ...(claimId !== undefined && { claim: claimId }),
      ...(reference !== undefined && { reference }),
      ...(reply && { reply }),
    };
    return ledger.noteDelivery(record, index, entry, lastCall(until));
  }

  /** Somebody began this before us and has not said what came of it. */
  async function claimedBefore(
    record: Undelivered,
    index: number,
    { id, until: claimedUntil }: { readonly id: string; readonly until: EpochMs },
    until: EpochMs,
  ): Promise<Delivered> {
    const overAt = claimedUntil + policyOf(record.operation).policy.skewMs;
    if (clock() > overAt) return doubt(record, 'delivery_abandoned', until, { index, id });
    await ledger.watch(record, waitPlace(record, overAt + 1), { until });
    return 'rescheduled';
  }

  async function settle(record: Undelivered, until: EpochMs): Promise<Delivered> {
    const declared = policyOf(record.operation);
    const now = clock();
    const call = { until: Math.max(until, now + TRY_MIN_MS) };
    if (record.status === 'completed') {
      // A late delivery is still audited against its record, so that one stays for as long after its charge as it would have
      // after its completion; and the audit can tell from that how late it was.
      const lateMs = Math.max(0, now - record.completedAt);
      const ttl = ttlAfter(declared.policy, record.expiresAt + lateMs);
      const moved = await ledger.deliver(record, ttl, call);
      return moved.kind === 'moved' ? told(record) : 'nothing';
    }
    const reply = await finalReply(record);
    const odd = (error: unknown) => say(record, 'error', 'retention_refused', {}, nameOf(error));
    const expiry = expiryOf(declared, reply, now, odd);
    const moved = await ledger.settleAccepted(record, { to: 'completed', now, reply, ...expiry }, call);
    return moved.kind === 'moved' ? told(record) : 'nothing';
  }

  function told(record: Undelivered): Delivered {
    say(record, 'info', 'outbox_settled');
    return 'settled';
  }

  /** A refusal is the last word; otherwise the last delivery that had something to say. */
  async function finalReply(record: Undelivered): Promise<Reply> {
    const notes = outboxOf(record).flatMap(({ delivery }) =>
      delivery && delivery.state !== 'claimed' ? [delivery] : [],
    );
    const last = notes.find(({ state }) => state === 'refused') ?? notes.findLast(({ response }) => response);
    return last?.response ? ledger.reply(record.pk, last.response) : noContent;
  }

  /** It may have happened. What is accepted becomes unknown; what is completed stays so, and an operator decides. */
  async function doubt(
    record: Undelivered,
    errorCode: string,
    until: EpochMs,
    event: { readonly index: number; readonly id?: string },
  ): Promise<Delivered> {
    if (record.status === 'completed') return putAside(record, errorCode, until);
    const now = clock();
    const { reconcileBaseMs } = policyOf(record.operation).policy;
    const due = { shard: dueShard(record.pk), at: now + reconcileBaseMs };
    const target = { to: 'unknown', now, errorCode, due, event } as const;
    const moved = await ledger.settleAccepted(record, target, lastCall(until));
    if (moved.kind === 'fenced') return 'nothing';
    say(record, 'error', 'unknown', { 'outbox.failed': 1, 'reconcile.scheduled.count': 1 }, errorCode);
    return 'unknown';
  }

  /** Another try later, or none: then an operator sees it, with what went wrong. */
  async function reschedule(record: Undelivered, error: string, until: EpochMs): Promise<Delivered> {
    const due = retryPlace(record, clock(), policyOf(record.operation).policy, ports.random, error);
    if (due.tries >= schedule.outboxTries) return putAside(record, error, until, due.tries);
    const placed = await ledger.watch(record, due, lastCall(until));
    if (placed.kind === 'fenced') {
      // Another dispatcher has only looked: our try still counts.
      const now = placed.record && isUndelivered(placed.record) ? placed.record : undefined;
      if (now && now.due?.parkedAt === undefined) await ledger.watch(now, due, lastCall(until));
    }
    say(record, 'warn', 'delivery_failed', { 'outbox.failed': 1 }, error);
    return 'rescheduled';
  }

  async function putAside(
    record: Undelivered,
    error: string,
    until: EpochMs,
    tries?: number,
  ): Promise<Delivered> {
    const parking = { tries, ...lastCall(until), also: { 'outbox.failed': 1 } };
    return (await park(ports, record, error, parking)) ? 'parked' : 'nothing';
  }

  function say(
    record: Undelivered,
    level: Level,
    decision: string,
    values: Measured = {},
    reason?: string,
  ): void {
    report.measure(record, values);
    report.tell(record, level, decision, {
      attempt: record.attempt,
      ...(reason !== undefined && { reason }),
    });
  }

  /** What was learnt has to be written down, also when the time that was given is over. */
  function lastCall(until: EpochMs) {
    return { until: Math.max(until, clock() + TRY_MIN_MS) };
  }
}

/** Not before its time, and a parked one not at all: an operator decides about it. */
function isDue(due: Due | undefined, now: EpochMs): boolean {
  return due === undefined || (due.parkedAt === undefined && due.at <= now);
}

/** Since when a provider may have seen the keys of these events: not before they were committed. */
function sentSince(record: Undelivered): EpochMs {
  const committedAt = record.status === 'accepted' ? record.accepted.at : record.completedAt;
  return Math.max(record.dedupeSince, committedAt);
}

/** The first that is neither delivered nor refused; none after a refusal that ends the operation. */
function nextEvent(record: Undelivered): number | undefined {
  const events = outboxOf(record);
  const ended = record.status === 'accepted' && events.some(({ delivery }) => delivery?.state === 'refused');
  const index = events.findIndex(({ delivery }) => delivery === undefined || delivery.state === 'claimed');
  return ended || index === -1 ? undefined : index;
}
