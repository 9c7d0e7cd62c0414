import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type { Accepted, Completed } from '../../lib/core/record.ts';
import { delivered, refused, uncertain } from '../../lib/effects/deliveries.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { DispatchOptions } from '../../lib/reconcile/dispatch.ts';
import { useTable } from '../support/table.ts';
import {
  acceptedWith,
  charge,
  completedWith,
  dispatchStage,
  Provider,
  START,
  streamRecord,
  through,
} from './stage.ts';

const table = useTable();

const DAY_MS = 24 * 3_600_000;
const response = (statusCode: number, body = '') => ({ statusCode, body });

/** A dispatcher whose provider says these things, one after another, and then nothing. */
function world(
  says: readonly unknown[],
  { dedupes = true, ...options }: Partial<DispatchOptions> & { readonly dedupes?: boolean } = {},
  ledgerOf: (clock: () => number) => Ledger<unknown> = (clock) => memoryLedger({ clock }),
) {
  const time = { now: START };
  const ledger = ledgerOf(() => time.now);
  const provider = new Provider(dedupes);
  const said = (call: number) => {
    const outcome = says[call - 1];
    if (outcome instanceof Error) throw outcome;
    return outcome;
  };
  const deliveries = { charge: through(provider, said) };
  return { ledger, time, provider, ...dispatchStage(ledger, deliveries, { time, ...options }) };
}

const ledgers = {
  memory: (clock: () => number) => memoryLedger({ clock }),
  DynamoDB: (clock: () => number) => dynamoDbLedger({ ...table, clock }) as Ledger<unknown>,
};

for (const [name, ledgerOf] of Object.entries(ledgers)) {
  it(`the provider's references outlive the outbox on ${name}`, async () => {
    for (const recordOf of [acceptedWith, completedWith]) {
      const says = [delivered({ reference: 'ch_1' }), delivered(), delivered({ reference: 'ch_3' })];
      const { ledger, batch } = world(says, {}, ledgerOf);
      const record = await recordOf(ledger, charge(1), charge(2), charge(3));
      await batch([streamRecord(record)]);
      const settled = await ledger.read(record.pk);
      expect(settled).toMatchObject({ status: 'completed', references: ['ch_1', 'ch_3'] });
      expect(settled).not.toHaveProperty('outbox');
    }
  });
}

describe('what a delivery returned', () => {
  it('leaves its reference in the error where the rest of it is no good', async () => {
    for (const [said, error] of [
      [delivered({ reference: 'ch_2', response: { statusCode: 'two hundred' } }), /^\w+ \(ch_2\)$/],
      [delivered({ reference: 'ch_3', response: response(503) }), /^InvalidArgument \(ch_3\)$/],
      [refused({ reference: 'ch_4' }), /^InvalidArgument \(ch_4\)$/],
    ] as const) {
      const once = world([said], { dedupes: false });
      const doubtful = await acceptedWith(once.ledger, charge(1));
      await once.batch([streamRecord(doubtful)]);
      const errorCode = expect.stringMatching(error);
      expect(await once.ledger.read(doubtful.pk)).toMatchObject({ status: 'unknown', errorCode });
      const often = world([said]);
      const waiting = await acceptedWith(often.ledger, charge(1));
      await often.batch([streamRecord(waiting)]);
      expect(await often.ledger.read(waiting.pk)).toMatchObject({
        status: 'accepted',
        due: { error: errorCode },
      });
    }
  });

  it('is never an answer that says to come again: it is tried again instead', async () => {
    for (const status of [202, 408, 425, 429, 500, 503]) {
      const { ledger, batch, redrive, setNow, provider } = world([
        delivered({ response: response(status) }),
        delivered({ response: response(201) }),
      ]);
      const record = await acceptedWith(ledger, charge(1));
      await batch([streamRecord(record)]);
      const waiting = (await ledger.read(record.pk)) as Accepted;
      expect(waiting).toMatchObject({ status: 'accepted', due: { tries: 1, error: 'InvalidArgument' } });
      setNow(waiting.due?.at ?? 0);
      expect(await redrive(record.pk)).toBe('settled');
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed', response: { status: 201 } });
      expect(provider.effects).toHaveLength(1);
    }
  });

  it('becomes the answer of a deferred operation: the last that was said, or the refusal', async () => {
    for (const [says, status] of [
      [[delivered({ response: response(200) }), delivered({ response: response(201) }), undefined], 201],
      [[delivered({ response: response(200) }), refused({ response: response(402) }), undefined], 402],
    ] as const) {
      const { ledger, batch } = world(says);
      const record = await acceptedWith(ledger, charge(1), charge(2), charge(3));
      await batch([streamRecord(record)]);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed', response: { status } });
    }
  });

  it('as a refusal is the last word, also before an answer that another dispatcher has noted', async () => {
    const { ledger, batch } = world([]);
    const record = await acceptedWith(ledger, charge(1), charge(2));
    const reply = (status: number) => ({ status, headers: [], body: new Uint8Array(), base64: false });
    await ledger.noteDelivery(record, 0, { to: 'refused', at: START, reply: reply(402) });
    await ledger.noteDelivery(record, 1, { to: 'done', at: START, reply: reply(201) });
    await batch([streamRecord(record)]);
    expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed', response: { status: 402 } });
  });

  it('to an operation that was answered long ago changes no answer, and is not kept', async () => {
    const { ledger, batch, provider } = world([
      refused({ response: response(402) }),
      delivered({ response: response(201) }),
      refused(),
      new Map(),
    ]);
    const record = await completedWith(ledger, ...[1, 2, 3, 4].map(charge));
    await batch([streamRecord(record)]);
    expect(provider.effects).toHaveLength(4); // A refusal is no reason to leave out what was promised besides.
    const now = (await ledger.read(record.pk)) as Completed;
    expect(now.response).toEqual(record.response);
    expect(now.outbox?.map(({ delivery }) => delivery)).toEqual([
      { state: 'refused', at: START },
      { state: 'done', at: START },
      { state: 'refused', at: START },
      undefined,
    ]);
  });

  it.each(Object.entries(ledgers))(
    'is kept on %s for as long as its record may be open',
    async (_, ledgerOf) => {
      const body = randomBytes(3_000).toString('hex');
      const { ledger, batch } = world(
        [delivered({ response: response(201, body) }), new Map()],
        {},
        ledgerOf,
      );
      const record = await acceptedWith(ledger, charge(1), charge(2));
      await batch([streamRecord(record)]);
      const { accepted } = (await ledger.read(record.pk)) as Accepted;
      const delivery = accepted.outbox[0]?.delivery;
      const stored = delivery?.state === 'done' ? delivery.response : undefined;
      expect(stored?.body).toMatchObject({ set: expect.stringMatching(/\.o[\w-]+$/) });
    },
  );

  it('that is uncertain does not undo what a faster dispatcher has noted', async () => {
    const { ledger, time, provider } = world([]);
    const record = await acceptedWith(ledger, charge(1), charge(2));
    const handler = through(provider, async (call) => {
      if (call > 1) return undefined;
      await ledger.noteDelivery(record, 0, { to: 'done', at: START, reference: 'ch_1' });
      return uncertain('409 key in use');
    });
    const { redrive } = dispatchStage(ledger, { charge: handler }, { time });
    expect(await redrive(record.pk)).toBe('nothing');
    expect(await ledger.read(record.pk)).toMatchObject({ status: 'accepted' });
    expect(await redrive(record.pk)).toBe('settled');
    expect(await ledger.read(record.pk)).toMatchObject({ references: ['ch_1'] });
  });
});

describe('an error that is kept', () => {
  it('is cut, whoever wrote it: a page of HTML leaves no record stuck', async () => {
    const page = `<html>${'card 4242 '.repeat(50_000)}`;
    const said = world([uncertain(page)]);
    const doubtful = await acceptedWith(said.ledger, charge(1));
    expect(await said.batch([streamRecord(doubtful)])).toEqual([]);
    expect(await said.ledger.read(doubtful.pk)).toMatchObject({
      status: 'unknown',
      errorCode: page.slice(0, 200),
    });

    const thrown = world([Object.assign(new Error('x'), { code: page })]);
    const waiting = await acceptedWith(thrown.ledger, charge(1));
    await thrown.batch([streamRecord(waiting)]);
    const { due } = (await thrown.ledger.read(waiting.pk)) as Accepted;
    expect(due?.error).toBe(`Error (${page}`.slice(0, 200));
  });
});

describe('a record whose events are delivered', () => {
  it('late stays for its retention after that, so that the audit still finds it', async () => {
    const { ttl } = expiryAfter(defaultPolicy, START);
    for (const [now, expected] of [
      [START, ttl],
      [START + 3 * DAY_MS, expiryAfter(defaultPolicy, START + 3 * DAY_MS).ttl],
    ] as const) {
      const { ledger, batch, setNow } = world([], { dedupes: false });
      const record = await completedWith(ledger, charge(1));
      setNow(now);
      await batch([streamRecord(record)]);
      expect(await ledger.read(record.pk)).toMatchObject({ status: 'completed', ttl: expected });
    }
  });

  it('is kept for as long as its function of the answer says', async () => {
    const { ledger, batch } = world([delivered({ response: response(402) })], {
      retentionSeconds: ({ status }) => (status === 402 ? 7_200 : 86_400),
    });
    const record = await acceptedWith(ledger, charge(1));
    await batch([streamRecord(record)]);
    expect(await ledger.read(record.pk)).toMatchObject({ expiresAt: START + 7_200_000 });
  });
});
