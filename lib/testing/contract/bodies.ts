import assert from 'node:assert/strict';
import { limits } from '../../core/limits.ts';
import type { Reply } from '../../core/record.ts';
import { completedBy, contractCase, inProgress, noise, outcomeAt, replyOf, START } from './subject.ts';

const replies: Readonly<Record<string, Reply>> = {
  'an empty body': replyOf('', 204),
  'unicode text': replyOf('{"name":"Zoë — 支払い 💳"}'),
  'binary with every byte': {
    ...replyOf(''),
    body: Uint8Array.from({ length: 256 }, (_, byte) => byte),
    base64: true,
  },
  'a long text that compresses': replyOf(
    JSON.stringify({ lines: Array(20_000).fill('the same line again') }),
  ),
  'noise just small enough to be inline': { ...replyOf(''), body: noise(limits.inlineBodyMaxBytes) },
  'noise just too large to be inline': { ...replyOf(''), body: noise(limits.inlineBodyMaxBytes + 1) },
  'noise of exactly two chunks': { ...replyOf(''), body: noise(2 * limits.chunkMaxBytes), base64: true },
  'the 6 MB that Lambda can return': { ...replyOf(''), body: noise(limits.bodyMaxBytes), base64: true },
};

export const bodies = [
  ...Object.entries(replies).map(([what, reply]) =>
    contractCase(`${what} is replayed byte for byte`, async ({ ledger }) => {
      const mine = await inProgress(ledger);
      const body = Uint8Array.from(reply.body);
      const done = await completedBy(ledger, mine, { ...outcomeAt(START), reply: { ...reply, body } });
      body.fill(0); // What the caller does to its buffer afterwards is its own business.
      const found = await ledger.read(mine.pk);
      assert.deepEqual(found, done);
      const replayed = await ledger.reply(done.pk, done.response);
      assert.equal(Buffer.compare(replayed.body, reply.body), 0);
      assert.deepEqual({ ...replayed, body: [] }, { ...reply, body: [] });
    }),
  ),

  contractCase('headers keep their order, their case and their repetitions', async ({ ledger }) => {
    const headers = [
      ['Location', '/payments/1'],
      ['x-note', 'b'],
      ['x-note', 'a'],
      ['ETag', '"1"'],
    ] as const;
    const outcome = { ...outcomeAt(START), reply: { ...replyOf('{}'), headers } };
    const done = await completedBy(ledger, await inProgress(ledger), outcome);
    assert.deepEqual((await ledger.reply(done.pk, done.response)).headers, headers);
  }),

  contractCase(
    'a body larger than Lambda can return is refused before anything is written',
    async ({ ledger }) => {
      const mine = await inProgress(ledger);
      const reply = { ...replyOf(''), body: new Uint8Array(limits.bodyMaxBytes + 1) };
      await assert.rejects(ledger.complete(mine, { ...outcomeAt(START), reply }), /at most 6291456/);
      assert.deepEqual(await ledger.read(mine.pk), mine);
    },
  ),

  contractCase('the outbox is kept as it was emitted', async ({ ledger }) => {
    const outbox = [
      { type: 'charge', payload: '{"a":-0,"b":1e400,"__proto__":[]}' },
      { type: 'receipt', payload: '""' },
    ];
    const done = await completedBy(ledger, await inProgress(ledger), { ...outcomeAt(START), outbox });
    assert.deepEqual(done.outbox, outbox);
    assert.deepEqual(await ledger.read(done.pk), done);
  }),

  contractCase('what a caller does to a record it was given changes nothing', async ({ ledger }) => {
    const done = await completedBy(ledger, await inProgress(ledger));
    const mutable = (await ledger.read(done.pk)) as unknown as { tenant: string; moves: unknown[] };
    mutable.tenant = 'someone else';
    mutable.moves.push('nonsense');
    assert.deepEqual(await ledger.read(done.pk), done);
  }),
];
