import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { limits } from '../../core/limits.ts';
import type { DoneStep, FailedRetryable, InProgress, LedgerRecord, Unknown } from '../../core/record.ts';
import type { Ledger, RequestToKeep } from '../../ledger/ledger.ts';
import {
  acceptedBy,
  attemptAt,
  claimOf,
  completedBy,
  contractCase,
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
  SECOND,
  SKEW_MS,
  START,
  unknownBy,
} from './subject.ts';

/* What is kept beside the outcome: results of steps, requests, and where a record was tried in vain. */

const LATER = START + SECOND;

/** JSON that does not compress, of so many bytes. */
function jsonNoise(bytes: number): string {
  return `"${Buffer.from(noise(bytes))
    .toString('base64')
    .slice(0, bytes - 2)}"`;
}

function doneStep(record: LedgerRecord | undefined, name: string): DoneStep {
  const step = record?.steps.get(name);
  if (step?.state !== 'done') throw new Error(`expected the step ${name} to be done, found ${step?.state}`);
  return step;
}

/** Results, and whether they stay text on the record, lie on it compressed, or beside it. */
const results: Readonly<
  Record<string, readonly [text: string, place: 'text' | 'inline' | 'chunks', chunks?: number]>
> = {
  'a step that returned nothing': ['', 'text'],
  'a short result': ['{"id":"ch_1"}', 'text'],
  'a result of as much text as the record takes': ['x'.repeat(limits.inlineNoteMaxBytes), 'text'],
  'a result of one character more': ['x'.repeat(limits.inlineNoteMaxBytes + 1), 'inline'],
  'a result counted in bytes, not in characters': ['支'.repeat(limits.inlineNoteMaxBytes / 2), 'inline'],
  'a long result that compresses': [
    JSON.stringify(Array(20_000).fill({ name: 'Zoë — 支払い 💳' })),
    'inline',
  ],
  'a long result that does not compress': [jsonNoise(5_000), 'chunks', 1],
  'the longest result': [jsonNoise(limits.stepResultMaxBytes), 'chunks', 2],
};

const steps = [
  ...Object.entries(results).map(([what, [text, place, chunks]]) =>
    contractCase(`${what} is kept as it was saved`, async ({ ledger, setNow }) => {
      const mine = await inProgress(ledger, { effects: 'steps' });
      const saved = movedRecord<InProgress>(await ledger.saveStep(mine, 'charge', text, LATER));
      assert.deepEqual(await ledger.read(mine.pk), saved);
      const { result } = doneStep(saved, 'charge');
      const body = typeof result === 'string' ? { text: result } : result.body;
      assert.ok(place in body, `expected ${place}, found ${Object.keys(body)}`);
      if (chunks !== undefined) assert.equal('chunks' in body && body.chunks, chunks);

      setNow(LAPSED);
      const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS });
      const resumedFrom = await ledger.stepResult(mine.pk, doneStep(taken.record, 'charge'));
      assert.equal(resumedFrom === text, true, 'the next attempt resumes from the same text');
    }),
  ),

  contractCase('a step with a long result is recognised when it is saved again', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const save = (text: string) => ledger.saveStep(mine, 'charge', text, LATER);
    const first = await save(jsonNoise(5_000));
    assert.equal(first.kind, 'moved');
    assert.deepEqual(await save(jsonNoise(5_000)), first);
    assert.equal((await save(jsonNoise(5_001))).kind, 'fenced', 'another result is another matter');
    assert.deepEqual(await ledger.read(mine.pk), first.record);
  }),

  contractCase('two long results of one attempt do not mix', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const texts = { row: jsonNoise(4_000), charge: jsonNoise(5_000) };
    for (const [name, text] of Object.entries(texts)) await ledger.saveStep(mine, name, text, LATER);
    const now = await ledger.read(mine.pk);
    for (const [name, text] of Object.entries(texts)) {
      assert.equal(await ledger.stepResult(mine.pk, doneStep(now, name)), text);
    }
  }),

  contractCase('a result over the limit is refused, and its step stays as it was', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const open = movedRecord<InProgress>(await ledger.openStep(mine, 'charge', LATER));
    const long = 'x'.repeat(limits.stepResultMaxBytes + 1);
    await assert.rejects(
      ledger.saveStep(open, 'charge', long, LATER),
      /The result of step charge has 1048577 bytes; at most 1048576/,
    );
    assert.deepEqual(await ledger.read(mine.pk), open);
  }),

  contractCase('a record takes so many steps and no more', async ({ ledger }) => {
    let mine = await inProgress(ledger, { effects: 'steps' });
    for (let count = 1; count < limits.stepsMax; count += 1) {
      mine = movedRecord(await ledger.saveStep(mine, `step-${count}`, String(count), LATER));
    }
    const full = movedRecord<InProgress>(await ledger.openStep(mine, 'last', LATER));
    await assert.rejects(ledger.openStep(full, 'more', LATER), /has 64 steps; at most 64/);
    await assert.rejects(ledger.saveStep(full, 'more', '1', LATER), /has 64 steps; at most 64/);
    assert.deepEqual(await ledger.read(mine.pk), full);
    assert.equal((await ledger.saveStep(full, 'last', '1', LATER)).kind, 'moved', 'it can still be finished');
  }),

  contractCase('a verdict may save a result of any length', async ({ ledger }) => {
    for (const text of ['"ch_1"', JSON.stringify(Array(1_000).fill('支払い')), jsonNoise(5_000)]) {
      const mine = await inProgress(ledger, { effects: 'steps' });
      const open = movedRecord<InProgress>(await ledger.openStep(mine, 'charge', LATER));
      const unknown = await unknownBy(ledger, open);
      const step = { name: 'charge', step: { state: 'done', attempt: 1, at: LATER, result: text } } as const;
      const reentry = { owner: randomUUID(), now: LATER, due: dueOf(mine.pk, LATER) };
      const settled = await ledger.settle(unknown, { to: 'in_progress', step, ...reentry });
      const resumed = movedRecord<InProgress>(settled);
      assert.deepEqual(await ledger.read(mine.pk), resumed);
      assert.equal(await ledger.stepResult(mine.pk, doneStep(resumed, 'charge')), text);
      const again = await ledger.settle(unknown, { to: 'in_progress', step, ...reentry });
      assert.deepEqual(again, settled, 'its own retry as well');
    }
  }),

  contractCase('a verdict may not save a result over the limit', async ({ ledger }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    const unknown = await unknownBy(
      ledger,
      movedRecord<InProgress>(await ledger.openStep(mine, 'charge', LATER)),
    );
    const result = 'x'.repeat(limits.stepResultMaxBytes + 1);
    const step = { name: 'charge', step: { state: 'done', attempt: 1, at: LATER, result } } as const;
    const reentry = { owner: randomUUID(), now: LATER, due: dueOf(mine.pk, LATER) };
    await assert.rejects(ledger.settle(unknown, { to: 'in_progress', step, ...reentry }), /at most 1048576/);
    assert.deepEqual(await ledger.read(mine.pk), unknown);
  }),
];

const request = (text: string, name = 'payments'): RequestToKeep => ({
  function: name,
  event: new Uint8Array(Buffer.from(text)),
});
const asked = request('{"body":"{\\"amount\\":1}"}');

async function keeping(
  ledger: Ledger<unknown>,
  effects: InProgress['effects'] = 'steps',
): Promise<InProgress> {
  return movedRecord(await ledger.reserve({ ...claimOf({ effects }), request: asked }, execute));
}

async function requestNow(ledger: Ledger<unknown>, pk: string): Promise<RequestToKeep | undefined> {
  const now = await ledger.read(pk);
  if (now?.status !== 'in_progress' && now?.status !== 'unknown') {
    throw new Error(`expected an open record, found ${now?.status}`);
  }
  return ledger.request(now);
}

/** Every move after which the operation may still be run by somebody else. */
const keepers: Readonly<
  Record<string, (ledger: Ledger<unknown>, mine: InProgress) => Promise<InProgress | Unknown>>
> = {
  'a take-over': async (ledger, mine) =>
    movedRecord(await ledger.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS })),
  'a step': async (ledger, mine) => movedRecord(await ledger.saveStep(mine, 'row', '1', LATER)),
  'a hand-back': async (ledger, mine) =>
    movedRecord(await ledger.handBack(mine, LATER, dueOf(mine.pk, LATER))),
  'a place in the index': async (ledger, mine) =>
    movedRecord(await ledger.watch(mine, dueOf(mine.pk, LATER))),
  'a doubt of the owner': unknownBy,
  'a doubt of the sweep': async (ledger, mine) =>
    movedRecord(
      await ledger.lapse(mine, {
        to: 'unknown',
        doubt: { kind: 'dedupe_window_over' },
        skewMs: SKEW_MS,
        ...doubtAt(mine.pk, LAPSED),
      }),
    ),
  'a verdict that sends it back to work': async (ledger, mine) =>
    movedRecord(
      await ledger.settle(await unknownBy(ledger, mine), {
        to: 'in_progress',
        step: undefined,
        owner: randomUUID(),
        now: LATER,
        due: dueOf(mine.pk, LATER),
      }),
    ),
};

/** Every move after which nobody runs it again, or only with a request of its own. */
const droppers: Readonly<
  Record<string, (ledger: Ledger<unknown>, mine: InProgress) => Promise<LedgerRecord>>
> = {
  completion: completedBy,
  acceptance: acceptedBy,
  release: failedBy,
  'a late completion': async (ledger, mine) => {
    const { outbox: _, ...outcome } = outcomeAt(LATER);
    return movedRecord(await ledger.completeLate(await unknownBy(ledger, mine), outcome));
  },
  'a verdict that it was executed': async (ledger, mine) =>
    movedRecord(await ledger.settle(await unknownBy(ledger, mine), { to: 'completed', ...outcomeAt(LATER) })),
  'a verdict that it was not executed': async (ledger, mine) =>
    movedRecord(
      await ledger.settle(await unknownBy(ledger, mine), { to: 'failed_retryable', ...failureAt(LATER) }),
    ),
  'a lapse of what may run again': async (ledger, mine) =>
    movedRecord(await ledger.lapse(mine, { to: 'failed_retryable', skewMs: SKEW_MS, ...failureAt(LAPSED) })),
};

const requests = [
  contractCase('a request is kept with the key, and read back as it was', async ({ ledger }) => {
    for (const kept of [
      asked,
      request('', 'nothing'),
      request(
        JSON.stringify({ body: 'Zoë — 支払い 💳'.repeat(1_000) }),
        'arn:aws:lambda:eu-central-1:1:function:pay:7',
      ),
    ]) {
      const event = Uint8Array.from(kept.event);
      const claim = { ...claimOf(), request: { ...kept, event } };
      const mine = movedRecord<InProgress>(await ledger.reserve(claim, execute));
      event.fill(0); // What the caller does to its buffer afterwards is its own business.
      assert.deepEqual(await ledger.read(mine.pk), mine);
      assert.deepEqual(await ledger.request(mine), kept);
      assert.deepEqual(await requestNow(ledger, mine.pk), kept);
    }
  }),

  contractCase('a reserve that kept its request still owns its key when asked again', async ({ ledger }) => {
    const claim = { ...claimOf(), request: asked };
    const first = await ledger.reserve(claim, execute);
    assert.deepEqual(await ledger.reserve(claim, execute), first);
    const duplicate = { ...claimOf({ pk: claim.pk }), request: request('{"another":true}') };
    assert.deepEqual(await ledger.reserve(duplicate, execute), { kind: 'held', record: first.record });
    assert.deepEqual(await requestNow(ledger, claim.pk), asked);
  }),

  contractCase('an attempt that asked for nothing has no request', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    assert.equal('request' in mine, false);
    assert.equal(await ledger.request(mine), undefined);
  }),

  contractCase('a request is kept up to its limits, and not at all beyond them', async ({ ledger }) => {
    const noisy = (bytes: number) => ({ function: 'payments', event: noise(bytes) });
    const fits = [noisy(limits.requestMaxBytes), request('x'.repeat(limits.eventMaxBytes))];
    const tooLong = [noisy(limits.requestMaxBytes + 1), request('x'.repeat(limits.eventMaxBytes + 1))];
    for (const [kept, expected] of [
      ...fits.map((each) => [each, each] as const),
      ...tooLong.map((each) => [each, undefined] as const),
    ]) {
      const mine = movedRecord<InProgress>(await ledger.reserve({ ...claimOf(), request: kept }, execute));
      assert.equal('request' in mine, expected !== undefined);
      assert.deepEqual(await requestNow(ledger, mine.pk), expected);
    }
  }),

  contractCase('a retake keeps its own request, or none', async ({ ledger }) => {
    const again = request('{"again":true}');
    for (const [by, expected] of [
      [{ ...attemptAt(LATER), request: again }, again],
      [attemptAt(LATER), undefined],
    ] as const) {
      const failed: FailedRetryable = await failedBy(ledger, await keeping(ledger));
      const taken = await ledger.retake(failed, by);
      assert.equal(taken.kind, 'owned');
      assert.deepEqual(await ledger.read(failed.pk), taken.record);
      assert.deepEqual(await requestNow(ledger, failed.pk), expected);
      assert.deepEqual(await ledger.retake(failed, by), taken, 'its own retry as well');
    }
  }),

  ...Object.entries(keepers).map(([what, move]) =>
    contractCase(`${what} leaves the request that was kept`, async ({ ledger, setNow }) => {
      const mine = await keeping(ledger);
      if (what === 'a take-over') setNow(LAPSED);
      const now = await move(ledger, mine);
      assert.deepEqual(await ledger.read(mine.pk), now);
      assert.deepEqual(await ledger.request(now), asked);
    }),
  ),

  ...Object.entries(droppers).map(([what, move]) =>
    contractCase(`${what} removes the request that was kept`, async ({ ledger }) => {
      const mine = await keeping(ledger, 'transactional');
      const now = await move(ledger, mine);
      assert.equal('request' in now, false);
      assert.deepEqual(await ledger.read(mine.pk), now);
    }),
  ),
];

const tried = [
  contractCase('how often it was tried in vain, and why, is kept where it is due', async ({ ledger }) => {
    const unknown = await unknownBy(ledger, await inProgress(ledger));
    const due = { ...dueOf(unknown.pk, LATER), tries: 3, error: 'ECONNRESET: the provider — 不通' };
    const watched = movedRecord<Unknown>(await ledger.watch(unknown, due));
    assert.deepEqual(watched.due, due);
    assert.deepEqual(await ledger.read(unknown.pk), watched);
    const parked = { shard: 'parked#1', at: LATER, parkedAt: LATER, tries: 0, error: '' };
    const waiting = movedRecord<Unknown>(await ledger.watch(watched, parked));
    assert.deepEqual(await ledger.read(unknown.pk), waiting);
    const again = movedRecord<Unknown>(await ledger.watch(waiting, dueOf(unknown.pk, LATER)));
    assert.equal('tries' in again.due || 'error' in again.due, false);
    assert.deepEqual(await ledger.read(unknown.pk), again, 'rescheduled it counts anew');
  }),

  contractCase('a finished record was never tried in vain', async ({ ledger }) => {
    const mine = await inProgress(ledger);
    const due = { ...dueOf(mine.pk, LATER), tries: 3, error: 'timeout' };
    const watched = movedRecord<InProgress>(await ledger.watch(mine, due));
    for (const from of [mine, watched]) {
      const done = await completedBy(ledger, from); // Also by who has not seen that it is watched.
      assert.equal('due' in done, false);
      assert.deepEqual(await ledger.read(mine.pk), done);
    }
  }),
];

export const kept = [...steps, ...requests, ...tried];
