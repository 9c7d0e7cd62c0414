import { marshall } from '@aws-sdk/util-dynamodb';
import { stepKey } from '../../lib/core/downstream-key.ts';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import { isOpen, type LedgerRecord, type Reply } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import { delivered, refused } from '../../lib/effects/deliveries.ts';
import { NotExecuted } from '../../lib/effects/errors.ts';
import { executed, notExecuted, type UnknownOperation, undetermined } from '../../lib/effects/resolver.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { encode } from '../../lib/ledger/item.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { idempotent } from '../../lib/middleware/idempotent.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { backstop } from '../../lib/reconcile/backstop.ts';
import { dispatcher } from '../../lib/reconcile/dispatch.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { sweeper } from '../../lib/reconcile/sweep.ts';
import { webhook } from '../../lib/reconcile/webhook.ts';
import { post, type Result } from '../middleware/stage.ts';

/*
 * A bank, a function that charges through it in every way there is, and all that reconciles them, on one clock that only
 * the test moves. The table's stream is made of the ledger's own writes.
 */

/** What the bank, or the function that asks it, does with one charge. */
export type Fate =
  | 'fine'
  | 'declines'
  /** It has charged, and its answer never came. */
  | 'charges and times out'
  | 'times out'
  | 'answers 500'
  /** It has taken the request, says nothing, and charges after the lease, as late as it ever does. */
  | 'charges late'
  /** The process ends. */
  | 'dies before'
  | 'dies after'
  /** The process is frozen after the charge, until the test wakes it. */
  | 'freezes after'
  /** The store is away when the charge is to be written down. */
  | 'completion lost'
  /** The store has taken it, and its answer got lost. */
  | 'completion unheard';

/** Longer than any test takes: the middleware's own timers are real. */
const RUN_MS = 300_000;
const LEASE_MS = RUN_MS + 5_000;
/** Just inside the settling time of two minutes. */
const LATE_MS = 118_000;
/** As long as an answer may take, and still be waited for. */
const SLOW_MS = 9_000;
const ARN = 'arn:aws:lambda:eu-central-1:123456789012:function:payments:live';

export const routes = ['/opaque', '/effect', '/step', '/plain', '/deferred', '/deduped'] as const;
export type Route = (typeof routes)[number];

class Bank {
  /** What was really done, by the key it was asked under. */
  readonly charges: string[] = [];
  readonly #late: { readonly key: string; readonly at: number; readonly dedupes: boolean }[] = [];
  /** Whoever asks it what it has done gets no answer. */
  silent = false;
  /** Whoever asks it gets an answer that was true when it was asked. */
  slow = false;

  charge(key: string, dedupes: boolean): void {
    if (dedupes && this.charges.includes(key)) return;
    this.charges.push(key);
  }

  chargeAt(key: string, at: number, dedupes: boolean): void {
    this.#late.push({ key, at, dedupes });
  }

  land(now: number): void {
    for (const { key, dedupes } of this.#late.filter(({ at }) => at <= now)) this.charge(key, dedupes);
    this.#late.splice(0, Infinity, ...this.#late.filter(({ at }) => at > now));
  }

  /** It has charged, or is going to: asked again under the same key, it can no longer decline. */
  knows(key: string): boolean {
    return this.has(key) || this.#late.some((late) => late.key === key);
  }

  has(key: string): boolean {
    return this.charges.includes(key);
  }
}

/** What somebody was told, and what the record said at that moment. */
export interface Answer {
  readonly pk: string;
  readonly result: Result;
  readonly record: LedgerRecord | undefined;
  readonly reply: Reply | undefined;
  readonly at: number;
}

/** One change that the ledger made, and the move that made it. */
export interface Change {
  readonly move: string;
  readonly pk: string;
  readonly before: LedgerRecord | undefined;
  readonly after: LedgerRecord | undefined;
  readonly at: number;
}

/** The parts of an event that name its record. */
interface Requested {
  readonly rawPath: Route;
  readonly headers: { readonly 'idempotency-key'?: string };
}

const RECORD_READS = new Set([
  'read',
  'reply',
  'stepResult',
  'audits',
  'request',
  'unwatched',
  'completedIn',
  'due',
]);

type World = ReturnType<typeof bankWorld>;

export type { World };

export function bankWorld(create: (clock: () => number) => Ledger<unknown>, start: number) {
  const time = { now: start };
  const clock = () => time.now;
  const bank = new Bank();
  const rows: string[] = [];
  const changes: Change[] = [];
  const answers: Answer[] = [];
  const stream: object[] = [];
  const invocations: Uint8Array[] = [];
  const frozen: (() => void)[] = [];
  const pks = new Set<string>();
  const plan: { fate: Fate; store: 'fine' | 'lost' | 'unheard' } = { fate: 'fine', store: 'fine' };
  let died: () => void = () => {};
  let sequence = 0;
  let turn: Promise<unknown> = Promise.resolve();

  const inner = create(clock);
  const ledger = observed(inner);

  /** Every write of the ledger, seen from outside as the stream would show it. */
  function observed(to: Ledger<unknown>): Ledger<unknown> {
    const methods = Object.entries(to).map(([name, method]) => {
      if (typeof method !== 'function' || RECORD_READS.has(name) || name === 'prune') return [name, method];
      const write = async (args: readonly unknown[]) => {
        const { pk } = args[0] as { pk: string };
        if (name === 'complete' && plan.store === 'lost') throw away();
        const before = await to.read(pk);
        const result = await method(...args);
        const after = await to.read(pk);
        if (name === 'complete' || name === 'accept')
          for (const row of (args[2] ?? []) as string[]) note(result, row);
        saw(name, pk, before, after);
        if (name === 'complete' && plan.store === 'unheard') throw away();
        return result;
      };
      /** One at a time: what was before and what is after must be of one write, also while a late owner wakes up. */
      const inTurn = (...args: unknown[]) => {
        const written = turn.then(() => write(args));
        turn = written.catch(() => undefined);
        return written;
      };
      return [name, inTurn];
    });
    return Object.fromEntries(methods);
  }

  function note(result: unknown, row: string): void {
    if ((result as { kind: string }).kind === 'moved') rows.push(row);
  }

  function saw(move: string, pk: string, before: LedgerRecord | undefined, after: LedgerRecord | undefined) {
    pks.add(pk);
    const [OldImage, NewImage] = [image(before), image(after)];
    if (JSON.stringify(OldImage) === JSON.stringify(NewImage)) return;
    changes.push({ move, pk, before, after, at: time.now });
    sequence += 1;
    const Keys = { pk: { S: pk }, sk: { S: 'record' } };
    stream.push({ dynamodb: { Keys, OldImage, NewImage, SequenceNumber: String(sequence) } });
  }

  function advance(ms: number): void {
    time.now += ms;
    bank.land(time.now);
  }

  /** Never comes back. Whoever waits for the request is told. */
  async function die(): Promise<never> {
    died();
    return new Promise<never>(() => {});
  }

  /** Whoever waits is told the same, but it may wake up. */
  async function freeze(): Promise<void> {
    died();
    await new Promise<void>((wake) => frozen.push(wake));
  }

  /** One request to the bank, from inside the function or the dispatcher. */
  async function ask(
    key: string,
    dedupes: boolean,
    leaseMs: number = LEASE_MS,
  ): Promise<{ readonly declined: boolean }> {
    const { fate } = plan;
    if (fate === 'dies before') return die();
    if (fate === 'times out') throw new Error('the bank did not answer in time');
    if (fate === 'answers 500') throw new Error('the bank answered 500');
    if (fate === 'declines' && !(dedupes && bank.knows(key))) return { declined: true };
    if (fate === 'charges late') {
      bank.chargeAt(key, time.now + leaseMs + LATE_MS, dedupes);
      throw new Error('the bank did not answer in time');
    }
    bank.charge(key, dedupes);
    if (fate === 'charges and times out') throw new Error('the bank did not answer in time');
    if (fate === 'dies after') return die();
    if (fate === 'freezes after') await freeze();
    return { declined: false };
  }

  /** With the time, so that what one attempt says can be told from what another does. */
  const answer = (id: string, { declined }: { readonly declined: boolean }) =>
    declined
      ? { statusCode: 402, body: `{"declined":"${id}","at":${time.now}}` }
      : { statusCode: 201, body: `{"charge":"${id}","at":${time.now}}` };

  const resolver = ({ operationId, open }: UnknownOperation) => {
    if (bank.silent) return undetermined();
    const key = open?.key ?? operationId;
    const charged = bank.has(key);
    if (bank.slow) advance(SLOW_MS);
    if (!charged) return notExecuted();
    return executed(open?.name === 'charge' ? { declined: false } : answer(operationId, { declined: false }));
  };

  const operations = {
    'POST /opaque': { effects: 'opaque', resolver },
    'POST /effect': { effects: 'steps', complete: 'auto', resolver },
    'POST /step': { effects: 'steps', complete: 'auto' },
    'POST /plain': { effects: 'transactional' },
    'POST /deferred': { effects: 'transactional', resolver },
    'POST /deduped': { effects: 'transactional', resolver },
  } as const;

  const samples: Sample[] = [];
  const quiet = { clock, log: () => {}, metrics: (sample: Sample) => void samples.push(sample) };

  const payments = idempotent(
    async (event: { rawPath: string }, { once }) => {
      const id = once.operationId;
      switch (event.rawPath as Route) {
        case '/opaque':
          return answer(id, await ask(id, false));
        case '/effect':
          return answer(id, await once.effect('charge', ({ key }) => ask(key, false)));
        case '/step':
          await once.step('row', () => ({ id }));
          return answer(id, await once.step('charge', ({ key }) => ask(key, true)));
        case '/plain':
          if (plan.fate.startsWith('dies')) await die();
          if (plan.fate === 'times out' || plan.fate === 'answers 500') throw new Error('before the commit');
          once.write(id);
          if (plan.fate === 'freezes after') await freeze();
          return answer(id, { declined: false });
        case '/deferred':
        case '/deduped':
          if (plan.fate === 'dies before') await die();
          once.emit({ type: event.rawPath === '/deferred' ? 'charged' : 'deduped', payload: { id } });
          once.defer();
          return { statusCode: 202, headers: { location: '/payments/1' }, body: '{}' };
        default:
          throw new NotExecuted(`there is no ${event.rawPath}`);
      }
    },
    { ledger, tenant: jwtClaim('sub'), onUnknown: 'park', operations, ...quiet } as never,
  );

  const deliver = (dedupes: boolean) => ({
    dedupes,
    deliver: async ({ payload }: { payload: unknown }, { key }: { key: string }) => {
      const outcome = await ask(key, dedupes, 0); // A delivery has no lease: it is in doubt at once.
      const response = answer((payload as { id: string }).id, outcome);
      return outcome.declined ? refused({ response }) : delivered({ response, reference: `ch-${key}` });
    },
  });
  const deliveries = { charged: deliver(false), deduped: deliver(true) };
  const dispatch = dispatcher({ ledger, deliveries, operations, random: () => 1, ...quiet });
  const invoke = async (_: string, event: Uint8Array) => void invocations.push(event);
  const sweep = sweeper({ ledger, operations, dispatcher: dispatch, invoke, random: () => 1, ...quiet });
  const watch = sentinel({ ledger, sweeper: sweep, ...quiet });
  const search = backstop({ ledger, pauseMs: 0, sleep: async () => {}, ...quiet });
  const hook = webhook({
    ...{ ledger, operations, ...quiet },
    verify: () => true,
    subject: (event) => ({ operationRef: (event as unknown as { ref: string }).ref }),
  });
  const context = { invokedFunctionArn: ARN, getRemainingTimeInMillis: () => RUN_MS } as never;

  /** Also of those who answer when nobody waits for them any more: their client may. */
  async function answered({ rawPath, headers }: Requested, result: Result): Promise<Result> {
    const key = headers['idempotency-key'];
    if (key === undefined) return result; // The sweep had it invoked, and nobody is told.
    const pk = pkOf(rawPath, key);
    const record = await inner.read(pk);
    const reply =
      record?.status === 'completed' && !record.response.erasedAt
        ? await inner.reply(pk, record.response)
        : undefined;
    answers.push({ pk, result, record, reply, at: time.now });
    return result;
  }

  async function run(event: unknown): Promise<Result | 'no answer'> {
    const dead = new Promise<'no answer'>((resolve) => {
      died = () => resolve('no answer');
    });
    const call = payments(event as never, context).then(
      (result) => answered(event as Requested, result as Result),
      () => 'no answer' as const,
    );
    return Promise.race([call, dead]);
  }

  /** Works off what somebody does, unless the process ends in the middle of it. */
  async function unlessDead<T>(work: () => Promise<T>): Promise<T | undefined> {
    const dead = new Promise<undefined>((resolve) => {
      died = () => resolve(undefined);
    });
    return Promise.race([work(), dead]);
  }

  return {
    ...{ samples, time, clock, bank, rows, changes, answers, stream },
    ...{ invocations, frozen, pks, plan, ledger, inner, saw },
    desk: operator({ ledger, operations, clock }),
    request: (route: Route, key: string, body: unknown = { amount: 5 }) =>
      run(post({ key, path: route, body })),
    invokeNext: async () => run(JSON.parse(Buffer.from(invocations.shift() ?? []).toString())),
    sweep: () => unlessDead(() => sweep.handle({}, { getRemainingTimeInMillis: () => RUN_MS })),
    watch: (Records: readonly unknown[]) => watch({ Records }, { getRemainingTimeInMillis: () => RUN_MS }),
    dispatch: (Records: readonly unknown[]) =>
      unlessDead(() => dispatch.handle({ Records }, { getRemainingTimeInMillis: () => RUN_MS })),
    /** The bank tells of a charge. It calls the same event by the same id. */
    async tell(ref: string, id: string): Promise<number> {
      const event = post({ path: '/webhooks', body: { id, type: 'charged', ref } });
      const { statusCode } = (await hook(event, { getRemainingTimeInMillis: () => RUN_MS })) as Result;
      return statusCode;
    },
    /** What DynamoDB's TTL does, as the stream shows it. */
    async prune() {
      const before = await Promise.all([...pks].map((pk) => inner.read(pk)));
      if ('prune' in inner && typeof inner.prune === 'function') inner.prune(time.now);
      for (const record of before)
        if (record && !(await inner.read(record.pk))) saw('prune', record.pk, record, undefined);
    },
    search: () => search({}, { getRemainingTimeInMillis: () => RUN_MS }),
    advance,
    async records(): Promise<LedgerRecord[]> {
      const all = await Promise.all([...pks].map((pk) => inner.read(pk)));
      return all.filter((record) => record !== undefined);
    },
  };
}

/** How often anything is looked at before we call it stuck: tries times pauses, many times over. */
const ROUNDS = 400;

/**
 * What happens with nobody asking: the stream is read (unless its batches are lost), time passes, schedules run. Returns
 * when nothing is left to happen, and throws if that moment never comes.
 */
export async function settled(world: World, { streamIsRead = true } = {}): Promise<readonly LedgerRecord[]> {
  for (let round = 0; round < ROUNDS; round += 1) {
    const batch = world.stream.splice(0);
    if (streamIsRead && batch.length > 0) {
      await world.dispatch(batch);
      await world.watch(batch);
    }
    while (world.invocations.length > 0) await world.invokeNext();
    const records = await world.records();
    const waiting = records.filter((record) => isOpen(record) && record.due?.parkedAt === undefined);
    if (waiting.length === 0 && world.stream.length === 0) return records;
    if (world.stream.length > 0 && streamIsRead) continue;
    const dues = waiting.flatMap((record) => ('due' in record && record.due ? [record.due.at] : []));
    if (dues.length === 0) {
      await world.search();
      continue;
    }
    world.advance(Math.max(0, Math.min(...dues) - world.time.now));
    await world.sweep();
  }
  const left = (await world.records()).map((record) =>
    JSON.stringify([record.status, 'due' in record && record.due]),
  );
  throw new Error(`something is still open after ${ROUNDS} rounds: ${left.join(' ')}`);
}

/** Under which key the bank was asked for a charge of this record. */
export function chargeKey(
  route: Route,
  operationId: string,
  eventKey: (id: string, index: number) => string,
) {
  if (route === '/opaque') return operationId;
  return route === '/effect' || route === '/step' ? stepKey(operationId, 'charge') : eventKey(operationId, 0);
}

export function pkOf(route: Route, key: string): string {
  return scopePk({ tenant: 'tenant-1', operation: `POST ${route}`, key });
}

function image(record: LedgerRecord | undefined) {
  if (!record) return undefined;
  const item = marshall(
    { pk: record.pk, sk: 'record', v: 1, ...encode(record) },
    { removeUndefinedValues: true },
  );
  return JSON.parse(
    JSON.stringify(item, (_, value) =>
      isBytes(value) ? Buffer.from(Object.values(value)).toString('base64') : value,
    ),
  );
}

function isBytes(value: unknown): value is Record<string, number> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && '0' in value;
}

function away(): StoreUnavailable {
  return new StoreUnavailable('the store does not answer');
}
