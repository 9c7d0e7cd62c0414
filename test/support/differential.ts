import { createHash, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DeleteCommand, DynamoDBDocumentClient } from '@aws-sdk/lib-dynamodb';
import { isReusable } from '../../lib/core/decide.ts';
import type { Attempt, Claim } from '../../lib/core/moves.ts';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import {
  type Due,
  type Effects,
  type LedgerRecord,
  outboxOf,
  type Reply,
  type Undelivered,
} from '../../lib/core/record.ts';
import { isLegal, type Move, transitions } from '../../lib/core/transitions.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { DeliveryNote, Ledger, RequestToKeep, Reuse } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { TransactWrite } from '../../lib/ledger/table.ts';
import { type Dice, dice } from './random.ts';

/** Steps of one episode: a fresh set of keys, so that any episode can be run again alone. */
export const EPISODE_STEPS = 100;
const SIDE_BY_SIDE = 4;
const KEYS = 5;
const SKEW_MS = defaultPolicy.skewMs;
const LEASE_MS = 10_000;

interface World {
  readonly dice: Dice;
  readonly tableName: string;
  now: number;
  ids: number;
  /** Every record ever seen, stale ones included: those are what fences are for. */
  readonly seen: LedgerRecord[];
  /** Those that are not stale: most moves are to happen. */
  readonly current: Map<string, LedgerRecord>;
  readonly pks: readonly string[];
}

type Step = {
  readonly move: Move | 'watch' | 'step' | 'note' | 'fetch' | 'due' | 'ttl';
  readonly pk: string;
  run(ledger: Ledger<TransactWrite>): Promise<unknown>;
};

/** How often each legal move happened: a run that never reaches a state has shown nothing about it. */
export type Tally = Map<string, number>;

/** What changes a record without moving it, in each of the states in which it may. */
const NOTES = [
  ...['in_progress', 'accepted', 'completed', 'unknown'].map((status) => edge('watch', status, status)),
  edge('step', 'in_progress', 'in_progress'),
  ...['accepted', 'completed'].map((status) => edge('note', status, status)),
];

export function movesNotSeen(tally: Tally): string[] {
  const legal = transitions.map(({ move, from, to }) => edge(move, from, to));
  return [...legal, ...NOTES].filter((name) => !tally.has(name));
}

function edge(move: string, from: string, to: string): string {
  return `${move}: ${from} → ${to}`;
}

/**
 * Runs so many episodes, one for each seed, and returns what went wrong in the first that fails. Most of an episode is
 * waiting for the store, and its keys are its own, so several run side by side.
 */
export async function runEpisodes(
  table: { readonly tableName: string; readonly client: DynamoDBClient },
  seeds: readonly number[],
  tally: Tally,
  ended: (seed: number) => void = () => undefined,
): Promise<string | undefined> {
  const queue = seeds.values();
  let fault: string | undefined;
  const worker = async () => {
    for (const seed of queue) {
      if (fault !== undefined) return;
      fault = await runEpisode(table, seed, tally);
      ended(seed);
    }
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, worker));
  return fault;
}

/** Runs one random episode on both ledgers in lockstep. Returns what went wrong, or nothing. */
async function runEpisode(
  table: { readonly tableName: string; readonly client: DynamoDBClient },
  seed: number,
  tally: Tally,
): Promise<string | undefined> {
  const world: World = {
    dice: dice(seed),
    tableName: table.tableName,
    now: Date.UTC(2030, 0, 1),
    ids: 0,
    seen: [],
    current: new Map(),
    pks: Array.from({ length: KEYS }, () => `pk-${randomUUID()}`),
  };
  const clock = () => world.now;
  const rows = new Set<string>();
  const real = dynamoDbLedger({ ...table, clock, newId: countedIds() });
  const twin = memoryLedger<TransactWrite>({
    clock,
    newId: countedIds(),
    commit: (writes) => commitRows(rows, writes),
  });
  const documents = DynamoDBDocumentClient.from(table.client);
  const log: string[] = [];

  for (let count = 0; count < EPISODE_STEPS; count += 1) {
    const step = nextStep(world);
    const before = await twin.read(step.pk);
    const results = [await outcomeOf(step, real), await outcomeOf(step, twin)] as const;
    if (step.move === 'ttl') {
      twin.prune(world.now);
      for (const pk of world.pks) {
        const Key = { pk, sk: 'record' };
        if (!(await twin.read(pk)))
          await documents.send(new DeleteCommand({ TableName: table.tableName, Key }));
      }
    }
    const [stored, after] = [await storedAfter(results[0], step, real), await twin.read(step.pk)];
    log.push(`${count} ${step.move} ${step.pk.slice(0, 8)} ${before?.status} → ${after?.status}`);
    const fault = disagreement(results, [stored, after]) ?? illegality(step, before, after, world.now);
    if (fault) return `seed ${seed}: ${fault}\n  ${log.slice(-12).join('\n  ')}`;
    if (after) world.current.set(step.pk, after);
    else world.current.delete(step.pk);
    if (after && !isDeepStrictEqual(before, after)) {
      world.seen.push(after);
      const name = edge(step.move, origin(before, after), after.status);
      tally.set(name, (tally.get(name) ?? 0) + 1);
    }
  }
  return undefined;
}

/** What lost brought the record with it, so it is read only after what won. */
async function storedAfter(
  result: unknown,
  { pk }: Step,
  real: Ledger<TransactWrite>,
): Promise<LedgerRecord | undefined> {
  const lost = result as { readonly kind?: string; readonly record?: LedgerRecord } | undefined;
  return lost?.kind === 'fenced' || lost?.kind === 'held' ? lost.record : real.read(pk);
}

async function outcomeOf(step: Step, ledger: Ledger<TransactWrite>): Promise<unknown> {
  try {
    return await step.run(ledger);
  } catch (error) {
    return { threw: error instanceof Error ? error.name : error };
  }
}

function disagreement(
  [real, twin]: readonly [unknown, unknown],
  [stored, remembered]: readonly [unknown, unknown],
): string | undefined {
  if (!isDeepStrictEqual(plain(real), plain(twin))) return `results differ\n${show(real)}\n${show(twin)}`;
  if (!isDeepStrictEqual(stored, remembered)) return `records differ\n${show(stored)}\n${show(remembered)}`;
  return undefined;
}

/** A refusal's wording is the store's own, and so is the place of a page's end. */
function plain(result: unknown): unknown {
  if (typeof result !== 'object' || result === null) return result;
  if ('reasons' in result && Array.isArray(result.reasons)) {
    return { kind: 'refused', codes: result.reasons.map(({ code, index }) => [index, code]) };
  }
  // A fenced or moved record may be as the caller knew it; what is stored is compared by reading it.
  if ('kind' in result && 'record' in result) {
    const record = result.record as LedgerRecord | undefined;
    return { kind: result.kind, status: record?.status };
  }
  return 'entries' in result && Array.isArray(result.entries)
    ? result.entries.map(({ pk }) => pk).sort()
    : result;
}

function illegality(
  { move }: Step,
  before: LedgerRecord | undefined,
  after: LedgerRecord | undefined,
  now: number,
): string | undefined {
  const unchanged = isDeepStrictEqual(before, after);
  if (move === 'ttl') {
    return before && !after && !('ttl' in before)
      ? `TTL removed a record that is ${before.status}`
      : undefined;
  }
  if (!after) return before ? `${move} removed a record` : undefined;
  const open = after.status === 'in_progress' || after.status === 'accepted' || after.status === 'unknown';
  if (open && 'ttl' in after) return `${after.status} has a TTL`;
  if (unchanged) return undefined;
  if (move === 'due' || move === 'fetch') return `${move} changed the record`;
  if (move === 'watch' || move === 'step' || move === 'note') {
    return before?.status === after.status ? undefined : `${move} changed the status`;
  }
  const reuse = before && before.operationId !== after.operationId;
  if (reuse && !isReusable(before, now, { afterExpiry: 'execute', skewMs: SKEW_MS }))
    return `${move} replaced a live record`;
  const from = origin(before, after);
  return isLegal(move, from, after.status) ? undefined : `${move} went from ${from} to ${after.status}`;
}

function origin(before: LedgerRecord | undefined, after: LedgerRecord) {
  if (!before) return 'none';
  return before.operationId === after.operationId ? before.status : 'expired';
}

function nextStep(world: World): Step {
  const { dice, seen } = world;
  if (dice.chance(0.25)) world.now += dice.pick([1, 500, SKEW_MS, LEASE_MS, LEASE_MS + SKEW_MS + 1]);
  if (dice.chance(0.05)) world.now += dice.pick([3_600_000, 86_400_000, 90_000_000]);
  const pk = dice.pick(dice.chance(0.8) ? unfinished(world) : world.pks);
  if (dice.chance(0.02)) return { move: 'ttl', pk, run: async () => undefined };
  if (dice.chance(0.03))
    return { move: 'due', pk, run: (ledger) => ledger.due(shardOf(world, 'due'), world.now, 10) };
  const now = world.current.get(pk);
  if (!now || dice.chance(0.1)) return reserveStep(world, pk);
  return moveStep(world, tampered(world, dice.chance(0.7) ? now : dice.pick(seen)));
}

/** Little happens to what is finished. */
function unfinished({ pks, current }: World): readonly string[] {
  const open = pks.filter((pk) => {
    const now = current.get(pk);
    return now?.status !== 'completed' || now.outbox !== undefined;
  });
  return open.length > 0 ? open : pks;
}

/** A shard of the episode's own: other episodes use the same table. */
function shardOf(world: World, kind: 'due' | 'parked'): string {
  return `${kind}#${world.pks[0]}`;
}

/** Now and then a fence that no record ever had. */
function tampered(world: World, record: LedgerRecord): LedgerRecord {
  if (!world.dice.chance(0.06)) return record;
  return world.dice.pick<LedgerRecord>([
    { ...record, owner: 'nobody' },
    { ...record, attempt: record.attempt + 1 },
    { ...record, operationId: 'nothing' },
    { ...record, fingerprint: 'v1:tampered' },
  ]);
}

/** Steps have most to show. */
const EFFECTS: readonly Effects[] = ['transactional', 'steps', 'steps', 'opaque'];

function nextOwner(world: World): string {
  world.ids += 1;
  return `owner-${world.ids}`;
}

function attempt(world: World): Attempt {
  const owner = nextOwner(world);
  const leaseMs = world.dice.chance(0.05) ? 0 : LEASE_MS;
  return { owner, effects: world.dice.pick(EFFECTS), now: world.now, leaseUntil: world.now + leaseMs };
}

/** Now and then one that is too long to be kept. */
function request({ dice }: World): { request?: RequestToKeep } {
  if (dice.chance(0.5)) return {};
  const event = bytesFor(dice, dice.pick([0, 20, 2_000, dice.chance(0.1) ? 70_000 : 300]));
  return { request: { function: dice.pick(['payments', 'orders']), event } };
}

function reserveStep(world: World, pk: string): Step {
  const claim: Claim & { request?: RequestToKeep } = {
    ...attempt(world),
    ...request(world),
    pk,
    tenant: 'tenant',
    operation: 'POST /payments',
    fingerprint: world.dice.pick(['v1:a', 'v1:b']),
    operationId: `operation-${world.ids}`,
  };
  const reuse: Reuse = { afterExpiry: world.dice.pick(['execute', 'gone']), skewMs: SKEW_MS };
  const again = world.dice.chance(0.2);
  return {
    move: 'reserve',
    pk,
    async run(ledger) {
      const first = await ledger.reserve(claim, reuse);
      return again ? ledger.reserve(claim, reuse) : first;
    },
  };
}

function moveStep(world: World, record: LedgerRecord): Step {
  const { dice, now } = world;
  const { pk } = record;
  const place = placeFor(world);
  const policy = { ...defaultPolicy, afterExpiry: dice.pick(['execute', 'gone'] as const) };
  const expiry = expiryAfter(policy, now);
  const failure = { now, errorCode: 'failed', ...expiry };
  const doubt = { now, errorCode: 'doubt', due: place };
  const outbox = dice.chance(0.3) ? OUTBOX : [];
  const reply = replyFor(world);
  const writes = writesFor(world);
  const name = dice.pick(['row', 'charge', 'receipt', '__proto__']);
  const result = resultFor(world);
  const of = (move: Step['move'], run: Step['run']): Step => ({ move, pk, run });
  const attested = (): Step =>
    of('attest', (ledger) => ledger.attest(record as never, { now, reply, skewMs: SKEW_MS, ...expiry }));

  switch (record.status) {
    case 'in_progress':
      return dice.pick<() => Step>([
        () => of('complete', (ledger) => ledger.complete(record, { now, reply, outbox, ...expiry }, writes)),
        () => of('complete', (ledger) => ledger.complete(record, { now, reply, outbox, ...expiry })),
        () => of('accept', (ledger) => ledger.accept(record, { now, reply, outbox: OUTBOX }, writes)),
        () => of('release', (ledger) => ledger.release(record, failure)),
        () => of('markUnknown', (ledger) => ledger.markUnknown(record, doubt)),
        () => of('handBack', (ledger) => ledger.handBack(record, now, place)),
        () => of('step', (ledger) => ledger.openStep(record, name, now)),
        () => of('step', (ledger) => ledger.saveStep(record, name, result, now, writes)),
        () => of('watch', (ledger) => ledger.watch(record, place)),
        () => fetchStep(world, record),
        () =>
          takeStep(
            world,
            (ledger, by) => ledger.takeOver(record, { ...by, skewMs: SKEW_MS }),
            'takeOver',
            pk,
          ),
        () =>
          of('lapse', (ledger) =>
            ledger.lapse(record, { to: 'failed_retryable', skewMs: SKEW_MS, ...failure }),
          ),
        () => (dice.chance(0.5) ? attested() : of('watch', (ledger) => ledger.watch(record, place))),
        () => {
          const kind = dice.pick(['opaque', 'effects_changed', 'dedupe_window_over', 'open_effect'] as const);
          const why = kind === 'open_effect' ? { kind, step: 'charge' } : { kind };
          return of('lapse', (ledger) =>
            ledger.lapse(record, { to: 'unknown', doubt: why, skewMs: SKEW_MS, ...doubt }),
          );
        },
      ])();
    case 'failed_retryable':
      if (dice.chance(0.3)) return attested();
      return takeStep(world, (ledger, by) => ledger.retake(record, by), 'retake', pk, request(world));
    case 'accepted':
      return dice.pick<() => Step>([
        () =>
          of('settleAccepted', (ledger) =>
            ledger.settleAccepted(record, { to: 'completed', now, reply, ...expiry }),
          ),
        () => of('settleAccepted', (ledger) => ledger.settleAccepted(record, { to: 'unknown', ...doubt })),
        () => {
          const index = dice.below(OUTBOX.length);
          const event = dice.chance(0.5) ? { index, id: dice.pick(CLAIMS) } : { index };
          return of('settleAccepted', (ledger) =>
            ledger.settleAccepted(record, { to: 'unknown', event, ...doubt }),
          );
        },
        () => of('watch', (ledger) => ledger.watch(record, place)),
        () => noteStep(world, record),
        () => noteStep(world, record),
        () => fetchStep(world, record),
      ])();
    case 'unknown': {
      const reentry = { owner: nextOwner(world), now, due: place };
      const change = dice.pick([
        undefined,
        { name: 'charge', step: undefined },
        { name: 'charge', step: { state: 'done', attempt: 1, at: now, result } as const },
      ]);
      return dice.pick<() => Step>([
        () => of('completeLate', (ledger) => ledger.completeLate(record, { now, reply, ...expiry })),
        () => of('settle', (ledger) => ledger.settle(record, { to: 'completed', now, reply, ...expiry })),
        () => of('settle', (ledger) => ledger.settle(record, { to: 'failed_retryable', ...failure })),
        () => of('settle', (ledger) => ledger.settle(record, { to: 'accepted', ...reentry })),
        () =>
          of('settle', (ledger) => ledger.settle(record, { to: 'in_progress', step: change, ...reentry })),
        () => of('watch', (ledger) => ledger.watch(record, place)),
        () => fetchStep(world, record),
      ])();
    }
    case 'completed':
      if (record.outbox) {
        return dice.pick<() => Step>([
          () => of('watch', (ledger) => ledger.watch(record, place)),
          () => of('deliver', (ledger) => ledger.deliver(record, expiry.ttl)),
          () => noteStep(world, record),
          () => noteStep(world, record),
          () => fetchStep(world, record),
        ])();
      }
      return dice.pick<() => Step>([
        () => of('reopen', (ledger) => ledger.reopen(record, failure)),
        () => of('erase', (ledger) => ledger.erase(record, { now, headers: [] })),
        () => fetchStep(world, record),
      ])();
    default:
      return record satisfies never;
  }
}

function takeStep(
  world: World,
  take: (ledger: Ledger<TransactWrite>, by: Attempt & { request?: RequestToKeep }) => Promise<unknown>,
  move: Move,
  pk: string,
  kept: { request?: RequestToKeep } = {},
): Step {
  const by = { ...attempt(world), ...kept };
  const again = world.dice.chance(0.3);
  return {
    move,
    pk,
    async run(ledger) {
      const first = await take(ledger, by);
      return again ? take(ledger, by) : first;
    },
  };
}

/** Two, so that a note of one must leave the other alone. */
const OUTBOX = [
  { type: 'charge', payload: '{"amount":1}' },
  { type: 'receipt', payload: '{}' },
];
/** Few, so that some meet their own claim and others a stranger's. */
const CLAIMS = ['me', 'you'];

function noteStep(world: World, record: Undelivered): Step {
  const { dice, now } = world;
  const claim = dice.pick(CLAIMS);
  const answer = dice.chance(0.3) ? { reply: replyFor(world) } : {};
  const known = { at: now, ...(dice.chance(0.5) && { reference: `ref-${dice.below(3)}` }), ...answer };
  const over = dice.chance(0.6) ? { claim } : {};
  const note = dice.pick<DeliveryNote>([
    { to: 'claimed', id: claim, until: now + dice.below(3) },
    { to: 'claimed', id: claim, until: now },
    { to: 'done', ...known, ...over },
    { to: 'refused', ...known, ...over },
    { to: 'none', claim },
  ]);
  const index = dice.chance(0.05) ? OUTBOX.length : dice.below(OUTBOX.length);
  return { move: 'note', pk: record.pk, run: (ledger) => ledger.noteDelivery(record, index, note) };
}

/** Whatever is stored beside the record is the same in both, and is still there when an old read asks for it. */
function fetchStep({ dice }: World, record: LedgerRecord): Step {
  const { pk } = record;
  const of = (run: Step['run']): Step => ({ move: 'fetch', pk, run });
  const done = [...record.steps.values()].filter((step) => step.state === 'done');
  const responses = responsesOf(record);
  return dice.pick<Step>([
    ...done.map((step) => of((ledger) => ledger.stepResult(pk, step))),
    ...responses.map((response) => of((ledger) => ledger.reply(pk, response))),
    of((ledger) => ('request' in record ? ledger.request(record) : ledger.read(pk))),
  ]);
}

function responsesOf(record: LedgerRecord) {
  const own = 'response' in record ? [record.response] : [];
  if (record.status !== 'accepted' && !(record.status === 'completed' && record.outbox)) return own;
  return [
    ...own,
    ...outboxOf(record).flatMap(({ delivery }) =>
      delivery && delivery.state !== 'claimed' && delivery.response ? [delivery.response] : [],
    ),
  ];
}

function placeFor(world: World): Due {
  const { dice, now } = world;
  return {
    shard: shardOf(world, dice.pick(['due', 'parked'])),
    at: now + dice.below(3),
    ...(dice.chance(0.3) && { parkedAt: now }),
    ...(dice.chance(0.3) && { tries: dice.below(4), error: dice.pick(['', 'timeout']) }),
  };
}

/** Noise, so that a length says where it is stored; a body of several chunks is rare because it is slow. */
function bytesFor(dice: Dice, outputLength: number): Uint8Array {
  const seed = String(dice.below(1e9));
  if (outputLength === 0) return new Uint8Array();
  return new Uint8Array(createHash('shake256', { outputLength }).update(seed).digest());
}

function replyFor({ dice }: World): Reply {
  return {
    status: dice.pick([200, 201, 402, 422, 500]),
    headers: [['etag', '"1"']],
    body: bytesFor(dice, dice.pick([0, 10, 500, dice.chance(0.01) ? 450_000 : 9_000])),
    base64: dice.chance(0.3),
  };
}

/** As text, as compressed text, and beside the record. */
function resultFor({ dice }: World): string {
  if (dice.chance(0.5)) return '"done"';
  if (dice.chance(0.3)) return `"${'again '.repeat(300)}"`;
  return `"${Buffer.from(bytesFor(dice, 2_000)).toString('base64')}"`;
}

/** Rows of the caller's own: put if absent, out of a few names, so that some collide. */
function writesFor({ dice, tableName, pks }: World): TransactWrite[] {
  const names = new Set(Array.from({ length: dice.below(3) }, () => `${pks[0]}-row-${dice.below(40)}`));
  return [...names].map((pk) => ({
    Put: { TableName: tableName, Item: { pk, sk: 'row' }, ConditionExpression: 'attribute_not_exists(pk)' },
  }));
}

function commitRows(rows: Set<string>, writes: readonly TransactWrite[]) {
  const named = writes.map((write) => String(write.Put?.Item?.['pk']));
  const codes = named.map((pk) => (rows.has(pk) ? 'ConditionalCheckFailed' : 'None'));
  if (codes.every((code) => code === 'None')) {
    for (const pk of named) rows.add(pk);
    return undefined;
  }
  return writes.map((write, index) => ({
    write,
    index,
    code: codes[index] ?? 'None',
    message: undefined,
    item: undefined,
  }));
}

function countedIds(): () => string {
  let count = 0;
  return () => {
    count += 1;
    return `id-${count}`;
  };
}

function show(value: unknown): string {
  return (
    JSON.stringify(value, (_, inner) => (inner instanceof Map ? [...inner] : inner))?.slice(0, 1_500) ??
    'nothing'
  );
}
