import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { type AttributeValue, GetItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { describe, it } from 'vitest';
import { limits } from '../../lib/core/limits.ts';
import { schedule } from '../../lib/core/policy.ts';
import type {
  Accepted,
  CompletedDelivered,
  CompletedUndelivered,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Unknown,
} from '../../lib/core/record.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
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
  gone,
  inProgress,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  replyOf,
  SECOND,
  SKEW_MS,
  START,
  unknownAfterAccept,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { seededRandom } from '../support/random.ts';
import { useTable } from '../support/table.ts';

const LATER = START + SECOND;
const HOUR_SECONDS = 3_600;
const DAY_SECONDS = 24 * HOUR_SECONDS;

const { tableName, client } = useTable();
const ledgerAt = (now: number) => dynamoDbLedger({ tableName, client, clock: () => now });
const ledger = ledgerAt(START);
const late = ledgerAt(LAPSED);

type RawItem = Record<string, AttributeValue>;

async function rawRecord(pk: string): Promise<RawItem> {
  const Key = { pk: { S: pk }, sk: { S: 'record' } };
  const { Item } = await client.send(new GetItemCommand({ TableName: tableName, Key, ConsistentRead: true }));
  assert.ok(Item);
  return Item;
}

async function rawChunks(pk: string, owner?: string): Promise<RawItem[]> {
  const { Items } = await client.send(
    new QueryCommand({
      TableName: tableName,
      KeyConditionExpression: 'pk = :pk AND begins_with(sk, :prefix)',
      ExpressionAttributeValues: { ':pk': { S: pk }, ':prefix': { S: `body#${owner ?? ''}` } },
    }),
  );
  return Items ?? [];
}

const seconds = (item: RawItem | undefined) => Number(item?.['ttl']?.N);

const claim = { to: 'claimed', id: 'me', until: LATER } as const;
const delivered = { to: 'done', at: LATER, reference: 'ch_1' } as const;
const outbox = deferralAt(LATER).outbox;
const undelivered = { ...outcomeAt(LATER), outbox };
const executed = { to: 'completed', ...outcomeAt(LATER) } as const;
const reentry = (pk: string) => ({ owner: randomUUID(), now: LATER, due: dueOf(pk, LATER) });
const by = (now: number, effects?: InProgress['effects']) => ({
  ...attemptAt(now, effects),
  skewMs: SKEW_MS,
});

const opaque = () => inProgress(ledger, { effects: 'opaque' });
const steps = () => inProgress(ledger, { effects: 'steps' });
const unknownAccepted = async () =>
  unknownAfterAccept(ledger, await acceptedBy(ledger, await inProgress(ledger)));
const backToWork = async () => {
  const intent = movedRecord<InProgress>(await ledger.openStep(await steps(), 'charge', LATER));
  const unknown = await unknownBy(ledger, intent);
  const step = { name: 'charge', step: undefined };
  return movedRecord<InProgress>(
    await ledger.settle(unknown, { to: 'in_progress', step, ...reentry(unknown.pk) }),
  );
};
const acceptedAgain = async () => {
  const unknown = await unknownAccepted();
  return movedRecord<Accepted>(await ledger.settle(unknown, { to: 'accepted', ...reentry(unknown.pk) }));
};
const retaken = async () =>
  movedRecord<InProgress>(
    await ledger.retake(await failedBy(ledger, await inProgress(ledger)), attemptAt(LATER)),
  );
const lapsedToFailed = async () =>
  movedRecord<FailedRetryable>(
    await late.lapse(await inProgress(ledger), {
      to: 'failed_retryable',
      skewMs: SKEW_MS,
      ...failureAt(LAPSED),
    }),
  );
const reopened = async (status = 402) => {
  const done = await completedBy(ledger, await inProgress(ledger), outcomeAt(LATER, '"declined"', status));
  return movedRecord<FailedRetryable>(await ledger.reopen(done as CompletedDelivered, failureAt(LATER)));
};

/** Every way into a state whose outcome is open. */
const open: Readonly<Record<string, () => Promise<LedgerRecord>>> = {
  'a reservation': () => inProgress(ledger),
  'a reservation of an expired key': async () => {
    const done = await completedBy(ledger, await inProgress(ledger));
    const now = done.expiresAt + SKEW_MS + 1;
    const claim = claimOf({ pk: done.pk, now, leaseUntil: now + LEASE_MS });
    return movedRecord(await ledgerAt(now).reserve(claim, execute));
  },
  'a retake of a failed record': retaken,
  'a retake of what the sweep called failed': async () =>
    movedRecord(await late.retake(await lapsedToFailed(), attemptAt(LAPSED))),
  'a retake of what an operator reopened': async () =>
    movedRecord(await ledger.retake(await reopened(), attemptAt(LATER))),
  'a take-over': async () => movedRecord(await late.takeOver(await inProgress(ledger), by(LAPSED))),
  'a watched reservation': async () => {
    const mine = await inProgress(ledger);
    return movedRecord(await ledger.watch(mine, dueOf(mine.pk, LATER)));
  },
  'an intent': async () => movedRecord(await ledger.openStep(await steps(), 'charge', LATER)),
  'a saved step': async () => movedRecord(await ledger.saveStep(await steps(), 'charge', '1', LATER)),
  'a lease that was handed back': async () => {
    const mine = await steps();
    return movedRecord(await ledger.handBack(mine, LATER, dueOf(mine.pk, LATER)));
  },
  'a lease that was handed back after a retake': async () => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const mine = movedRecord<InProgress>(await ledger.retake(failed, attemptAt(LATER, 'steps')));
    return movedRecord(await ledger.handBack(mine, LATER, dueOf(mine.pk, LATER)));
  },
  'a verdict that sent it back to work': backToWork,
  'an acceptance': async () => acceptedBy(ledger, await inProgress(ledger)),
  'an acceptance after a retake': async () => acceptedBy(ledger, await retaken()),
  'a verdict that it be accepted again': acceptedAgain,
  'a doubt of the owner': async () => unknownBy(ledger, await opaque()),
  'a doubt of the owner after a retake': async () => unknownBy(ledger, await retaken()),
  'a doubt of the sweep': async () => {
    const mine = await opaque();
    const doubt = { doubt: { kind: 'opaque' }, ...doubtAt(mine.pk, LAPSED) } as const;
    return movedRecord(await late.lapse(mine, { to: 'unknown', skewMs: SKEW_MS, ...doubt }));
  },
  'a doubt of the dispatcher': unknownAccepted,
  'a claimed delivery of what was accepted': async () =>
    movedRecord(await ledger.noteDelivery(await acceptedBy(ledger, await inProgress(ledger)), 0, claim)),
  'a delivery of what was accepted, before the rest is': async () =>
    movedRecord(await ledger.noteDelivery(await acceptedBy(ledger, await inProgress(ledger)), 0, delivered)),
  'a doubt about a claimed delivery': async () => {
    const accepted = await acceptedBy(ledger, await inProgress(ledger));
    const claimed = movedRecord<Accepted>(await ledger.noteDelivery(accepted, 0, claim));
    const about = { event: { index: 0, id: claim.id }, ...doubtAt(accepted.pk, LATER) };
    return movedRecord(await ledger.settleAccepted(claimed, { to: 'unknown', ...about }));
  },
  'a reservation with its request': async () => {
    const request = { function: 'payments', event: new Uint8Array([1]) };
    return movedRecord(await ledger.reserve({ ...claimOf(), request }, execute));
  },
  'a parked doubt': async () => {
    const unknown = await unknownBy(ledger, await opaque());
    return movedRecord(await ledger.watch(unknown, { shard: 'parked#0', at: LATER, parkedAt: LATER }));
  },
  'a completion whose outbox is undelivered': async () =>
    completedBy(ledger, await inProgress(ledger), undelivered),
  'the same after a retake': async () => completedBy(ledger, await retaken(), undelivered),
  'the same, with a delivery that is claimed or done': async () => {
    const done = (await completedBy(ledger, await inProgress(ledger), undelivered)) as CompletedUndelivered;
    const claimed = movedRecord<CompletedUndelivered>(await ledger.noteDelivery(done, 0, claim));
    return movedRecord(await ledger.noteDelivery(claimed, 0, { ...delivered, claim: claim.id }));
  },
  'the same, watched by the sweep': async () => {
    const done = await completedBy(ledger, await inProgress(ledger), undelivered);
    if (!done.outbox) throw new Error('expected an undelivered outbox');
    return movedRecord(await ledger.watch(done, dueOf(done.pk, LATER)));
  },
};

/** Every way into a state that ends by itself, with the time its end is counted from. */
const terminal: Readonly<Record<string, readonly [at: number, () => Promise<LedgerRecord>]>> = {
  'a completion': [LATER, async () => completedBy(ledger, await inProgress(ledger), outcomeAt(LATER))],
  'a completion after a retake': [LATER, async () => completedBy(ledger, await retaken(), outcomeAt(LATER))],
  'a completion after a hand-back': [
    LATER,
    async () => {
      const back = await backToWork();
      const taken = await late.takeOver(back, by(LAPSED, 'steps'));
      return completedBy(ledger, movedRecord<InProgress>(taken), outcomeAt(LATER));
    },
  ],
  'a late completion': [
    LATER,
    async () => {
      const { outbox: _, ...outcome } = outcomeAt(LATER);
      return movedRecord(await ledger.completeLate(await unknownBy(ledger, await opaque()), outcome));
    },
  ],
  'a verdict that it was executed': [
    LATER,
    async () => movedRecord(await ledger.settle(await unknownBy(ledger, await opaque()), executed)),
  ],
  'the same of what was accepted': [
    LATER,
    async () => movedRecord(await ledger.settle(await unknownAccepted(), executed)),
  ],
  'the same of steps that were accepted': [
    LATER,
    async () => {
      const unknown = await unknownAfterAccept(ledger, await acceptedBy(ledger, await steps()));
      return movedRecord(await ledger.settle(unknown, executed));
    },
  ],
  'a delivery': [
    LATER,
    async () =>
      movedRecord(await ledger.settleAccepted(await acceptedBy(ledger, await inProgress(ledger)), executed)),
  ],
  'a delivery at the second attempt': [
    LATER,
    async () => movedRecord(await ledger.settleAccepted(await acceptedAgain(), executed)),
  ],
  'the delivery of an outbox': [
    LATER,
    async () => {
      const done = await completedBy(ledger, await inProgress(ledger), undelivered);
      return movedRecord(await ledger.deliver(done as CompletedUndelivered, undelivered.ttl));
    },
  ],
  'a release': [START, async () => failedBy(ledger, await inProgress(ledger))],
  'a lapse of a transactional attempt': [LAPSED, lapsedToFailed],
  'a verdict that it was not executed': [
    LATER,
    async () => {
      const unknown: Unknown = await unknownBy(ledger, await opaque());
      return movedRecord(await ledger.settle(unknown, { to: 'failed_retryable', ...failureAt(LATER) }));
    },
  ],
  'a reopening': [LATER, () => reopened()],
  'a reopening of what was answered below 200': [LATER, () => reopened(199)],
};

describe('the evidence of an open outcome is never evicted', () => {
  for (const [how, reach] of Object.entries(open)) {
    it(`${how} has no TTL`, async () => {
      const { pk, status } = await reach();
      const item = await rawRecord(pk);
      assert.equal(item['status']?.S, status);
      assert.equal('ttl' in item, false);
      assert.equal('expiresAt' in item, status === 'completed');
    });
  }
});

describe('what is finished goes by itself', () => {
  for (const [how, [at, reach]] of Object.entries(terminal)) {
    it(`${how} has a TTL in seconds, an hour past its expiry`, async () => {
      const { pk } = await reach();
      const item = await rawRecord(pk);
      const expiresAt = at + DAY_SECONDS * SECOND;
      assert.deepEqual(item['expiresAt'], { N: String(expiresAt) });
      assert.deepEqual(item['ttl'], { N: String(Math.ceil(expiresAt / SECOND) + HOUR_SECONDS) });
      assert.equal('leaseUntil' in item || 'dueShard' in item || 'dueAt' in item || 'outbox' in item, false);
    });
  }
});

describe('chunks of a body', () => {
  const random = seededRandom(3);
  const body = Uint8Array.from({ length: limits.chunkMaxBytes + 1 }, () => random() * 256);
  const reply = { ...replyOf(''), body };
  const large = { ...outcomeAt(LATER), reply };

  it('outlive their record by a week', async () => {
    const { pk, ttl } = await completedBy(ledger, await inProgress(ledger), large);
    const chunks = await rawChunks(pk);
    assert.equal(chunks.length, 2);
    for (const chunk of chunks) assert.equal(seconds(chunk), Number(ttl) + 7 * DAY_SECONDS);
  });

  it('outlive it as well if a late owner, a resolver or a dispatcher wrote them', async () => {
    const { outbox: _, ...outcome } = large;
    const ends = [
      await ledger.completeLate(await unknownBy(ledger, await opaque()), outcome),
      await ledger.settle(await unknownBy(ledger, await opaque()), { ...executed, reply }),
      await ledger.settleAccepted(await acceptedBy(ledger, await inProgress(ledger)), { ...executed, reply }),
    ];
    for (const end of ends) {
      const { pk, ttl } = movedRecord<CompletedDelivered>(end);
      for (const chunk of await rawChunks(pk)) assert.equal(seconds(chunk), ttl + 7 * DAY_SECONDS);
      assert.equal((await rawChunks(pk)).length, 2);
    }
  });

  it('stay for over a year where the record has no end yet', async () => {
    const accepted = await ledger.accept(await inProgress(ledger), { ...deferralAt(LATER), reply });
    const done = await ledger.complete(await inProgress(ledger), { ...large, outbox });
    const pending = await acceptedBy(ledger, await inProgress(ledger));
    const noted = await ledger.noteDelivery(pending, 0, { ...delivered, reply });
    const text = JSON.stringify(Buffer.from(body.subarray(0, 300_000)).toString('hex'));
    const step = await ledger.saveStep(await steps(), 'charge', text.slice(0, 590_000), LATER);
    for (const result of [accepted, done, noted, step]) {
      const { pk } = movedRecord<LedgerRecord>(result);
      const chunks = await rawChunks(pk);
      assert.ok(chunks.length > 0);
      for (const chunk of chunks) {
        assert.ok(seconds(chunk) >= START / SECOND + schedule.openEndedSeconds);
      }
    }
  });

  it('that nobody points at go as well, and not before the record', async () => {
    const mine = await inProgress(ledger);
    const taken = movedRecord<InProgress>(await late.takeOver(mine, by(LAPSED)));
    assert.equal((await ledger.complete(mine, large)).kind, 'fenced');
    const done = await completedBy(late, taken, { ...large, ...outcomeAt(LAPSED), reply });
    const orphans = await rawChunks(mine.pk, mine.owner);
    assert.equal(orphans.length, 2);
    for (const orphan of orphans) assert.ok(seconds(orphan) > Number(done.ttl));
    assert.equal((await rawChunks(mine.pk)).length, 4, 'the two attempts share none');
    const replayed = await late.reply(done.pk, done.response);
    assert.equal(Buffer.compare(replayed.body, body), 0);
  });

  it('of an expired operation do not mix with those of the next', async () => {
    const first = await completedBy(ledger, await inProgress(ledger), large);
    const now = first.expiresAt + SKEW_MS + 1;
    const again = ledgerAt(now);
    const claim = claimOf({ pk: first.pk, now, leaseUntil: now + LEASE_MS });
    const mine = movedRecord<InProgress>(await again.reserve(claim, execute));
    const other = { ...replyOf(''), body: Uint8Array.from(body).reverse() };
    const second = await completedBy(again, mine, { ...outcomeAt(now), reply: other });
    const replayed = await again.reply(second.pk, second.response);
    assert.equal(Buffer.compare(replayed.body, other.body), 0);
  });
});

describe('an item that expired and was not deleted', () => {
  const finished = {
    completed: () => inProgress(ledger).then((mine) => completedBy(ledger, mine)),
    failed_retryable: () => inProgress(ledger).then((mine) => failedBy(ledger, mine)),
  };
  for (const [status, finish] of Object.entries(finished)) {
    it(`and is ${status} counts until its expiry and the skew have passed, then no more`, async () => {
      const old = await finish();
      const last = old.expiresAt + SKEW_MS;
      const reserveAt = (now: number) =>
        ledgerAt(now).reserve(claimOf({ pk: old.pk, now, leaseUntil: now + LEASE_MS }), execute);
      assert.deepEqual(await reserveAt(last), { kind: 'held', record: old });
      const next = await reserveAt(last + 1);
      assert.equal(next.kind, 'owned');
      assert.notEqual(next.record.operationId, old.operationId);
      const item = await rawRecord(old.pk);
      const leftovers = ['ttl', 'expiresAt', 'completedAt', 'response', 'lastErrorCode'];
      assert.deepEqual(
        leftovers.filter((name) => name in item),
        [],
        'nothing of the old record is left',
      );
    });
  }

  it('counts until its TTL has passed as well, where the policy says gone', async () => {
    const done = await completedBy(ledger, await inProgress(ledger));
    const last = Number(done.ttl) * SECOND + SKEW_MS;
    const reserveAt = (now: number) =>
      ledgerAt(now).reserve(claimOf({ pk: done.pk, now, leaseUntil: now + LEASE_MS }), gone);
    assert.deepEqual(await reserveAt(last), { kind: 'held', record: done });
    assert.equal((await reserveAt(last + 1)).kind, 'owned');
  });
});
