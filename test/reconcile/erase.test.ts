import { randomUUID } from 'node:crypto';
import { DynamoDBDocumentClient, PutCommand, QueryCommand } from '@aws-sdk/lib-dynamodb';
import { describe, expect, it, onTestFinished } from 'vitest';
import { limits } from '../../lib/core/limits.ts';
import type { Completed, CompletedDelivered, InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { protect } from '../../lib/middleware/protect.ts';
import { IllegalMove } from '../../lib/reconcile/illegal-move.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import {
  acceptedBy,
  claimOf,
  completedBy,
  execute,
  failedBy,
  inProgress,
  movedRecord,
  noise,
  outcomeAt,
  replyOf,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { pkOf, post, stage } from '../middleware/stage.ts';
import { counter, created } from '../middleware/work.ts';
import { answered, neverArrived, type Plan, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';
import { bothLedgers, charge, completedWith } from './stage.ts';

const table = useTable();
const by = { who: 'ada@example.com', why: 'request 17 of a customer' };
const quiet = { log: () => {}, metrics: () => {} };
const long = { ...replyOf(''), body: noise(2 * limits.chunkMaxBytes), base64: true };
const documents = DynamoDBDocumentClient.from(table.client);

/** Everything that is stored under a key, as it is. */
async function itemsOf(pk: string) {
  const { Items = [] } = await documents.send(
    new QueryCommand({
      TableName: table.tableName,
      KeyConditionExpression: 'pk = :pk',
      ExpressionAttributeValues: { ':pk': pk },
    }),
  );
  return Items;
}

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  describe(`erasing on ${name}`, () => {
    const clock = () => START;
    const ledger = ledgerOf(clock);
    const { erase, inspect, release } = operator({ ledger, clock });

    it('leaves a replay with its status and no body, and runs nothing again', async () => {
      const headers = { location: '/payments/1', etag: '"1"', 'content-encoding': 'identity' };
      const work = counter(() => created('{"name":"Ada"}', headers));
      const { call } = stage(ledger, work.handler, { effects: 'transactional', clock });
      const key = randomUUID();
      const first = await call(post({ key }));
      await erase(pkOf(key), by);
      const replayed = await call(post({ key }));
      expect(replayed).toMatchObject({ statusCode: 201, body: '', isBase64Encoded: false });
      expect(replayed.headers).toEqual({
        location: '/payments/1',
        'Idempotency-Erased': new Date(START).toUTCString(),
        'Idempotent-Replayed': 'true',
        'Idempotency-Expires': first.headers['Idempotency-Expires'],
        'Cache-Control': 'no-store',
      });
      expect((await call(post({ key, body: { amount: 1 } }))).statusCode).toBe(422);
      expect(work.runs).toBe(1);
    });

    it('leaves a protected function with an error, and not with a result it never returned', async () => {
      let runs = 0;
      const pay = protect(
        async (_: { order: string }) => {
          runs += 1;
          return { name: 'Ada' };
        },
        {
          ...{ ledger, clock, ...quiet, effects: 'transactional', operation: 'pay' },
          tenant: () => 'tenant-1',
          key: ({ order }: { order: string }) => order,
        },
      );
      const order = randomUUID();
      await pay({ order });
      await erase(scopePk({ tenant: 'tenant-1', operation: 'pay', key: order }), by);
      await expect(pay({ order })).rejects.toThrow(/an operator has erased it\. The operation is complete/);
      expect(runs).toBe(1);
    });

    it('is signed once, however often it is asked for', async () => {
      const done = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), reply: long });
      const erased = await erase(done.pk, by);
      expect(await erase(done.pk, { ...by, who: 'bob@example.com' })).toEqual(erased);
      const { record, audits } = await inspect(done.pk);
      expect(record).toEqual(erased);
      expect(audits).toEqual([{ ...by, at: START, id: expect.any(String), move: 'erase the stored body' }]);
    });

    it('is refused while something is open, with the reason, and nothing is changed or signed', async () => {
      const reserve = () => inProgress(ledger, { effects: 'opaque' });
      const states = [
        [await reserve(), /in_progress: .* evidence of an open outcome/],
        [await unknownBy(ledger, await reserve()), /unknown: .* settle it first/],
        [await acceptedBy(ledger, await inProgress(ledger)), /accepted: .* evidence of an open outcome/],
        [await completedWith(ledger, charge(1)), /events are not all delivered/],
        [await failedBy(ledger, await inProgress(ledger)), /no answer that is stored/],
      ] as const;
      for (const [record, why] of states) {
        const refused = erase(record.pk, by);
        await expect(refused).rejects.toThrow(IllegalMove);
        await expect(refused).rejects.toThrow(why);
        expect(await inspect(record.pk)).toEqual({ record, audits: [] });
      }
      await expect(erase('never-was', by)).rejects.toThrow(/There is no record never-was/);
      await expect(erase(states[0][0].pk, { ...by, who: '' })).rejects.toThrow(/needs who/);
    });

    it('loses against a release, and is told', async () => {
      const done = await completedBy(ledger, await inProgress(ledger), outcomeAt(START, '"no"', 402));
      const slow = operator({ clock, ledger: { ...ledger, read: async () => done } });
      await release(done.pk, by);
      await expect(slow.erase(done.pk, by)).rejects.toThrow(/it is failed_retryable now/);
      expect((await inspect(done.pk)).audits).toHaveLength(1);
    });
  });
}

describe('what is stored in the table', () => {
  const clock = () => START;
  const ledger = dynamoDbLedger({ ...table, clock });
  const { erase } = operator({ ledger: ledger as Ledger<unknown>, clock });

  /** A ledger of the test's own, whose requests it sees and may break. */
  function wired(plan: Plan, now = clock) {
    const client = table.newClient();
    onTestFinished(() => client.destroy());
    const wire = wireOf(client, plan);
    return { wire, ledger: dynamoDbLedger({ ...table, client, clock: now, sleep: async () => {} }) };
  }

  const isWipe: (call: Parameters<Plan>[0]) => boolean = ({ name, input }) =>
    name === 'TransactWriteItems' && input.TransactItems?.[0]?.['ConditionCheck'] !== undefined;

  async function longAnswer(): Promise<CompletedDelivered> {
    const done = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), reply: long });
    return done as CompletedDelivered;
  }

  it('has nothing of the body, of the steps, or of its digests any more', async () => {
    let mine = await inProgress(ledger, { effects: 'steps' });
    for (let step = 0; step < limits.stepsMax; step += 1) {
      const saved = await ledger.saveStep(mine, `step-${step}`, '"secret"', START);
      mine = movedRecord<InProgress>(saved);
    }
    const { pk } = await completedBy(ledger, mine, outcomeAt(START, '"secret"'));
    expect(JSON.stringify(await itemsOf(pk))).toContain('secret');
    await erase(pk, by);
    const [audit, record] = await itemsOf(pk);
    expect(audit).toMatchObject({ ...by, sk: expect.stringMatching(/^audit#/) });
    expect(JSON.stringify(record)).not.toContain('secret');
    expect(record?.['response']).toMatchObject({ status: 201, length: 0, crc: 0, erasedAt: START });
    expect(record?.['response'].body).toHaveLength(0);
    expect(Object.keys(record?.['steps'])).toHaveLength(limits.stepsMax);
  });

  it('keeps its chunks as names without bytes, which end when they would have', async () => {
    const { pk } = await longAnswer();
    const isChunk = ({ sk }: Record<string, unknown>) => String(sk).startsWith('body#');
    const before = (await itemsOf(pk)).filter(isChunk);
    await erase(pk, by);
    const after = (await itemsOf(pk)).filter(isChunk);
    expect(after).toEqual(before.map(({ body: _, ...rest }) => rest));
    expect(after).toHaveLength(2);
  });

  it('is finished by the next call where a crash came between, and meanwhile answers no half of a body', async () => {
    const { pk } = await longAnswer();
    const time = { now: START };
    let wiped = 0;
    const crashing = wired(
      (call) => {
        if (!isWipe(call)) return undefined;
        wiped += 1;
        if (wiped === 1) return undefined;
        time.now = START + 60_000; // The function is out of time.
        return neverArrived;
      },
      () => time.now,
    );
    const crashed = operator({ ledger: crashing.ledger as Ledger<unknown>, clock });
    await expect(crashed.erase(pk, by)).rejects.toThrow(/did not answer in time/);
    const bytesIn = async () => (await itemsOf(pk)).filter(({ body }) => body !== undefined).length;
    expect(await bytesIn()).toBe(1);
    const marked = (await ledger.read(pk)) as Completed;
    expect((await ledger.reply(pk, marked.response)).body).toHaveLength(0);
    expect(await erase(pk, by)).toEqual(marked);
    expect(await bytesIn()).toBe(0);
    expect(await ledger.audits(pk)).toHaveLength(1);
  });

  it('is not touched where its key has started anew since', async () => {
    const old = await longAnswer();
    const later = old.expiresAt + 10_000;
    const renewed = dynamoDbLedger({ ...table, clock: () => later });
    let next: Completed | undefined;
    const slow = wired((call) =>
      isWipe(call)
        ? async (deliver) => {
            if (!next) {
              const claim = claimOf({ pk: old.pk, now: later, leaseUntil: later + 1_000 });
              const mine = movedRecord<InProgress>(await renewed.reserve(claim, execute));
              next = await completedBy(renewed, mine, { ...outcomeAt(later), reply: long });
            }
            return deliver();
          }
        : undefined,
    );
    const late = operator({ ledger: slow.ledger as Ledger<unknown>, clock });
    await expect(late.erase(old.pk, by)).rejects.toThrow(/it is completed now/);
    expect(await renewed.read(old.pk)).toEqual(next);
    expect(await renewed.reply(old.pk, (next as Completed).response)).toEqual(long);
  });

  /** An operator whose first chunk is on its way while something else happens. */
  function overtaken(meanwhile: () => Promise<unknown>) {
    let happened: Promise<unknown> | undefined;
    const slow = wired((call) =>
      isWipe(call)
        ? async (deliver) => {
            happened ??= meanwhile();
            await happened;
            return deliver();
          }
        : undefined,
    );
    return operator({ ledger: slow.ledger as Ledger<unknown>, clock });
  }

  it('is not said to be erased where its key has started anew, though that was erased as well', async () => {
    const old = await longAnswer();
    const later = old.expiresAt + 10_000;
    const renewed = dynamoDbLedger({ ...table, clock: () => later });
    let next: LedgerRecord | undefined;
    const late = overtaken(async () => {
      const claim = claimOf({ pk: old.pk, now: later, leaseUntil: later + 1_000 });
      const mine = movedRecord<InProgress>(await renewed.reserve(claim, execute));
      await completedBy(renewed, mine, { ...outcomeAt(later), reply: long });
      const anew = operator({ ledger: renewed as Ledger<unknown>, clock: () => later });
      next = await anew.erase(old.pk, by);
    });
    await expect(late.erase(old.pk, by)).rejects.toThrow(/it is completed now/);
    expect(await renewed.read(old.pk)).toEqual(next);
  });

  it('is not touched where its record was put back while it was being erased', async () => {
    const done = await longAnswer();
    const before = (await itemsOf(done.pk)).find(({ sk }) => sk === 'record');
    const late = overtaken(() =>
      documents.send(new PutCommand({ TableName: table.tableName, Item: before ?? {} })),
    );
    await expect(late.erase(done.pk, by)).rejects.toThrow(/it is completed now/);
    expect(await ledger.read(done.pk)).toEqual(done);
    expect(await ledger.reply(done.pk, done.response)).toEqual(long);
  });

  it('is left to TTL where that was faster, and no chunk comes back', async () => {
    const { pk } = await longAnswer();
    const raced = wired((call) =>
      isWipe(call)
        ? answered('TransactionCanceledException', 400, {
            CancellationReasons: [{ Code: 'None' }, { Code: 'ConditionalCheckFailed' }],
          })
        : undefined,
    );
    await operator({ ledger: raced.ledger as Ledger<unknown>, clock }).erase(pk, by);
    const wipes = raced.wire.sent.filter(isWipe).map(({ input }) => input.TransactItems?.[1]?.['Update']);
    expect(wipes).toHaveLength(2);
    for (const update of wipes) expect(update?.ConditionExpression).toBe('attribute_exists(#pk)');
  });
});
