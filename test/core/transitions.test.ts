import { describe, expect, it } from 'vitest';
import * as moves from '../../lib/core/moves.ts';
import type {
  Accepted,
  Completed,
  CompletedDelivered,
  CompletedUndelivered,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Status,
  Unknown,
} from '../../lib/core/record.ts';
import { isLegal, type Move, transitions } from '../../lib/core/transitions.ts';

type From = Status | 'none' | 'expired';
type Actor = (typeof transitions)[number]['by'][number];

/** The state machine, spelled out: who may make which move, from where to where. Nothing else is ever written. */
const LEGAL: Record<Move, Readonly<Record<string, readonly Actor[]>>> = {
  reserve: {
    'none → in_progress': ['request'],
    'expired → in_progress': ['request'],
  },
  retake: { 'failed_retryable → in_progress': ['request'] },
  takeOver: { 'in_progress → in_progress': ['request', 'completer'] },
  lapse: {
    'in_progress → unknown': ['request', 'sweep'],
    'in_progress → failed_retryable': ['sweep'],
  },
  complete: { 'in_progress → completed': ['owner'] },
  accept: { 'in_progress → accepted': ['owner'] },
  release: { 'in_progress → failed_retryable': ['owner'] },
  markUnknown: { 'in_progress → unknown': ['owner'] },
  handBack: { 'in_progress → in_progress': ['owner'] },
  completeLate: { 'unknown → completed': ['owner'] },
  settleAccepted: {
    'accepted → completed': ['dispatcher', 'operator'],
    'accepted → unknown': ['dispatcher'],
  },
  settle: {
    'unknown → completed': ['resolver', 'webhook', 'operator'],
    'unknown → failed_retryable': ['resolver', 'webhook', 'operator'],
    'unknown → accepted': ['resolver'],
    'unknown → in_progress': ['resolver'],
  },
  attest: {
    'in_progress → completed': ['operator'],
    'failed_retryable → completed': ['operator'],
  },
  deliver: { 'completed → completed': ['dispatcher'] },
  reopen: { 'completed → failed_retryable': ['operator'] },
  erase: { 'completed → completed': ['operator'] },
};

const STATUSES: readonly Status[] = ['in_progress', 'accepted', 'completed', 'failed_retryable', 'unknown'];
const FROMS: readonly From[] = ['none', 'expired', ...STATUSES];
const MOVES = Object.keys(LEGAL) as Move[];

const arrow = (from: From, to: Status) => `${from} → ${to}`;

describe('the table of transitions', () => {
  it.each(MOVES)('%s goes from where to where it should, by whom it should', (move) => {
    const known = transitions.filter((transition) => transition.move === move);
    const found = Object.fromEntries(known.map(({ from, to, by }) => [arrow(from, to), by]));
    expect(found).toEqual(LEGAL[move]);
    expect(known).toHaveLength(Object.keys(LEGAL[move]).length);
  });

  it('has no other moves', () => {
    expect(new Set(transitions.map(({ move }) => move))).toEqual(new Set(MOVES));
  });

  it('states a condition for every write', () => {
    for (const { when } of transitions) expect(when).not.toBe('');
  });

  it('fences every write to an existing record by the attempt or the operation as read', () => {
    const written = transitions.filter(({ from }) => from !== 'none' && from !== 'expired');
    for (const { when } of written) expect(when).toMatch(/^(owner and attempt|operationId)/);
  });

  it('lets only an owner or a passed lease end an attempt', () => {
    const ends = transitions.filter(({ from }) => from === 'in_progress');
    for (const { by, when } of ends) {
      const conditions = when.split('; ');
      if (by.some((actor) => actor === 'owner')) expect(conditions).toContain('owner and attempt are mine');
      else expect(conditions[0]).toMatch(/lease passed by more than the skew$/);
    }
  });
});

describe('isLegal', () => {
  it.each(MOVES)('%s: knows its own pairs and refuses all others', (move) => {
    for (const from of FROMS) {
      for (const to of STATUSES) {
        expect([from, to, isLegal(move, from, to)]).toEqual([from, to, arrow(from, to) in LEGAL[move]]);
      }
    }
  });
});

/* One call for each way in which a ledger uses `moves.ts`. */

const response = {
  schemaVersion: 1,
  status: 201,
  headers: [],
  base64: false,
  encoding: 'identity',
  length: 0,
  crc: 0,
  body: { inline: new Uint8Array() },
} as const;
const due = { shard: 'due#1', at: 1 };
const claim: moves.Claim = {
  pk: 'pk',
  tenant: 'tenant',
  operation: 'POST /payments',
  fingerprint: 'v1:stored',
  operationId: 'operation-1',
  owner: 'owner-1',
  effects: 'steps',
  now: 1,
  leaseUntil: 2,
};
const outcome: moves.Outcome = { now: 1, response, outbox: [], expiresAt: 2, ttl: 3 };
const failure: moves.Failure = { now: 1, errorCode: 'threw', expiresAt: 2, ttl: 3 };
const deferral: moves.Deferral = { now: 1, response, outbox: [{ type: 'charge', payload: '{}' }] };
const doubt: moves.Uncertainty = { now: 1, errorCode: 'threw', due };
const reentry: moves.Reentry = { now: 1, owner: 'owner-2', due };

const running: InProgress = moves.reserved(claim);
const pending: Accepted = moves.accepted(running, deferral);
const finished: Completed = moves.completed(running, outcome, 'complete');
const announced = moves.completed(
  running,
  { ...outcome, outbox: deferral.outbox },
  'complete',
) as CompletedUndelivered;
const released: FailedRetryable = moves.failed(running, failure, 'release');
const doubtful: Unknown = moves.uncertain(running, doubt, 'lapse');
const doubtfulAccepted: Unknown = moves.uncertain(pending, doubt, 'settleAccepted');

/** `completed`, `failed` and `uncertain` write down the move they are given, so it is passed on to them. */
const calls = {
  reserved: [
    ['reserve', undefined, () => moves.reserved(claim)],
    ['reserve', 'expired', () => moves.reserved(claim)],
  ],
  retaken: [['retake', released, () => moves.retaken(released, claim)]],
  takenOver: [['takeOver', running, () => moves.takenOver(running, claim)]],
  completed: [
    ['complete', running, (move) => moves.completed(running, outcome, move)],
    ['completeLate', doubtful, (move) => moves.completed(doubtful, outcome, move)],
    ['settle', doubtful, (move) => moves.completed(doubtful, outcome, move)],
    ['settleAccepted', pending, (move) => moves.completed(pending, outcome, move)],
    ['attest', running, (move) => moves.completed(running, outcome, move)],
    ['attest', released, (move) => moves.completed(released, outcome, move)],
  ],
  accepted: [['accept', running, () => moves.accepted(running, deferral)]],
  failed: [
    ['release', running, (move) => moves.failed(running, failure, move)],
    ['lapse', running, (move) => moves.failed(running, failure, move)],
    ['settle', doubtful, (move) => moves.failed(doubtful, failure, move)],
    ['reopen', finished, (move) => moves.failed(finished, failure, move)],
  ],
  uncertain: [
    ['lapse', running, (move) => moves.uncertain(running, doubt, move)],
    ['markUnknown', running, (move) => moves.uncertain(running, doubt, move)],
    ['settleAccepted', pending, (move) => moves.uncertain(pending, doubt, move)],
  ],
  delivered: [['deliver', announced, () => moves.delivered(announced, 3)]],
  erased: [['erase', finished, () => moves.erased(finished as CompletedDelivered, { now: 1, headers: [] })]],
  handedBack: [['handBack', running, () => moves.handedBack(running, 1, due)]],
  reaccepted: [['settle', doubtfulAccepted, () => moves.reaccepted(doubtfulAccepted, reentry)]],
  resumed: [['settle', doubtful, () => moves.resumed(doubtful, reentry, undefined)]],
} satisfies Partial<
  Record<
    keyof typeof moves,
    readonly (readonly [Move, LedgerRecord | 'expired' | undefined, (move: Move) => LedgerRecord])[]
  >
>;

const produced = Object.values(calls)
  .flat()
  .map(([move, from, make]) => ({ move, from: stateOf(from), to: make(move) }));

function stateOf(from: LedgerRecord | 'expired' | undefined): From {
  if (from === undefined) return 'none';
  return from === 'expired' ? 'expired' : from.status;
}

describe('what the moves make of a record', () => {
  it.each(produced)('$move from $from is legal', ({ move, from, to }) => {
    expect(isLegal(move, from, to.status)).toBe(true);
  });

  it('is remembered under the name of a legal move', () => {
    for (const { move, to } of produced) {
      const [last] = to.moves.slice(-1);
      if (last) expect(last.move).toBe(move);
    }
  });

  it('covers the whole table: no transition without code that makes it', () => {
    const made = produced.map(({ move, from, to }) => `${move}: ${arrow(from, to.status)}`);
    const known = transitions.map(({ move, from, to }) => `${move}: ${arrow(from, to)}`);
    expect(made.toSorted()).toEqual(known.toSorted());
  });

  it('is a new state only through the functions above: steps, deliveries and due times change none', () => {
    const others = Object.keys(moves).filter((name) => !(name in calls));
    expect(others.toSorted()).toEqual(['watched', 'withDelivery', 'withStep']);
    const step = { state: 'open', attempt: 1, at: 1, id: 'try-1' } as const;
    expect(moves.withStep(running, 'charge', step).status).toBe('in_progress');
    expect(moves.withDelivery(pending, 0, { state: 'done', at: 1 }).status).toBe('accepted');
    for (const record of [running, pending, doubtful]) {
      expect(moves.watched(record, due).status).toBe(record.status);
    }
  });
});
