import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { DynamoDBDocumentClient, GetCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, describe, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { Claim } from '../../lib/core/moves.ts';
import type {
  Accepted,
  CompletedUndelivered,
  Effects,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Undelivered,
  Unknown,
} from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { DeliveryNote, Ledger, SettleTo } from '../../lib/ledger/ledger.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import {
  acceptedBy,
  attemptAt,
  claimOf,
  completedBy,
  deferralAt,
  doubtAt,
  dueOf,
  execute,
  failedBy,
  failureAt,
  inProgress,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  SECOND,
  SKEW_MS,
  START,
  unknownAfterAccept,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { always, neverArrived, type WireCall, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';

const LATER = START + SECOND;
const EXPIRED = outcomeAt(LATER).expiresAt + SKEW_MS + 1;
const REFUSED = { status: 400, error: 'ConditionalCheckFailedException' };

const { tableName, client, newClient } = useTable();
const documents = DynamoDBDocumentClient.from(client);
const ledgerAt = (now: number) => dynamoDbLedger({ tableName, client, clock: () => now });
const ledger = ledgerAt(START);

const slow = newClient();
const slowWire = wireOf(slow);
afterAll(() => slow.destroy());

/** The whole item, as it is stored: nothing of it may change, known to the codec or not. */
async function stored(pk: string) {
  const { Item } = await documents.send(
    new GetCommand({ TableName: tableName, Key: { pk, sk: 'record' }, ConsistentRead: true }),
  );
  assert.ok(Item);
  return Item;
}

/** What a client sent that then died: its request is still on its way when the world has moved on. */
async function onItsWay(act: (slowLedger: Ledger<TransactWrite>) => Promise<unknown>): Promise<WireCall> {
  let now = START;
  slowWire.follow(always(neverArrived));
  const before = slowWire.sent.length;
  const slowLedger = dynamoDbLedger({
    tableName,
    client: slow,
    clock: () => now,
    sleep: async () => {
      now = Number.POSITIVE_INFINITY; // It gives up after the first try.
    },
  });
  await assert.rejects(act(slowLedger), StoreUnavailable);
  const [call, ...more] = slowWire.sent.slice(before);
  assert.ok(call && more.length === 0);
  return call;
}

async function takenOverBy(from: InProgress, now = LAPSED): Promise<InProgress> {
  const by = { ...attemptAt(now, from.effects), skewMs: SKEW_MS };
  return movedRecord<InProgress>(await ledgerAt(now).takeOver(from, by));
}

async function assertChangesNothing(call: WireCall, pk: string): Promise<void> {
  const before = await stored(pk);
  const { status, error } = await call.arrive();
  assert.deepEqual(await stored(pk), before);
  const refused = call.name === 'TransactWriteItems' ? 'TransactionCanceledException' : REFUSED.error;
  assert.deepEqual({ status, error }, { ...REFUSED, error: refused });
}

describe('a reserve that arrives again', () => {
  const reserveOnTheWire = async (claim: Claim): Promise<{ mine: InProgress; call: WireCall }> => {
    const call = await onItsWay((slowLedger) => slowLedger.reserve(claim, execute));
    assert.equal(call.name, 'PutItem');
    assert.deepEqual(await call.arrive(), { status: 200, error: undefined });
    const mine = await ledger.read(claim.pk);
    assert.ok(mine?.status === 'in_progress');
    return { mine, call };
  };

  const ends: Readonly<Record<string, (mine: InProgress) => Promise<LedgerRecord>>> = {
    'while the attempt runs': async (mine) => mine,
    'after completion': (mine) => completedBy(ledger, mine, outcomeAt(LATER)),
    'after a completion whose outbox is undelivered': (mine) =>
      completedBy(ledger, mine, { ...outcomeAt(LATER), outbox: deferralAt(LATER).outbox }),
    'after a failure': (mine) => failedBy(ledger, mine),
    'after the outcome became unknown': (mine) => unknownBy(ledger, mine),
    'after it was accepted': (mine) => acceptedBy(ledger, mine),
    'after a take-over': (mine) => takenOverBy(mine),
    'after a failure and a retake': async (mine) =>
      movedRecord(await ledger.retake(await failedBy(ledger, mine), attemptAt(LATER))),
  };
  for (const [when, end] of Object.entries(ends)) {
    it(`${when} changes nothing`, async () => {
      const { mine, call } = await reserveOnTheWire(claimOf());
      await end(mine);
      await assertChangesNothing(call, mine.pk);
    });
  }

  it('after the result expired changes nothing: its own time is in its condition', async () => {
    const { mine, call } = await reserveOnTheWire(claimOf());
    await completedBy(ledger, mine, outcomeAt(LATER));
    const next = claimOf({ pk: mine.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS });
    await assertChangesNothing(call, mine.pk);
    assert.equal((await ledgerAt(EXPIRED).reserve(next, execute)).kind, 'owned', 'the key was free by then');
    await assertChangesNothing(call, mine.pk);
  });

  it('and that reused an expired key changes nothing after its completion', async () => {
    const first = await inProgress(ledger);
    await completedBy(ledger, first, outcomeAt(LATER));
    const claim = claimOf({ pk: first.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS });
    const { mine, call } = await reserveOnTheWire(claim);
    await completedBy(ledgerAt(EXPIRED), mine, outcomeAt(EXPIRED + SECOND));
    await assertChangesNothing(call, mine.pk);
  });
});

type StaleMove = (slowLedger: Ledger<TransactWrite>, mine: InProgress) => Promise<unknown>;

const by = (now: number) => ({ ...attemptAt(now, 'steps'), skewMs: SKEW_MS });
const writes = (mine: InProgress): TransactWrite[] => [
  { Put: { TableName: tableName, Item: { pk: `domain-${mine.pk}`, sk: 'record' } } },
];

const staleMoves: Readonly<Record<string, StaleMove>> = {
  complete: (slowLedger, mine) => slowLedger.complete(mine, outcomeAt(LATER)),
  'complete with writes': (slowLedger, mine) => slowLedger.complete(mine, outcomeAt(LATER), writes(mine)),
  accept: (slowLedger, mine) => slowLedger.accept(mine, deferralAt(LATER)),
  release: (slowLedger, mine) => slowLedger.release(mine, failureAt(LATER)),
  markUnknown: (slowLedger, mine) => slowLedger.markUnknown(mine, doubtAt(mine.pk, LATER)),
  handBack: (slowLedger, mine) => slowLedger.handBack(mine, LATER, dueOf(mine.pk, LATER)),
  openStep: (slowLedger, mine) => slowLedger.openStep(mine, 'charge', LATER),
  saveStep: (slowLedger, mine) => slowLedger.saveStep(mine, 'charge', '"ch_1"', LATER),
  takeOver: (slowLedger, mine) => slowLedger.takeOver(mine, by(LAPSED)),
  lapse: (slowLedger, mine) =>
    slowLedger.lapse(mine, {
      to: 'unknown',
      doubt: { kind: 'effects_changed' },
      skewMs: SKEW_MS,
      ...doubtAt(mine.pk, LAPSED),
    }),
  watch: (slowLedger, mine) => slowLedger.watch(mine, dueOf(mine.pk, LATER)),
};

for (const [name, move] of Object.entries(staleMoves)) {
  describe(`a delayed ${name}`, () => {
    const delayed = async () => {
      const mine = await inProgress(ledger, { effects: 'steps' });
      return { mine, call: await onItsWay((slowLedger) => move(slowLedger, mine)) };
    };

    it('changes nothing once another attempt took over', async () => {
      const { mine, call } = await delayed();
      await takenOverBy(mine);
      await assertChangesNothing(call, mine.pk);
      assert.equal(await ledger.read(`domain-${mine.pk}`), undefined, 'nor does it write anything else');
    });

    it('changes nothing once its own attempt was called unknown', async () => {
      const { mine, call } = await delayed();
      await unknownBy(ledger, mine);
      await assertChangesNothing(call, mine.pk);
    });

    it('changes nothing once its own attempt was accepted', async () => {
      const { mine, call } = await delayed();
      await acceptedBy(ledger, mine);
      await assertChangesNothing(call, mine.pk);
    });

    it('changes nothing once the other attempt completed', async () => {
      const { mine, call } = await delayed();
      await completedBy(ledger, await takenOverBy(mine), outcomeAt(LAPSED));
      await assertChangesNothing(call, mine.pk);
    });

    it('changes nothing once the key expired and was reused', async () => {
      const { mine, call } = await delayed();
      await completedBy(ledger, mine, outcomeAt(LATER));
      const next = claimOf({
        pk: mine.pk,
        effects: 'steps',
        now: EXPIRED,
        leaseUntil: EXPIRED + LEASE_MS,
      });
      assert.equal((await ledgerAt(EXPIRED).reserve(next, execute)).kind, 'owned');
      await assertChangesNothing(call, mine.pk);
    });
  });
}

describe('a duplicate of a completion that was applied', () => {
  it('changes nothing while its result is replayed', async () => {
    const mine = await inProgress(ledger);
    const call = await onItsWay((slowLedger) => slowLedger.complete(mine, outcomeAt(LATER)));
    assert.equal((await call.arrive()).status, 200);
    assert.equal((await ledger.read(mine.pk))?.status, 'completed');
    await assertChangesNothing(call, mine.pk);
  });

  it('changes nothing once the key expired and was reused', async () => {
    const mine = await inProgress(ledger);
    const call = await onItsWay((slowLedger) => slowLedger.complete(mine, outcomeAt(LATER)));
    assert.equal((await call.arrive()).status, 200);
    const next = claimOf({ pk: mine.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS });
    const again = movedRecord<InProgress>(await ledgerAt(EXPIRED).reserve(next, execute));
    await assertChangesNothing(call, mine.pk);
    await completedBy(ledgerAt(EXPIRED), again, outcomeAt(EXPIRED + SECOND, '"second"'));
    await assertChangesNothing(call, mine.pk);
  });

  it('changes nothing after an operator reopened the record', async () => {
    const mine = await inProgress(ledger);
    const declined = outcomeAt(LATER, '"declined"', 402);
    const call = await onItsWay((slowLedger) => slowLedger.complete(mine, declined));
    assert.equal((await call.arrive()).status, 200);
    const done = await ledger.read(mine.pk);
    assert.ok(done?.status === 'completed' && done.ttl !== undefined);
    assert.equal((await ledger.reopen(done, failureAt(LATER))).kind, 'moved');
    await assertChangesNothing(call, mine.pk);
  });
});

describe('a delayed settlement', () => {
  const resolver = (pk: string) => ({ owner: randomUUID(), now: LATER, due: dueOf(pk, LATER) });
  const executed = { to: 'completed', ...outcomeAt(LATER) } as const;
  const notExecuted = { to: 'failed_retryable', ...failureAt(LATER) } as const;
  const backToWork = (pk: string) =>
    ({ to: 'in_progress', step: { name: 'charge', step: undefined }, ...resolver(pk) }) as const;

  const unknownAccepted = async (mine: InProgress) =>
    unknownAfterAccept(ledger, await acceptedBy(ledger, mine));
  const unknownIntent = async (mine: InProgress) =>
    unknownBy(ledger, movedRecord<InProgress>(await ledger.openStep(mine, 'charge', LATER)));
  const unknownAfterRetake = async (unknown: Unknown) => {
    const failed = movedRecord<FailedRetryable>(await ledger.settle(unknown, notExecuted));
    return unknownBy(
      ledger,
      movedRecord<InProgress>(await ledger.retake(failed, attemptAt(LATER, 'opaque'))),
    );
  };

  interface Row {
    readonly effects: Effects;
    /** The first time, and a second time with the next attempt of the same operation. */
    readonly doubt: (mine: InProgress) => Promise<Unknown>;
    readonly doubtAgain: (unknown: Unknown) => Promise<Unknown>;
    readonly verdict: (pk: string) => SettleTo;
  }

  /** Each verdict, with unknown records that it would fit: only what came between can refuse it. */
  const verdicts: Readonly<Record<string, Row>> = {
    'that it was executed': {
      effects: 'opaque',
      doubt: (mine) => unknownBy(ledger, mine),
      doubtAgain: unknownAfterRetake,
      verdict: () => executed,
    },
    'that it was not executed': {
      effects: 'opaque',
      doubt: (mine) => unknownBy(ledger, mine),
      doubtAgain: unknownAfterRetake,
      verdict: () => notExecuted,
    },
    'that it be accepted again': {
      effects: 'opaque',
      doubt: unknownAccepted,
      doubtAgain: async (unknown) => {
        const again = await ledger.settle(unknown, { to: 'accepted', ...resolver(unknown.pk) });
        return unknownAfterAccept(ledger, movedRecord<Accepted>(again));
      },
      verdict: (pk) => ({ to: 'accepted', ...resolver(pk) }),
    },
    'that it go back to work': {
      effects: 'steps',
      doubt: unknownIntent,
      doubtAgain: async (unknown) =>
        unknownIntent(movedRecord<InProgress>(await ledger.settle(unknown, backToWork(unknown.pk)))),
      verdict: backToWork,
    },
  };

  for (const [what, { effects, doubt, doubtAgain, verdict }] of Object.entries(verdicts)) {
    const delayed = async () => {
      const unknown = await doubt(await inProgress(ledger, { effects }));
      const call = await onItsWay((slowLedger) => slowLedger.settle(unknown, verdict(unknown.pk)));
      return { unknown, call };
    };
    /** A steps record is completed by its late owner, any other by a verdict. */
    const end = async (unknown: Unknown) => {
      const { outbox: _, ...outcome } = outcomeAt(LATER);
      const ended =
        effects === 'steps'
          ? await ledger.completeLate(unknown, outcome)
          : await ledger.settle(unknown, executed);
      assert.equal(ended.kind, 'moved');
    };

    it(`${what} changes nothing once the record is completed`, async () => {
      const { unknown, call } = await delayed();
      await end(unknown);
      await assertChangesNothing(call, unknown.pk);
    });

    it(`${what} changes nothing once the next attempt is unknown as well`, async () => {
      const { unknown, call } = await delayed();
      const again = await doubtAgain(unknown);
      assert.ok(again.attempt > unknown.attempt);
      await assertChangesNothing(call, unknown.pk);
    });

    it(`${what} changes nothing once the key was reused and is unknown as well`, async () => {
      const { unknown, call } = await delayed();
      await end(unknown);
      const next = { pk: unknown.pk, effects, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS };
      const again = await doubt(await inProgress(ledgerAt(EXPIRED), next));
      assert.equal(again.attempt, unknown.attempt, 'only the operation differs');
      await assertChangesNothing(call, unknown.pk);
    });
  }

  it('of an accepted record changes nothing once it was accepted again', async () => {
    const first = await acceptedBy(ledger, await inProgress(ledger));
    const call = await onItsWay((slowLedger) => slowLedger.settleAccepted(first, executed));
    const unknown = await unknownAfterAccept(ledger, first);
    const again = await ledger.settle(unknown, { to: 'accepted', ...resolver(first.pk) });
    assert.equal(again.kind, 'moved');
    await assertChangesNothing(call, first.pk);
  });
});

describe('a delayed delivery of an outbox', () => {
  const undelivered = { ...outcomeAt(LATER), outbox: deferralAt(LATER).outbox };
  const complete = async (by: Ledger<TransactWrite>, mine: InProgress) =>
    (await completedBy(by, mine, undelivered)) as CompletedUndelivered;

  it('changes nothing once the outbox is delivered', async () => {
    const done = await complete(ledger, await inProgress(ledger));
    const call = await onItsWay((slowLedger) => slowLedger.deliver(done, undelivered.ttl + 1));
    assert.equal((await ledger.deliver(done, undelivered.ttl)).kind, 'moved');
    await assertChangesNothing(call, done.pk);
  });

  it('changes nothing once the key was reused and has an outbox of its own', async () => {
    const done = await complete(ledger, await inProgress(ledger));
    const call = await onItsWay((slowLedger) => slowLedger.deliver(done, undelivered.ttl));
    assert.equal((await ledger.deliver(done, undelivered.ttl)).kind, 'moved');
    const later = ledgerAt(EXPIRED);
    const next = { pk: done.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS };
    await complete(later, await inProgress(later, next));
    await assertChangesNothing(call, done.pk);
  });
});

describe('a delayed note of a delivery', () => {
  const claim = { to: 'claimed', id: 'me', until: LATER } as const;
  const outbox = deferralAt(LATER).outbox;
  const undelivered = { ...outcomeAt(LATER), outbox };
  const accept = async (mine: InProgress): Promise<Undelivered> => acceptedBy(ledger, mine);
  const complete = async (mine: InProgress): Promise<Undelivered> =>
    (await completedBy(ledger, mine, undelivered)) as CompletedUndelivered;
  const claimed = async (record: Undelivered) =>
    movedRecord<Undelivered>(await ledger.noteDelivery(record, 0, claim));

  interface Row {
    readonly reach: (record: Undelivered) => Promise<Undelivered>;
    readonly note: DeliveryNote;
  }
  const notes: Readonly<Record<string, Row>> = {
    'a claim': { reach: async (record) => record, note: claim },
    'what was delivered': { reach: async (record) => record, note: { to: 'done', at: LATER } },
    'what was delivered under a claim': { reach: claimed, note: { to: 'refused', at: LATER, claim: 'me' } },
    'a claim that is given up': { reach: claimed, note: { to: 'none', claim: 'me' } },
  };

  for (const [what, { reach, note }] of Object.entries(notes)) {
    const delayed = async (make: (mine: InProgress) => Promise<Undelivered>) => {
      const record = await reach(await make(await inProgress(ledger)));
      return { record, call: await onItsWay((slow) => slow.noteDelivery(record, 0, note)) };
    };

    it(`of ${what} changes nothing once somebody else noted it`, async () => {
      for (const make of [accept, complete]) {
        const { record, call } = await delayed(make);
        const over = note.to === 'none' || ('claim' in note && note.claim) ? { claim: 'me' } : {};
        const done = await ledger.noteDelivery(record, 0, {
          to: 'done',
          at: LATER,
          reference: 'theirs',
          ...over,
        });
        assert.equal(done.kind, 'moved');
        await assertChangesNothing(call, record.pk);
      }
    });

    it(`of ${what} changes nothing once the outbox is delivered or the record settled`, async () => {
      const completed = await delayed(complete);
      await ledger.deliver(completed.record as CompletedUndelivered, undelivered.ttl);
      await assertChangesNothing(completed.call, completed.record.pk);
      const accepted = await delayed(accept);
      const executed = { to: 'completed', ...outcomeAt(LATER) } as const;
      await ledger.settleAccepted(accepted.record as Accepted, executed);
      await assertChangesNothing(accepted.call, accepted.record.pk);
    });

    it(`of ${what} changes nothing once the record is in doubt, or was accepted again`, async () => {
      const { record, call } = await delayed(accept);
      const unknown = await unknownAfterAccept(ledger, record as Accepted);
      await assertChangesNothing(call, record.pk);
      const reentry = { owner: randomUUID(), now: LATER, due: dueOf(record.pk, LATER) };
      const again = movedRecord<Accepted>(await ledger.settle(unknown, { to: 'accepted', ...reentry }));
      await assertChangesNothing(call, record.pk);
      await claimed(again);
      await assertChangesNothing(call, record.pk);
    });

    it(`of ${what} changes nothing once the key was reused and has an outbox of its own`, async () => {
      const { record, call } = await delayed(complete);
      await ledger.deliver(record as CompletedUndelivered, undelivered.ttl);
      const later = ledgerAt(EXPIRED);
      const next = { pk: record.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS };
      const own = (await completedBy(
        later,
        await inProgress(later, next),
        undelivered,
      )) as CompletedUndelivered;
      await reach(own);
      await assertChangesNothing(call, record.pk);
    });
  }

  it('of doubt about a claim changes nothing once the claim is given up or the delivery done', async () => {
    for (const note of [
      { to: 'none', claim: 'me' },
      { to: 'done', at: LATER, claim: 'me' },
    ] as const) {
      const record = (await claimed(await accept(await inProgress(ledger)))) as Accepted;
      const about = { event: { index: 0, id: 'me' }, ...doubtAt(record.pk, LATER) };
      const call = await onItsWay((slow) => slow.settleAccepted(record, { to: 'unknown', ...about }));
      assert.equal((await ledger.noteDelivery(record, 0, note)).kind, 'moved');
      await assertChangesNothing(call, record.pk);
    }
  });
});

describe('a move by someone who is wrong about the state', () => {
  /** What they take it for, with the true fence: so that only the state's own clause can refuse it. */
  const failedLook = { status: 'failed_retryable', errorCode: 'none', completedAt: START } as const;
  const unknownLook = { status: 'unknown', errorCode: 'none', leaseUntil: START } as const;

  it('does not retake an attempt that is running', async () => {
    const mine = await inProgress(ledger);
    const taken = await ledger.retake({ ...mine, ...failedLook, expiresAt: 0, ttl: 0 }, attemptAt(LATER));
    assert.deepEqual(taken, { kind: 'held', record: mine });
    assert.deepEqual(await ledger.read(mine.pk), mine);
  });

  it('does not call delivered what is only accepted', async () => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const { response, outbox } = accepted.accepted;
    const look = { status: 'completed', response, outbox, completedAt: START, expiresAt: EXPIRED } as const;
    const delivered = await ledger.deliver({ ...accepted, ...look }, outcomeAt(LATER).ttl);
    assert.deepEqual(delivered, { kind: 'fenced', record: accepted });
    assert.deepEqual(await ledger.read(accepted.pk), accepted);
  });

  it('does not accept again what is accepted', async () => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const reentry = { owner: randomUUID(), now: LATER, due: dueOf(accepted.pk, LATER) };
    const settled = await ledger.settle(
      { ...accepted, ...unknownLook, due: reentry.due },
      { to: 'accepted', ...reentry },
    );
    assert.deepEqual(settled, { kind: 'fenced', record: accepted });
    assert.deepEqual(await ledger.read(accepted.pk), accepted);
  });
});

describe('a sweep that acts on an old read of the index', () => {
  it('does not undo a parking, even one that is due at the same time', async () => {
    const unknown = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const parked = { shard: 'parked#0', at: unknown.due.at, parkedAt: LATER };
    const waiting = movedRecord<Unknown>(await ledger.watch(unknown, parked));
    const slower = await ledger.watch(unknown, dueOf(unknown.pk, LATER));
    assert.deepEqual(slower, { kind: 'fenced', record: waiting });
  });

  it('leaves a verdict to say when the record is due next', async () => {
    const unknown = await unknownAfterAccept(ledger, await acceptedBy(ledger, await inProgress(ledger)));
    await ledger.watch(unknown, { shard: 'parked#0', at: LATER, parkedAt: LATER });
    const verdict = { to: 'accepted', owner: randomUUID(), now: LATER, due: unknown.due } as const;
    const again = movedRecord<Accepted>(await ledger.settle(unknown, verdict));
    assert.deepEqual(again.due, unknown.due);
    assert.deepEqual(await ledger.read(unknown.pk), again);
  });
});
