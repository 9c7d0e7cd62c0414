import { describe, expect, it } from 'vitest';
import { StoreRefused } from '../../lib/core/errors.ts';
import { schedule } from '../../lib/core/policy.ts';
import type { Accepted } from '../../lib/core/record.ts';
import { delivered, refused, uncertain } from '../../lib/effects/deliveries.ts';
import { NotExecuted } from '../../lib/effects/errors.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import { useTable } from '../support/table.ts';
import {
  acceptedWith,
  bothLedgers,
  charge,
  completedWith,
  dispatchStage,
  Provider,
  START,
  streamRecord,
} from './stage.ts';

const table = useTable();

const ledgers = bothLedgers(table);

const HOUR_MS = 3_600_000;
const later = START + HOUR_MS;

async function bodyOf(ledger: Ledger<unknown>, pk: string) {
  const record = await ledger.read(pk);
  if (record?.status !== 'completed') throw new Error(`the record is ${record?.status}`);
  const { status, body } = await ledger.reply(pk, record.response);
  return { status, body: Buffer.from(body).toString() };
}

for (const [name, ledgerOf] of Object.entries(ledgers)) {
  describe(`dispatch on ${name}`, () => {
    function stageOf(provider: Provider, outcome: (call: number) => unknown = () => undefined) {
      const time = { now: START };
      const ledger = ledgerOf(() => time.now);
      const handler = {
        dedupes: provider.dedupes,
        async deliver(event: never, context: never) {
          provider.take(event, context);
          return outcome(provider.calls.length) as never;
        },
      };
      const deliveries = { charge: handler, receipt: handler };
      return { ledger, deliveries, ...dispatchStage(ledger, deliveries, { time }) };
    }

    it('delivers every event once, in order, with a constant key, and lets the record end', async () => {
      const provider = new Provider(true);
      const { ledger, batch } = stageOf(provider, () => delivered({ reference: 'ch_1' }));
      const record = await completedWith(ledger, charge(1), { type: 'receipt', payload: '"to"' });
      expect(await batch([streamRecord(record)])).toEqual([]);
      expect(provider.effects).toEqual(['charge {"amount":1}', 'receipt "to"']);
      const keys = provider.calls.map(({ context }) => context.key);
      expect(new Set(keys).size).toBe(2);
      expect(keys.every((key) => key.length === 43)).toBe(true);
      const settled = await ledger.read(record.pk);
      expect(settled).toMatchObject({ status: 'completed' });
      expect(settled).toHaveProperty('ttl');
      expect(settled).not.toHaveProperty('outbox');
    });

    it('takes duplicate, reordered and replayed batches for nothing new', async () => {
      const provider = new Provider(false);
      const { ledger, batch } = stageOf(provider);
      const [a, b] = [await completedWith(ledger, charge(1)), await completedWith(ledger, charge(2))];
      const [first, second] = [streamRecord(a), streamRecord(b)];
      expect(await batch([second, first, second, first])).toEqual([]);
      expect(await batch([first, second])).toEqual([]);
      expect(await batch([streamRecord({ ...a, pk: 'never-was' })])).toEqual([]);
      expect(provider.effects.toSorted()).toEqual(['charge {"amount":1}', 'charge {"amount":2}']);
    });

    it('is not set off by its own notes', async () => {
      const provider = new Provider(true);
      const { ledger, batch } = stageOf(provider);
      const record = await completedWith(ledger, charge(1));
      await batch([streamRecord(record, 'completed')]);
      expect(provider.calls).toEqual([]);
    });

    it("makes the delivery's response the final one of a deferred operation", async () => {
      const provider = new Provider(true);
      const response = {
        statusCode: 201,
        headers: { location: '/payments/1', 'set-cookie': 'a=b' },
        body: '{"paid":1}',
      };
      const { ledger, batch } = stageOf(provider, () => delivered({ reference: 'ch_1', response }));
      const record = await acceptedWith(ledger, charge(1));
      await batch([streamRecord(record)]);
      expect(await bodyOf(ledger, record.pk)).toEqual({ status: 201, body: '{"paid":1}' });
      const settled = await ledger.read(record.pk);
      expect(settled).toMatchObject({
        status: 'completed',
        response: { headers: [['location', '/payments/1']] },
      });
    });

    it('settles a business refusal as completed, and delivers nothing after it', async () => {
      const provider = new Provider(true);
      const { ledger, batch } = stageOf(provider, () =>
        refused({ response: { statusCode: 402, body: '"declined"' } }),
      );
      const record = await acceptedWith(ledger, charge(1), { type: 'receipt', payload: '1' });
      await batch([streamRecord(record)]);
      expect(await bodyOf(ledger, record.pk)).toEqual({ status: 402, body: '"declined"' });
      expect(provider.calls).toHaveLength(1);
    });

    it('calls an uncertain answer unknown, and never delivers it again', async () => {
      const provider = new Provider(true);
      const { ledger, batch, redrive, setNow } = stageOf(provider, () => uncertain('504 from the bank'));
      const record = await acceptedWith(ledger, charge(1));
      await batch([streamRecord(record)]);
      expect(await ledger.read(record.pk)).toMatchObject({
        status: 'unknown',
        errorCode: '504 from the bank',
      });
      setNow(later);
      expect(await redrive(record.pk)).toBe('nothing');
      expect(provider.calls).toHaveLength(1);
    });

    it('tries a failed delivery again, later and later, with the same key, and then parks it with the last error', async () => {
      const provider = new Provider(true);
      const { ledger, batch, redrive, setNow, measured } = stageOf(provider, (call) => {
        throw Object.assign(new Error('secret'), { name: 'ProviderDown', code: call });
      });
      const record = await completedWith(ledger, charge(1));
      expect(await batch([streamRecord(record)])).toEqual([]);
      const pauses: number[] = [];
      let now = START;
      for (let tries = 1; tries < schedule.outboxTries; tries += 1) {
        const waiting = await ledger.read(record.pk);
        const at = (waiting as Accepted).due?.at ?? 0;
        expect((waiting as Accepted).due).toMatchObject({ tries, error: `ProviderDown (${tries})` });
        pauses.push((at - now) / 1_000);
        setNow(at - 1);
        expect(await redrive(record.pk)).toBe('nothing');
        now = at;
        setNow(at);
        expect(await redrive(record.pk)).toBe(tries === 7 ? 'parked' : 'rescheduled');
      }
      expect(pauses).toEqual([30, 60, 120, 240, 480, 960, 1_920]);
      const parked = await ledger.read(record.pk);
      expect(parked).toMatchObject({
        status: 'completed',
        due: { parkedAt: now, tries: 8, error: 'ProviderDown (8)', shard: expect.stringMatching(/^parked#/) },
      });
      expect(parked).not.toHaveProperty('ttl');
      expect(JSON.stringify([parked, measured])).not.toContain('secret');
      expect(new Set(provider.calls.map(({ context }) => context.key)).size).toBe(1);
      expect(provider.calls.map(({ context }) => context.attempt)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
      expect(await redrive(record.pk)).toBe('nothing');
      expect(measured.filter(({ metrics }) => metrics.parked)).toHaveLength(1);
    });

    it('goes on where it stopped: what is delivered is not delivered again', async () => {
      const provider = new Provider(true);
      const { ledger, batch, redrive, setNow } = stageOf(provider, (call) => {
        if (call === 2) throw new Error('down');
        return undefined;
      });
      const record = await completedWith(ledger, charge(1), charge(2), charge(3));
      await batch([streamRecord(record)]);
      expect(provider.calls).toHaveLength(2);
      setNow(later);
      expect(await redrive(record.pk)).toBe('settled');
      expect(provider.calls.map(({ event }) => event.payload)).toEqual(
        [1, 2, 2, 3].map((amount) => ({ amount })),
      );
    });

    it('asks a provider that does not dedupe at most once: a throw may have happened', async () => {
      const provider = new Provider(false);
      const { ledger, batch, redrive, setNow } = stageOf(provider, () => {
        throw new Error('socket hang up');
      });
      const [pending, done] = [await acceptedWith(ledger, charge(1)), await completedWith(ledger, charge(2))];
      await batch([streamRecord(pending), streamRecord(done)]);
      expect(await ledger.read(pending.pk)).toMatchObject({ status: 'unknown', errorCode: 'Error' });
      expect(await ledger.read(done.pk)).toMatchObject({ status: 'completed', due: { parkedAt: START } });
      setNow(later);
      expect(await redrive(pending.pk)).toBe('nothing');
      expect(await redrive(done.pk)).toBe('nothing');
      expect(provider.calls).toHaveLength(2);
    });

    it('asks it again if the delivery knows that nothing happened', async () => {
      const provider = new Provider(false);
      const { ledger, batch, redrive, setNow } = stageOf(provider, (call) => {
        if (call === 1) throw new NotExecuted('no connection');
        return undefined;
      });
      const record = await acceptedWith(ledger, charge(1));
      await batch([streamRecord(record)]);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'accepted', due: { tries: 1 } });
      setNow(later);
      expect(await redrive(record.pk)).toBe('settled');
      expect(await bodyOf(ledger, record.pk)).toEqual({ status: 204, body: '' });
    });

    it('calls a claim that nobody came back from unknown, but not before it is over', async () => {
      const provider = new Provider(false);
      const { ledger, batch, redrive, setNow } = stageOf(provider);
      const record = await acceptedWith(ledger, charge(1));
      await ledger.noteDelivery(record, 0, { to: 'claimed', id: 'crashed', until: START + 10_000 });
      await batch([streamRecord(record)]);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'accepted', due: { at: START + 11_001 } });
      setNow(START + 11_000);
      expect(await redrive(record.pk)).toBe('nothing');
      setNow(START + 11_001);
      expect(await redrive(record.pk)).toBe('unknown');
      expect(provider.calls).toEqual([]);
    });

    it('does not send a key again that its provider may have forgotten', async () => {
      const provider = new Provider(true);
      const { ledger, batch, setNow } = stageOf(provider);
      const [pending, done] = [await acceptedWith(ledger, charge(1)), await completedWith(ledger, charge(2))];
      setNow(START + 23 * HOUR_MS);
      await batch([streamRecord(pending), streamRecord(done)]);
      expect(await ledger.read(pending.pk)).toMatchObject({
        status: 'unknown',
        errorCode: 'dedupe_window_over',
      });
      expect(await ledger.read(done.pk)).toMatchObject({ due: { parkedAt: START + 23 * HOUR_MS } });
      expect(provider.calls).toEqual([]);
    });

    it('puts off what nobody delivers, and what a delivery returns by mistake', async () => {
      const provider = new Provider(true);
      const { ledger, batch } = stageOf(provider, () => ({ kind: 'ok' }));
      const [unhandled, odd] = [
        await completedWith(ledger, { type: 'constructor', payload: '1' }),
        await completedWith(ledger, charge(1)),
      ];
      expect(await batch([streamRecord(unhandled), streamRecord(odd)])).toEqual([]);
      expect(await ledger.read(unhandled.pk)).toMatchObject({
        due: { error: 'no delivery for constructor' },
      });
      expect(await ledger.read(odd.pk)).toMatchObject({ due: { error: 'InvalidArgument' } });
    });

    it('puts off what could never be stored, before anything is noted, and gives up on it in the end', async () => {
      const long = 'x'.repeat(500_000);
      for (const [returned, error] of [
        [delivered({ reference: long }), 'InvalidArgument'],
        [
          delivered({ response: { statusCode: 201, headers: { location: long }, body: '' } }),
          'InvalidArgument',
        ],
        [delivered({ response: { statusCode: 201, body: 'x'.repeat(7_000_000) } }), 'InvalidArgument'],
        [delivered({ response: new Map() }), 'UnstorableReply'],
      ] as const) {
        const { ledger, batch } = stageOf(new Provider(true), () => returned);
        const record = await acceptedWith(ledger, charge(1));
        expect(await batch([streamRecord(record)])).toEqual([]);
        expect(await ledger.read(record.pk)).toMatchObject({ status: 'accepted', due: { tries: 1, error } });
      }
      const { ledger, batch } = stageOf(new Provider(true), () => uncertain(long));
      const record = await acceptedWith(ledger, charge(1));
      expect(await batch([streamRecord(record)])).toEqual([]);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'unknown', errorCode: 'x'.repeat(200) });
    });

    it('keeps the default where a function says nonsense about how long a response is kept', async () => {
      const provider = new Provider(true);
      const { ledger, deliveries } = stageOf(provider, () =>
        delivered({ response: { statusCode: 201, body: '1' } }),
      );
      const { batch, logged } = dispatchStage(ledger, deliveries, { retentionSeconds: () => 5 });
      const record = await acceptedWith(ledger, charge(1));
      expect(await batch([streamRecord(record)])).toEqual([]);
      expect(await ledger.read(record.pk)).toMatchObject({
        status: 'completed',
        expiresAt: START + 24 * HOUR_MS,
      });
      expect(logged).toContainEqual(expect.objectContaining({ decision: 'retention_refused' }));
    });

    it('puts off a record that the store refuses, where trying at once would be the same again', async () => {
      const provider = new Provider(true);
      const { ledger, deliveries } = stageOf(provider);
      const refusing: Ledger<unknown> = {
        ...ledger,
        noteDelivery: async () => {
          throw new StoreRefused('no permission');
        },
      };
      const record = await completedWith(ledger, charge(1));
      const { batch } = dispatchStage(refusing, deliveries);
      expect(await batch([streamRecord(record)])).toEqual([]);
      expect(await ledger.read(record.pk)).toMatchObject({ due: { tries: 1, error: 'StoreRefused' } });
    });

    it('keeps an event that is poisoned from holding up the others', async () => {
      const provider = new Provider(true);
      const { ledger, batch } = stageOf(provider, (call) => {
        if (call === 1) throw new Error('poison');
        return undefined;
      });
      const records = [];
      for (const amount of [1, 2, 3]) records.push(await completedWith(ledger, charge(amount)));
      expect(await batch(records.map((record) => streamRecord(record)))).toEqual([]);
      const states = await Promise.all(records.map(({ pk }) => ledger.read(pk)));
      expect(states.filter((record) => record && 'outbox' in record && record.outbox)).toHaveLength(1);
    });

    it('reports only what it could neither deliver nor put off', async () => {
      const provider = new Provider(true);
      const { ledger, deliveries } = stageOf(provider);
      const [sound, silent] = [
        await completedWith(ledger, charge(1)),
        await completedWith(ledger, charge(2)),
      ];
      const broken: Ledger<unknown> = {
        ...ledger,
        read: async (pk, call) => {
          if (pk === silent.pk) throw new Error('the store is away');
          return ledger.read(pk, call);
        },
      };
      const { batch, logged } = dispatchStage(broken, deliveries);
      expect(await batch([streamRecord(silent), streamRecord(sound)])).toEqual([`seq-${silent.pk}`]);
      expect(provider.effects).toEqual(['charge {"amount":1}']);
      expect(logged).toContainEqual(expect.objectContaining({ decision: 'dispatch_failed', level: 'error' }));
    });

    it('begins nothing that it could not wait for', async () => {
      const provider = new Provider(true);
      const { ledger, batch } = stageOf(provider);
      const record = await completedWith(ledger, charge(1));
      expect(await batch([streamRecord(record)], 2_900)).toEqual([`seq-${record.pk}`]);
      expect(provider.calls).toEqual([]);
    });
  });
}

it('a dispatcher says at once what its options lack', () => {
  const ledger = memoryLedger();
  const make = (options: object) => () => dispatcher({ ledger, deliveries: {}, ...options });
  expect(make({ deliveries: undefined })).toThrow(/needs deliveries, for example/);
  expect(make({ deliveries: { charge: { deliver: async () => {} } } })).toThrow(
    /The delivery of charge needs deliver/,
  );
  expect(make({ handlers: {} })).toThrow(/dispatcher\(\) has no option handlers/);
  expect(make({ operations: { 'POST /a': { retentionSeconds: 5 } } })).toThrow(/retentionSeconds is 5/);
  expect(make({ storedHeaders: ['set-cookie'] })).toThrow(/never stored/);
});
