import { randomUUID } from 'node:crypto';
import type { Doubt } from '../core/decide.ts';
import { RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import {
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
import type {
  CompletedDelivered,
  Delivery,
  DoneDelivery,
  Due,
  EpochMs,
  Fence,
  InProgress,
  LedgerRecord,
  Outbox,
  Status,
  Step,
} from '../core/record.ts';
import { dynamoDbQuotas } from './dynamodb-quotas.ts';
import { type Change, type Clause, deliveryUpdateOf, stepUpdateOf, updateOf } from './expression.ts';
import { encodeOutbox, type ItemVersions, itemVersions, requireReadable } from './item.ts';
import type {
  AuditEntry,
  Committed,
  DeliveredEvent,
  DeliveryNote,
  Ledger,
  Moved,
  Reuse,
  Taken,
} from './ledger.ts';
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
import { openTable, type TableOptions, type TransactWrite } from './table.ts';

export interface DynamoDbLedgerOptions extends TableOptions {
  /** Names the chunks of a reply that no attempt of ours produced. */
  readonly newId?: () => string;
}

/* The clauses of every condition. Each names the race it closes. */

/** Nothing is there, so nobody can have started; a chunk that is there already is from our own lost try. */
const absent: Clause = { text: 'attribute_not_exists(#pk)' };

/** Every condition names the state it comes from: a delayed write must not act on a later state. */
const statusIs = (status: Status): Clause => ({
  text: '#status = :isStatus',
  values: { ':isStatus': status },
});

/** The fence: a new attempt has a new owner, so that what the old one still sends is refused. */
const ownerIs = ({ owner }: Fence): Clause => ({
  text: '#owner = :isOwner',
  values: { ':isOwner': owner },
});
const attemptIs = (fence: Fence): readonly Clause[] => [
  ownerIs(fence),
  { text: '#attempt = :isAttempt', values: { ':isAttempt': fence.attempt } },
];

/** For those who are not the owner. An attempt later is another fact; an operation later, another payment. */
const asRead = (record: LedgerRecord): readonly Clause[] => [
  statusIs(record.status),
  { text: '#operationId = :isOperationId', values: { ':isOperationId': record.operationId } },
  { text: '#attempt = :isAttempt', values: { ':isAttempt': record.attempt } },
];

/** Time is compared, never inferred from absence, and only past the skew another host's clock may have. */
const leasePassed = (now: EpochMs, skewMs: number): Clause => ({
  text: '#leaseUntil < :lapsedBefore',
  values: { ':lapsedBefore': now - skewMs },
});

/** Past it the key is free, and whoever comes next starts anew. */
const unexpired = (now: EpochMs): Clause => ({
  text: '#expiresAt >= :isNow',
  values: { ':isNow': now },
});

const sameFingerprint = (record: LedgerRecord): Clause => ({
  text: '#fingerprint = :isFingerprint',
  values: { ':isFingerprint': record.fingerprint },
});

const isOpaque: Clause = { text: '#effects = :opaque', values: { ':opaque': 'opaque' } };
/** Only code that still has the steps can resume them, and nothing resumes what left no trace. */
const notOpaque: Clause = { text: '#effects <> :opaque', values: { ':opaque': 'opaque' } };
const notSteps: Clause = { text: '#effects <> :steps', values: { ':steps': 'steps' } };
const isSteps: Clause = { text: '#effects = :steps', values: { ':steps': 'steps' } };
const isTransactional: Clause = {
  text: '#effects = :transactional',
  values: { ':transactional': 'transactional' },
};

/** Recovery points would be lost with the TTL of a failure, and a lost attempt may have begun a step unseen. */
const noStepBegan: Clause = {
  text: '(#effects <> :steps OR (attribute_not_exists(#takenOver) AND size(#steps) = :zero))',
  values: { ':steps': 'steps', ':zero': 0 },
};

/** A verdict on a steps record is about its open effect; only what was accepted is settled as a whole. */
const settledAsAWhole: Clause = {
  text: '(#effects <> :steps OR attribute_exists(#acceptedAt))',
  values: { ':steps': 'steps' },
};

const neverAccepted: Clause = { text: 'attribute_not_exists(#acceptedAt)' };
const wasAccepted: Clause = { text: 'attribute_exists(#acceptedAt)' };
/** Two sweeps may act on one read: the slower must not undo what the faster decided, least of all a parking. */
const dueIs = (due: Due | undefined): Clause =>
  due
    ? {
        text: '#dueShard = :isDueShard AND #dueAt = :isDueAt',
        values: { ':isDueShard': due.shard, ':isDueAt': due.at },
      }
    : { text: 'attribute_not_exists(#dueShard)' };

/** What is written as a whole must be as it was read: a delivery noted since would be undone, and made again. */
const outboxIs = (outbox: Outbox): Clause => ({
  text: '#outbox = :isOutbox',
  values: { ':isOutbox': encodeOutbox(outbox) },
});
const outboxUndelivered: Clause = { text: 'attribute_exists(#outbox)' };
const outboxDelivered: Clause = { text: 'attribute_not_exists(#outbox)' };
const bodyErased: Clause = { text: 'attribute_exists(#response.#erasedAt)' };
/** The first who erases it signs for it. */
const bodyKept: Clause = { text: 'attribute_not_exists(#response.#erasedAt)' };
/** A chunk that its TTL has removed must not come back as an empty one. */
const present: Clause = { text: 'attribute_exists(#pk)' };
const notSuccessful: Clause = {
  text: '(#response.#status < :ok OR #response.#status >= :redirect)',
  values: { ':ok': 200, ':redirect': 300 },
};

/** An intent is written where there is none: a second one would be a second attempt at the effect. */
const stepAbsent = (name: string): Clause => ({
  text: 'attribute_not_exists(#steps.#step)',
  names: { '#step': name },
});
const stepOpen = (name: string): Clause => ({
  text: '#steps.#step.#state = :open',
  values: { ':open': 'open' },
  names: { '#step': name },
});
/** A verdict adds what nobody recorded, or ends what is open; it never replaces a result. */
const stepAbsentOrOpen = (name: string): Clause => ({
  text: '(attribute_not_exists(#steps.#step) OR #steps.#step.#state = :open)',
  values: { ':open': 'open' },
  names: { '#step': name },
});
/** Only the attempt that wrote the intent knows what came of it. */
const stepAbsentOrMine = (name: string, attempt: number): Clause => ({
  text: '(attribute_not_exists(#steps.#step) OR (#steps.#step.#state = :open AND #steps.#step.#attempt = :isAttempt))',
  values: { ':open': 'open', ':isAttempt': attempt },
  names: { '#step': name },
});

/** A delivery to a provider that does not dedupe is tried by one at a time, and never after one who may have come through. */
const unclaimed = (index: number): Clause => ({
  text: `attribute_exists(#outbox[${index}]) AND attribute_not_exists(#outbox[${index}].#delivery)`,
});
const claimedAs = (index: number, id: string): Clause => ({
  text: `#outbox[${index}].#delivery.#id = :isClaim`,
  values: { ':isClaim': id },
});

const openAs = ({ index, id }: { readonly index: number; readonly id?: string }): Clause =>
  id === undefined ? unclaimed(index) : claimedAs(index, id);

/**
 *   reserve        complete          expiresAt      + skew            ttl (gone: much later)
 *      |—— in_progress —|—— replayed ——————|—— replayed ——|—— reusable ———|—— deleted, some day
 *
 * Without a TTL the outbox is undelivered, and the key is not free. A version we cannot read may mean something else
 * by these attributes.
 */
const expired = ({ afterExpiry, skewMs }: Reuse, now: EpochMs, versions: ItemVersions): readonly Clause[] => [
  {
    text: '#status IN (:completed, :failed)',
    values: { ':completed': 'completed', ':failed': 'failed_retryable' },
  },
  { text: '#v <= :readable', values: { ':readable': versions.reads } },
  { text: 'attribute_exists(#ttl)' },
  outboxDelivered,
  { text: '#expiresAt < :expiredBefore', values: { ':expiredBefore': now - skewMs } },
  ...(afterExpiry === 'gone'
    ? [{ text: '#ttl < :goneBefore', values: { ':goneBefore': (now - skewMs) / 1_000 } }]
    : []),
];

const anyOf = (one: Clause, all: readonly Clause[]): Clause => ({
  text: `${one.text} OR (${all.map((clause) => clause.text).join(' AND ')})`,
  values: Object.assign({}, one.values, ...all.map((clause) => clause.values)),
});

/** The reason for an `unknown` must still stand when it is written. */
function stillDoubtful(doubt: Doubt): Clause {
  switch (doubt.kind) {
    case 'opaque':
      return isOpaque;
    case 'open_effect':
      return stepOpen(doubt.step);
    case 'effects_changed':
    case 'dedupe_window_over': // Its start only moves together with the attempt, which the fence pins.
      return isSteps;
    default:
      return doubt satisfies never;
  }
}

export function dynamoDbLedger(
  options: DynamoDbLedgerOptions,
  versions: ItemVersions = itemVersions,
): Ledger<TransactWrite> {
  const { newId = randomUUID } = options;
  const table = openTable(options, versions, [absent]);

  /** One conditional update; a lost race is answered with the record that won it. */
  async function move<R extends LedgerRecord>(
    to: R,
    change: Change,
    until: EpochMs,
    audit?: AuditEntry,
  ): Promise<Moved<R>> {
    requireReadable(to, versions);
    const lost = audit
      ? await table.updateWithAudit(to.pk, change, audit, until)
      : await table.update(to.pk, change, until);
    // With an audit entry, finding it done says that somebody did it, not that we have signed it.
    if (!lost || (!audit && isSame(lost.record, to))) return { kind: 'moved', record: to };
    return { kind: 'fenced', record: lost.record };
  }

  /** The same together with the caller's own writes, in one transaction. */
  async function commit<R extends LedgerRecord>(
    to: R,
    change: Change,
    writes: readonly TransactWrite[],
    until: EpochMs,
  ): Promise<Committed<R, TransactWrite>> {
    if (writes.length === 0) return move(to, change, until);
    requireReadable(to, versions);
    const lost = await table.transact(to.pk, change, writes, until);
    if (!lost) return { kind: 'moved', record: to };
    return 'reasons' in lost ? { kind: 'refused', ...lost } : { kind: 'fenced', ...lost };
  }

  return {
    async reserve(claim, reuse, call) {
      const until = table.until(call, claim.leaseUntil);
      const mine = reserved(claim, await table.keptRequest(claim.pk, claim.request, until));
      requireReadable(mine, versions);
      const free = anyOf(absent, expired(reuse, claim.now, versions));
      const lost = await table.put(mine, [free], until);
      if (!lost) return { kind: 'owned', record: mine };
      if (!lost.record) throw vanished(claim.pk);
      return ownedAfterAll(lost.record, mine, table.clock()) ?? { kind: 'held', record: lost.record };
    },

    async retake(from, by, call) {
      const clauses = [statusIs('failed_retryable'), ...attemptIs(from), sameFingerprint(from)];
      const until = table.until(call, by.leaseUntil);
      const to = retaken(from, by, await table.keptRequest(from.pk, by.request, until));
      return take(to, updateOf(from, to, clauses), until);
    },

    async takeOver(from, by, call) {
      const safe = by.effects === 'steps' ? notOpaque : isTransactional;
      const clauses = [statusIs('in_progress'), ...attemptIs(from), leasePassed(by.now, by.skewMs), safe];
      const to = takenOver(from, by);
      return take(to, updateOf(from, to, clauses, { keepDue: true }), table.until(call, by.leaseUntil));
    },

    async complete(mine, { reply, ...outcome }, writes = [], call) {
      const until = table.until(call);
      const kept = { ttl: outcome.ttl, openEnded: outcome.outbox.length > 0 };
      const response = await table.store(mine.pk, reply, mine.owner, kept, until);
      const to = completed(mine, { ...outcome, response }, 'complete');
      const change = updateOf(mine, to, [statusIs('in_progress'), ...attemptIs(mine)]);
      return concluded(await commit(to, change, writes, until), answeredAs(to));
    },

    async accept(mine, { reply, ...deferral }, writes = [], call) {
      const until = table.until(call);
      const response = await table.store(mine.pk, reply, mine.owner, { openEnded: true }, until);
      const to = accepted(mine, { ...deferral, response });
      const change = updateOf(mine, to, [statusIs('in_progress'), ...attemptIs(mine)]);
      return concluded(await commit(to, change, writes, until), answeredAs(to));
    },

    async completeLate(mine, { reply, ...outcome }, call) {
      const until = table.until(call);
      const response = await table.store(mine.pk, reply, mine.owner, outcome, until);
      const to = completed(mine, { ...outcome, response, outbox: [] }, 'completeLate');
      const change = updateOf(mine, to, [statusIs('unknown'), ...attemptIs(mine), neverAccepted]);
      return concluded(await move(to, change, until), answeredAs(to));
    },

    async release(mine, failure, call) {
      const to = failed(mine, failure, 'release');
      const change = updateOf(mine, to, [statusIs('in_progress'), ...attemptIs(mine), noStepBegan]);
      return concluded(await move(to, change, table.until(call)), reached(mine, 'failed_retryable'));
    },

    async markUnknown(mine, doubt, call) {
      const to = uncertain(mine, doubt, 'markUnknown');
      const change = updateOf(mine, to, [statusIs('in_progress'), ...attemptIs(mine)]);
      return concluded(await move(to, change, table.until(call)), reached(mine, 'unknown'));
    },

    async handBack(mine, now, due, call) {
      const to = handedBack(mine, now, due);
      const change = updateOf(mine, to, [statusIs('in_progress'), ...attemptIs(mine), isSteps]);
      return move(to, change, table.until(call));
    },

    async openStep(mine, name, now, call) {
      const step: Step = { state: 'open', attempt: mine.attempt, at: now, id: newId() };
      const to = withStep(mine, name, step);
      const clauses = [statusIs('in_progress'), ...attemptIs(mine), isSteps, stepAbsent(name)];
      const moved = await move(to, stepUpdateOf(name, step, clauses), table.until(call));
      return concluded(moved, holdsStep(mine, name, step));
    },

    async saveStep(mine, name, result, now, writes = [], call) {
      const until = table.until(call);
      const done = { state: 'done', attempt: mine.attempt, at: now } as const;
      withStep(mine, name, { ...done, result: '' }); // Refuses a bad name before anything is stored under it.
      const step: Step = {
        ...done,
        result: await table.storeResult(mine.pk, name, result, mine.owner, until),
      };
      const to = withStep(mine, name, step);
      const clauses = [
        statusIs('in_progress'),
        ...attemptIs(mine),
        isSteps,
        stepAbsentOrMine(name, mine.attempt),
      ];
      const saved = await commit(to, stepUpdateOf(name, step, clauses), writes, until);
      return concluded(saved, holdsStep(mine, name, step));
    },

    async lapse(from, { skewMs, ...target }, call) {
      const fence = [statusIs('in_progress'), ...attemptIs(from), leasePassed(target.now, skewMs)];
      const to = target.to === 'unknown' ? uncertain(from, target, 'lapse') : failed(from, target, 'lapse');
      const reason = target.to === 'unknown' ? stillDoubtful(target.doubt) : isTransactional;
      return move(to, updateOf(from, to, [...fence, reason]), table.until(call));
    },

    async settle(from, target, call) {
      const until = table.until(call);
      switch (target.to) {
        case 'completed': {
          const response = await table.store(from.pk, target.reply, newId(), target, until);
          const to = completed(from, { ...target, response, outbox: [] }, 'settle');
          return move(to, updateOf(from, to, [...asRead(from), settledAsAWhole]), until, call?.audit);
        }
        case 'failed_retryable': {
          const to = failed(from, target, 'settle');
          return move(to, updateOf(from, to, [...asRead(from), neverAccepted, notSteps]), until, call?.audit);
        }
        case 'accepted': {
          const to = reaccepted(from, target, await deliveryChange(from.pk, target.delivered, until));
          const asSeen = from.accepted ? [outboxIs(from.accepted.outbox)] : [];
          const change = updateOf(from, to, [...asRead(from), wasAccepted, ...asSeen]);
          return concluded(await move(to, change, until, call?.audit), reached(to, 'accepted'));
        }
        case 'in_progress': {
          const step = target.step && (await storedChange(from.pk, target.step, target.owner, until));
          const to = resumed(from, target, step);
          const stillOpen = step ? [step.step ? stepAbsentOrOpen(step.name) : stepOpen(step.name)] : [];
          const change = updateOf(from, to, [...asRead(from), isSteps, neverAccepted, ...stillOpen], {
            step,
          });
          return concluded(await move(to, change, until, call?.audit), inProgressOf(to));
        }
        default:
          return target satisfies never;
      }
    },

    async settleAccepted(from, target, call) {
      const until = table.until(call);
      if (target.to === 'unknown') {
        const to = uncertain(from, target, 'settleAccepted');
        const stillOpen = target.event ? [openAs(target.event)] : [];
        return move(to, updateOf(from, to, [...asRead(from), ...stillOpen]), until, call?.audit);
      }
      const response = await table.store(from.pk, target.reply, newId(), target, until);
      const to = completed(from, { ...target, response, outbox: [] }, 'settleAccepted');
      return move(to, updateOf(from, to, asRead(from)), until, call?.audit);
    },

    async attest(from, { reply, skewMs, ...outcome }, call) {
      const until = table.until(call);
      const { now } = outcome;
      const response = await table.store(from.pk, reply, newId(), outcome, until);
      const to = completed(from, { ...outcome, response, outbox: [] }, 'attest');
      const free =
        from.status === 'in_progress' ? [ownerIs(from), leasePassed(now, skewMs)] : [unexpired(now)];
      return move(to, updateOf(from, to, [...asRead(from), ...free]), until, call?.audit);
    },

    async reopen(from, failure, call) {
      const to = failed(from, failure, 'reopen');
      const change = updateOf(from, to, [
        ...asRead(from),
        notSuccessful,
        neverAccepted,
        noStepBegan,
        outboxDelivered,
      ]);
      return move(to, change, table.until(call), call?.audit);
    },

    async erase(from, erasure, call) {
      const until = table.until(call);
      const to = erased(from, erasure);
      const change = updateOf(from, to, [...asRead(from), outboxDelivered, bodyKept], { erase: true });
      const moved = await move(to, change, until, call?.audit);
      const marked = concluded<CompletedDelivered, Moved<CompletedDelivered>>(moved, erasedAs(from));
      if (marked.kind === 'fenced') return marked;
      // Marked first: from here on nobody is answered with half a body.
      const wiped = await table.wipe(from.pk, [...asRead(from), bodyErased], [present], until);
      return wiped ? marked : { kind: 'fenced', record: await table.get(from.pk, until) };
    },

    async watch(from, due, call) {
      const to = watched(from, due);
      const open = from.status === 'completed' ? [outboxUndelivered] : [];
      const clauses = [statusIs(from.status), ...attemptIs(from), dueIs(from.due), ...open];
      return move(to, updateOf(from, to, clauses), table.until(call), call?.audit);
    },

    async noteDelivery(from, index, note, call) {
      const until = table.until(call);
      withDelivery(from, index, undefined); // Refuses an event that is not there before anything is stored for it.
      const delivery = await deliveryOf(from.pk, note, until);
      const to = withDelivery(from, index, delivery);
      const { claim } = note.to === 'claimed' ? {} : note;
      const known = claim === undefined ? unclaimed(index) : claimedAs(index, claim);
      const change = deliveryUpdateOf(index, delivery, [...asRead(from), known]);
      const moved = await move(to, change, until, call?.audit);
      return call?.audit ? moved : concluded(moved, holdsDelivery(from, index, delivery));
    },

    async deliver(from, ttl, call) {
      const to = delivered(from, ttl);
      return move(to, updateOf(from, to, [...asRead(from), outboxUndelivered]), table.until(call));
    },

    read: (pk, call) => table.get(pk, table.until(call)),
    reply: (pk, response, call) => table.fetch(pk, response, table.until(call)),
    stepResult: (pk, { result }, call) => table.fetchResult(pk, result, table.until(call)),
    audits: (pk, call) => table.audits(pk, table.until(call)),
    request: ({ pk, request }, call) => table.openedRequest(pk, request, table.until(call)),
    unwatched: (segment, limit, from, call) => table.unwatched(segment, limit, from, table.until(call)),
    completedIn: (window, operations, limit, from, call) =>
      table.completedIn(window, operations, limit, from, table.until(call)),
    due: (shard, before, limit, from, call) => table.due(shard, before, limit, from, table.until(call)),
    quotas: dynamoDbQuotas(table),
  };

  async function storedChange(
    pk: string,
    { name, step }: StepChange,
    owner: string,
    until: EpochMs,
  ): Promise<StepChange> {
    if (!step || typeof step.result !== 'string') return { name, step };
    const result = await table.storeResult(pk, name, step.result, owner, until);
    return { name, step: { ...step, result } };
  }

  async function deliveryChange(
    pk: string,
    event: DeliveredEvent | undefined,
    until: EpochMs,
  ): Promise<DeliveryChange | undefined> {
    if (!event) return undefined;
    const { index, ...note } = event;
    return { index, delivery: (await deliveryOf(pk, { to: 'done', ...note }, until)) as DoneDelivery };
  }

  async function deliveryOf(pk: string, note: DeliveryNote, until: EpochMs): Promise<Delivery | undefined> {
    if (note.to === 'none') return undefined;
    if (note.to === 'claimed') return { state: 'claimed', id: note.id, until: note.until };
    const { to: state, at, reference, reply } = note;
    const kept = { openEnded: true, inlineMaxBytes: limits.inlineNoteMaxBytes };
    const response = reply && (await table.store(pk, reply, newId(), kept, until));
    return { state, at, ...(reference !== undefined && { reference }), ...(response && { response }) };
  }

  /** The image the write itself returned counts, not what was read before: an intent may have come between. */
  async function take(to: InProgress, change: Change, until: EpochMs): Promise<Taken> {
    requireReadable(to, versions);
    const taken = await table.updateAndReturn(to.pk, change, until);
    if ('won' in taken) return { kind: 'owned', record: inProgress(taken.won) };
    return ownedAfterAll(taken.record, to, table.clock()) ?? { kind: 'held', record: taken.record };
  }
}

function inProgress(taken: LedgerRecord): InProgress {
  if (taken.status === 'in_progress') return taken;
  throw new RecordUnreadable(
    `Record ${taken.pk} was taken and came back as ${taken.status}; inspect the item.`,
  );
}

function vanished(pk: string): RecordUnreadable {
  return new RecordUnreadable(
    `The store refused to reserve record ${pk} because it exists, but did not return it. It must support ReturnValuesOnConditionCheckFailure: ALL_OLD, as DynamoDB does.`,
  );
}
