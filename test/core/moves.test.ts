import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { limits } from '../../lib/core/limits.ts';
import {
  type Attempt,
  accepted,
  type Claim,
  completed,
  type Deferral,
  erased,
  type Failure,
  failed,
  handedBack,
  type Outcome,
  type Reentry,
  reaccepted,
  reserved,
  resumed,
  retaken,
  takenOver,
  type Uncertainty,
  uncertain,
  watched,
  withDelivery,
  withStep,
} from '../../lib/core/moves.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type {
  Accepted,
  CompletedDelivered,
  CompletedUndelivered,
  Delivery,
  DoneStep,
  Due,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Outbox,
  Status,
  Step,
  StoredRequest,
  StoredResponse,
  Unknown,
} from '../../lib/core/record.ts';

const START = Date.UTC(2030, 0, 15, 12);
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 24 * HOUR_SECONDS;

/** Nothing in here uses what is not frozen, so every test also shows that its moves leave their inputs alone. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value;
  if (value instanceof Map) {
    for (const method of ['set', 'delete', 'clear']) Object.defineProperty(value, method, { value: refuse });
    for (const entry of value.values()) frozen(entry);
  }
  for (const entry of Object.values(value)) frozen(entry);
  return Object.freeze(value);
}

function refuse(): never {
  throw new TypeError('An input of a move was written to.');
}

const response: StoredResponse = frozen({
  schemaVersion: 1,
  status: 201,
  headers: [['content-type', 'application/json']],
  base64: false,
  encoding: 'identity',
  length: 2,
  crc: 7,
  body: { inline: new TextEncoder().encode('{}') },
} as const);
const outbox: Outbox = frozen([{ type: 'charge', payload: '{"amount":1}' }]);

const claim: Claim = frozen({
  pk: 'pk',
  tenant: 'tenant',
  operation: 'POST /payments',
  fingerprint: 'v1:stored',
  operationId: 'operation-1',
  owner: 'owner-1',
  effects: 'steps',
  now: START,
  leaseUntil: START + 30_000,
});

/* What moves a record, each at its own time so that no time can pass for another. */
const attempt: Attempt = frozen({
  owner: 'owner-2',
  effects: 'transactional',
  now: START + 100_000,
  leaseUntil: START + 130_000,
});
const outcome: Outcome = frozen({
  now: START + 200_000,
  response,
  outbox: [],
  expiresAt: START + 9_000_000,
  ttl: 1_900_000_000,
});
const undelivered: Outcome = frozen({ ...outcome, outbox });
const deferral: Deferral = frozen({ now: START + 300_000, response, outbox });
const failure: Failure = frozen({
  now: START + 400_000,
  errorCode: 'declined',
  expiresAt: START + 8_000_000,
  ttl: 1_910_000_000,
});
const doubt: Uncertainty = frozen({
  now: START + 500_000,
  errorCode: 'timed_out',
  due: { shard: 'due#5', at: START + 530_000 },
});
const reentry: Reentry = frozen({
  now: START + 600_000,
  owner: 'owner-6',
  due: { shard: 'due#6', at: START + 630_000 },
});
const due: Due = frozen({ shard: 'due#7', at: START + 730_000, parkedAt: START + 700_000 });

/* A record of each state with a past: whatever can be dropped, kept or leaked by a move is there. */
const done: DoneStep = frozen({ state: 'done', attempt: 1, at: START, result: '"ch_1"' });
const open: Step = frozen({ state: 'open', attempt: 3, at: START, id: 'try-1' });
const past = {
  pk: 'pk',
  tenant: 'tenant',
  operation: 'POST /payments',
  fingerprint: 'v1:stored',
  effects: 'steps',
  operationId: 'operation-1',
  owner: 'owner-3',
  attempt: 3,
  createdAt: START,
  lastRunAt: START + 1,
  dedupeSince: START + 2,
  takenOver: false,
  steps: new Map<string, Step>([
    ['charge', done],
    ['ship', open],
  ]),
  moves: [{ move: 'takeOver', at: START + 1, attempt: 2 }],
} as const;
const delivery: Delivery = frozen({ state: 'done', at: START + 5, reference: 'ch_1', response });
const leaseUntil = START + 40_000;
const watchedAt: Due = { shard: 'due#1', at: START + 60_000 };
const acceptance = { at: START + 3, response, outbox };
const ended = { completedAt: START + 4, expiresAt: START + 7_000_000 };

const inProgress: InProgress = frozen({ ...past, status: 'in_progress', leaseUntil, due: watchedAt });
const pending: Accepted = frozen({ ...past, status: 'accepted', accepted: acceptance, due: watchedAt });
const finished: CompletedDelivered = frozen({
  ...past,
  ...ended,
  status: 'completed',
  response,
  ttl: 1_920_000_000,
});
const announced: CompletedUndelivered = frozen({
  ...past,
  ...ended,
  status: 'completed',
  response,
  outbox,
  due: watchedAt,
});
const released: FailedRetryable = frozen({
  ...past,
  ...ended,
  status: 'failed_retryable',
  errorCode: 'threw',
  ttl: 1_920_000_000,
});
const doubtful: Unknown = frozen({
  ...past,
  status: 'unknown',
  errorCode: 'threw',
  leaseUntil,
  due: watchedAt,
});
const doubtfulAccepted: Unknown = frozen({ ...doubtful, accepted: acceptance });
const settledSteps: Unknown = frozen({ ...doubtful, steps: new Map([['charge', done]]) });

interface Change {
  readonly name: string;
  readonly from: LedgerRecord;
  readonly make: () => LedgerRecord;
  /** How the record remembers it, if a healthy request would not make it. */
  readonly remembered?: { readonly move: string; readonly at: number };
}

const reentries: readonly Change[] = [
  { name: 'retaken', from: released, make: () => retaken(released, attempt) },
  {
    name: 'taken over',
    from: inProgress,
    make: () => takenOver(inProgress, attempt),
    remembered: { move: 'takeOver', at: attempt.now },
  },
  {
    name: 'accepted again',
    from: doubtfulAccepted,
    make: () => reaccepted(doubtfulAccepted, reentry),
    remembered: { move: 'settle', at: reentry.now },
  },
  {
    name: 'resumed',
    from: doubtful,
    make: () => resumed(settledSteps, reentry, undefined),
    remembered: { move: 'settle', at: reentry.now },
  },
  {
    name: 'resumed, its effect recorded',
    from: doubtful,
    make: () => resumed(doubtful, reentry, { name: 'ship', step: done }),
    remembered: { move: 'settle', at: reentry.now },
  },
  {
    name: 'resumed, its effect cleared',
    from: doubtful,
    make: () => resumed(doubtful, reentry, { name: 'ship', step: undefined }),
    remembered: { move: 'settle', at: reentry.now },
  },
];

const sameAttempt: readonly Change[] = [
  { name: 'completed', from: inProgress, make: () => completed(inProgress, outcome, 'complete') },
  {
    name: 'completed, undelivered',
    from: inProgress,
    make: () => completed(inProgress, undelivered, 'complete'),
  },
  {
    name: 'completed late',
    from: doubtful,
    make: () => completed(doubtful, outcome, 'completeLate'),
    remembered: { move: 'completeLate', at: outcome.now },
  },
  {
    name: 'settled as completed',
    from: doubtfulAccepted,
    make: () => completed(doubtfulAccepted, outcome, 'settle'),
    remembered: { move: 'settle', at: outcome.now },
  },
  {
    name: 'accepted, then completed',
    from: pending,
    make: () => completed(pending, outcome, 'settleAccepted'),
  },
  { name: 'accepted', from: inProgress, make: () => accepted(inProgress, deferral) },
  { name: 'released', from: inProgress, make: () => failed(inProgress, failure, 'release') },
  {
    name: 'lapsed to failed_retryable',
    from: inProgress,
    make: () => failed(inProgress, failure, 'lapse'),
    remembered: { move: 'lapse', at: failure.now },
  },
  {
    name: 'settled as failed_retryable',
    from: doubtful,
    make: () => failed(doubtful, failure, 'settle'),
    remembered: { move: 'settle', at: failure.now },
  },
  {
    name: 'reopened',
    from: finished,
    make: () => failed(finished, failure, 'reopen'),
    remembered: { move: 'reopen', at: failure.now },
  },
  {
    name: 'erased',
    from: finished,
    make: () => erased(finished, { now: START + 700_000, headers: [] }),
    remembered: { move: 'erase', at: START + 700_000 },
  },
  {
    name: 'lapsed to unknown',
    from: inProgress,
    make: () => uncertain(inProgress, doubt, 'lapse'),
    remembered: { move: 'lapse', at: doubt.now },
  },
  {
    name: 'marked unknown',
    from: inProgress,
    make: () => uncertain(inProgress, doubt, 'markUnknown'),
    remembered: { move: 'markUnknown', at: doubt.now },
  },
  {
    name: 'accepted, then unknown',
    from: pending,
    make: () => uncertain(pending, doubt, 'settleAccepted'),
    remembered: { move: 'settleAccepted', at: doubt.now },
  },
  {
    name: 'handed back',
    from: inProgress,
    make: () => handedBack(inProgress, START + 800_000, due),
    remembered: { move: 'handBack', at: START + 800_000 },
  },
  { name: 'watched, in progress', from: inProgress, make: () => watched(inProgress, due) },
  { name: 'watched, accepted', from: pending, make: () => watched(pending, due) },
  { name: 'watched, undelivered', from: announced, make: () => watched(announced, due) },
  { name: 'watched, unknown', from: doubtful, make: () => watched(doubtful, due) },
  { name: 'with an open step', from: inProgress, make: () => withStep(inProgress, 'refund', open) },
  { name: 'with a done step', from: inProgress, make: () => withStep(inProgress, 'ship', done) },
  { name: 'noted, accepted', from: pending, make: () => withDelivery(pending, 0, delivery) },
  { name: 'noted, undelivered', from: announced, make: () => withDelivery(announced, 0, delivery) },
];

const changes = [...reentries, ...sameAttempt];
const named = (some: readonly Change[]) => some.map((change) => [change.name, change] as const);

/* The fields a record of each state has, and no others. `due` comes and goes with most of them. */
const COMMON = [
  ...['pk', 'tenant', 'operation', 'fingerprint', 'effects', 'operationId', 'owner', 'attempt', 'createdAt'],
  ...['lastRunAt', 'dedupeSince', 'takenOver', 'steps', 'moves', 'status'],
];
const FIELDS: Record<Status | 'undelivered' | 'unknown, accepted', readonly string[]> = {
  in_progress: ['leaseUntil'],
  accepted: ['accepted'],
  completed: ['response', 'completedAt', 'expiresAt', 'ttl'],
  undelivered: ['response', 'completedAt', 'expiresAt', 'outbox'],
  failed_retryable: ['errorCode', 'completedAt', 'expiresAt', 'ttl'],
  unknown: ['errorCode', 'leaseUntil'],
  'unknown, accepted': ['errorCode', 'leaseUntil', 'accepted'],
};

function stateOf(record: LedgerRecord): keyof typeof FIELDS {
  if (record.status === 'completed' && record.outbox) return 'undelivered';
  if (record.status === 'unknown' && record.accepted) return 'unknown, accepted';
  return record.status;
}

describe('every move', () => {
  it.each(named(changes))('%s: has exactly the fields of its state', (_, { make }) => {
    const to = make();
    const fields = Object.keys(to).filter((field) => field !== 'due' && field !== 'acceptedAt');
    expect(fields.toSorted()).toEqual([...COMMON, ...FIELDS[stateOf(to)]].toSorted());
  });

  it.each(named(changes))('%s: an open outcome never expires, a settled one always does', (_, { make }) => {
    const to = make();
    const settled = to.status === 'completed' || to.status === 'failed_retryable';
    expect('expiresAt' in to).toBe(settled);
    expect('ttl' in to).toBe(settled && stateOf(to) !== 'undelivered');
  });

  it.each(named(changes))(
    '%s: is still the same operation, first reserved when it was',
    (_, { from, make }) => {
      const to = make();
      const identity = ({ pk, tenant, operation, fingerprint, operationId, createdAt }: LedgerRecord) => ({
        ...{ pk, tenant, operation, fingerprint, operationId, createdAt },
      });
      expect(identity(to)).toEqual(identity(from));
      expect(identity(to)).toEqual({
        pk: 'pk',
        tenant: 'tenant',
        operation: 'POST /payments',
        fingerprint: 'v1:stored',
        operationId: 'operation-1',
        createdAt: START,
      });
    },
  );

  it.each(named(changes))('%s: remembers itself only if it is abnormal', (_, { from, make, remembered }) => {
    const to = make();
    const added = remembered ? [{ ...remembered, attempt: from.attempt }] : [];
    expect(to.moves).toEqual([...from.moves, ...added]);
  });

  it('keeps the newest 16 abnormal moves, in order', () => {
    expect(limits.movesKept).toBe(16);
    let record = frozen(reserved(claim));
    for (let at = 1; at <= 20; at += 1) record = frozen(takenOver(record, { ...attempt, now: at }));
    expect(record.moves.map(({ at }) => at)).toEqual([
      5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
    ]);
    expect(record.moves[0]).toEqual({ move: 'takeOver', at: 5, attempt: 5 });
    expect(record.attempt).toBe(21);
  });

  it('keeps the 16 it has when a normal one follows', () => {
    const moves = frozen(Array.from({ length: 16 }, (_, at) => ({ move: 'takeOver', at, attempt: at })));
    expect(completed({ ...inProgress, moves }, outcome, 'complete').moves).toEqual(moves);
    expect(completed({ ...doubtful, moves }, outcome, 'settle').moves).toHaveLength(16);
  });
});

describe('the fence', () => {
  it.each(named(reentries))('%s: has a new owner and the next attempt', (_, { from, make }) => {
    const to = make();
    expect(from).toMatchObject({ owner: 'owner-3', attempt: 3 });
    expect(to.attempt).toBe(4);
    expect(['owner-2', 'owner-6']).toContain(to.owner);
  });

  it.each(named(sameAttempt))('%s: has the owner and the attempt that it had', (_, { make }) => {
    const to = make();
    expect(to).toMatchObject({ owner: 'owner-3', attempt: 3 });
  });
});

describe('an erased result', () => {
  const headers = [['location', '/payments/1']] as const;
  const steps = new Map(finished.steps).set('ship', { ...done, result: '{"to":"Ada"}' });
  const to = erased(frozen({ ...finished, steps }), { now: START + 700_000, headers });

  it('still says that it happened, how it ended, and until when its key is taken', () => {
    const { response, moves: _, steps: __, ...rest } = to;
    expect(finished).toMatchObject(rest);
    expect(response.status).toBe(finished.response.status);
    expect([...to.steps.keys()]).toEqual([...steps.keys()]);
  });

  it('says nothing about what was in it, not even how long it was', () => {
    expect(to.response).toEqual({
      schemaVersion: 1,
      status: finished.response.status,
      headers,
      base64: false,
      encoding: 'identity',
      length: 0,
      crc: 0,
      body: { inline: new Uint8Array() },
      erasedAt: START + 700_000,
    });
    for (const step of to.steps.values()) if (step.state === 'done') expect(step.result).toBe('');
  });
});

describe('a first reserve', () => {
  it('starts from nothing but its claim', () => {
    expect(reserved(claim)).toEqual({
      pk: 'pk',
      tenant: 'tenant',
      operation: 'POST /payments',
      fingerprint: 'v1:stored',
      effects: 'steps',
      operationId: 'operation-1',
      owner: 'owner-1',
      attempt: 1,
      createdAt: START,
      lastRunAt: START,
      dedupeSince: START,
      takenOver: false,
      steps: new Map(),
      moves: [],
      status: 'in_progress',
      leaseUntil: START + 30_000,
    });
  });

  it('has no due time and no expiry', () => {
    const fields = Object.keys(reserved(claim));
    expect(fields.toSorted()).toEqual([...COMMON, ...FIELDS.in_progress].toSorted());
  });
});

describe('a new attempt', () => {
  it.each([
    ['retaken', released, () => retaken(released, attempt)],
    ['taken over', inProgress, () => takenOver(inProgress, attempt)],
  ] as const)('%s: runs now, under its own lease and declared effects', (_, from, make) => {
    const to = make();
    expect(to).toMatchObject({
      status: 'in_progress',
      owner: 'owner-2',
      effects: 'transactional',
      lastRunAt: attempt.now,
      leaseUntil: attempt.leaseUntil,
    });
    expect(to.steps).toEqual(from.steps);
  });

  it('counts the memory of providers from the first attempt that may have reached one', () => {
    expect(retaken(released, attempt).dedupeSince).toBe(attempt.now);
    expect(takenOver(inProgress, attempt).dedupeSince).toBe(inProgress.dedupeSince);
  });

  it('says that an attempt was lost if it took one over, and for ever after', () => {
    expect(inProgress.takenOver).toBe(false);
    expect(retaken(released, attempt).takenOver).toBe(false);
    const over = frozen(takenOver(inProgress, attempt));
    expect(over.takenOver).toBe(true);
    const after = [
      completed(over, outcome, 'complete'),
      accepted(over, deferral),
      failed(over, failure, 'lapse'),
      uncertain(over, doubt, 'lapse'),
      handedBack(over, START, due),
      retaken(frozen(failed(over, failure, 'lapse')), attempt),
    ];
    expect(after.map((record) => record.takenOver)).toEqual(after.map(() => true));
  });

  it('stays where the sweep looks if it took over, and only if it was there', () => {
    expect(takenOver(inProgress, attempt).due).toEqual(inProgress.due);
    expect(takenOver(frozen(reserved(claim)), attempt)).not.toHaveProperty('due');
    expect(retaken(released, attempt)).not.toHaveProperty('due');
  });
});

describe('an outcome', () => {
  it('is stored with its response, its time and its expiry', () => {
    expect(completed(inProgress, outcome, 'complete')).toMatchObject({
      status: 'completed',
      response,
      completedAt: outcome.now,
      expiresAt: outcome.expiresAt,
      ttl: outcome.ttl,
    });
  });

  it('with an event to deliver has an expiry, but nothing evicts it before the event is delivered', () => {
    const record = completed(inProgress, undelivered, 'complete');
    expect(record).toMatchObject({
      response,
      completedAt: outcome.now,
      expiresAt: outcome.expiresAt,
      outbox,
    });
    expect(record).not.toHaveProperty('ttl');
  });

  it('leaves the sweep nothing to look for', () => {
    for (const from of [inProgress, pending, doubtful, doubtfulAccepted]) {
      expect(completed(from, outcome, 'settle')).not.toHaveProperty('due');
      expect(completed(from, undelivered, 'settle')).not.toHaveProperty('due');
    }
    for (const from of [inProgress, doubtful, doubtfulAccepted]) {
      expect(failed(from, failure, 'settle')).not.toHaveProperty('due');
    }
  });

  it('that proves nothing ran is stored with its reason, its time and its expiry', () => {
    expect(failed(inProgress, failure, 'release')).toMatchObject({
      status: 'failed_retryable',
      errorCode: 'declined',
      completedAt: failure.now,
      expiresAt: failure.expiresAt,
      ttl: failure.ttl,
    });
  });

  it('keeps the recovery points and the effects of the attempt it is of', () => {
    for (const { from, make } of sameAttempt.filter(({ name }) => name !== 'erased')) {
      const to = make();
      expect(to.effects).toBe(from.effects);
      expect(to.lastRunAt).toBe(from.lastRunAt);
      expect(to.dedupeSince).toBe(from.dedupeSince);
      expect(to.steps.get('charge')).toEqual(done);
    }
  });
});

describe('an acceptance', () => {
  it('holds the 202, its time and what is to be delivered, and not yet where the sweep looks', () => {
    const record = accepted(inProgress, deferral);
    expect(record.accepted).toEqual({ at: deferral.now, response, outbox });
    expect(record.status).toBe('accepted');
    expect(record).not.toHaveProperty('due');
  });

  it('survives becoming unknown and being accepted again', () => {
    expect(uncertain(pending, doubt, 'settleAccepted').accepted).toEqual(pending.accepted);
    const again = reaccepted(doubtfulAccepted, reentry);
    expect(again).toMatchObject({ status: 'accepted', accepted: pending.accepted, due: reentry.due });
    expect(again.owner).toBe('owner-6');
  });

  it('cannot be made up for a record that never was accepted', () => {
    expect(() => reaccepted(doubtful, reentry)).toThrow(InvalidArgument);
    expect(() => reaccepted(doubtful, reentry)).toThrow('Record pk was never accepted');
  });
});

describe('doubt', () => {
  it('has a reason and a time to be looked at', () => {
    for (const from of [inProgress, pending]) {
      const record = uncertain(from, doubt, 'lapse');
      expect(record).toMatchObject({ status: 'unknown', errorCode: 'timed_out', due: doubt.due });
    }
  });

  it('settles from the end of the lease, or from now if there was none left', () => {
    expect(uncertain(inProgress, doubt, 'markUnknown').leaseUntil).toBe(inProgress.leaseUntil);
    expect(uncertain(pending, doubt, 'settleAccepted').leaseUntil).toBe(doubt.now);
  });
});

describe('a lease that is handed back', () => {
  it('ends now, in progress, where the sweep looks', () => {
    const { due: _, ...unwatched } = inProgress;
    const record = handedBack(unwatched, START + 800_000, due);
    expect(record).toMatchObject({ status: 'in_progress', leaseUntil: START + 800_000, due });
    expect(record.steps).toEqual(inProgress.steps);
    expect(record.takenOver).toBe(false);
  });

  it('keeps what was counted against it, and the longer pause', () => {
    const counted = { shard: 'due#3', at: START + 900_000, tries: 4, error: 'Down' };
    const from = { ...inProgress, due: counted };
    expect(handedBack(from, START, { shard: 'due#3', at: START + 30_000 }).due).toEqual(counted);
    const later = { shard: 'due#3', at: START + 950_000 };
    expect(handedBack(from, START, later).due).toEqual({ ...counted, at: later.at });
    const parked = { ...counted, parkedAt: START };
    expect(handedBack({ ...inProgress, due: parked }, START, later).due).toEqual(later);
  });
});

describe('a verdict on an open effect', () => {
  const verdict = (step: DoneStep | undefined) => resumed(doubtful, reentry, { name: 'ship', step });

  it('resumes the operation with a passed lease, so that anyone may take it over', () => {
    expect(verdict(done)).toMatchObject({
      status: 'in_progress',
      owner: 'owner-6',
      leaseUntil: reentry.now,
      takenOver: true,
      due: reentry.due,
      effects: 'steps',
      lastRunAt: doubtful.lastRunAt,
    });
  });

  it('saves that entry, or clears it, and leaves the others alone', () => {
    expect([...verdict(done).steps]).toEqual([
      ['charge', done],
      ['ship', done],
    ]);
    expect([...verdict(undefined).steps]).toEqual([['charge', done]]);
    expect(() => resumed(doubtful, reentry, undefined)).toThrow(/The step ship of record pk is open/);
    expect(() => resumed(doubtful, reentry, { name: 'charge', step: done })).toThrow(/step ship/);
  });

  it('is a fresh look at the provider: what it remembers counts from here', () => {
    expect(verdict(done).dedupeSince).toBe(reentry.now);
    expect(reaccepted(doubtfulAccepted, reentry).dedupeSince).toBe(reentry.now);
  });
});

describe('a watched record', () => {
  it('differs in its due time and in nothing else', () => {
    for (const from of [inProgress, pending, announced, doubtful]) {
      expect(watched(from, due)).toEqual({ ...from, due });
    }
  });
});

describe('a step', () => {
  it('is one entry among the others, and replaces only its own', () => {
    const added = withStep(inProgress, 'refund', open);
    expect(added).toEqual({ ...inProgress, steps: added.steps });
    expect([...added.steps]).toEqual([...inProgress.steps, ['refund', open]]);
    expect([...withStep(inProgress, 'ship', done).steps]).toEqual([
      ['charge', done],
      ['ship', done],
    ]);
  });

  it.each(['a', 'Charge', 'charge-2', 'charge_card.eu', `a${'b'.repeat(63)}`])('may be named %j', (name) => {
    expect(withStep(inProgress, name, open).steps.get(name)).toBe(open);
  });

  const unusable = ['', ' a', 'a b', '1a', '_a', '-a', '.a', '__proto__', 'é', 'aé', 'a#b', 'a/b', 'a\n'];
  it.each([...unusable, `a${'b'.repeat(64)}`])('cannot be named %j', (name) => {
    expect(() => withStep(inProgress, name, open)).toThrow(InvalidArgument);
    expect(() => withStep(inProgress, name, open)).toThrow(`cannot be named ${JSON.stringify(name)}`);
  });

  it('is one of 64 at the most; one that is there may always be finished', () => {
    const entries = Array.from({ length: limits.stepsMax - 1 }, (_, at) => [`s${at}`, done] as const);
    const almost: InProgress = frozen({ ...inProgress, steps: new Map<string, Step>(entries) });
    const full = frozen(withStep(almost, 'ship', open));
    expect(full.steps.size).toBe(64);
    expect(() => withStep(full, 'more', open)).toThrow('Record pk has 64 steps; at most 64 fit on it.');
    expect(withStep(full, 'ship', done).steps.get('ship')).toBe(done);
  });
});

describe('a delivery', () => {
  const events: Outbox = frozen([
    { type: 'charge', payload: '1' },
    { type: 'receipt', payload: '2', delivery },
    { type: 'ship', payload: '3', delivery: { state: 'claimed', id: 'me', until: START } },
  ]);
  const records = [
    frozen({ ...pending, accepted: { ...acceptance, outbox: events } }),
    frozen({ ...announced, outbox: events }),
  ] as const;
  const eventsOf = (record: Accepted | CompletedUndelivered) =>
    record.status === 'accepted' ? record.accepted.outbox : record.outbox;

  it.each(records)('is noted on its own event, and nothing else changes ($status)', (record) => {
    const noted = withDelivery(record, 0, delivery);
    expect(eventsOf(noted)).toEqual([{ ...events[0], delivery }, events[1], events[2]]);
    expect({ ...noted, accepted: 0, outbox: 0 }).toEqual({ ...record, accepted: 0, outbox: 0 });
  });

  it.each(records)('that did not happen leaves no trace ($status)', (record) => {
    const cleared = withDelivery(record, 2, undefined);
    expect(eventsOf(cleared)).toEqual([events[0], events[1], { type: 'ship', payload: '3' }]);
    expect(Object.keys(eventsOf(cleared)[2] ?? {})).toEqual(['type', 'payload']);
  });

  it.each([-1, 3, 0.5, Number.NaN])('of an event that is not there is refused: %d', (index) => {
    for (const record of records) {
      expect(() => withDelivery(record, index, delivery)).toThrow(
        new InvalidArgument(`Record pk has 3 events, and none with index ${index}.`),
      );
    }
  });

  it('is kept when the record is accepted again, and a claim is not', () => {
    const unknown = frozen({ ...doubtful, accepted: { ...acceptance, outbox: events } });
    expect(reaccepted(unknown, reentry).accepted.outbox).toEqual([
      events[0],
      events[1],
      { type: 'ship', payload: '3' },
    ]);
    const claimedFirst: Outbox = [{ ...events[0], delivery: { state: 'claimed', id: 'me', until: START } }];
    const again = reaccepted({ ...doubtful, accepted: { ...acceptance, outbox: claimedFirst } }, reentry);
    expect(again.accepted.outbox).toEqual([events[0]]);
  });
});

describe('a request that was kept', () => {
  const request: StoredRequest = frozen({ function: 'payments', event: { ...response } });
  const running: InProgress = frozen({ ...inProgress, request });
  const inDoubt: Unknown = frozen({ ...doubtful, request });
  const idle: Unknown = frozen({ ...settledSteps, request });

  const kept: [string, LedgerRecord][] = [
    ['reserved with it', reserved(claim, request)],
    ['retaken with it', retaken(released, attempt, request)],
    ['taken over', takenOver(running, attempt)],
    ['handed back', handedBack(running, START, due)],
    ['marked unknown', uncertain(running, doubt, 'markUnknown')],
    ['lapsed to unknown', uncertain(running, doubt, 'lapse')],
    ['resumed', resumed(idle, reentry, undefined)],
    ['watched', watched(running, due)],
    ['stepped on', withStep(running, 'refund', open)],
  ];
  it.each(kept)('stays while somebody may have to run it: %s', (_, record) => {
    expect(record).toHaveProperty('request', request);
  });

  const dropped: [string, LedgerRecord][] = [
    ['completed', completed(running, outcome, 'complete')],
    ['completed late', completed(inDoubt, outcome, 'completeLate')],
    ['accepted', accepted(running, deferral)],
    ['released', failed(running, failure, 'release')],
    ['settled as failed', failed(inDoubt, failure, 'settle')],
    ['reserved without', reserved(claim)],
    ['retaken without', retaken(released, attempt)],
    ['taken over without', takenOver(inProgress, attempt)],
  ];
  it.each(dropped)('goes with the last who could run it: %s', (_, record) => {
    expect(record).not.toHaveProperty('request');
  });
});

describe('expiry', () => {
  const kept = (policy: Partial<typeof defaultPolicy>, completedAt: number) =>
    expiryAfter({ ...defaultPolicy, ...policy }, completedAt);

  it('counts its retention from completion, 24 hours by default', () => {
    expect(kept({}, START).expiresAt).toBe(START + DAY_SECONDS * 1_000);
    expect(kept({ retentionSeconds: 2 * HOUR_SECONDS }, START + 1).expiresAt).toBe(START + 7_200_001);
  });

  it('lets DynamoDB drop the item an hour later, and not a moment before', () => {
    const { ttl } = kept({ retentionSeconds: HOUR_SECONDS }, START);
    expect(ttl).toBe(START / 1_000 + 2 * HOUR_SECONDS);
    for (const fraction of [1, 500, 999]) {
      const expiry = kept({ retentionSeconds: HOUR_SECONDS }, START + fraction);
      expect(expiry.ttl).toBe(START / 1_000 + 2 * HOUR_SECONDS + 1);
      expect(expiry.ttl * 1_000).toBeGreaterThanOrEqual(expiry.expiresAt + HOUR_SECONDS * 1_000);
    }
  });

  it('does not ask how long keys would be gone where they are not', () => {
    expect(kept({ goneSeconds: 90 * DAY_SECONDS }, START)).toEqual(kept({}, START));
  });

  it('keeps the tombstone of a key that is gone for as long as the policy says', () => {
    const gone = kept({ afterExpiry: 'gone' }, START);
    expect(gone.expiresAt).toBe(START + DAY_SECONDS * 1_000);
    expect(gone.ttl).toBe(START / 1_000 + 31 * DAY_SECONDS);
    expect(kept({ afterExpiry: 'gone', goneSeconds: 5_000 }, START).ttl).toBe(
      START / 1_000 + DAY_SECONDS + 5_000,
    );
  });

  it('never keeps a tombstone for less than the hour a delayed write may take', () => {
    const brief = kept({ afterExpiry: 'gone', goneSeconds: 1 }, START);
    expect(brief.ttl).toBe(START / 1_000 + DAY_SECONDS + HOUR_SECONDS);
  });
});
