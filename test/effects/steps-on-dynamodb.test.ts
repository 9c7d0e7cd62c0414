import { randomUUID } from 'node:crypto';
import { GetItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { WritesRefused } from '../../lib/effects/errors.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import { firstTries, responseLost, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';
import { boom, counted, errorOf, HANDED_BACK_MS, http, LAPSE_MS, type Once, place } from './doors.ts';

const { tableName, newClient, client: other } = useTable();
const client = newClient();
const wire = wireOf(client);

beforeEach(() => {
  wire.follow(() => undefined);
  wire.takeNames();
});
afterAll(() => client.destroy());

const open = () =>
  place<TransactWrite>(http, (clock) => dynamoDbLedger({ tableName, client, clock, random: () => 0 }));

const put = (id: string, condition?: string): TransactWrite => ({
  Put: {
    TableName: tableName,
    Item: { pk: id, sk: 'ride', state: 'made' },
    ...(condition !== undefined && { ConditionExpression: condition }),
  },
});

async function exists(id: string): Promise<boolean> {
  const key = { pk: { S: id }, sk: { S: 'ride' } };
  const { Item } = await other.send(
    new GetItemCommand({ TableName: tableName, Key: key, ConsistentRead: true }),
  );
  return Item !== undefined;
}

describe('a row written inside a step', () => {
  it('is there with its recovery point, before the handler has ended', async () => {
    const { run, record } = open();
    const id = randomUUID();
    await run(async (once) => {
      await once.step('ride', () => {
        once.write(put(id));
        return id;
      });
      expect(await exists(id)).toBe(true);
      expect((await record())?.steps.get('ride')).toMatchObject({ state: 'done', result: `"${id}"` });
    });
    expect.assertions(2);
  });

  it('is not there when the step throws after it', async () => {
    const { run, record } = open();
    const id = randomUUID();
    await run((once) =>
      once.step('ride', () => {
        once.write(put(id));
        boom();
      }),
    );
    expect(await exists(id)).toBe(false);
    expect((await record())?.steps.size).toBe(0);
  });

  it('is not there when another attempt has the record: neither row nor recovery point', async () => {
    const { run, pass, record } = open();
    const [mine, theirs] = [randomUUID(), randomUUID()];
    await run((once) =>
      once.step('ride', async () => {
        once.write(put(mine));
        pass(LAPSE_MS);
        await run((again) =>
          again.step('ride', () => {
            again.write(put(theirs));
            return theirs;
          }),
        );
        return mine;
      }),
    );
    expect([await exists(mine), await exists(theirs)]).toEqual([false, true]);
    expect((await record())?.steps.get('ride')).toMatchObject({ result: `"${theirs}"`, attempt: 2 });
  });

  it('that its condition refuses is WritesRefused, and nothing is recorded', async () => {
    const { run, pass, record } = open();
    const [taken, free] = [randomUUID(), randomUUID()];
    await open().run(async (once) => once.write(put(taken)));
    const ride = counted(1);
    const handler = (once: Once<TransactWrite>, ids: readonly string[]) =>
      once.step('ride', (context) => {
        for (const id of ids) once.write(put(id, 'attribute_not_exists(pk)'));
        return ride(context);
      });
    const error = errorOf(await run((once) => handler(once, [free, taken])));
    expect(error).toBeInstanceOf(WritesRefused);
    expect(error).toMatchObject({ reasons: [{ code: 'None' }, { code: 'ConditionalCheckFailed' }] });
    expect(await exists(free)).toBe(false);
    expect(await record()).toMatchObject({ status: 'in_progress', steps: new Map() });
    pass(HANDED_BACK_MS);
    expect(await run((once) => handler(once, [free]))).toEqual({ result: 1 });
    const [first, second] = ride.calls;
    expect(second?.key).toBe(first?.key);
  });

  it('is not written again by the attempt that resumes, nor lost with the writes after it', async () => {
    const { run, pass } = open();
    const [row, last] = [randomUUID(), randomUUID()];
    let left = 1;
    const handler = async (once: Once<TransactWrite>) => {
      await once.step('ride', () => once.write(put(row, 'attribute_not_exists(pk)')));
      once.write(put(last));
      if (left-- > 0) boom();
      return 'done';
    };
    await run(handler);
    expect([await exists(row), await exists(last)]).toEqual([true, false]);
    pass(HANDED_BACK_MS);
    expect(await run(handler)).toEqual({ result: 'done' });
    expect([await exists(row), await exists(last)]).toEqual([true, true]);
  });

  it('that is refused with the completion leaves the steps, and the next call resumes after them', async () => {
    const { run, pass, record } = open();
    const taken = randomUUID();
    await open().run(async (once) => once.write(put(taken)));
    const one = counted(1);
    const handler = (condition?: string) => async (once: Once<TransactWrite>) => {
      const result = await once.step('one', one);
      once.write(put(taken, condition));
      return result;
    };
    expect(errorOf(await run(handler('attribute_not_exists(pk)')))).toBeInstanceOf(WritesRefused);
    expect(await record()).toMatchObject({ status: 'in_progress' });
    pass(HANDED_BACK_MS);
    expect(await run(handler())).toEqual({ result: 1 });
    expect(one.calls).toHaveLength(1);
  });

  it('is the same when the first response of every call is lost', async () => {
    const { run } = open();
    const id = randomUUID();
    const [ride, receipt] = [counted(1), counted(2)];
    wire.follow(firstTries(responseLost));
    const told = await run(async (once) => [
      await once.step('ride', (context) => {
        once.write(put(id, 'attribute_not_exists(pk)'));
        return ride(context);
      }),
      await once.effect('receipt', receipt),
    ]);
    expect(told).toEqual({ result: [1, 2] });
    expect([ride.calls.length, receipt.calls.length]).toEqual([1, 1]);
    expect(await exists(id)).toBe(true);
  });
});

describe('an operation that became one with steps', () => {
  it('goes on with them where it failed, or was abandoned, without any', async () => {
    const { run, pass, ledger, pk, clock } = open();
    await run(boom);
    const failed = await ledger.read(pk);
    expect(failed).toMatchObject({ status: 'failed_retryable', effects: 'steps' });
    if (failed?.status !== 'failed_retryable') return;
    // As an older deployment would have left it: transactional, its lease passed.
    const by = { owner: 'old', effects: 'transactional', now: clock(), leaseUntil: clock() + 1_000 } as const;
    await ledger.retake(failed, by);
    pass(LAPSE_MS);
    expect(await run((once) => once.step('one', () => 1))).toEqual({ result: 1 });
  });
});

describe('DynamoDB is called', () => {
  const calls: readonly (readonly [what: string, (once: Once<TransactWrite>) => unknown, string[]])[] = [
    ['twice for a request without steps', () => 1, ['PutItem', 'UpdateItem']],
    ['once more for a step', (once) => once.step('one', () => 1), ['PutItem', 'UpdateItem', 'UpdateItem']],
    [
      'twice more for an effect',
      (once) => once.effect('one', () => 1),
      ['PutItem', 'UpdateItem', 'UpdateItem', 'UpdateItem'],
    ],
    [
      'once more for a step with writes: one transaction',
      (once) => once.step('one', () => once.write(put(randomUUID()), put(randomUUID()))),
      ['PutItem', 'TransactWriteItems', 'UpdateItem'],
    ],
    [
      'not more for an event',
      async (once) => {
        await once.step('one', () => 1);
        once.emit({ type: 'made', payload: 1 });
      },
      ['PutItem', 'UpdateItem', 'UpdateItem'],
    ],
    [
      'six times for a ride: reserve, row, charge, intent, receipt, complete',
      async (once) => {
        await once.step('ride', () => once.write(put(randomUUID())));
        await once.step('charge', () => 1);
        await once.effect('receipt', () => 1);
      },
      ['PutItem', 'TransactWriteItems', 'UpdateItem', 'UpdateItem', 'UpdateItem', 'UpdateItem'],
    ],
  ];
  for (const [what, handler, names] of calls) {
    it(what, async () => {
      const { run } = open();
      expect(await run(async (once) => handler(once))).toHaveProperty('result');
      expect(wire.takeNames()).toEqual(names);
    });
  }

  it('not at all for a step that is recorded: the record brought it along', async () => {
    const { run, pass } = open();
    let left = 1;
    const handler = async (once: Once<TransactWrite>) => {
      for (const name of ['one', 'two', 'three']) await once.step(name, () => name);
      if (left-- > 0) boom();
      return 'done';
    };
    await run(handler);
    pass(HANDED_BACK_MS);
    wire.takeNames();
    expect(await run(handler)).toEqual({ result: 'done' });
    // The put that fails brings the record, the first update takes it over, the second completes.
    expect(wire.takeNames()).toEqual(['PutItem', 'UpdateItem', 'UpdateItem']);
  });

  it('once more to hand a lease back', async () => {
    const { run } = open();
    await run((once) => once.step('one', boom));
    expect(wire.takeNames()).toEqual(['PutItem', 'UpdateItem']);
  });
});
