import { describe, expect, it } from 'vitest';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { LedgerRecord, OutboxEvent } from '../../lib/core/record.ts';
import { type DeliveryHandlers, delivered } from '../../lib/effects/deliveries.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import {
  acceptedWith,
  completedWith,
  dispatchStage,
  Provider,
  START,
  streamRecord,
} from '../reconcile/stage.ts';
import { type Passing, pointed } from '../support/points.ts';
import { useTable } from '../support/table.ts';

const table = useTable();

/** Past every claim and every pause, and inside the provider's memory. */
const LATER_MS = 2 * 3_600_000;

const event = (type: string): OutboxEvent => ({ type, payload: `"${type}"` });

type Fate = 'dies' | 'fails';

/** One outbox: a charge at a provider that dedupes, then a receipt through one that does not. */
async function journey(
  recordOf: (ledger: Ledger<unknown>, ...events: OutboxEvent[]) => Promise<LedgerRecord>,
) {
  const time = { now: START };
  const ledger = dynamoDbLedger({ ...table, clock: () => time.now }) as Ledger<unknown>;
  const [charges, receipts] = [new Provider(true), new Provider(false)];
  const record = await recordOf(ledger, event('charge'), event('receipt'));

  function deliveries(at: Passing): DeliveryHandlers {
    const through = (provider: Provider, response?: unknown) => ({
      dedupes: provider.dedupes,
      async deliver(...[emitted, context]: Parameters<Provider['take']>) {
        await at(`before the ${emitted.type}`);
        provider.take(emitted, context);
        await at(`after the ${emitted.type}`);
        return delivered({ reference: `ref-${emitted.type}`, ...(response !== undefined && { response }) });
      },
    });
    return {
      charge: through(charges, { statusCode: 201, body: '{"paid":true}' }),
      receipt: through(receipts),
    };
  }

  /** A new process, which ends at the point with this number if it gets that far. */
  async function dispatch(end = Number.POSITIVE_INFINITY, fate: Fate = 'dies') {
    const points: string[] = [];
    let die = (): void => {};
    const died = new Promise<undefined>((resolve) => {
      die = () => resolve(undefined);
    });
    const at: Passing = async (point) => {
      if (points.length > end) return;
      points.push(point);
      if (points.length <= end) return;
      if (fate === 'fails') {
        throw point.includes(' the ') ? new Error('the provider hung up') : new StoreUnavailable('silence');
      }
      die();
      await new Promise(() => {});
    };
    const { batch } = dispatchStage(pointed(ledger, at), deliveries(at), { time });
    const failures = await Promise.race([batch([streamRecord(record)]), died]);
    return { points, last: points[end], failures };
  }

  return {
    ...{ charges, receipts, dispatch },
    now: () => ledger.read(record.pk),
    async reply() {
      const settled = await ledger.read(record.pk);
      if (settled?.status !== 'completed') return settled?.status;
      return Buffer.from((await ledger.reply(record.pk, settled.response)).body).toString();
    },
    /** The stream sends the batch again, and the sweep comes by, until nothing changes any more. */
    async finish(): Promise<void> {
      const { redrive } = dispatchStage(
        ledger,
        deliveries(async () => {}),
        { time },
      );
      for (let turn = 0; turn < 4; turn += 1) {
        time.now += LATER_MS;
        await dispatch();
        await redrive(record.pk);
      }
    },
  };
}

const POINTS = [
  ...['before read', 'after read'],
  ...['before the charge', 'after the charge', 'before noteDelivery', 'after noteDelivery'],
  ...['before noteDelivery', 'after noteDelivery'], // The claim.
  ...['before the receipt', 'after the receipt', 'before noteDelivery', 'after noteDelivery'],
];

const SETTLING = {
  accepted: ['before reply', 'after reply', 'before settleAccepted', 'after settleAccepted'],
  completed: ['before deliver', 'after deliver'],
};

/** From the claim on, and until the receipt is noted, nobody knows. */
const [CLAIMED, NOTED] = [POINTS.indexOf('before the receipt') - 1, POINTS.length - 1];

for (const [status, recordOf] of Object.entries({ accepted: acceptedWith, completed: completedWith })) {
  const all = [...POINTS, ...SETTLING[status as keyof typeof SETTLING]];

  describe(`a dispatcher of an ${status} record's events`, () => {
    it('passes these points when nothing goes wrong', async () => {
      const { dispatch, charges, receipts, now } = await journey(recordOf);
      const { points, failures } = await dispatch();
      expect(points).toEqual(all);
      expect(failures).toEqual([]);
      expect([charges.effects, receipts.effects]).toEqual([['charge "charge"'], ['receipt "receipt"']]);
      expect(await now()).toMatchObject({ status: 'completed', ttl: expect.any(Number) });
    });

    for (const fate of ['dies', 'fails'] as const) {
      it(`that ${fate} at any of them makes nothing happen twice, and loses nothing`, async () => {
        for (const [end, point] of all.entries()) {
          const where = `${fate} ${point} (${end})`;
          const { dispatch, finish, charges, receipts, now, reply } = await journey(recordOf);
          expect((await dispatch(end, fate)).last, where).toBe(point);
          await finish();

          expect(charges.effects, where).toEqual(['charge "charge"']);
          expect(new Set(charges.calls.map(({ context }) => context.key)).size, where).toBe(1);
          const doubtful = end >= CLAIMED && end < NOTED;
          expect(receipts.calls.length, where).toBeLessThanOrEqual(1);
          const record = await now();
          if (doubtful) {
            const open =
              status === 'accepted' ? { status: 'unknown' } : { due: { parkedAt: expect.any(Number) } };
            expect(record, where).toMatchObject(open);
            expect(record, where).not.toHaveProperty('ttl');
            continue;
          }
          expect(receipts.calls, where).toHaveLength(1);
          expect(record, where).toMatchObject({ status: 'completed', ttl: expect.any(Number) });
          expect(await reply(), where).toBe(status === 'accepted' ? '{"paid":true}' : '{"order":1}');
        }
      });
    }
  });
}
