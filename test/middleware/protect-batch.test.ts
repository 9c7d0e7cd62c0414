import { randomUUID } from 'node:crypto';
import type { EventBridgeEvent, SQSHandler, SQSRecord } from 'aws-lambda';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { UnsupportedEvent } from '../../lib/http/errors.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import {
  KeyReused,
  OperationInProgress,
  OperationUnavailable,
  OutcomeUnknown,
} from '../../lib/middleware/operation-errors.ts';

import { type ProtectBatchOptions, protectBatch } from '../../lib/middleware/protect-batch.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import { useTable } from '../support/table.ts';

const QUEUE = 'arn:aws:sqs:eu-central-1:123456789012:orders';

interface Order {
  readonly order: string;
  readonly amount?: number;
}

let sent = 0;

/** One delivery of a message: everything but the body is different the next time. */
function record(body: Order | string, { queue = QUEUE, group }: { queue?: string; group?: string } = {}) {
  sent += 1;
  const delivered: SQSRecord = {
    messageId: `message-${sent}`,
    receiptHandle: `handle-${sent}`,
    body: typeof body === 'string' ? body : JSON.stringify(body),
    attributes: {
      ApproximateReceiveCount: String(sent),
      SentTimestamp: String(1_900_000_000_000 + sent),
      SenderId: 'producer',
      ApproximateFirstReceiveTimestamp: '1900000000000',
      ...(group !== undefined && { MessageGroupId: group }),
    },
    messageAttributes: { traceparent: { dataType: 'String', stringValue: `trace-${sent}` } },
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: queue,
    awsRegion: 'eu-central-1',
  };
  return delivered;
}

function fifo(order: string, group: string): SQSRecord {
  return record({ order }, { queue: `${QUEUE}.fifo`, group });
}

const orderOf = ({ body }: Pick<SQSRecord, 'body'>): string => JSON.parse(body).order;

/** A handler that keeps what it processed and said. */
function stage(
  fn: (order: string, run: number) => unknown = () => undefined,
  options: Partial<ProtectBatchOptions<SQSRecord>> = { effects: 'transactional' },
) {
  const ledger = options.ledger ?? memoryLedger();
  const logged: LogEntry[] = [];
  const ran: string[] = [];
  const handler = protectBatch<SQSRecord>(
    async (message) => {
      ran.push(orderOf(message));
      return fn(orderOf(message), ran.length);
    },
    {
      operation: 'fulfil',
      tenant: () => 'shop-1',
      key: orderOf,
      log: (entry) => logged.push(entry),
      metrics: () => {},
      ...options,
      ledger,
    },
  );
  async function returned(records: readonly SQSRecord[], remainingMs = 60_000): Promise<string[]> {
    const { batchItemFailures } = await handler({ Records: records }, lambda(remainingMs));
    return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
  }
  const read = (order: string) => ledger.read(scopePk({ tenant: 'shop-1', operation: 'fulfil', key: order }));
  return { handler, returned, ran, logged, ledger, read };
}

const lambda = (remainingMs = 60_000) => ({ getRemainingTimeInMillis: () => remainingMs });
const idsOf = (records: readonly SQSRecord[]) => records.map(({ messageId }) => messageId);
const opaque = { effects: 'opaque', onUnknown: 'park' } as const;

function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

afterEach(() => {
  vi.useRealTimers();
});

describe('a batch of SQS', () => {
  it('processes each message once, and acknowledges a second delivery, or a second sending, without running', async () => {
    const { returned, ran } = stage();
    const orders = [{ order: 'a' }, { order: 'b' }, { order: 'c' }];
    expect(await returned(orders.map((order) => record(order)))).toEqual([]);
    expect(await returned(orders.map((order) => record(order)))).toEqual([]);
    expect(ran.toSorted()).toEqual(['a', 'b', 'c']);
  });

  it('is empty: nothing is returned', async () => {
    expect(await stage().returned([])).toEqual([]);
  });

  it('sends back the message whose function threw, and only that one; it runs again when it comes', async () => {
    const { returned, ran } = stage((order, run) => {
      if (order === 'b' && run <= 3) throw new Error('no stock');
    });
    const records = ['a', 'b', 'c'].map((order) => record({ order }));
    expect(await returned(records)).toEqual([records[1]?.messageId]);
    expect(await returned([record({ order: 'b' })])).toEqual([]);
    expect(ran.filter((order) => order === 'b')).toHaveLength(2);
  });

  it('sends back what is in progress elsewhere, and acknowledges it once that has finished', async () => {
    const { open, opened } = gate();
    const { returned, ran } = stage(() => opened);
    const first = returned([record({ order: 'a' })]);
    const duplicate = record({ order: 'a' });
    expect(await returned([duplicate])).toEqual([duplicate.messageId]);
    open();
    expect(await first).toEqual([]);
    expect(await returned([duplicate])).toEqual([]);
    expect(ran).toHaveLength(1);
  });

  it('sends back what is unknown, every time, and never runs it again', async () => {
    const { returned, ran } = stage(() => Promise.reject(new Error('timeout')), opaque);
    for (let delivery = 0; delivery < 3; delivery += 1) {
      const message = record({ order: 'a' });
      expect(await returned([message])).toEqual([message.messageId]);
    }
    expect(ran).toHaveLength(1);
  });

  it('sends back a reused key, so that it ends in the dead-letter queue, and says so', async () => {
    const { returned, ran, logged } = stage();
    await returned([record({ order: 'a', amount: 5 })]);
    const other = record({ order: 'a', amount: 6 });
    expect(await returned([other])).toEqual([other.messageId]);
    expect(ran).toHaveLength(1);
    expect(logged.at(-1)).toMatchObject({ level: 'warn', decision: 'misuse', operation: 'fulfil' });
  });

  it('compares bodies as JSON, and by their text where a double would round', async () => {
    const { returned, ran } = stage();
    const bodies = ['{"order":"a","amount":9007199254740993}', '{"order":"a","amount":9007199254740992}'];
    expect(await returned([record(bodies[0] ?? '')])).toEqual([]);
    expect(await returned([record(bodies[0] ?? '')])).toEqual([]);
    expect(await returned([record(bodies[1] ?? '')])).toHaveLength(1);
    await returned([record('{"order":"b","amount":5}')]);
    expect(await returned([record('{ "amount": 5, "order": "b" }')])).toEqual([]);
    expect(ran).toEqual(['a', 'b']);
  });

  it('compares the chosen part alone, as inside an envelope with a time of its own', async () => {
    const { returned, ran } = stage(undefined, {
      effects: 'transactional',
      fingerprint: ({ body }) => JSON.parse(body).amount,
    });
    await returned([record('{"order":"a","amount":5,"time":1}')]);
    expect(await returned([record('{"order":"a","amount":5,"time":2}')])).toEqual([]);
    expect(await returned([record('{"order":"a","amount":6,"time":2}')])).toHaveLength(1);
    expect(ran).toHaveLength(1);
  });

  it('sends back a message that has no key or cannot be read, and only that one', async () => {
    const { returned, ran, logged } = stage();
    const records = [
      record('not JSON, and secret'),
      record({ order: 'a' }),
      record('{"order":""}'),
      record('{}'),
    ];
    expect(await returned(records)).toEqual(
      [records[0], records[2], records[3]].map((bad) => bad?.messageId),
    );
    expect(ran).toEqual(['a']);
    const refused = logged.filter(({ decision }) => decision === 'message_refused');
    expect(refused).toMatchObject([
      { level: 'error', operation: 'fulfil', reason: 'SyntaxError' },
      { reason: 'InvalidArgument' },
      { reason: 'InvalidArgument' },
    ]);
    expect(JSON.stringify(logged)).not.toContain('secret');
  });

  it('sends back no neighbours of a message whose refusal nobody listens to', async () => {
    const log = () => {
      throw new Error('the collector is away');
    };
    const { returned, ran } = stage(undefined, { effects: 'transactional', log });
    const broken = { ...record({ order: 'x' }), body: 'not JSON' };
    const batch = [record({ order: 'a' }), broken, record({ order: 'b' })];
    expect(await returned(batch)).toEqual([broken.messageId]);
    expect(ran.sort()).toEqual(['a', 'b']);
  });

  it('is not processed under the ids of its messages: a message that is sent again has another', async () => {
    const { returned, ran } = stage(undefined, {
      effects: 'transactional',
      key: ({ messageId }) => messageId,
    });
    expect(await returned([record({ order: 'a' })])).toHaveLength(1);
    expect(ran).toEqual([]);
  });

  it('does not mind what the function returns: nobody would read it', async () => {
    const { returned, ran } = stage(() => ({ at: new Date(), cyclic: new Map() }));
    expect(await returned([record({ order: 'a' })])).toEqual([]);
    expect(await returned([record({ order: 'a' })])).toEqual([]);
    expect(ran).toHaveLength(1);
  });

  it('remembers a message for as long as queue, dead-letter queue and one redrive can keep it', async () => {
    for (const [options, days] of [
      [{}, 42],
      [{ retentionSeconds: 2 * 86_400 }, 2],
    ] as const) {
      const { returned, read } = stage(undefined, { effects: 'transactional', ...options });
      await returned([record({ order: 'a' })]);
      const found = await read('a');
      if (found?.status !== 'completed') throw new Error('not completed');
      expect(found.expiresAt - found.completedAt).toBe(days * 86_400_000);
    }
  });

  it('is processed by as many at a time as was said, ten by default', async () => {
    for (const [options, most] of [
      [{}, 10],
      [{ concurrency: 3 }, 3],
      [{ concurrency: 1 }, 1],
    ] as const) {
      let running = 0;
      let peak = 0;
      const { returned, ran } = stage(
        async () => {
          running += 1;
          peak = Math.max(peak, running);
          await new Promise((resolve) => setImmediate(resolve));
          running -= 1;
        },
        { effects: 'transactional', ...options },
      );
      const records = Array.from({ length: 25 }, (_, index) => record({ order: `order-${index}` }));
      expect(await returned(records)).toEqual([]);
      expect(peak).toBe(most);
      expect(ran).toHaveLength(25);
    }
  });

  it('lists what goes back in the order it came, whichever failed first', async () => {
    const { returned } = stage(async (order) => {
      if (order === 'a') await new Promise((resolve) => setTimeout(resolve, 20));
      throw new Error('no stock');
    });
    const records = ['a', 'b'].map((order) => record({ order }));
    expect(await returned(records)).toEqual(idsOf(records));
  });
});

describe('a batch of a FIFO queue', () => {
  it('is processed in its order, one at a time', async () => {
    let running = 0;
    const { returned, ran } = stage(async (order) => {
      running += 1;
      expect(running).toBe(1);
      await new Promise((resolve) => setTimeout(resolve, order === '0' ? 20 : 0));
      running -= 1;
    });
    const records = Array.from({ length: 12 }, (_, index) => fifo(String(index), `group-${index % 3}`));
    expect(await returned(records)).toEqual([]);
    expect(ran).toEqual(records.map(orderOf));
  });

  it('goes back from the first failure of a group on, unprocessed; other groups go on', async () => {
    const { returned, ran } = stage((order) => {
      if (order === 'a2') throw new Error('no stock');
    });
    const records = [
      fifo('a1', 'a'),
      fifo('a2', 'a'),
      fifo('b1', 'b'),
      fifo('a3', 'a'),
      fifo('b2', 'b'),
      fifo('a4', 'a'),
    ];
    expect(await returned(records)).toEqual(
      [records[1], records[3], records[5]].map((back) => back?.messageId),
    );
    expect(ran).toEqual(['a1', 'a2', 'b1', 'b2']);
  });

  it('does not let a message overtake one that has no key, is unknown, or is in progress', async () => {
    const { returned, ran } = stage((order) => {
      if (order === 'unknown') throw new Error('timeout');
    }, opaque);
    await returned([fifo('unknown', 'a')]);
    for (const stuck of ['', 'unknown']) {
      const records = [fifo(stuck, 'a'), fifo('next', 'a')];
      expect(await returned(records)).toEqual(idsOf(records));
    }
    expect(ran).toEqual(['unknown']);
  });

  it('goes on after a message that was processed before', async () => {
    const { returned, ran } = stage();
    await returned([fifo('a1', 'a')]);
    expect(await returned([fifo('a1', 'a'), fifo('a2', 'a')])).toEqual([]);
    expect(ran).toEqual(['a1', 'a2']);
  });

  it('is known by its queue: a standard queue has groups too, and no order', async () => {
    const { returned, ran } = stage((order) => {
      if (order === 'a1') throw new Error('no stock');
    });
    const records = ['a1', 'a2'].map((order) => record({ order }, { group: 'a' }));
    expect(await returned(records)).toEqual([records[0]?.messageId]);
    expect(ran).toEqual(['a1', 'a2']);
  });
});

describe('the deadline of a batch', () => {
  it('is shared: a message that cannot start in time goes back without a trace', async () => {
    for (const queue of [QUEUE, `${QUEUE}.fifo`]) {
      let now = 1_900_000_000_000;
      const clock = () => now;
      const { returned, ran, read } = stage(
        () => {
          now += 4_000;
        },
        { effects: 'transactional', clock, ledger: memoryLedger({ clock }), concurrency: 1 },
      );
      const records = ['a', 'b', 'c', 'd'].map((order) => record({ order }, { queue, group: order }));
      expect(await returned(records, 8_500)).toEqual(idsOf(records.slice(2)));
      expect(ran).toEqual(['a', 'b']);
      expect(await read('c')).toBeUndefined();
    }
  });

  it('is no limit where the runtime knows none, but a default', async () => {
    const { handler, ran } = stage();
    expect(await handler({ Records: [record({ order: 'a' })] }, {})).toEqual({ batchItemFailures: [] });
    expect(ran).toEqual(['a']);
  });

  it('may be longer than a timer can hold', async () => {
    const { open, opened } = gate();
    const { returned, ran } = stage(() => opened);
    const batch = returned([record({ order: 'a' })], 2 ** 31 + 1_000);
    // A timer that cannot hold its time fires at once; so has this one by then.
    await new Promise((resolve) => setTimeout(resolve, 10));
    open();
    expect(await batch).toEqual([]);
    expect(ran).toEqual(['a']);
  });

  it('lets a message that hangs go back alone, if it is transactional', async () => {
    for (const queue of [QUEUE, `${QUEUE}.fifo`]) {
      vi.useFakeTimers();
      const { returned, ran } = stage((order) => (order === 'stuck' ? new Promise(() => {}) : undefined));
      const records = ['a', 'stuck', 'b'].map((order) => record({ order }, { queue, group: order }));
      const answer = returned(records, 10_000);
      let answered = false;
      void answer.then(() => {
        answered = true;
      });
      await vi.advanceTimersByTimeAsync(9_749);
      expect(answered).toBe(false);
      await vi.advanceTimersByTimeAsync(1);
      const back = queue === QUEUE ? records.slice(1, 2) : records.slice(1);
      expect(await answer).toEqual(idsOf(back));
      expect(ran).toContain('a');
      expect(vi.getTimerCount()).toBe(0);
      vi.useRealTimers();
    }
  });

  it('is left to Lambda if a message hangs that is opaque: it must not wake up in a later invocation', async () => {
    vi.useFakeTimers();
    const { returned, read } = stage(() => new Promise(() => {}), opaque);
    let answered = false;
    void returned([record({ order: 'a' })], 10_000).then(() => {
      answered = true;
    });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(answered).toBe(false);
    expect((await read('a'))?.status).toBe('unknown');
  });

  it('leaves no timer behind', async () => {
    vi.useFakeTimers();
    await stage().returned([record({ order: 'a' })]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('an event of EventBridge', () => {
  type Placed = EventBridgeEvent<'OrderPlaced', Order>;

  const placed = (detail: Order): Placed => ({
    id: randomUUID(),
    version: '0',
    account: '123456789012',
    time: new Date(1_900_000_000_000 + sent++ * 1_000).toISOString(),
    region: 'eu-central-1',
    resources: [],
    source: 'shop',
    'detail-type': 'OrderPlaced',
    detail,
  });

  function handling(
    fn: (run: number) => unknown = () => undefined,
    options: Partial<ProtectBatchOptions<Placed>> = { effects: 'transactional' },
  ) {
    const ran: string[] = [];
    const handler = protectBatch<Placed>(
      async ({ detail }) => {
        ran.push(detail.order);
        return fn(ran.length);
      },
      {
        ledger: memoryLedger(),
        operation: 'fulfil',
        tenant: ({ source }) => source,
        key: ({ detail }) => detail.order,
        log: () => {},
        metrics: () => {},
        ...options,
      },
    );
    return { ran, call: (event: Placed, remainingMs?: number) => handler(event, lambda(remainingMs)) };
  }

  it('is processed once, although the producer that sends it again makes another id and time', async () => {
    const { call, ran } = handling();
    expect(await call(placed({ order: 'a' }))).toEqual({ batchItemFailures: [] });
    expect(await call(placed({ order: 'a' }))).toEqual({ batchItemFailures: [] });
    expect(ran).toEqual(['a']);
  });

  it('whose function failed throws, so that Lambda sends it again', async () => {
    const { call, ran } = handling((run) => {
      if (run === 1) throw new Error('no stock');
    });
    const event = placed({ order: 'a' });
    await expect(call(event)).rejects.toThrow('no stock');
    expect(await call(event)).toEqual({ batchItemFailures: [] });
    expect(ran).toHaveLength(2);
  });

  it('that may not run throws as well: in progress, unknown, reused, or too late', async () => {
    const { open, opened } = gate();
    const busy = handling(() => opened);
    const first = busy.call(placed({ order: 'a' }));
    await expect(busy.call(placed({ order: 'a' }))).rejects.toThrow(OperationInProgress);
    open();
    await first;
    await expect(busy.call(placed({ order: 'a', amount: 1 }))).rejects.toThrow(KeyReused);
    await expect(busy.call(placed({ order: 'b' }), 500)).rejects.toThrow(OperationUnavailable);
    expect(busy.ran).toEqual(['a']);

    const unknown = handling(() => Promise.reject(new Error('timeout')), opaque);
    await expect(unknown.call(placed({ order: 'a' }))).rejects.toThrow('timeout');
    await expect(unknown.call(placed({ order: 'a' }))).rejects.toThrow(OutcomeUnknown);
  });

  it('without a key throws, and so does one whose key is its own id', async () => {
    const { call, ran } = handling();
    await expect(call(placed({ order: '' }))).rejects.toThrow(InvalidArgument);
    expect(ran).toEqual([]);
    const byId = handling(undefined, { effects: 'transactional', key: ({ id }) => id });
    await expect(byId.call(placed({ order: 'a' }))).rejects.toThrow(
      /the key is the id of the message itself/,
    );
    expect(byId.ran).toEqual([]);
  });
});

describe('any other event', () => {
  const others: readonly (readonly [event: unknown, says: RegExp])[] = [
    [{ Records: [{ eventSource: 'aws:kinesis' }] }, /this is a batch of aws:kinesis/],
    [{ Records: [{ EventSource: 'aws:sns' }] }, /this is a batch of aws:sns/],
    [{ Records: [{}] }, /this is a batch of unnamed records/],
    [{ Records: [{ eventSource: 'aws:sqs', body: '{}' }] }, /aws:sqs without messageId or body/],
    [{ Records: [null] }, /this is a batch of unnamed records/],
    [{ version: '2.0', routeKey: 'POST /payments' }, /this is an object/],
    [{ Records: 'none' }, /this is an object/],
    [undefined, /this is undefined/],
    [null, /this is null/],
    ['event', /this is a string/],
  ];
  for (const [event, says] of others) {
    it(`is refused by name, and nothing runs: ${JSON.stringify(event)}`, async () => {
      const { handler, ran } = stage();
      const error = await handler(event, lambda()).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(UnsupportedEvent);
      expect((error as Error).message).toMatch(says);
      expect(ran).toEqual([]);
    });
  }
});

describe('options', () => {
  const wrong: readonly (readonly [options: object, says: RegExp])[] = [
    [{ key: undefined }, /protectBatch\(\) needs key/],
    [{ tenant: undefined }, /protectBatch\(\) needs tenant/],
    [{ concurrency: 0 }, /concurrency is 0; expected a whole number of at least 1/],
    [{ concurrency: 1.5 }, /concurrency is 1.5/],
    [{ retentionSeconds: () => 5_000 }, /retentionSeconds is a function; expected a number/],
    [{ retentionSeconds: 5 }, /retentionSeconds is 5; expected a whole number of at least 3600/],
    [{ deadlineMs: 5_000 }, /protectBatch\(\) has no option deadlineMs/],
    [{ remaining: () => 5_000 }, /protectBatch\(\) has no option remaining/],
    [{ effects: undefined }, /protectBatch\(\) is opaque/],
  ];
  for (const [options, says] of wrong) {
    it(`that are wrong fail at construction, saying what to write: ${Object.keys(options)} ${says}`, () => {
      const make = () => stage(undefined, { effects: 'transactional', ...options });
      expect(make).toThrow(InvalidArgument);
      expect(make).toThrow(says);
    });
  }

  it('that are no options fail at construction', () => {
    expect(() => protectBatch(async () => {}, null as never)).toThrow(
      /protectBatch\(\) takes an object of options; received null/,
    );
  });

  it('make a handler of the type that Lambda has for SQS', () => {
    const handler: SQSHandler = stage().handler;
    expect(handler).toBeTypeOf('function');
  });
});

describe('on DynamoDB', () => {
  const table = useTable();

  it('duplicates in one batch and in the next are processed once', async () => {
    const { returned, ran } = stage(undefined, {
      effects: 'transactional',
      inFlight: 'wait',
      ledger: dynamoDbLedger(table) as never,
    });
    const orders = ['a', 'b', 'a', 'c', 'b'];
    expect(await returned(orders.map((order) => record({ order })))).toEqual([]);
    expect(await returned(orders.map((order) => record({ order })))).toEqual([]);
    expect(ran.toSorted()).toEqual(['a', 'b', 'c']);
  });
});
