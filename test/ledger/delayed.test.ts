import assert from 'node:assert/strict';
import { DynamoDBDocumentClient, GetCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, describe, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { Claim } from '../../lib/core/moves.ts';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
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
  it('changes nothing once the key was failed, taken again and is unknown again', async () => {
    const first = await unknownBy(ledger, await inProgress(ledger, { effects: 'opaque' }));
    const executed = { to: 'completed', ...outcomeAt(LATER) } as const;
    const call = await onItsWay((slowLedger) => slowLedger.settle(first, executed));
    const failed = movedRecord<Awaited<ReturnType<typeof failedBy>>>(
      await ledger.settle(first, { to: 'failed_retryable', ...failureAt(LATER) }),
    );
    const again = movedRecord<InProgress>(await ledger.retake(failed, attemptAt(LATER, 'opaque')));
    await unknownBy(ledger, again);
    await assertChangesNothing(call, first.pk);
  });

  it('of an accepted record changes nothing once it was accepted again', async () => {
    const first = await acceptedBy(ledger, await inProgress(ledger));
    const final = { to: 'completed', ...outcomeAt(LATER) } as const;
    const call = await onItsWay((slowLedger) => slowLedger.settleAccepted(first, final));
    const unknown = movedRecord<Awaited<ReturnType<typeof unknownBy>>>(
      await ledger.settleAccepted(first, { to: 'unknown', ...doubtAt(first.pk, LATER) }),
    );
    const reentry = { owner: 'the dispatcher', now: LATER, due: dueOf(first.pk, LATER) };
    assert.equal((await ledger.settle(unknown, { to: 'accepted', ...reentry })).kind, 'moved');
    await assertChangesNothing(call, first.pk);
  });
});
