import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { defaultPolicy, expiryAfter } from '../../core/policy.ts';
import {
  acceptedBy,
  attemptAt,
  claimOf,
  completedBy,
  contractCase,
  deferralAt,
  execute,
  failedBy,
  gone,
  inProgress,
  LAPSED,
  LEASE_MS,
  movedRecord,
  outcomeAt,
  SECOND,
  SKEW_MS,
  START,
  unknownBy,
} from './subject.ts';

const DAY = 24 * 3_600 * SECOND;
const EXPIRED = START + DAY + SKEW_MS + 1;

export const claims = [
  contractCase('a new key is owned by the first who reserves it', async ({ ledger }) => {
    const claim = claimOf();
    const first = await ledger.reserve(claim, execute);
    assert.equal(first.kind, 'owned');
    assert.equal(first.record.owner, claim.owner);
    assert.equal(first.record.attempt, 1);
    assert.deepEqual(await ledger.read(claim.pk), first.record);
  }),

  contractCase(
    'whoever comes second sees the record of the first, and changes nothing',
    async ({ ledger }) => {
      const mine = await inProgress(ledger);
      const second = await ledger.reserve(claimOf({ pk: mine.pk, fingerprint: 'v1:other' }), execute);
      assert.deepEqual(second, { kind: 'held', record: mine });
      assert.deepEqual(await ledger.read(mine.pk), mine);
    },
  ),

  contractCase('a reserve whose response was lost still owns its key', async ({ ledger }) => {
    const claim = claimOf();
    const first = await ledger.reserve(claim, execute);
    assert.deepEqual(await ledger.reserve(claim, execute), first);
  }),

  contractCase('a reserve that comes back after its own lease owns nothing', async ({ ledger, setNow }) => {
    const claim = claimOf();
    await ledger.reserve(claim, execute);
    setNow(claim.leaseUntil + 1);
    const late = await ledger
      .reserve(claim, execute, { until: claim.leaseUntil + SECOND })
      .catch(() => 'gave up');
    assert.notEqual(typeof late === 'object' && late.kind, 'owned');
  }),

  contractCase('a delayed duplicate of a reserve never overwrites a completed record', async ({ ledger }) => {
    const claim = claimOf();
    const mine = await inProgress(ledger, claim);
    const done = await completedBy(ledger, mine);
    const late = await ledger.reserve(claim, execute);
    assert.deepEqual(late, { kind: 'held', record: done });
    assert.deepEqual(await ledger.read(claim.pk), done);
  }),

  contractCase('a duplicate never reopens an accepted, failed or unknown record', async ({ ledger }) => {
    for (const move of [acceptedBy, failedBy, unknownBy]) {
      const claim = claimOf();
      const now = await move(ledger, await inProgress(ledger, claim));
      assert.deepEqual(await ledger.reserve(claim, execute), { kind: 'held', record: now });
      assert.deepEqual(await ledger.read(claim.pk), now);
    }
  }),

  contractCase('an expired result frees its key although nothing deleted it', async ({ ledger, setNow }) => {
    for (const move of [completedBy, failedBy]) {
      setNow(START);
      const old = await move(ledger, await inProgress(ledger));
      setNow(EXPIRED);
      const again = claimOf({ pk: old.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS });
      const reserved = await ledger.reserve(again, execute);
      assert.equal(reserved.kind, 'owned');
      assert.equal(reserved.record.operationId, again.operationId);
      assert.deepEqual(await ledger.read(old.pk), reserved.record);
    }
  }),

  contractCase('a result is kept to the last millisecond of expiry and skew', async ({ ledger, setNow }) => {
    const done = await completedBy(ledger, await inProgress(ledger));
    const last = done.expiresAt + SKEW_MS;
    setNow(last);
    const early = claimOf({ pk: done.pk, now: last, leaseUntil: last + LEASE_MS });
    assert.deepEqual(await ledger.reserve(early, execute), { kind: 'held', record: done });
  }),

  contractCase(
    'with the policy gone, an expired key is not free before its TTL',
    async ({ ledger, setNow }) => {
      const mine = await inProgress(ledger);
      const expiry = expiryAfter({ ...defaultPolicy, afterExpiry: 'gone' }, START);
      const done = await completedBy(ledger, mine, { ...outcomeAt(START), ...expiry });
      const last = expiry.ttl * SECOND + SKEW_MS;
      for (const [now, kind] of [
        [EXPIRED, 'held'],
        [last, 'held'],
        [last + SECOND, 'owned'],
      ] as const) {
        setNow(now);
        const claim = claimOf({ pk: done.pk, now, leaseUntil: now + LEASE_MS });
        assert.equal((await ledger.reserve(claim, gone)).kind, kind, `at ${now - START} ms`);
      }
    },
  ),

  contractCase('an undelivered outbox keeps its key beyond expiry', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    const { outbox } = deferralAt(START);
    const done = await completedBy(ledger, mine, { ...outcomeAt(START), outbox });
    assert.equal(done.ttl, undefined);
    setNow(EXPIRED);
    const claim = claimOf({ pk: done.pk, now: EXPIRED, leaseUntil: EXPIRED + LEASE_MS });
    assert.deepEqual(await ledger.reserve(claim, execute), { kind: 'held', record: done });
  }),

  contractCase('open records never expire', async ({ ledger, setNow }) => {
    const open = [
      await inProgress(ledger),
      await acceptedBy(ledger, await inProgress(ledger)),
      await unknownBy(ledger, await inProgress(ledger)),
    ];
    const now = START + 1_000 * DAY;
    setNow(now);
    for (const record of open) {
      assert.equal('ttl' in record || 'expiresAt' in record, false, record.status);
      const claim = claimOf({ pk: record.pk, now, leaseUntil: now + LEASE_MS });
      assert.deepEqual(await ledger.reserve(claim, execute), { kind: 'held', record });
    }
  }),

  contractCase('a retake starts the next attempt of the same operation', async ({ ledger }) => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const by = attemptAt(START + SECOND, 'opaque');
    const taken = await ledger.retake(failed, by);
    assert.equal(taken.kind, 'owned');
    assert.equal(taken.record.operationId, failed.operationId);
    assert.equal(taken.record.createdAt, failed.createdAt);
    assert.equal(taken.record.attempt, 2);
    assert.equal(taken.record.owner, by.owner);
    assert.equal(taken.record.effects, 'opaque');
    assert.equal('ttl' in taken.record || 'expiresAt' in taken.record, false);
    assert.deepEqual(await ledger.read(failed.pk), taken.record);
    assert.deepEqual(await ledger.retake(failed, by), taken, 'its own retry owns it as well');
  }),

  contractCase('of two retakes one wins, and the other sees the winner', async ({ ledger }) => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const winner = await ledger.retake(failed, attemptAt(START + SECOND));
    const loser = await ledger.retake(failed, attemptAt(START + SECOND));
    assert.deepEqual(loser, { kind: 'held', record: winner.record });
  }),

  contractCase('a retake is refused for another owner, attempt or fingerprint', async ({ ledger }) => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const strangers = [{ owner: randomUUID() }, { attempt: 2 }, { fingerprint: 'v1:other' }];
    for (const stranger of strangers) {
      const taken = await ledger.retake({ ...failed, ...stranger }, attemptAt(START + SECOND));
      assert.deepEqual(taken, { kind: 'held', record: failed }, Object.keys(stranger)[0]);
    }
  }),

  contractCase(
    'a live lease cannot be taken over, to the last millisecond of the skew',
    async ({ ledger }) => {
      const mine = await inProgress(ledger);
      for (const now of [START, mine.leaseUntil, mine.leaseUntil + SKEW_MS]) {
        const taken = await ledger.takeOver(mine, { ...attemptAt(now), skewMs: SKEW_MS });
        assert.deepEqual(taken, { kind: 'held', record: mine }, `at ${now - START} ms`);
      }
    },
  ),

  contractCase('a passed lease is taken over by one, who is the next attempt', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    setNow(LAPSED);
    const by = { ...attemptAt(LAPSED), skewMs: SKEW_MS };
    const taken = await ledger.takeOver(mine, by);
    assert.equal(taken.kind, 'owned');
    assert.equal(taken.record.attempt, 2);
    assert.equal(taken.record.operationId, mine.operationId);
    assert.equal(taken.record.takenOver, true);
    assert.deepEqual(
      taken.record.moves.map(({ move }) => move),
      ['takeOver'],
    );
    assert.deepEqual(await ledger.takeOver(mine, by), taken, 'its own retry owns it as well');
    const second = await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    assert.deepEqual(second, { kind: 'held', record: taken.record });
  }),

  contractCase('a take-over is refused for another owner or attempt', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    setNow(LAPSED);
    for (const stranger of [{ owner: randomUUID() }, { attempt: 2 }]) {
      const taken = await ledger.takeOver(
        { ...mine, ...stranger },
        { ...attemptAt(LAPSED), skewMs: SKEW_MS },
      );
      assert.deepEqual(taken, { kind: 'held', record: mine }, Object.keys(stranger)[0]);
    }
  }),

  contractCase('an opaque attempt is never taken over', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger, { effects: 'opaque' });
    setNow(LAPSED);
    const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    assert.deepEqual(taken, { kind: 'held', record: mine });
  }),

  contractCase('steps are taken over only by code that still has them', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    setNow(LAPSED);
    for (const effects of ['transactional', 'opaque'] as const) {
      const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED, effects), skewMs: SKEW_MS });
      assert.deepEqual(taken, { kind: 'held', record: mine }, effects);
    }
  }),

  contractCase('whoever takes over sees a step that came after their read', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger, { effects: 'steps' });
    await ledger.openStep(mine, 'charge', START + SECOND);
    setNow(LAPSED);
    const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED, 'steps'), skewMs: SKEW_MS });
    assert.equal(taken.record?.steps.get('charge')?.state, 'open');
  }),

  contractCase('a take-over leaves the record where the sweep looks', async ({ ledger, setNow }) => {
    const mine = await inProgress(ledger);
    const due = { shard: 'due#1', at: LAPSED };
    await ledger.watch(mine, due);
    setNow(LAPSED);
    const taken = await ledger.takeOver(mine, { ...attemptAt(LAPSED), skewMs: SKEW_MS });
    assert.deepEqual(taken.kind === 'owned' && taken.record.due, due);
  }),

  contractCase('a steps record can be made of one that was not', async ({ ledger }) => {
    const failed = await failedBy(ledger, await inProgress(ledger));
    const taken = movedRecord(await ledger.retake(failed, attemptAt(START + SECOND, 'steps')));
    assert.equal(taken.status, 'in_progress');
    const saved = await ledger.saveStep(taken, 'charge', '"ch_1"', START + SECOND);
    assert.equal(saved.kind, 'moved');
  }),

  contractCase(
    'a key that nobody used reads as nothing, and nothing can be done to it',
    async ({ ledger }) => {
      const ghost = await failedBy(ledger, await inProgress(ledger));
      const pk = `pk-${randomUUID()}`;
      assert.equal(await ledger.read(pk), undefined);
      assert.deepEqual(await ledger.retake({ ...ghost, pk }, attemptAt(START)), {
        kind: 'held',
        record: undefined,
      });
      assert.equal(await ledger.read(pk), undefined);
    },
  ),
];
