import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { type Doubt, isReusable } from '../core/decide.ts';
import { NoTimeLeft } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import {
  type Attempt,
  accepted,
  completed,
  type DeliveryChange,
  delivered,
  erased,
  failed,
  handedBack,
  reaccepted,
  reserved,
  resumed,
  retaken,
  type StepChange,
  takenOver,
  uncertain,
  watched,
  withDelivery,
  withStep,
} from '../core/moves.ts';
import {
  type Delivery,
  type DoneDelivery,
  type EpochMs,
  type InProgress,
  isErased,
  isOpen,
  isUndelivered,
  type LedgerRecord,
  leasePassed,
  outboxOf,
  type Reply,
  type Step,
  type StoredBody,
  type StoredRequest,
  type StoredResponse,
  type Unknown,
} from '../core/record.ts';
import {
  compressedEvent,
  compressedReply,
  compressedResult,
  packBody,
  replyOf,
  responseOf,
  type StoredBytes,
  storedBytes,
  unpackBody,
} from './body.ts';
import { itemVersions, requireReadable } from './item.ts';
import type {
  AuditEntry,
  Audited,
  Committed,
  DeliveredEvent,
  DeliveryNote,
  Ledger,
  Moved,
  RequestToKeep,
  ScanPage,
  Taken,
  WriteRefusal,
} from './ledger.ts';
import { memoryQuotas } from './memory-quotas.ts';
import {
  answeredAs,
  concluded,
  erasedAs,
  holdsDelivery,
  holdsStep,
  inProgressOf,
  isSame,
  ownedAfterAll,
  reached,
} from './own.ts';
import { tooManyWrites } from './store-call.ts';

export interface MemoryLedgerOptions<W> {
  readonly clock?: () => EpochMs;
  readonly newId?: () => string;
  /**
   * Applies the caller's own writes, all or none. Returns why not, if not. Without it they always succeed and are only
   * collected in `written`.
   */
  readonly commit?: (writes: readonly W[]) => readonly WriteRefusal<W>[] | undefined;
}

export interface MemoryLedger<W = unknown> extends Ledger<W> {
  /** The caller's own writes that were committed, in order. */
  readonly written: readonly W[];
  /** What DynamoDB's TTL does some day: drops the records whose `ttl` has passed. Returns how many. */
  prune(now: EpochMs): number;
}

/**
 * The ledger in memory: for tests of handlers, and the twin against which the DynamoDB one is checked. Each move is
 * atomic because nothing is awaited between looking and writing. Nothing that goes in or out is shared.
 */
export function memoryLedger<W = unknown>(options: MemoryLedgerOptions<W> = {}): MemoryLedger<W> {
  const { clock = Date.now, newId = randomUUID, commit: commitWrites = () => undefined } = options;
  const records = new Map<string, LedgerRecord>();
  const chunks = new Map<string, readonly Uint8Array[]>();
  const audits = new Map<string, readonly AuditEntry[]>();
  const written: W[] = [];
  const counts = memoryQuotas();

  const look = (pk: string): LedgerRecord | undefined => structuredClone(records.get(pk));

  function write<R extends LedgerRecord>(record: R): R {
    requireReadable(record, itemVersions);
    records.set(record.pk, structuredClone(record));
    return structuredClone(record);
  }

  /**
   * The whole of concurrency control: the record as it is now either allows the move or answers for itself. Steps that
   * were saved since it was read stay, as in the table, where a move never writes the map.
   */
  function move<F extends LedgerRecord, R extends LedgerRecord>(
    from: F,
    allowed: (now: LedgerRecord) => boolean,
    to: (from: F) => R,
  ): Moved<R> {
    const now = look(from.pk);
    if (!now || !allowed(now)) {
      return isSame(now, to(from)) ? { kind: 'moved', record: to(from) } : { kind: 'fenced', record: now };
    }
    const read = { ...from, steps: now.steps };
    return { kind: 'moved', record: write(merged(now, read, to(read))) };
  }

  function commit<R extends LedgerRecord>(
    mine: InProgress,
    allowed: (now: LedgerRecord) => boolean,
    to: (mine: InProgress) => R,
    writes: readonly W[],
  ): Committed<R, W> {
    const now = look(mine.pk);
    if (!now || !allowed(now)) return { kind: 'fenced', record: now };
    if (writes.length >= limits.transactionMaxItems) throw tooManyWrites(writes.length);
    const reasons = writes.length > 0 ? commitWrites(structuredClone(writes)) : undefined;
    if (reasons) return { kind: 'refused', reasons };
    written.push(...structuredClone(writes));
    return move(mine, allowed, to);
  }

  function take<F extends LedgerRecord>(
    from: F,
    allowed: (now: LedgerRecord) => boolean,
    to: (from: F) => InProgress,
  ): Taken {
    const moved = move(from, allowed, to);
    if (moved.kind === 'moved') return { kind: 'owned', record: moved.record };
    return ownedAfterAll(moved.record, to(from), clock()) ?? { kind: 'held', record: moved.record };
  }

  /** No claim leaves after its own lease: it could reserve a key that nobody then works on. */
  function requireLease({ leaseUntil }: Attempt): void {
    if (clock() >= leaseUntil) throw new NoTimeLeft();
  }

  /** For moves that leave the record where the sweep looks, which may have changed since it was read. */
  function inPlace(record: InProgress): InProgress {
    const now = look(record.pk);
    const { due: _, ...rest } = record;
    return now?.status === 'in_progress' && now.due ? { ...rest, due: now.due } : rest;
  }

  function storeBody(
    pk: string,
    plain: StoredBytes,
    owner: string,
    openEnded: boolean,
    inlineMaxBytes?: number,
  ): StoredBody {
    const packed = packBody(plain, owner, openEnded, inlineMaxBytes);
    const name = `${pk} ${packed.set}`;
    if (packed.chunks.length > 0 && !chunks.has(name)) chunks.set(name, structuredClone(packed.chunks));
    return packed.stored;
  }

  function fetchBody(pk: string, stored: StoredBody): Uint8Array {
    const set = 'set' in stored.body ? stored.body.set : '';
    return unpackBody(pk, stored, storedBytes(pk, stored, chunks.get(`${pk} ${set}`) ?? []));
  }

  /** Their names stay, as in the table: what is still on its way under one of them is not put there again. */
  function wipe(pk: string): void {
    for (const name of chunks.keys()) if (name.startsWith(`${pk} `)) chunks.set(name, []);
  }

  function store(
    pk: string,
    reply: Reply,
    owner: string,
    openEnded = false,
    inlineMaxBytes?: number,
  ): StoredResponse {
    return responseOf(reply, storeBody(pk, compressedReply(reply), owner, openEnded, inlineMaxBytes));
  }

  function storeResult(pk: string, name: string, text: string, owner: string): string | StoredBody {
    const inlineMaxBytes = limits.inlineNoteMaxBytes;
    if (Buffer.byteLength(text) <= inlineMaxBytes) return text;
    return storeBody(pk, compressedResult(name, text), owner, true, inlineMaxBytes);
  }

  function kept(request: RequestToKeep | undefined): StoredRequest | undefined {
    const event = request && compressedEvent(request.event);
    if (!event) return undefined;
    const { stored } = packBody(event, '', false, Number.POSITIVE_INFINITY);
    return { function: request.function, event: stored };
  }

  function deliveryChange(pk: string, event: DeliveredEvent | undefined): DeliveryChange | undefined {
    if (!event) return undefined;
    const { index, ...note } = event;
    return { index, delivery: deliveryOf(pk, { to: 'done', ...note }) as DoneDelivery };
  }

  function deliveryOf(pk: string, note: DeliveryNote): Delivery | undefined {
    if (note.to === 'none') return undefined;
    if (note.to === 'claimed') return { state: 'claimed', id: note.id, until: note.until };
    const { to: state, at, reference, reply } = note;
    const response = reply && store(pk, reply, newId(), true, limits.inlineNoteMaxBytes);
    return { state, at, ...(reference !== undefined && { reference }), ...(response && { response }) };
  }

  function storedChange(pk: string, { name, step }: StepChange, owner: string): StepChange {
    if (!step || typeof step.result !== 'string') return { name, step };
    return { name, step: { ...step, result: storeResult(pk, name, step.result, owner) } };
  }

  const ledger: MemoryLedger<W> = {
    written,
    quotas: inTime(counts.quotas, clock),

    async reserve(claim, reuse) {
      requireLease(claim);
      const mine = reserved(claim, kept(claim.request));
      const now = look(claim.pk);
      if (!now || isReusable(now, claim.now, reuse)) return { kind: 'owned', record: write(mine) };
      return ownedAfterAll(now, mine, clock()) ?? { kind: 'held', record: now };
    },

    async retake(from, by) {
      requireLease(by);
      const same = (now: LedgerRecord) =>
        reached(from, 'failed_retryable')(now) && now.fingerprint === from.fingerprint;
      return take(from, same, (failure) => retaken(failure, by, kept(by.request)));
    },

    async takeOver(from, by) {
      requireLease(by);
      const lapsed = lapsedBy(from, by.now, by.skewMs);
      const safe = by.effects === 'steps' ? ['transactional', 'steps'] : ['transactional'];
      const allowed = (now: LedgerRecord) => lapsed(now) && safe.includes(now.effects);
      return take(from, allowed, (abandoned) => inPlace(takenOver(abandoned, by)));
    },

    async complete(mine, { reply, ...outcome }, writes = []) {
      const response = store(mine.pk, reply, mine.owner, outcome.outbox.length > 0);
      const to = (running: InProgress) => completed(running, { ...outcome, response }, 'complete');
      return concluded(commit(mine, inProgressOf(mine), to, writes), answeredAs(to(mine)));
    },

    async accept(mine, { reply, ...deferral }, writes = []) {
      const response = store(mine.pk, reply, mine.owner, true);
      const to = (running: InProgress) => accepted(running, { ...deferral, response });
      return concluded(commit(mine, inProgressOf(mine), to, writes), answeredAs(to(mine)));
    },

    async completeLate(mine, { reply, ...outcome }) {
      const response = store(mine.pk, reply, mine.owner);
      const late = (now: LedgerRecord) => reached(mine, 'unknown')(now) && !now.accepted;
      const to = (unknown: Unknown) =>
        completed(unknown, { ...outcome, response, outbox: [] }, 'completeLate');
      return concluded(move(mine, late, to), answeredAs(to(mine)));
    },

    async release(mine, failure) {
      const clean = (now: LedgerRecord) => inProgressOf(mine)(now) && noStepBegan(now);
      const moved = move(mine, clean, (running) => failed(running, failure, 'release'));
      return concluded(moved, reached(mine, 'failed_retryable'));
    },

    async markUnknown(mine, doubt) {
      const moved = move(mine, inProgressOf(mine), (running) => uncertain(running, doubt, 'markUnknown'));
      return concluded(moved, reached(mine, 'unknown'));
    },

    async handBack(mine, now, due) {
      return move(mine, stepsOf(mine), (running) => handedBack(running, now, due));
    },

    async openStep(mine, name, now) {
      const step: Step = { state: 'open', attempt: mine.attempt, at: now, id: newId() };
      withStep(mine, name, step); // Refuses a bad name before anything else, as the other ledger does.
      const allowed = (found: LedgerRecord) => stepsOf(mine)(found) && !found.steps.has(name);
      const moved = move(mine, allowed, (running) => inPlace(withStep(running, name, step)));
      return concluded(moved, holdsStep(mine, name, step));
    },

    async saveStep(mine, name, result, now, writes = []) {
      const done = { state: 'done', attempt: mine.attempt, at: now } as const;
      withStep(mine, name, { ...done, result: '' });
      const step: Step = { ...done, result: storeResult(mine.pk, name, result, mine.owner) };
      const allowed = (found: LedgerRecord) => {
        if (!stepsOf(mine)(found)) return false;
        const before = found.steps.get(name);
        return before === undefined || (before.state === 'open' && before.attempt === mine.attempt);
      };
      const saved = commit(mine, allowed, (running) => inPlace(withStep(running, name, step)), writes);
      return concluded(saved, holdsStep(mine, name, step));
    },

    async lapse(from, { skewMs, ...target }) {
      const lapsed = lapsedBy(from, target.now, skewMs);
      if (target.to === 'unknown') {
        const doubtful = (now: LedgerRecord) => lapsed(now) && stillDoubtful(now, target.doubt);
        return move(from, doubtful, (abandoned) => uncertain(abandoned, target, 'lapse'));
      }
      const harmless = (now: LedgerRecord) => lapsed(now) && now.effects === 'transactional';
      return move(from, harmless, (abandoned) => failed(abandoned, target, 'lapse'));
    },

    async settle(from, target) {
      const open = asRead(from);
      switch (target.to) {
        case 'completed': {
          const response = store(from.pk, target.reply, newId());
          const whole = (now: LedgerRecord) =>
            open(now) && (now.effects !== 'steps' || now.accepted !== undefined);
          return move(from, whole, (unknown) =>
            completed(unknown, { ...target, response, outbox: [] }, 'settle'),
          );
        }
        case 'failed_retryable': {
          const allowed = (now: LedgerRecord) => open(now) && !now.accepted && now.effects !== 'steps';
          return move(from, allowed, (unknown) => failed(unknown, target, 'settle'));
        }
        case 'accepted': {
          const change = deliveryChange(from.pk, target.delivered);
          const to = reaccepted(from, target, change);
          const allowed = (now: LedgerRecord) =>
            open(now) && isDeepStrictEqual(now.accepted?.outbox, from.accepted?.outbox);
          return concluded(
            move(from, allowed, (unknown) => reaccepted(unknown, target, change)),
            reached(to, 'accepted'),
          );
        }
        case 'in_progress': {
          const step = target.step && storedChange(from.pk, target.step, target.owner);
          const stillOpen = (now: LedgerRecord) => {
            const state = step && now.steps.get(step.name)?.state;
            return !step || state === 'open' || (state === undefined && step.step !== undefined);
          };
          const allowed = (now: LedgerRecord) =>
            open(now) && now.effects === 'steps' && !now.accepted && stillOpen(now);
          const moved = move(from, allowed, (unknown) => resumed(unknown, target, step));
          return concluded(moved, inProgressOf(resumed(from, target, step)));
        }
        default:
          return target satisfies never;
      }
    },

    async settleAccepted(from, target) {
      if (target.to === 'unknown') {
        const { event } = target;
        const stillOpen = (now: LedgerRecord) => !event || isOpenAs(now, event);
        const allowed = (now: LedgerRecord) => asRead(from)(now) && stillOpen(now);
        return move(from, allowed, (pending) => uncertain(pending, target, 'settleAccepted'));
      }
      const response = store(from.pk, target.reply, newId());
      const outcome = { ...target, response, outbox: [] };
      return move(from, asRead(from), (pending) => completed(pending, outcome, 'settleAccepted'));
    },

    async attest(from, { reply, skewMs, ...outcome }) {
      const response = store(from.pk, reply, newId());
      const { now: at } = outcome;
      const free = (now: LedgerRecord) =>
        from.status === 'in_progress'
          ? lapsedBy(from, at, skewMs)(now)
          : now.status === 'failed_retryable' && now.expiresAt >= at;
      const allowed = (now: LedgerRecord) => asRead(from)(now) && free(now);
      return move(from, allowed, (open) => completed(open, { ...outcome, response, outbox: [] }, 'attest'));
    },

    async reopen(from, failure) {
      const allowed = (now: LedgerRecord) =>
        asRead(from)(now) &&
        !isSuccess(now.response) &&
        now.acceptedAt === undefined &&
        noStepBegan(now) &&
        now.outbox === undefined;
      return move(from, allowed, (done) => failed(done, failure, 'reopen'));
    },

    async erase(from, erasure) {
      const allowed = (now: LedgerRecord) =>
        asRead(from)(now) && now.outbox === undefined && now.response.erasedAt === undefined;
      const marked = concluded(
        move(from, allowed, (done) => erased(done, erasure)),
        erasedAs(from),
      );
      if (marked.kind === 'moved') wipe(from.pk);
      return marked;
    },

    async watch(from, due) {
      const still = (now: LedgerRecord) =>
        reached(from, from.status)(now) &&
        isDeepStrictEqual(placeOf(now), placeOf(from)) &&
        (now.status !== 'completed' || now.outbox !== undefined);
      return move(from, still, (record) => watched(record, due));
    },

    async noteDelivery(from, index, note) {
      withDelivery(from, index, undefined);
      const delivery = deliveryOf(from.pk, note);
      const to = withDelivery(from, index, delivery);
      const { claim } = note.to === 'claimed' ? {} : note;
      const now = look(from.pk);
      const known =
        now &&
        isUndelivered(now) &&
        (claim === undefined ? !outboxOf(now)[index]?.delivery : claimOf(now, index) === claim);
      if (!now || !asRead(from)(now) || !known) {
        return concluded<typeof from, Moved<typeof from>>(
          { kind: 'fenced', record: now },
          holdsDelivery(from, index, delivery),
        );
      }
      write(withDelivery(now, index, delivery));
      return { kind: 'moved', record: to };
    },

    async deliver(from, ttl) {
      const undelivered = (now: LedgerRecord) => asRead(from)(now) && now.outbox !== undefined;
      return move(from, undelivered, (done) => delivered(done, ttl));
    },

    async read(pk) {
      return look(pk);
    },

    async reply(pk, response) {
      return structuredClone(replyOf(response, fetchBody(pk, response)));
    },

    async stepResult(pk, { result }) {
      return typeof result === 'string' ? result : Buffer.from(fetchBody(pk, result)).toString('utf8');
    },

    async audits(pk) {
      return structuredClone(audits.get(pk) ?? []);
    },

    async request({ pk, request }) {
      return request && { function: request.function, event: fetchBody(pk, request.event) };
    },

    async unwatched({ index, of }, limit, from) {
      const all = [...records.values()].filter((_, place) => place % of === index);
      return scanned(all, limit, from, (record) => isOpen(record) && !('due' in record && record.due));
    },

    async completedIn(window, operations, limit, from) {
      const within = (at: EpochMs) => at >= window.from && at < window.to;
      return scanned([...records.values()], limit, from, (record) => {
        return (
          record.status === 'completed' && within(record.completedAt) && operations.includes(record.operation)
        );
      });
    },

    async due(shard, before, limit, from) {
      const entries = [...records.values()]
        .flatMap(({ pk, due }: LedgerRecord & { due?: { shard: string; at: number } }) =>
          due && due.shard === shard && due.at <= before ? [{ pk, at: due.at }] : [],
        )
        .sort((a, b) => a.at - b.at || (a.pk < b.pk ? -1 : 1));
      const later = from === undefined ? entries : entries.filter((entry) => cursorOf(entry) > from);
      const page = later.slice(0, limit);
      const last = page.at(-1);
      return { entries: page, next: last && later.length > limit ? cursorOf(last) : undefined };
    },

    prune(now) {
      const dead = [...records.values()].filter(
        (record) => 'ttl' in record && Number(record.ttl) * 1_000 < now,
      );
      for (const { pk } of dead) records.delete(pk);
      counts.prune(now);
      return dead.length;
    },
  };
  return inTime(audited(ledger, audits), clock);
}

/** The moves that a person may be behind. */
type Signed = 'settle' | 'settleAccepted' | 'attest' | 'reopen' | 'erase' | 'noteDelivery' | 'watch';

/** What a person does is written down together with its effect; what was refused, or done by another, leaves no trace. */
function audited<L extends Pick<Ledger<never>, Signed | 'read'>>(
  ledger: L,
  audits: Map<string, readonly AuditEntry[]>,
): L {
  type Move = (from: LedgerRecord, ...to: unknown[]) => Promise<Moved<LedgerRecord>>;
  const wrap =
    (move: Move): Move =>
    async (from, ...to) => {
      const { audit } = (to.at(-1) ?? {}) as Audited;
      if (!audit) return move(from, ...to);
      const before = await ledger.read(from.pk);
      const moved = await move(from, ...to);
      const after = await ledger.read(from.pk);
      if (moved.kind === 'fenced') return moved;
      if (isSame(before, after as LedgerRecord)) {
        return after && isErased(after) ? moved : { kind: 'fenced', record: after };
      }
      audits.set(from.pk, [...(audits.get(from.pk) ?? []), structuredClone(audit)]);
      return moved;
    };
  const { settle, settleAccepted, attest, reopen, erase, noteDelivery, watch } = ledger;
  const moves = Object.entries({ settle, settleAccepted, attest, reopen, erase, noteDelivery, watch });
  return {
    ...ledger,
    ...Object.fromEntries(moves.map(([name, move]) => [name, wrap(move as unknown as Move)])),
  };
}

/** Memory answers at once, so the end that a caller sets matters only if it has already come. */
function inTime<L extends object>(ledger: L, clock: () => EpochMs): L {
  const timed = Object.entries(ledger).map(([name, method]) => {
    if (typeof method !== 'function' || name === 'prune') return [name, method];
    return [
      name,
      async (...args: unknown[]) => {
        const last = args.at(-1);
        if (isUntil(last) && clock() >= last.until) throw new NoTimeLeft();
        return method(...args);
      },
    ];
  });
  return Object.fromEntries(timed);
}

/** It says nothing else: a claim has an end as well, which is another matter. */
function isUntil(last: unknown): last is { readonly until: EpochMs } {
  const [only, ...others] = typeof last === 'object' && last !== null ? Object.entries(last) : [];
  return only?.[0] === 'until' && typeof only[1] === 'number' && others.length === 0;
}

/** A move writes the fields it changes; the others stay as they are now, not as they were read. */
function merged<R extends LedgerRecord>(now: LedgerRecord, from: LedgerRecord, to: R): R {
  const untouched = Object.entries(now).filter(([name, value]) => {
    const [before, after] = [from, to].map((record) => (record as unknown as Record<string, unknown>)[name]);
    return name !== 'due' && value !== undefined && after !== undefined && isDeepStrictEqual(before, after);
  });
  return { ...to, ...Object.fromEntries(untouched) };
}

/** As a scan does it: the limit is of what is looked at, so that a page may let nothing through and still not be the last. */
function scanned(
  all: readonly LedgerRecord[],
  limit: number,
  from: string | undefined,
  lets: (record: LedgerRecord) => boolean,
): ScanPage {
  const start = Number(from ?? 0);
  const page = all.slice(start, start + limit);
  const next = start + limit < all.length ? String(start + limit) : undefined;
  return { pks: page.filter(lets).map(({ pk }) => pk), next };
}

/** A place in the index, not a number of entries: what was settled since must not shift what comes next. */
function cursorOf({ at, pk }: { readonly at: EpochMs; readonly pk: string }): string {
  return `${String(at).padStart(16, '0')} ${pk}`;
}

/* The conditions of `dynamodb.ts`, said to a record. */

function placeOf(record: LedgerRecord): unknown {
  return 'due' in record && record.due ? [record.due.shard, record.due.at] : undefined;
}

function claimOf(record: LedgerRecord, index: number): string | undefined {
  const delivery = isUndelivered(record) ? outboxOf(record)[index]?.delivery : undefined;
  return delivery?.state === 'claimed' ? delivery.id : undefined;
}

function isOpenAs(
  record: LedgerRecord,
  { index, id }: { readonly index: number; readonly id?: string },
): boolean {
  if (id !== undefined) return claimOf(record, index) === id;
  const event = isUndelivered(record) ? outboxOf(record)[index] : undefined;
  return event !== undefined && event.delivery === undefined;
}

function lapsedBy(from: InProgress, at: EpochMs, skewMs: number) {
  return (now: LedgerRecord): now is InProgress => inProgressOf(from)(now) && leasePassed(now, at, skewMs);
}

function stepsOf(mine: InProgress) {
  return (now: LedgerRecord): now is InProgress => inProgressOf(mine)(now) && now.effects === 'steps';
}

function asRead<R extends LedgerRecord>(from: R) {
  return (now: LedgerRecord): now is R =>
    now.status === from.status && now.operationId === from.operationId && now.attempt === from.attempt;
}

function noStepBegan(now: LedgerRecord): boolean {
  return now.effects !== 'steps' || (!now.takenOver && now.steps.size === 0);
}

function isSuccess({ status }: StoredResponse): boolean {
  return status >= 200 && status < 300;
}

function stillDoubtful(now: InProgress, doubt: Doubt): boolean {
  switch (doubt.kind) {
    case 'opaque':
      return now.effects === 'opaque';
    case 'open_effect':
      return now.steps.get(doubt.step)?.state === 'open';
    case 'effects_changed':
    case 'dedupe_window_over':
      return now.effects === 'steps';
    default:
      return doubt satisfies never;
  }
}
