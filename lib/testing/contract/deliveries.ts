import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { limits } from '../../core/limits.ts';
import {
  type Accepted,
  type ClaimedDelivery,
  type CompletedUndelivered,
  type Delivery,
  type DoneDelivery,
  outboxOf,
  type Reply,
  type Undelivered,
} from '../../core/record.ts';
import type { DeliveryNote, Ledger } from '../../ledger/ledger.ts';
import {
  completedBy,
  contractCase,
  deferralAt,
  doubtAt,
  dueOf,
  inProgress,
  movedRecord,
  noise,
  outcomeAt,
  replyOf,
  SECOND,
  START,
} from './subject.ts';

const LATER = START + SECOND;
const expiry = { expiresAt: LATER + 86_400_000, ttl: Math.ceil(LATER / SECOND) + 90_000 };
const outbox = [
  { type: 'charge', payload: '{"amount":1}' },
  { type: 'receipt', payload: '{"to":"a@example.com"}' },
];

async function acceptedOne(ledger: Ledger<unknown>): Promise<Accepted> {
  return movedRecord(await ledger.accept(await inProgress(ledger), { ...deferralAt(START), outbox }));
}

async function completedOne(ledger: Ledger<unknown>): Promise<CompletedUndelivered> {
  const done = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), outbox });
  return done as CompletedUndelivered;
}

/** Every record that has events to deliver. */
const undelivered: Readonly<Record<string, (ledger: Ledger<unknown>) => Promise<Undelivered>>> = {
  'an accepted record': acceptedOne,
  'a completed record': completedOne,
};

const claimBy = (id: string): DeliveryNote => ({ to: 'claimed', id, until: LATER });
const claimed = (id: string): ClaimedDelivery => ({ state: 'claimed', id, until: LATER });
const doneAs = (reference: string): DoneDelivery => ({ state: 'done', at: LATER, reference });

/** Each note, from a record where it may be written. */
const notes: Readonly<Record<string, { readonly before?: DeliveryNote; readonly note: DeliveryNote }>> = {
  'a claim': { note: claimBy('me') },
  'a delivery': { note: { to: 'done', at: LATER, reference: 'ch_1' } },
  'a delivery under its claim': {
    before: claimBy('me'),
    note: { to: 'done', at: LATER, reference: 'ch_1', claim: 'me' },
  },
  'a refusal with an answer': { note: { to: 'refused', at: LATER, reply: replyOf('"declined"', 402) } },
  'a claim that is given up': { before: claimBy('me'), note: { to: 'none', claim: 'me' } },
};

async function deliveriesNow(ledger: Ledger<unknown>, pk: string): Promise<(Delivery | undefined)[]> {
  const now = await ledger.read(pk);
  const open = now?.status === 'accepted' || (now?.status === 'completed' && now.outbox);
  return open ? outboxOf(now as Undelivered).map(({ delivery }) => delivery) : [];
}

async function noted(
  ledger: Ledger<unknown>,
  from: Undelivered,
  ...[first, second]: (DeliveryNote | undefined)[]
): Promise<Undelivered> {
  let record = from;
  for (const [index, note] of [first, second].entries()) {
    if (note) record = movedRecord(await ledger.noteDelivery(record, index, note));
  }
  return record;
}

const onEach = Object.entries(undelivered).flatMap(([what, make]) => [
  ...Object.entries(notes).flatMap(([name, { before, note }]) => [
    contractCase(`${name} on ${what} is kept, and recognised when it is noted again`, async ({ ledger }) => {
      const from = await noted(ledger, await make(ledger), before);
      const first = await ledger.noteDelivery(from, 0, note);
      assert.equal(first.kind, 'moved');
      assert.deepEqual(await ledger.read(from.pk), first.record);
      assert.deepEqual(await ledger.noteDelivery(from, 0, note), first);
      assert.deepEqual(await ledger.read(from.pk), first.record);
    }),

    contractCase(
      `${name} on ${what} changes nothing for another attempt or another operation`,
      async ({ ledger }) => {
        const from = await noted(ledger, await make(ledger), before);
        for (const stranger of [{ attempt: 2 }, { operationId: randomUUID() }]) {
          const refused = await ledger.noteDelivery({ ...from, ...stranger }, 0, note);
          assert.deepEqual(refused, { kind: 'fenced', record: from }, Object.keys(stranger)[0]);
        }
        assert.deepEqual(await ledger.read(from.pk), from);
        const ghost = { ...from, pk: `pk-${randomUUID()}` };
        assert.deepEqual(await ledger.noteDelivery(ghost, 0, note), { kind: 'fenced', record: undefined });
        assert.equal(await ledger.read(ghost.pk), undefined);
      },
    ),

    contractCase(`${name} on ${what} leaves newer notes and the place in the index`, async ({ ledger }) => {
      const from = await noted(ledger, await make(ledger), before);
      const due = dueOf(from.pk, LATER);
      await ledger.noteDelivery(from, 1, { to: 'done', at: LATER, reference: 'newer' });
      await ledger.watch(from, due);
      assert.equal((await ledger.noteDelivery(from, 0, note)).kind, 'moved');
      const now = await ledger.read(from.pk);
      assert.deepEqual((await deliveriesNow(ledger, from.pk))[1], doneAs('newer'));
      assert.deepEqual(now && 'due' in now && now.due, due);
    }),
  ]),

  contractCase(
    `an event of ${what} is claimed by one, and only while nothing is known`,
    async ({ ledger }) => {
      const from = await make(ledger);
      const mine = movedRecord<Undelivered>(await ledger.noteDelivery(from, 0, claimBy('me')));
      assert.deepEqual(outboxOf(mine)[0].delivery, claimed('me'));
      assert.equal(outboxOf(mine)[1]?.delivery, undefined);
      for (const stale of [from, mine]) {
        assert.deepEqual(await ledger.noteDelivery(stale, 0, claimBy('you')), {
          kind: 'fenced',
          record: mine,
        });
      }
      for (const to of ['done', 'refused'] as const) {
        const known = await noted(ledger, await make(ledger), { to, at: LATER });
        const late = await ledger.noteDelivery(known, 0, claimBy('me'));
        assert.deepEqual(late, { kind: 'fenced', record: known }, to);
      }
    },
  ),

  contractCase(
    `what came of an event of ${what} is said over nothing, or over one's own claim`,
    async ({ ledger }) => {
      const from = await noted(ledger, await make(ledger), claimBy('me'));
      for (const to of ['done', 'refused'] as const) {
        for (const claim of [{}, { claim: 'you' }]) {
          const refused = await ledger.noteDelivery(from, 0, { to, at: LATER, ...claim });
          assert.deepEqual(refused, { kind: 'fenced', record: from }, `${to} ${claim.claim}`);
        }
        const unclaimed = await ledger.noteDelivery(from, 1, { to, at: LATER, claim: 'me' });
        assert.deepEqual(unclaimed, { kind: 'fenced', record: from }, 'a claim that is not there');
      }
      const done = await noted(ledger, from, { to: 'done', at: LATER, reference: 'ch_1', claim: 'me' });
      assert.deepEqual(outboxOf(done)[0].delivery, doneAs('ch_1'));
      for (const claim of [{}, { claim: 'me' }]) {
        const again = await ledger.noteDelivery(done, 0, {
          to: 'done',
          at: LATER,
          reference: 'ch_2',
          ...claim,
        });
        assert.deepEqual(again, { kind: 'fenced', record: done }, 'a reference is not replaced');
      }
    },
  ),

  contractCase(
    `a claim on an event of ${what} is given up only by who made it, and frees the event`,
    async ({ ledger }) => {
      const from = await noted(ledger, await make(ledger), claimBy('me'));
      assert.deepEqual(await ledger.noteDelivery(from, 0, { to: 'none', claim: 'you' }), {
        kind: 'fenced',
        record: from,
      });
      const free = movedRecord<Undelivered>(await ledger.noteDelivery(from, 0, { to: 'none', claim: 'me' }));
      assert.equal('delivery' in outboxOf(free)[0], false);
      const next = await noted(ledger, free, claimBy('you'));
      assert.deepEqual(await ledger.noteDelivery(next, 0, { to: 'none', claim: 'me' }), {
        kind: 'fenced',
        record: next,
      });
      const done = await noted(ledger, next, { to: 'done', at: LATER, claim: 'you' });
      assert.deepEqual(await ledger.noteDelivery(done, 0, { to: 'none', claim: 'you' }), {
        kind: 'fenced',
        record: done,
      });
    },
  ),

  contractCase(
    `what a person knows of a delivery of ${what} is signed once, over the claim it names`,
    async ({ ledger }) => {
      const signed = (who: string) => ({ audit: { at: LATER, id: who, who, why: 'ch_1', move: 'settle' } });
      for (const note of [
        { to: 'done', at: LATER, reference: 'ch_1', claim: 'me' },
        { to: 'none', claim: 'me' },
      ] as const) {
        const from = await noted(ledger, await make(ledger), claimBy('me'));
        const wrong = await ledger.noteDelivery(from, 0, { ...note, claim: 'you' }, signed('Eve'));
        assert.deepEqual(wrong, { kind: 'fenced', record: from });
        const record = movedRecord(await ledger.noteDelivery(from, 0, note, signed('Ada')));
        assert.deepEqual(await ledger.read(from.pk), record);
        const again = await ledger.noteDelivery(from, 0, note, signed('Bob'));
        assert.deepEqual(again, { kind: 'fenced', record });
        assert.deepEqual(await ledger.audits(from.pk), [signed('Ada').audit]);
      }
    },
  ),

  contractCase(`an event that ${what} does not have is refused`, async ({ ledger }) => {
    const from = await make(ledger);
    for (const index of [-1, 2, 0.5, Number.NaN]) {
      await assert.rejects(
        ledger.noteDelivery(from, index, claimBy('me')),
        /has 2 events, and none with index/,
      );
    }
    assert.deepEqual(await ledger.read(from.pk), from);
  }),

  contractCase(`a claim on an event of ${what} may be one that is over already`, async ({ ledger }) => {
    const from = await make(ledger);
    const over = await noted(ledger, from, { to: 'claimed', id: 'me', until: START - SECOND });
    assert.deepEqual(await ledger.read(from.pk), over);
  }),

  contractCase(
    `the answer of a delivery of ${what} is kept byte for byte, however long`,
    async ({ ledger }) => {
      const answers: Reply[] = [
        replyOf('{"paid":"Zoë 💳"}'),
        { ...replyOf('', 402), body: noise(2 * limits.inlineBodyMaxBytes), base64: true },
      ];
      for (const reply of answers) {
        const note = { to: 'done', at: LATER, reference: 'ch_1', reply } as const;
        const record = await noted(ledger, await make(ledger), note);
        const delivery = outboxOf(record)[0].delivery;
        if (delivery?.state !== 'done' || !delivery.response) throw new Error('expected a response');
        assert.equal('inline' in delivery.response.body, reply.status === 201);
        assert.deepEqual(await ledger.reply(record.pk, delivery.response), reply);
        assert.deepEqual(await ledger.read(record.pk), record);
      }
    },
  ),

  contractCase(`what cannot be read back is not noted on ${what}`, async ({ ledger }) => {
    const from = await make(ledger);
    const odd: DeliveryNote[] = [
      { to: 'claimed', id: 'me', until: LATER + 0.5 },
      { to: 'done', at: Number.NaN },
      { to: 'done', at: LATER, reply: { ...replyOf(''), status: Number.NaN } },
    ];
    for (const note of odd) await assert.rejects(ledger.noteDelivery(from, 0, note), /cannot be stored/);
    assert.deepEqual(await ledger.read(from.pk), from);
  }),
]);

const ends = [
  contractCase('nothing is noted once the outbox is delivered', async ({ ledger }) => {
    for (const { before, note } of Object.values(notes)) {
      const from = (await noted(ledger, await completedOne(ledger), before)) as CompletedUndelivered;
      const done = movedRecord(await ledger.deliver(from, expiry.ttl));
      assert.deepEqual(await ledger.noteDelivery(from, 0, note), { kind: 'fenced', record: done }, note.to);
      assert.deepEqual(await ledger.read(from.pk), done);
    }
  }),

  contractCase('nothing is noted once an accepted record is settled or in doubt', async ({ ledger }) => {
    for (const target of [
      { to: 'completed', now: LATER, reply: replyOf('"final"'), ...expiry },
      { to: 'unknown', ...doubtAt('pk', LATER) },
    ] as const) {
      for (const { before, note } of Object.values(notes)) {
        const from = (await noted(ledger, await acceptedOne(ledger), before)) as Accepted;
        const { record } = await ledger.settleAccepted(from, target);
        assert.deepEqual(await ledger.noteDelivery(from, 0, note), { kind: 'fenced', record }, target.to);
        assert.deepEqual(await ledger.read(from.pk), record);
      }
    }
  }),

  contractCase('a settled record keeps nothing of its deliveries but the answer', async ({ ledger }) => {
    const from = (await noted(ledger, await acceptedOne(ledger), claimBy('me'))) as Accepted;
    const target = { to: 'completed', now: LATER, reply: replyOf('"final"'), ...expiry } as const;
    const done = movedRecord(await ledger.settleAccepted(from, target));
    assert.equal('outbox' in done, false);
    assert.deepEqual(await ledger.read(from.pk), done);
  }),

  contractCase('a delivery is called doubtful only while its claim stands', async ({ ledger }) => {
    const doubt = (index: number, id: string) =>
      ({ to: 'unknown', event: { index, id }, ...doubtAt('pk', LATER) }) as const;
    const from = (await noted(ledger, await acceptedOne(ledger), claimBy('me'))) as Accepted;
    for (const target of [doubt(0, 'you'), doubt(1, 'me')]) {
      assert.deepEqual(await ledger.settleAccepted(from, target), { kind: 'fenced', record: from });
    }
    const done = await noted(ledger, from, { to: 'done', at: LATER, claim: 'me' });
    assert.deepEqual(await ledger.settleAccepted(from, doubt(0, 'me')), { kind: 'fenced', record: done });

    const freed = (await noted(ledger, await acceptedOne(ledger), claimBy('me'))) as Accepted;
    const free = await noted(ledger, freed, { to: 'none', claim: 'me' });
    assert.deepEqual(await ledger.settleAccepted(freed, doubt(0, 'me')), { kind: 'fenced', record: free });

    const crashed = (await noted(ledger, await acceptedOne(ledger), claimBy('me'))) as Accepted;
    const moved = await ledger.settleAccepted(crashed, doubt(0, 'me'));
    assert.equal(moved.kind, 'moved');
    assert.deepEqual(await ledger.read(crashed.pk), moved.record);
    assert.deepEqual(await ledger.settleAccepted(crashed, doubt(0, 'me')), moved, 'its own retry as well');
  }),

  contractCase(
    'a delivery that nobody claimed is called doubtful only while nothing is noted',
    async ({ ledger }) => {
      const doubt = { to: 'unknown', event: { index: 0 }, ...doubtAt('pk', LATER) } as const;
      for (const note of [claimBy('me'), { to: 'done', at: LATER } as const]) {
        const from = await acceptedOne(ledger);
        const now = await noted(ledger, from, note);
        assert.deepEqual(await ledger.settleAccepted(from, doubt), { kind: 'fenced', record: now });
      }
      const from = await acceptedOne(ledger);
      assert.equal((await ledger.settleAccepted(from, doubt)).kind, 'moved');
    },
  ),

  contractCase('a doubt about one delivery leaves newer notes of the others', async ({ ledger }) => {
    const from = (await noted(ledger, await acceptedOne(ledger), claimBy('me'))) as Accepted;
    await ledger.noteDelivery(from, 1, { to: 'done', at: LATER, reference: 'newer' });
    const target = { to: 'unknown', event: { index: 0, id: 'me' }, ...doubtAt(from.pk, LATER) } as const;
    assert.equal((await ledger.settleAccepted(from, target)).kind, 'moved');
    const now = await ledger.read(from.pk);
    if (now?.status !== 'unknown') throw new Error(`expected unknown, found ${now?.status}`);
    assert.deepEqual(now.accepted?.outbox[0].delivery, claimed('me'));
    assert.deepEqual(now.accepted?.outbox[1]?.delivery, doneAs('newer'));
  }),

  contractCase(
    'what is accepted again has no claims any more, and what was delivered stays so',
    async ({ ledger }) => {
      const done = { to: 'done', at: LATER, reference: 'ch_1', reply: replyOf('"paid"') } as const;
      const from = (await noted(ledger, await acceptedOne(ledger), done, claimBy('me'))) as Accepted;
      const { record: unknown } = await ledger.settleAccepted(from, {
        to: 'unknown',
        ...doubtAt(from.pk, LATER),
      });
      if (unknown?.status !== 'unknown') throw new Error(`expected unknown, found ${unknown?.status}`);
      const reentry = { owner: randomUUID(), now: LATER, due: dueOf(from.pk, LATER) };
      const settled = await ledger.settle(unknown, { to: 'accepted', ...reentry });
      const again = movedRecord<Accepted>(settled);
      assert.deepEqual(again.accepted.outbox[0], from.accepted.outbox[0]);
      assert.deepEqual(again.accepted.outbox[1], outbox[1]);
      assert.deepEqual(await ledger.read(from.pk), again);
      assert.deepEqual(await ledger.settle(unknown, { to: 'accepted', ...reentry }), settled);

      const late = await ledger.noteDelivery(from, 1, { to: 'done', at: LATER, claim: 'me' });
      assert.deepEqual(late, { kind: 'fenced', record: again }, 'whoever had claimed it comes too late');
      for (const [index, note] of [[0, done] as const, [1, { to: 'none', claim: 'me' }] as const]) {
        const old = await ledger.noteDelivery(from, index, note);
        assert.deepEqual(
          old,
          { kind: 'fenced', record: again },
          'and is told so, even of what is found as it would be',
        );
      }
      assert.equal((await ledger.noteDelivery(again, 1, claimBy('you'))).kind, 'moved');
    },
  ),

  contractCase('a verdict that has not seen a delivery does not undo it', async ({ ledger }) => {
    const from = (await noted(ledger, await acceptedOne(ledger), claimBy('me'))) as Accepted;
    await ledger.noteDelivery(from, 1, { to: 'done', at: LATER, reference: 'newer' });
    const doubt = { to: 'unknown', ...doubtAt(from.pk, LATER) } as const;
    await ledger.settleAccepted(from, doubt);
    const unknown = await ledger.read(from.pk);
    if (unknown?.status !== 'unknown') throw new Error(`expected unknown, found ${unknown?.status}`);
    const blind = { ...unknown, accepted: from.accepted };
    const target = { to: 'accepted', owner: randomUUID(), now: LATER, due: dueOf(from.pk, LATER) } as const;
    assert.deepEqual(await ledger.settle(blind, target), { kind: 'fenced', record: unknown });
    assert.equal((await ledger.settle(unknown, target)).kind, 'moved');
    assert.deepEqual(await deliveriesNow(ledger, from.pk), [undefined, doneAs('newer')]);
  }),
];

export const deliveries = [...onEach, ...ends];
