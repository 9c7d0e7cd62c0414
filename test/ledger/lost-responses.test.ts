import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { DynamoDBDocumentClient, GetCommand } from '@aws-sdk/lib-dynamodb';
import { afterAll, describe, it } from 'vitest';
import { limits } from '../../lib/core/limits.ts';
import type {
  Accepted,
  CompletedDelivered,
  CompletedUndelivered,
  InProgress,
  LedgerRecord,
  Undelivered,
} from '../../lib/core/record.ts';
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
  movedRecord,
  noise,
  outcomeAt,
  replyOf,
  SECOND,
  SKEW_MS,
  START,
  unknownAfterAccept,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { atRandom, everySecond, firstTries, type Plan, responseLost, wireOf } from '../support/faults.ts';
import { seededRandom } from '../support/random.ts';
import { useTable } from '../support/table.ts';

const modes: Readonly<Record<string, () => Plan>> = {
  'the first response of every call': () => firstTries(responseLost),
  'every second response': () => everySecond(responseLost),
  'responses at random': () => atRandom(0.4, seededRandom(20_300_115), responseLost),
};

const LATER = START + SECOND;
const KEYS = 250;
/** One key in so many is asked for by several at the same time. */
const CROWDED_EVERY = 4;
const CROWD = 4;
const KEYS_AT_ONCE = 8;
const KEYS_PER_MOVE = 4;

const { tableName, client, newClient } = useTable();
const documents = DynamoDBDocumentClient.from(client);
const sound = dynamoDbLedger({ tableName, client, clock: () => START });

const lossyClients: ReturnType<typeof newClient>[] = [];
afterAll(() => {
  for (const lossy of lossyClients) lossy.destroy();
});

/** Time stands still unless told otherwise, so that a call is tried until it is answered. */
function lossyLedger(plan: Plan, now = START): { ledger: Ledger<TransactWrite>; lost: () => number } {
  const lossy = newClient();
  lossyClients.push(lossy);
  let lost = 0;
  wireOf(lossy, (call) => {
    const fault = plan(call);
    if (fault) lost += 1;
    return fault;
  });
  const ledger = dynamoDbLedger({ tableName, client: lossy, clock: () => now, sleep: async () => {} });
  return { ledger, lost: () => lost };
}

/** A row that must be new and a counter that must be one: what a second commit would spoil. */
function domainWrites() {
  const pk = `domain-${randomUUID()}`;
  const writes: TransactWrite[] = [
    {
      Put: {
        TableName: tableName,
        Item: { pk, sk: 'payment', paid: true },
        ConditionExpression: 'attribute_not_exists(pk)',
      },
    },
    {
      Update: {
        TableName: tableName,
        Key: { pk, sk: 'counter' },
        UpdateExpression: 'ADD payments :one',
        ExpressionAttributeValues: { ':one': 1 },
      },
    },
  ];
  const get = async (sk: string) =>
    (await documents.send(new GetCommand({ TableName: tableName, Key: { pk, sk }, ConsistentRead: true })))
      .Item;
  return {
    writes,
    committed: async () => ({
      paid: (await get('payment'))?.['paid'],
      payments: (await get('counter'))?.['payments'],
    }),
  };
}

const once = { paid: true, payments: 1 };

const claim = { to: 'claimed', id: 'me', until: LATER } as const;
const longResult = JSON.stringify(Buffer.from(noise(3_000)).toString('base64'));

async function undeliveredBy(ledger: Ledger<TransactWrite>): Promise<CompletedUndelivered> {
  const outcome = { ...outcomeAt(START), outbox: deferralAt(START).outbox };
  return (await completedBy(ledger, await inProgress(ledger), outcome)) as CompletedUndelivered;
}

type LossyMove = (
  lossy: Ledger<TransactWrite>,
) => Promise<{ readonly kind: string; readonly record?: LedgerRecord | undefined }>;

/** Found done as it would have done it, each was done by an earlier try of the same call. */
const moves: Readonly<Record<string, LossyMove>> = {
  complete: async (lossy) => lossy.complete(await inProgress(sound), outcomeAt(LATER)),
  release: async (lossy) => lossy.release(await inProgress(sound), failureAt(LATER)),
  markUnknown: async (lossy) => {
    const mine = await inProgress(sound, { effects: 'opaque' });
    return lossy.markUnknown(mine, doubtAt(mine.pk, LATER));
  },
  accept: async (lossy) => lossy.accept(await inProgress(sound), deferralAt(LATER)),
  completeLate: async (lossy) => {
    const { outbox: _, ...outcome } = outcomeAt(LATER);
    return lossy.completeLate(await unknownBy(sound, await inProgress(sound)), outcome);
  },
  handBack: async (lossy) => {
    const mine = await inProgress(sound, { effects: 'steps' });
    return lossy.handBack(mine, LATER, dueOf(mine.pk, LATER));
  },
  openStep: async (lossy) => lossy.openStep(await inProgress(sound, { effects: 'steps' }), 'charge', LATER),
  saveStep: async (lossy) => {
    const mine = await inProgress(sound, { effects: 'steps' });
    const open = movedRecord<InProgress>(await sound.openStep(mine, 'charge', LATER));
    return lossy.saveStep(open, 'charge', '"ch_1"', LATER);
  },
  watch: async (lossy) => {
    const mine = await inProgress(sound);
    return lossy.watch(mine, dueOf(mine.pk, LATER));
  },
  lapse: async (lossy) =>
    lossy.lapse(await inProgress(sound), {
      to: 'failed_retryable',
      skewMs: SKEW_MS,
      ...failureAt(LAPSED),
    }),
  'settlement as executed': async (lossy) =>
    lossy.settle(await unknownBy(sound, await inProgress(sound)), { to: 'completed', ...outcomeAt(LATER) }),
  'settlement as not executed': async (lossy) =>
    lossy.settle(await unknownBy(sound, await inProgress(sound)), {
      to: 'failed_retryable',
      ...failureAt(LATER),
    }),
  'settlement of an accepted record': async (lossy) =>
    lossy.settleAccepted(await acceptedBy(sound, await inProgress(sound)), {
      to: 'completed',
      ...outcomeAt(LATER),
    }),
  'claim of a delivery': async (lossy) =>
    lossy.noteDelivery(await acceptedBy(sound, await inProgress(sound)), 0, claim),
  'note of a delivery': async (lossy) =>
    lossy.noteDelivery(await undeliveredBy(sound), 0, { to: 'done', at: LATER, reply: replyOf('"paid"') }),
  'note of a delivery that it had claimed': async (lossy) => {
    const claimed = movedRecord<Undelivered>(await sound.noteDelivery(await undeliveredBy(sound), 0, claim));
    return lossy.noteDelivery(claimed, 0, { to: 'refused', at: LATER, reference: 'ch_1', claim: claim.id });
  },
  'note of a delivery with a long answer': async (lossy) => {
    const reply = { ...replyOf(''), body: noise(2 * limits.inlineBodyMaxBytes) };
    return lossy.noteDelivery(await undeliveredBy(sound), 0, { to: 'done', at: LATER, reply });
  },
  'release of a claim': async (lossy) => {
    const claimed = movedRecord<Undelivered>(await sound.noteDelivery(await undeliveredBy(sound), 0, claim));
    return lossy.noteDelivery(claimed, 0, { to: 'none', claim: claim.id });
  },
  'doubt about a claimed delivery': async (lossy) => {
    const accepted = await acceptedBy(sound, await inProgress(sound));
    const claimed = movedRecord<Accepted>(await sound.noteDelivery(accepted, 0, claim));
    const about = { event: { index: 0, id: claim.id }, ...doubtAt(accepted.pk, LATER) };
    return lossy.settleAccepted(claimed, { to: 'unknown', ...about });
  },
  'step with a long result': async (lossy) =>
    lossy.saveStep(await inProgress(sound, { effects: 'steps' }), 'charge', longResult, LATER),
  'delivery of an outbox': async (lossy) => {
    const outcome = { ...outcomeAt(LATER), outbox: deferralAt(LATER).outbox };
    const done = await completedBy(sound, await inProgress(sound), outcome);
    return lossy.deliver(done as CompletedUndelivered, outcome.ttl);
  },
  'attestation of an abandoned attempt': async (lossy) =>
    lossy.attest(await inProgress(sound), { skewMs: SKEW_MS, ...outcomeAt(LAPSED) }),
  'attestation of what was called not executed': async (lossy) =>
    lossy.attest(await failedBy(sound, await inProgress(sound)), { skewMs: SKEW_MS, ...outcomeAt(LATER) }),
  reopening: async (lossy) => {
    const declined = outcomeAt(LATER, '"declined"', 402);
    const done = await completedBy(sound, await inProgress(sound), declined);
    return lossy.reopen(done as CompletedDelivered, failureAt(LATER));
  },
  erasure: async (lossy) => {
    const reply = { ...replyOf(''), body: noise(2 * limits.chunkMaxBytes) };
    const done = await completedBy(sound, await inProgress(sound), { ...outcomeAt(LATER), reply });
    return lossy.erase(done as CompletedDelivered, { now: LATER, headers: [] });
  },
  'settlement back to accepted': async (lossy) => {
    const unknown = await unknownAfterAccept(sound, await acceptedBy(sound, await inProgress(sound)));
    const reentry = { owner: randomUUID(), now: LATER, due: dueOf(unknown.pk, LATER) };
    return lossy.settle(unknown, { to: 'accepted', ...reentry });
  },
  'settlement back to work': async (lossy) => {
    const mine = await inProgress(sound, { effects: 'steps' });
    const unknown = await unknownBy(
      sound,
      movedRecord<InProgress>(await sound.openStep(mine, 'charge', LATER)),
    );
    const reentry = { owner: randomUUID(), now: LATER, due: dueOf(unknown.pk, LATER) };
    return lossy.settle(unknown, {
      to: 'in_progress',
      step: { name: 'charge', step: undefined },
      ...reentry,
    });
  },
};

for (const [mode, plan] of Object.entries(modes)) {
  describe(`a client that loses ${mode}`, () => {
    it('never locks itself out and never executes twice', async () => {
      const { ledger, lost } = lossyLedger(plan());
      let requests = 0;

      const request = async (pk: string) => {
        requests += 1;
        const reserved = await ledger.reserve(claimOf({ pk }), execute);
        if (reserved.kind === 'held') return { executed: false, record: reserved.record };
        const text = `{"by":"${reserved.record.owner}"}`;
        const done = await ledger.complete(reserved.record, outcomeAt(LATER, text));
        assert.equal(done.kind, 'moved', 'an owner is not fenced out by itself');
        const { body } = await ledger.reply(pk, done.record.response);
        assert.equal(Buffer.from(body).toString(), text, 'the owner finds its own reply');
        return { executed: true, record: done.record };
      };

      await atOnce(KEYS_AT_ONCE, KEYS, async (index) => {
        const pk = `pk-${randomUUID()}`;
        const crowd = index % CROWDED_EVERY === 0 ? CROWD : 1;
        const answers = await Promise.all(Array.from({ length: crowd }, () => request(pk)));
        const winners = answers.filter(({ executed }) => executed);
        assert.equal(winners.length, 1, `${winners.length} executions of ${crowd} requests`);

        const retry = await request(pk);
        assert.equal(retry.executed, false, 'a retry does not execute');
        assert.deepEqual(retry.record, winners[0]?.record, 'a retry replays what was stored');
      });

      assert.ok(requests >= 680, `${requests} requests`); // In three modes: over 2,000.
      assert.ok(lost() > requests / 2, `only ${lost()} responses of ${requests} requests were lost`);
    });

    it('owns the failed record that it retook', async () => {
      const { ledger } = lossyLedger(plan());
      await atOnce(KEYS_AT_ONCE, KEYS_PER_MOVE, async () => {
        const failed = await failedBy(sound, await inProgress(sound));
        const by = attemptAt(LATER);
        const taken = await ledger.retake(failed, by);
        assert.equal(taken.kind, 'owned');
        assert.deepEqual([taken.record.owner, taken.record.attempt], [by.owner, 2]);
        assert.deepEqual(await sound.read(failed.pk), taken.record);
      });
    });

    it('owns the abandoned record that it took over', async () => {
      const { ledger } = lossyLedger(plan(), LAPSED);
      await atOnce(KEYS_AT_ONCE, KEYS_PER_MOVE, async () => {
        const abandoned = await inProgress(sound);
        const by = { ...attemptAt(LAPSED), skewMs: SKEW_MS };
        const taken = await ledger.takeOver(abandoned, by);
        assert.equal(taken.kind, 'owned');
        assert.deepEqual([taken.record.owner, taken.record.attempt], [by.owner, 2]);
        assert.deepEqual(await sound.read(abandoned.pk), taken.record);
      });
    });

    for (const [name, move] of Object.entries(moves)) {
      it(`makes its ${name} once, and knows it`, async () => {
        const { ledger } = lossyLedger(plan());
        await atOnce(KEYS_AT_ONCE, KEYS_PER_MOVE, async () => {
          const { kind, record } = await move(ledger);
          assert.equal(kind, 'moved');
          assert.deepEqual(await sound.read(record?.pk ?? ''), record);
        });
      });
    }

    it('knows its step although the sentinel touched the record since it was read', async () => {
      const { ledger } = lossyLedger(plan());
      const mine = await inProgress(sound, { effects: 'steps' });
      const due = dueOf(mine.pk, LATER);
      await sound.watch(mine, due);
      const opened = await ledger.openStep(mine, 'charge', LATER);
      const saved = await ledger.saveStep(mine, 'charge', '"ch_1"', LATER);
      assert.deepEqual([opened.kind, saved.kind], ['moved', 'moved']);
      const now = await sound.read(mine.pk);
      assert.deepEqual(now?.status === 'in_progress' && now.due, due);
      assert.equal(now?.steps.get('charge')?.state, 'done');
    });

    it('knows its note although another event was noted and the record was put in the index since', async () => {
      const { ledger } = lossyLedger(plan());
      const outbox = ['charge', 'receipt'].map((type) => ({ type, payload: '{}' }));
      const from = movedRecord<Accepted>(
        await sound.accept(await inProgress(sound), { ...deferralAt(START), outbox }),
      );
      await sound.noteDelivery(from, 1, { to: 'done', at: LATER });
      await sound.watch(from, dueOf(from.pk, LATER));
      for (const note of [claim, { to: 'done', at: LATER, claim: claim.id }] as const) {
        assert.equal((await ledger.noteDelivery(from, 0, note)).kind, 'moved', note.to);
      }
      const now = await sound.read(from.pk);
      assert.deepEqual(
        now?.status === 'accepted' && now.accepted.outbox.map(({ delivery }) => delivery?.state),
        ['done', 'done'],
      );
    });

    it('commits the writes of a completion exactly once', async () => {
      const { ledger } = lossyLedger(plan());
      await atOnce(KEYS_AT_ONCE, 2 * KEYS_PER_MOVE, async () => {
        const mine = await inProgress(ledger);
        const domain = domainWrites();
        const done = await ledger.complete(mine, outcomeAt(LATER), domain.writes);
        assert.equal(done.kind, 'moved');
        assert.deepEqual(await sound.read(mine.pk), done.record);
        assert.deepEqual(await domain.committed(), once);
      });
    });

    it('commits the writes of an acceptance and of a step exactly once', async () => {
      const { ledger } = lossyLedger(plan());
      await atOnce(KEYS_AT_ONCE, KEYS_PER_MOVE, async () => {
        const deferred = domainWrites();
        const accepted = await ledger.accept(await inProgress(ledger), deferralAt(LATER), deferred.writes);
        assert.equal(accepted.kind, 'moved');
        assert.deepEqual(await deferred.committed(), once);

        const stepped = domainWrites();
        const mine = await inProgress(ledger, { effects: 'steps' });
        const saved = await ledger.saveStep(mine, 'row', '1', LATER, stepped.writes);
        assert.equal(saved.kind, 'moved');
        assert.deepEqual(await stepped.committed(), once);
      });
    });

    it('stores a body in chunks, and replays it byte for byte', async () => {
      const { ledger } = lossyLedger(plan());
      const random = seededRandom(7);
      const body = Uint8Array.from({ length: 2 * limits.chunkMaxBytes }, () => random() * 256);
      const outcome = { ...outcomeAt(LATER), reply: { ...replyOf(''), body } };
      const done = await ledger.complete(await inProgress(ledger), outcome);
      assert.equal(done.kind, 'moved');
      assert.equal('chunks' in done.record.response.body && done.record.response.body.chunks, 2);
      const replayed = await ledger.reply(done.record.pk, done.record.response);
      assert.equal(Buffer.compare(replayed.body, body), 0);
    });
  });
}

it('an owner that was taken over is not told that its step is saved, although it is', async () => {
  const mine = await inProgress(sound, { effects: 'steps' });
  const save = () => sound.saveStep(mine, 'charge', '"ch_1"', LATER);
  assert.equal((await save()).kind, 'moved');
  const late = dynamoDbLedger({ tableName, client, clock: () => LAPSED });
  const taken = await late.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS });
  assert.equal(taken.record?.steps.get('charge')?.state, 'done');
  assert.deepEqual(await save(), { kind: 'fenced', record: taken.record });
});

it('a hand-back that was refused is not mistaken for one that was made', async () => {
  const mine = await inProgress(sound, { effects: 'transactional' });
  const refused = await sound.handBack(mine, mine.leaseUntil, dueOf(mine.pk, LATER));
  assert.deepEqual(refused, { kind: 'fenced', record: mine });
});

async function atOnce(workers: number, count: number, work: (index: number) => Promise<void>): Promise<void> {
  const indexes = Array.from({ length: count }).keys();
  await Promise.all(
    Array.from({ length: workers }, async () => {
      for (const index of indexes) await work(index);
    }),
  );
}
