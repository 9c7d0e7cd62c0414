import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { eventKey } from '../../lib/core/downstream-key.ts';
import { defaultPolicy } from '../../lib/core/policy.ts';
import { type Completed, isOpen, type LedgerRecord } from '../../lib/core/record.ts';
import { isLegal, type Move } from '../../lib/core/transitions.ts';
import { dueShard } from '../../lib/ledger/schema.ts';
import { IllegalMove } from '../../lib/reconcile/illegal-move.ts';
import { type Answer, type Change, chargeKey, type Fate, type Route, routes, type World } from './bank.ts';

/*
 * What may happen to a key, in any order, and what must hold after each of it.
 */

/** Nothing is predicted but that the rules hold; how much was checked is all there is to remember. */
export interface Checked {
  seen: number;
  heard: number;
}

type Command = fc.AsyncCommand<Checked, World>;

function command(name: string, act: (world: World) => Promise<unknown>): Command {
  return {
    check: () => true,
    async run(checked, world) {
      await act(world);
      await drained();
      await requireRules(checked, world);
    },
    toString: () => name,
  };
}

/** Whoever was woken up goes on until it has nothing more to do. Memory answers within a few turns. */
async function drained(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

const MINUTE = 60_000;
const fates = [
  ...['fine', 'declines', 'charges and times out', 'times out', 'answers 500', 'charges late'],
  ...['dies before', 'dies after', 'freezes after', 'completion lost', 'completion unheard'],
] as readonly Fate[];

/** The fate of whatever asks the bank during this one act; afterwards all is well again. */
async function during(world: World, fate: Fate, act: () => Promise<unknown>): Promise<void> {
  const store = fate === 'completion lost' ? 'lost' : fate === 'completion unheard' ? 'unheard' : 'fine';
  Object.assign(world.plan, { fate, store });
  await act();
  Object.assign(world.plan, { fate: 'fine', store: 'fine' });
}

const by = { who: 'somebody', why: 'the bank says so' };

const deskMoves = ['redrive', 'release', 'settle', 'erase'] as const;
type DeskMove = (typeof deskMoves)[number];

/** What a move may be about; nobody releases what nobody complains of. */
const fits: Readonly<Record<DeskMove, (record: LedgerRecord) => boolean>> = {
  redrive: isOpen,
  release: (record) => record.status === 'completed' && record.response.status >= 300,
  settle: ({ status }) => status === 'unknown' || status === 'accepted',
  erase: ({ status }) => status === 'completed',
};

/** An honest operator: says of the bank what is so, mostly takes up what there is to do, and takes a refusal for an answer. */
async function operate(world: World, move: DeskMove, which: number, anything: boolean): Promise<void> {
  const records = (await world.records()).filter(isPayment);
  const fitting = anything ? records : records.filter(fits[move]);
  const record = fitting[which % Math.max(1, fitting.length)];
  if (!record) return;
  const { pk, operationId, status } = record;
  const effect = routeOf(record) === '/effect' && status === 'unknown'; // Else it is about the whole.
  const result = effect ? { declined: false } : { statusCode: 201, body: `{"charge":"${operationId}"}` };
  try {
    if (move !== 'settle') await world.desk[move](pk, by);
    else if (isDone(world, record)) await world.desk.settleExecuted(pk, by, result);
    else await world.desk.settleNotExecuted(pk, by);
  } catch (error) {
    if (!(error instanceof IllegalMove)) throw error;
  }
}

interface Shuffle {
  readonly take: number;
  readonly twice: boolean;
  readonly reversed: boolean;
  readonly lost: boolean;
}

function batchOf(world: World, { take, twice, reversed, lost }: Shuffle): readonly unknown[] {
  const taken = world.stream.splice(0, take);
  const batch = twice ? [...taken, ...taken] : taken;
  return lost ? [] : reversed ? batch.toReversed() : batch;
}

const shuffles = fc.record({
  take: fc.integer({ min: 1, max: 12 }),
  twice: fc.boolean(),
  reversed: fc.boolean(),
  lost: fc.boolean(),
});

const requests = fc
  .record({
    route: fc.constantFrom(...routes),
    key: fc.constantFrom('a', 'b'),
    amount: fc.constantFrom(5, 5, 5, 6),
    fate: fc.constantFrom(...fates),
  })
  .map(({ route, key, amount, fate }) =>
    command(`${route} ${key} ${amount}: ${fate}`, (world) =>
      during(world, fate, () => world.request(route, `key-${key}`, { amount })),
    ),
  );

/** Two who ask at once. None of these fates ends a process: which of the two it was would be lost. */
const twins = fc
  .record({
    route: fc.constantFrom(...routes),
    key: fc.constantFrom('a', 'b'),
    fate: fc.constantFrom<Fate>('fine', 'declines', 'charges and times out', 'times out', 'charges late'),
  })
  .map(({ route, key, fate }) =>
    command(`${route} ${key} twice at once: ${fate}`, (world) => {
      const ask = () => world.request(route, `key-${key}`);
      return during(world, fate, () => Promise.all([ask(), ask()]));
    }),
  );

const passing = fc
  .constantFrom(1_000, 30_000, 2 * MINUTE, 6 * MINUTE, 60 * MINUTE, 26 * 60 * MINUTE)
  .map((ms) => command(`${ms} ms pass`, async (world) => world.advance(ms)));

/** How long before an outcome settles the bank is asked: sooner than it answers when it is slow. */
const ALMOST_MS = 6_000;

/** Asked when "not there" is not to be believed yet, and answered when it would be. */
const almostSettled = fc.tuple(fc.nat(8), fc.boolean()).map(([which, byWebhook]) =>
  command(`${byWebhook ? 'webhook' : 'sweep'} just before ${which} settles`, async (world) => {
    const unknown = (await world.records()).filter((record) => record.status === 'unknown');
    const record = unknown[which % Math.max(1, unknown.length)];
    if (!record) return;
    const { skewMs, settlingMs } = defaultPolicy;
    const aheadMs = record.leaseUntil + skewMs + settlingMs - ALMOST_MS - world.time.now;
    if (aheadMs > 0) world.advance(aheadMs);
    world.bank.slow = true;
    if (byWebhook) await world.tell(record.pk, `${record.pk}-${world.time.now}`);
    else await world.sweep();
    world.bank.slow = false;
  }),
);

/** Most of what happens is requests and time; a run without them shows nothing. */
export const commands: fc.Arbitrary<Command>[] = [
  requests,
  requests,
  requests,
  requests,
  twins,
  passing,
  passing,
  almostSettled,
  fc
    .constantFrom(...fates.filter((fate) => !fate.startsWith('completion') && !fate.startsWith('freezes')))
    .map((fate) => command(`sweep: ${fate}`, (world) => during(world, fate, world.sweep))),
  shuffles.map((shuffle) =>
    command(`stream ${JSON.stringify(shuffle)}`, async (world) => {
      const batch = batchOf(world, shuffle);
      await world.dispatch(batch);
      await world.watch(batch);
    }),
  ),
  fc.constant(command('backstop', (world) => world.search())),
  fc.constantFrom(...fates).map((fate) =>
    command(`completion: ${fate}`, async (world) => {
      if (world.invocations.length > 0) await during(world, fate, world.invokeNext);
    }),
  ),
  fc.constant(
    command('wake up', async (world) => {
      for (const wake of world.frozen.splice(0)) wake();
    }),
  ),
  fc.boolean().map((silent) =>
    command(silent ? 'the bank is silent' : 'the bank is back', async (world) => {
      world.bank.silent = silent;
    }),
  ),
  fc
    .tuple(fc.constantFrom(...deskMoves), fc.nat(8), fc.boolean())
    .map(([move, which, anything]) =>
      command(`operator: ${move} ${which}${anything ? ' of all' : ''}`, (world) =>
        operate(world, move, which, anything),
      ),
    ),
  fc.constant(command('two sweeps at once', (world) => Promise.all([world.sweep(), world.sweep()]))),
  fc.constant(command('TTL', (world) => world.prune())),
  fc.tuple(fc.nat(8), fc.constantFrom('x', 'y')).map(([which, id]) =>
    command(`webhook ${which} ${id}`, async (world) => {
      const records = (await world.records()).filter(isPayment);
      const record = records[which % Math.max(1, records.length)];
      if (record) await world.tell(record.pk, `${record.pk}-${id}`);
    }),
  ),
];

/* What must hold. */

export async function requireRules(checked: Checked, world: World): Promise<void> {
  for (const change of world.changes.slice(checked.seen)) requireLegal(change);
  checked.seen = world.changes.length;
  for (const [index, answer] of world.answers.entries())
    if (index >= checked.heard) requireTrue(answer, world.answers.slice(0, index), world.changes);
  checked.heard = world.answers.length;
  requireOnce('charges', world.bank.charges);
  requireOnce('rows', world.rows);
  for (const record of await world.records()) await requireFindable(world, record);
}

function requireOnce(what: string, effects: readonly string[]): void {
  if (new Set(effects).size !== effects.length) throw new Error(`${what} happened twice: ${effects.join()}`);
}

/** Writes that move nothing: the same attempt in the same state, before and after. */
const NOTES = new Set(['watch', 'openStep', 'saveStep', 'noteDelivery']);

function requireLegal({ move, before, after, at }: Change): void {
  const illegal = (why: string) => new Error(`${move}, ${before?.status} → ${after?.status}: ${why}`);
  if (!after) {
    const over = before && 'ttl' in before && Number(before.ttl) * 1_000 < at;
    if (move !== 'prune' || !over || isOpen(before)) throw illegal('it was evidence');
    return;
  }
  const expired = before && 'ttl' in before && (before.expiresAt ?? at) + defaultPolicy.skewMs < at;
  const from = expired && move === 'reserve' ? 'expired' : (before?.status ?? 'none');
  if (NOTES.has(move)) {
    const still = before?.status === after.status && before.owner === after.owner;
    if (!still || before.attempt !== after.attempt) throw illegal('a note has moved it');
  } else if (!isLegal(move as Move, from, after.status)) throw illegal('not among the legal moves');
  if (before && move !== 'reserve' && before.operationId !== after.operationId)
    throw illegal('another operation');
  if (before && move !== 'reserve') requireFence(before, after, move, at, illegal);
  if (before?.status === 'completed' && after.status === 'completed' && move !== 'reserve')
    requireKept(before, after, move, illegal);
  if (before?.status === 'completed' && move === 'reopen' && before.response.status < 300)
    throw illegal('a success');
  if (after.status !== 'completed' && after.status !== 'failed_retryable' && 'ttl' in after)
    throw illegal('it has a TTL');
  if (isOpen(after) && after.status === 'completed' && after.ttl !== undefined)
    throw illegal('its events could be evicted');
}

/** Nobody takes what may still be worked on, and whoever takes it can be told from whoever had it. */
function requireFence(
  before: LedgerRecord,
  after: LedgerRecord,
  move: string,
  at: number,
  illegal: (why: string) => Error,
): void {
  const taken = move === 'takeOver' || move === 'lapse';
  if (taken && before.status === 'in_progress' && before.leaseUntil + defaultPolicy.skewMs >= at)
    throw illegal('its lease has not passed');
  const entered = move === 'takeOver' || move === 'retake' || (move === 'settle' && isOpen(after));
  const fresh = after.owner !== before.owner && after.attempt === before.attempt + 1;
  const same = after.owner === before.owner && after.attempt === before.attempt;
  if (entered ? !fresh : !same) throw illegal('its attempt is not told apart');
}

/** What is finished stays as it is; all that may go, once, is its body. */
function requireKept(
  before: Completed,
  after: Completed,
  move: string,
  illegal: (why: string) => Error,
): void {
  const [was, is] = [before, after].map(({ response, completedAt, expiresAt }) =>
    move === 'erase' ? [response.status, completedAt, expiresAt] : [response, completedAt, expiresAt],
  );
  if (!isDeepStrictEqual(was, is)) throw illegal('a finished result has changed');
}

/** An answer of the operation itself, and not about it. */
function isFinalAnswer({ result: { statusCode, body } }: Answer): boolean {
  return statusCode === 201 || (statusCode === 402 && body.startsWith('{"declined"')) || isErasedAnswer(body);
}

const isErasedAnswer = (body: string | undefined) => body === undefined || body === '';

/** Nobody is told other than the record says, or other than was said before, as long as that was promised. */
function requireTrue(answer: Answer, earlier: readonly Answer[], changes: readonly Change[]): void {
  if (!isFinalAnswer(answer)) return;
  const { pk, result, record, reply, at } = answer;
  const wrong = (why: string) => new Error(`${pk} was answered ${result.statusCode} ${result.body}: ${why}`);
  if (record?.status !== 'completed') throw wrong(`it is ${record?.status}`);
  const said = [record.response.status, reply ? Buffer.from(reply.body).toString() : ''];
  if (!isDeepStrictEqual([result.statusCode, result.body ?? ''], said)) throw wrong(`it says ${said}`);
  const before = earlier.findLast((other) => other.pk === pk && isFinalAnswer(other));
  const promised = (of: Answer) => Date.parse(of.result.headers['Idempotency-Expires'] ?? '');
  if (Number.isNaN(promised(answer))) throw wrong('it does not say until when');
  if (!before || promised(before) < at) return;
  const changedByHand = changes.some(
    (change) =>
      change.pk === pk && (change.move === 'reopen' || change.move === 'erase') && change.at >= before.at,
  );
  const same = before.result.statusCode === result.statusCode && before.result.body === result.body;
  if (!same && !changedByHand) throw wrong(`before it was ${before.result.statusCode} ${before.result.body}`);
}

/** Where the sweep looks, before an operator, or for the backstop to find. */
async function requireFindable(world: World, record: LedgerRecord): Promise<void> {
  if (!isOpen(record)) return;
  const { pk, due } = record;
  if (!due) {
    const { pks } = await world.inner.unwatched({ index: 0, of: 1 }, 1_000);
    if (!pks.includes(pk)) throw new Error(`nobody would find ${record.status} ${pk}`);
    return;
  }
  const shard = dueShard(pk, due.parkedAt === undefined ? 'due' : 'parked');
  const { entries } = await world.inner.due(shard, Number.MAX_SAFE_INTEGER, 1_000);
  if (!entries.some((entry) => entry.pk === pk)) throw new Error(`${record.status} ${pk} is not in ${shard}`);
}

function isPayment({ operation }: LedgerRecord): boolean {
  return operation.startsWith('POST /');
}

function routeOf({ operation }: LedgerRecord): Route {
  return operation.slice('POST '.length) as Route;
}

/** Whether it really happened. */
function isDone(world: World, record: LedgerRecord): boolean {
  const route = routeOf(record);
  if (route === '/plain') return world.rows.includes(record.operationId);
  return world.bank.has(chargeKey(route, record.operationId, eventKey));
}

const LONG_ENOUGH = 10 * MINUTE;

/** Nothing waits for ever: whoever knows what the bank did can end what is parked, by its verdict and by what that starts. */
export async function endParked(world: World, settle: (world: World) => Promise<unknown>): Promise<void> {
  for (let verdicts = 0; ; verdicts += 1) {
    const parked = (await world.records()).filter(
      (record) => isOpen(record) && record.due?.parkedAt !== undefined,
    );
    if (parked.length === 0) return;
    if (verdicts === 5)
      throw new Error(`no verdict ends ${parked.map(({ operation, status }) => operation + status)}`);
    world.advance(LONG_ENOUGH);
    for (const record of parked) await verdict(world, record);
    await settle(world);
  }
}

async function verdict(world: World, record: LedgerRecord): Promise<void> {
  const { pk, operationId, status } = record;
  const effect = status === 'unknown' && record.effects === 'steps';
  const response = { statusCode: 201, body: `{"charge":"${operationId}"}` };
  if (!isDone(world, record))
    await (status === 'unknown' ? world.desk.settleNotExecuted(pk, by) : world.desk.redrive(pk, by));
  else if (effect) await world.desk.settleExecuted(pk, by, { declined: false }, 'charge');
  else await world.desk.settleExecuted(pk, by, response);
}

/** At the end the record and the bank say the same. */
export function requireAgreement(world: World, records: readonly LedgerRecord[]): void {
  for (const record of records.filter(isPayment)) {
    const parked = 'due' in record && record.due?.parkedAt !== undefined;
    if (isOpen(record) && !parked) throw new Error(`${record.operation} is still ${record.status}`);
    const done = isDone(world, record);
    const succeeded = record.status === 'completed' && record.response.status === 201;
    const ended = record.status === 'completed' || record.status === 'failed_retryable';
    if (ended && done !== succeeded) {
      throw new Error(
        `${record.operation} is ${record.status}, and the bank has ${done ? 'a' : 'no'} charge`,
      );
    }
  }
}
