import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { Completed, InProgress, LedgerRecord, Unknown } from '../../lib/core/record.ts';
import { executed } from '../../lib/effects/resolver.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { eventRef } from '../../lib/reconcile/event-claim.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import {
  attemptAt,
  inProgress,
  movedRecord,
  outcomeAt,
  SKEW_MS,
  START,
  unknownBy,
} from '../../lib/testing/contract/subject.ts';
import { neverArrived, type Plan, wireOf } from '../support/faults.ts';
import { useTable } from '../support/table.ts';
import { bothLedgers } from './stage.ts';
import {
  aboutRecord,
  endpoint,
  gate,
  noted,
  paid,
  providerOf,
  RUN_MS,
  unknownRecord,
  unknownStep,
} from './webhook-stage.ts';

const table = useTable();

/** When nobody works on an event any more that was taken at START. */
const LEFT = START + RUN_MS + 5_000 + SKEW_MS + 1;

const bodyOf = async (ledger: Ledger<unknown>, { pk }: LedgerRecord) => {
  const { response } = (await ledger.read(pk)) as Completed;
  return Buffer.from((await ledger.reply(pk, response)).body).toString();
};

for (const [name, ledgerOf] of Object.entries(bothLedgers(table))) {
  describe(`an event on ${name}`, () => {
    const time = { now: START };
    const ledger = ledgerOf(() => time.now);
    const at = (now: number) => ({ now });

    it('is asked about once, however often it comes, and by each endpoint that gets it', async () => {
      const { asked, fetch } = providerOf(() => executed({ id: 'ch_1' }));
      const record = await unknownStep(ledger);
      const event = aboutRecord(record);
      const { send } = endpoint(ledger, time, { fetch });
      expect((await send(event)).statusCode).toBe(200);
      // The operation goes on, and its next effect is in doubt.
      const resumed = (await ledger.read(record.pk)) as InProgress;
      const by = { ...attemptAt(START + 10_000, 'steps'), skewMs: SKEW_MS };
      const mine = movedRecord<InProgress>(await ledger.takeOver(resumed, by));
      const tried = movedRecord<InProgress>(await ledger.openStep(mine, 'refund', START + 10_000));
      const doubted = await unknownBy(ledger, tried);
      expect((await send(event)).statusCode).toBe(200);
      expect(asked).toHaveLength(1);
      expect(await ledger.read(record.pk)).toEqual(doubted);
      const other = endpoint(ledger, time, { fetch, name: 'other' });
      expect((await other.send(event)).statusCode).toBe(200);
      expect(asked.map(({ open }) => open?.name)).toEqual(['charge', 'refund']);
    });

    it('that comes twice at once is handled once, and the second is asked to wait', async () => {
      const [begun, answer] = [gate(), gate()];
      const { asked, fetch } = providerOf(async () => {
        begun.open();
        await answer.opened;
        return paid;
      });
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const { send } = endpoint(ledger, time, { fetch });
      const first = send(event);
      await begun.opened;
      const second = await send(event);
      expect([second.statusCode, second.headers['Retry-After']]).toEqual([503, '1']);
      answer.open();
      expect((await first).statusCode).toBe(200);
      expect((await send(event)).statusCode).toBe(200);
      expect(asked).toHaveLength(1);
    });

    it('that races itself settles its record once', async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const { asked, fetch } = providerOf();
      const { send, measured } = endpoint(ledger, time, { fetch });
      const answers = await Promise.all(Array.from({ length: 8 }, () => send(event)));
      expect(answers.filter(({ statusCode }) => statusCode === 200).length).toBeGreaterThan(0);
      for (const { statusCode } of answers) expect([200, 503]).toContain(statusCode);
      expect(asked).toHaveLength(1);
      expect(measured).toHaveLength(1);
    });

    it('beside another about the same payment is acknowledged, whichever was faster', async () => {
      const record = await unknownRecord(ledger);
      const begun = gate();
      const fast = endpoint(ledger, time, { fetch: () => executed({ statusCode: 201, body: '"fast"' }) });
      const slow = endpoint(ledger, time, {
        fetch: async () => {
          begun.open();
          await fast.send(aboutRecord(record));
          return executed({ statusCode: 201, body: '"slow"' });
        },
      });
      const event = aboutRecord(record);
      expect((await slow.send(event)).statusCode).toBe(200);
      expect(await bodyOf(ledger, record)).toBe('"fast"');
      expect(await noted(ledger, event)).toMatchObject({ status: 'completed' });
      expect(slow.measured).toEqual([]);
    });

    it('is acknowledged where a sweep settles meanwhile, or the late owner does', async () => {
      const resolver = () => executed({ statusCode: 201, body: '"meanwhile"' });
      const quiet = { clock: () => START + 40_000, log: () => {}, metrics: () => {} };
      const sweep = sweeper({ ledger, resolver, ...quiet });
      const outcome = outcomeAt(START, '"meanwhile"');
      for (const meanwhile of [
        (record: Unknown) => sweep.look(record, START + 60_000),
        (record: Unknown) => ledger.completeLate(record, outcome),
      ]) {
        const record = await unknownRecord(ledger);
        const { send } = endpoint(ledger, time, {
          fetch: async () => {
            await meanwhile(record);
            return paid;
          },
        });
        expect((await send(aboutRecord(record))).statusCode).toBe(200);
        expect(await bodyOf(ledger, record)).toBe('"meanwhile"');
      }
    });

    it('comes again where somebody else has moved its record, and not to its end', async () => {
      const record = await unknownStep(ledger);
      const resolver = () => executed({ id: 'ch_1' });
      const quiet = { clock: () => START + 40_000, log: () => {}, metrics: () => {} };
      const { look } = sweeper({ ledger, resolver, ...quiet });
      const event = aboutRecord(record);
      const { send } = endpoint(ledger, time, {
        fetch: async () => {
          await look(record, START + 60_000);
          return executed({ id: 'ch_2' });
        },
      });
      expect((await send(event)).statusCode).toBe(503);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'in_progress', attempt: 2 });
      expect(await noted(ledger, event)).toMatchObject({ status: 'failed_retryable' });
    });

    it('whose function died after settling is acknowledged when it comes again, and nobody is asked', async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const dead = async () => {
        throw new Error('killed');
      };
      const dying = endpoint({ ...ledger, complete: dead, release: dead }, time, { fetch: () => paid });
      expect((await dying.send(event)).statusCode).toBe(503);
      expect(dying.decisions()).toEqual([
        'resolved_completed',
        'webhook_not_released: Error',
        'webhook_failed: Error',
      ]);
      expect(await noted(ledger, event)).toMatchObject({ status: 'in_progress' });
      const { asked, fetch } = providerOf();
      expect((await endpoint(ledger, time, { fetch }).send(event)).statusCode).toBe(200);
      expect(asked).toEqual([]);
    });

    it('that a crash left open is freed by the sweep: nothing is parked, asked or signed', async () => {
      const event = aboutRecord(await unknownRecord(ledger));
      const lost = gate();
      const { send } = endpoint(ledger, time, {
        fetch: async () => {
          lost.open();
          return new Promise<never>(() => {});
        },
      });
      void send(event);
      await lost.opened;
      const left = (await noted(ledger, event)) as InProgress;
      const [logged, measured]: [LogEntry[], Sample[]] = [[], []];
      const clock = { now: LEFT - 2 };
      const sweep = sweeper({
        ledger,
        clock: () => clock.now,
        resolver: () => {
          throw new Error('it was asked about an event');
        },
        log: (entry) => logged.push(entry),
        metrics: (sample) => measured.push(sample),
      });
      expect(await sweep.look(left, LEFT + 60_000)).toBe('waiting');
      clock.now = LEFT + 1_000;
      const watched = (await noted(ledger, event)) as InProgress;
      expect(await sweep.look(watched, LEFT + 60_000)).toBe('failed_retryable');
      expect(measured.map(({ metrics }) => metrics)).toEqual([{ 'zombie_key.count': 1 }]);
      expect(logged).toMatchObject([{ level: 'warn', decision: 'failed_retryable' }]);
      expect((await operator({ ledger }).inspect(left.pk)).audits).toEqual([]);
      const again = endpoint(ledger, clock, { fetch: () => paid });
      expect((await again.send(event)).statusCode).toBe(200);
      expect(await noted(ledger, event)).toMatchObject({ status: 'completed', attempt: 2 });
    });

    it('that a crash left open is taken over once its lease has passed, and not before', async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const lost = gate();
      const hanging = () => {
        lost.open();
        return new Promise<never>(() => {});
      };
      void endpoint(ledger, time, { fetch: hanging }).send(event);
      await lost.opened;
      const { asked, fetch } = providerOf();
      const clock = { now: LEFT - 1 };
      const { send } = endpoint(ledger, clock, { fetch });
      const early = await send(event);
      expect([early.statusCode, early.headers['Retry-After']]).toEqual([503, '1']);
      expect(asked).toEqual([]);
      clock.now = LEFT;
      expect((await send(event)).statusCode).toBe(200);
      expect(asked).toHaveLength(1);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed' });
    });

    it('is not called handled by a function that has lost it to another', async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const slow = gate();
      const [begun, taken] = [gate(), gate()];
      const first = endpoint(ledger, time, {
        fetch: async () => {
          begun.open();
          await slow.opened;
          return paid;
        },
      }).send(event);
      await begun.opened;
      const second = endpoint(ledger, at(LEFT), {
        fetch: async () => {
          taken.open();
          return new Promise<never>(() => {});
        },
      });
      void second.send(event);
      await taken.opened;
      slow.open();
      expect((await first).statusCode).toBe(503);
      expect(await noted(ledger, event)).toMatchObject({ status: 'in_progress', attempt: 2 });
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed' });
    });

    it('is acknowledged by a function that has lost it to another, once that one has handled it', async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const second = endpoint(ledger, at(LEFT), { fetch: () => paid });
      const first = endpoint(ledger, time, {
        fetch: async () => {
          expect((await second.send(event)).statusCode).toBe(200);
          return paid;
        },
      });
      expect((await first.send(event)).statusCode).toBe(200);
      expect(await noted(ledger, event)).toMatchObject({ status: 'completed', attempt: 2 });
    });

    it('without time is not begun, and comes again', async () => {
      const record = await unknownRecord(ledger);
      const { asked, fetch } = providerOf();
      const { send, decisions } = endpoint(ledger, time, { fetch });
      for (const remainingMs of [500, 0, -1]) {
        expect((await send(aboutRecord(record), remainingMs)).statusCode).toBe(503);
      }
      expect(decisions()).toHaveLength(3);
      expect(asked).toEqual([]);
      expect((await send(aboutRecord(record), 60_000)).statusCode).toBe(200);
    });

    it("under whose name there is somebody else's record changes nothing", async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      await inProgress(ledger, { pk: eventRef('webhook', event.id).pk });
      const { asked, fetch } = providerOf();
      const { send, decisions } = endpoint(ledger, time, { fetch });
      expect((await send(event)).statusCode).toBe(503);
      expect([asked, decisions()]).toEqual([[], ['webhook_failed: StoreUnavailable']]);
      expect(await ledger.read(record.pk)).toEqual(record);
    });

    it('that others take before us, again and again, comes again', async () => {
      const record = await unknownRecord(ledger);
      const event = aboutRecord(record);
      const releasing = endpoint(ledger, time, { fetch: () => Promise.reject(new Error('down')) });
      await releasing.send(event);
      let turns = 0;
      const contended: Ledger<unknown> = {
        ...ledger,
        retake: async (from) => {
          turns += 1;
          return { kind: 'held', record: from };
        },
      };
      const { asked, fetch } = providerOf();
      expect((await endpoint(contended, time, { fetch }).send(event)).statusCode).toBe(503);
      expect([asked, turns]).toEqual([[], 3]);
    });

    it('about which we cannot find out whom it concerns comes again', async () => {
      const { send, decisions, counted } = endpoint(ledger, time, {
        fetch: () => paid,
        subject: async () => {
          throw new StoreUnavailable('the mapping cannot be read');
        },
      });
      expect((await send(aboutRecord({ pk: 'any' }))).statusCode).toBe(503);
      expect(decisions()).toEqual(['webhook_failed: StoreUnavailable']);
      expect(counted()).toEqual({ 'reconcile.failed.count': 1 });
    });
  });
}

describe('an event while DynamoDB does not answer', () => {
  const reliable = dynamoDbLedger({ ...table, clock: () => START }) as Ledger<unknown>;

  /** Loses the requests that it is told to, until time has run out over them. */
  function losing(name: string, isLost: (input: string) => boolean) {
    const client = table.newClient();
    onTestFinished(() => client.destroy());
    const clock = { now: START };
    const plan: Plan = (call) => {
      if (call.name !== name || !isLost(call.body)) return undefined;
      clock.now = START + 60_000;
      return neverArrived;
    };
    wireOf(client, plan);
    const ledger = dynamoDbLedger({ ...table, client, clock: () => clock.now, sleep: async () => {} });
    return { clock, ledger: ledger as Ledger<unknown> };
  }

  it('comes again, wherever the request was lost, and is handled then', async () => {
    for (const [request, isLost] of [
      ['GetItem', () => true],
      ['PutItem', () => true],
      ['UpdateItem', (body: string) => body.includes('"unknown"')],
      ['UpdateItem', (body: string) => !body.includes('"unknown"')],
    ] as const) {
      const record = await unknownRecord(reliable);
      const event = aboutRecord(record);
      const { clock, ledger } = losing(request, isLost);
      const { send, counted, decisions } = endpoint(ledger, clock, { fetch: () => paid });
      expect((await send(event)).statusCode, request).toBe(503);
      expect(counted()['reconcile.failed.count']).toBe(1);
      expect(decisions().at(-1)).toMatch(/^webhook_failed: /);
      const healthy = endpoint(reliable, { now: START + 120_000 }, { fetch: () => paid });
      expect((await healthy.send(event)).statusCode).toBe(200);
      expect(await reliable.read(record.pk)).toMatchObject({ status: 'completed' });
    }
  });
});

it('a provider that never answers leaves time to write that down, and the next delivery need not wait', async () => {
  const time = { now: START };
  const ledger = memoryLedger({ clock: () => time.now });
  const event = aboutRecord(await unknownRecord(ledger));
  const { send } = endpoint(ledger, time, { fetch: async () => new Promise<never>(() => {}) });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  try {
    let over = false;
    const sent = send(event).finally(() => {
      over = true;
    });
    while (!over) {
      await vi.advanceTimersByTimeAsync(500);
      time.now += 500;
    }
    expect((await sent).statusCode).toBe(503);
  } finally {
    vi.useRealTimers();
  }
  expect(time.now - START).toBeLessThan(RUN_MS - 1_000);
  expect(await noted(ledger, event)).toMatchObject({ status: 'failed_retryable', errorCode: 'not_settled' });
});
