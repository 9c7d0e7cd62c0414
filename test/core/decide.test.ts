import { describe, expect, it } from 'vitest';
import { type Decision, decide, isReusable, type RequestClaim } from '../../lib/core/decide.ts';
import { RecordUnreadable } from '../../lib/core/errors.ts';
import { fingerprintOf } from '../../lib/core/fingerprint.ts';
import { defaultPolicy, type Policy } from '../../lib/core/policy.ts';
import type {
  Accepted,
  CompletedDelivered,
  CompletedUndelivered,
  EpochMs,
  FailedRetryable,
  InProgress,
  LedgerRecord,
  Outbox,
  Step,
  StoredResponse,
  Unknown,
} from '../../lib/core/record.ts';

/**
 * What a request gets, in every situation there is. An empty cell stands for any value, `a/b` for either, and a
 * column that a table does not have does not matter there.
 *
 *   ran as    the effects that the record's attempt declared      runs as   those that the code declares today
 *   steps     what the record holds: none, an open one, or only done ones
 *   dedupe    whether providers remember our downstream keys until the end of this request's lease
 */
const SPECIFICATION = [
  `
  | state            | decision        |
  | none             | reserve         |
  `,
  `
  | state            | fingerprint | lease  | in flight | ran as        | steps     | runs as              | dedupe | decision                  |
  | in_progress      | other       |        |           |               |           |                      |        | misuse                    |
  | in_progress      | same        | live   | reject    |               |           |                      |        | reject                    |
  | in_progress      | same        | live   | accept    |               |           |                      |        | accept                    |
  | in_progress      | same        | live   | wait      |               |           |                      |        | wait                      |
  | in_progress      | same        | passed |           | transactional |           |                      |        | takeOver                  |
  | in_progress      | same        | passed |           | opaque        |           |                      |        | lapse, opaque             |
  | in_progress      | same        | passed |           | steps         | open      |                      |        | lapse, open_effect        |
  | in_progress      | same        | passed |           | steps         | none/done | transactional/opaque |        | lapse, effects_changed    |
  | in_progress      | same        | passed |           | steps         | none/done | steps                | over   | lapse, dedupe_window_over |
  | in_progress      | same        | passed |           | steps         | none/done | steps                | open   | takeOver                  |
  `,
  `
  | state            | fingerprint | decision        |
  | accepted         | other       | misuse          |
  | accepted         | same        | pending         |
  | unknown          | other       | misuse          |
  | unknown          | same        | unknown         |
  | parked           | other       | misuse          |
  | parked           | same        | unknown, parked |
  `,
  `
  | state            | fingerprint | expiry | after expiry | ttl    | decision |
  | completed        | other       | ahead  |              |        | misuse   |
  | completed        | same        | ahead  |              |        | replay   |
  | completed        |             | passed | execute      |        | reserve  |
  | completed        |             | passed | gone         | ahead  | gone     |
  | completed        |             | passed | gone         | passed | reserve  |
  | failed_retryable | other       | ahead  |              |        | misuse   |
  | failed_retryable | same        | ahead  |              |        | retake   |
  | failed_retryable |             | passed | execute      |        | reserve  |
  | failed_retryable |             | passed | gone         | ahead  | gone     |
  | failed_retryable |             | passed | gone         | passed | reserve  |
  | undelivered      | other       |        |              |        | misuse   |
  | undelivered      | same        |        |              |        | replay   |
  `,
];

/** Every axis is crossed with every state, also where the record has no such field: it must not matter then. */
const AXES = {
  /** `undelivered` is completed with events that nobody has delivered yet; `parked` is unknown, left to an operator. */
  state: [
    'none',
    'in_progress',
    'accepted',
    'completed',
    'undelivered',
    'failed_retryable',
    'unknown',
    'parked',
  ],
  fingerprint: ['same', 'other'],
  lease: ['live', 'passed'],
  expiry: ['ahead', 'passed'],
  ttl: ['ahead', 'passed'],
  'ran as': ['transactional', 'steps', 'opaque'],
  steps: ['none', 'open', 'done'],
  'runs as': ['transactional', 'steps', 'opaque'],
  dedupe: ['open', 'over'],
  'in flight': ['reject', 'accept', 'wait'],
  'after expiry': ['execute', 'gone'],
} as const;

type Axis = keyof typeof AXES;
type Situation = { readonly [A in Axis]: (typeof AXES)[A][number] };

interface Row {
  readonly conditions: ReadonlyMap<Axis, readonly string[]>;
  readonly decision: string;
}

const NOW: EpochMs = Date.UTC(2030, 0, 15, 12);
const MINUTE_MS = 60_000;
const LEASE_MS = 30_000;
const STORED = 'v1:stored';

/** One broken rule breaks thousands of situations; a few of them tell as much. */
const SHOWN = 3;

/** Unlike the defaults, no two of these numbers are equal: one used in place of another shows. */
const basePolicy: Policy = {
  ...defaultPolicy,
  skewMs: 700,
  inFlightRetryMs: 1_300,
  dedupeWindowMs: 5_000_000,
};

const response: StoredResponse = {
  schemaVersion: 1,
  status: 201,
  headers: [],
  base64: false,
  encoding: 'identity',
  length: 0,
  crc: 0,
  body: { inline: new Uint8Array() },
};
const outbox: Outbox = [{ type: 'charge', payload: '{}' }];
const done: Step = { state: 'done', attempt: 1, at: NOW, result: '{}' };
const open: Step = { state: 'open', attempt: 1, at: NOW, id: 'try-1' };

const common = {
  pk: 'pk',
  tenant: 'tenant',
  operation: 'POST /payments',
  fingerprint: STORED,
  effects: 'steps',
  operationId: 'operation-1',
  owner: 'owner-1',
  attempt: 1,
  createdAt: NOW - MINUTE_MS,
  lastRunAt: NOW - MINUTE_MS,
  dedupeSince: NOW - MINUTE_MS,
  takenOver: false,
  steps: new Map<string, Step>(),
  moves: [],
} as const;

const inProgress: InProgress = { ...common, status: 'in_progress', leaseUntil: NOW + MINUTE_MS };
const accepted: Accepted = { ...common, status: 'accepted', accepted: { at: NOW, response, outbox } };
const ended = { completedAt: NOW - MINUTE_MS, expiresAt: NOW + MINUTE_MS };
const ttl = (NOW + 2 * MINUTE_MS) / 1_000;
const completed: CompletedDelivered = { ...common, ...ended, status: 'completed', response, ttl };
const undelivered: CompletedUndelivered = { ...common, ...ended, status: 'completed', response, outbox };
const failed: FailedRetryable = { ...common, ...ended, status: 'failed_retryable', errorCode: 'threw', ttl };
const unknown: Unknown = {
  ...common,
  status: 'unknown',
  errorCode: 'threw',
  leaseUntil: NOW - MINUTE_MS,
  due: { shard: 'due#1', at: NOW + MINUTE_MS },
};
const parked: Unknown = { ...unknown, due: { shard: 'parked#1', at: NOW, parkedAt: NOW - MINUTE_MS } };

const unexpired: readonly (readonly [state: string, record: LedgerRecord])[] = [
  ['in_progress', inProgress],
  ['in_progress, lease passed', { ...inProgress, leaseUntil: NOW - MINUTE_MS }],
  ['accepted', accepted],
  ['completed', completed],
  ['undelivered', undelivered],
  ['undelivered, past its expiry', { ...undelivered, expiresAt: NOW - MINUTE_MS }],
  ['failed_retryable', failed],
  ['unknown', unknown],
  ['parked', parked],
];

function claim(matches: (stored: string) => boolean = () => true): RequestClaim {
  return { fingerprint: { matches }, leaseUntil: NOW + LEASE_MS };
}

/** A decision in the words of the tables. */
function told(decision: Decision): string {
  if (decision.kind === 'lapse') return `lapse, ${decision.doubt.kind}`;
  return decision.kind === 'unknown' && decision.parked ? 'unknown, parked' : decision.kind;
}

function recordOf(situation: Situation): LedgerRecord | undefined {
  const shared = {
    effects: situation['ran as'],
    steps: stepsOf(situation.steps),
    dedupeSince: NOW + (situation.dedupe === 'open' ? MINUTE_MS : -MINUTE_MS) - basePolicy.dedupeWindowMs,
  };
  const leaseUntil = situation.lease === 'live' ? NOW + MINUTE_MS : NOW - MINUTE_MS;
  const expiresAt = situation.expiry === 'ahead' ? NOW + MINUTE_MS : NOW - MINUTE_MS;
  const dropped = (NOW + (situation.ttl === 'ahead' ? MINUTE_MS : -MINUTE_MS)) / 1_000;
  switch (situation.state) {
    case 'none':
      return undefined;
    case 'in_progress':
      return { ...inProgress, ...shared, leaseUntil };
    case 'accepted':
      return { ...accepted, ...shared };
    case 'completed':
      return { ...completed, ...shared, expiresAt, ttl: dropped };
    case 'undelivered':
      return { ...undelivered, ...shared, expiresAt };
    case 'failed_retryable':
      return { ...failed, ...shared, expiresAt, ttl: dropped };
    case 'unknown':
      return { ...unknown, ...shared, leaseUntil };
    case 'parked':
      return { ...parked, ...shared, leaseUntil };
    default:
      return situation.state satisfies never;
  }
}

function stepsOf(held: Situation['steps']): ReadonlyMap<string, Step> {
  switch (held) {
    case 'none':
      return new Map();
    case 'open':
      return new Map([
        ['charge', done],
        ['ship', open],
      ]);
    case 'done':
      return new Map([['charge', done]]);
    default:
      return held satisfies never;
  }
}

function policyOf(situation: Situation): Policy {
  return {
    ...basePolicy,
    effects: situation['runs as'],
    inFlight: situation['in flight'],
    afterExpiry: situation['after expiry'],
  };
}

function everySituation(): Situation[] {
  return Object.entries(AXES).reduce<Record<string, string>[]>(
    (some, [axis, values]) => some.flatMap((one) => values.map((value) => ({ ...one, [axis]: value }))),
    [{}],
  ) as unknown as Situation[];
}

function rowsOf(table: string): Row[] {
  const [header = [], ...rows] = table
    .trim()
    .split('\n')
    .map((line) => line.split('|').slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim()));
  return rows.map((cells) => {
    if (cells.length !== header.length) throw new Error(`A row has too many or too few cells: ${cells}`);
    const conditions = new Map<Axis, readonly string[]>();
    for (const [at, name] of header.slice(0, -1).entries()) {
      if (cells[at]) conditions.set(name as Axis, cells[at].split('/'));
    }
    return { conditions, decision: cells.at(-1) ?? '' };
  });
}

function covers(row: Row, situation: Situation): boolean {
  return [...row.conditions].every(([axis, values]) => values.includes(situation[axis]));
}

function nameOf({ conditions, decision }: Row): string {
  const { state, ...rest } = Object.fromEntries(conditions);
  const conditioned = Object.entries(rest).map(([axis, values]) => `${axis} ${values.join(' or ')}`);
  return `${[state, ...conditioned].join(', ')}: ${decision}`;
}

const rows = SPECIFICATION.flatMap(rowsOf);
const situations = everySituation();

describe('the specification', () => {
  it('speaks only of axes and values that exist', () => {
    const values: Readonly<Record<string, readonly string[]>> = AXES;
    for (const row of rows) {
      for (const [axis, named] of row.conditions)
        expect(values[axis]).toEqual(expect.arrayContaining([...named]));
    }
  });

  it('has exactly one row for every situation', () => {
    const size = Object.values(AXES).reduce((product, values) => product * values.length, 1);
    expect(situations).toHaveLength(size);
    const wrong = situations.filter((situation) => rows.filter((row) => covers(row, situation)).length !== 1);
    expect(wrong.slice(0, SHOWN)).toEqual([]);
  });
});

describe('a request is answered as specified', () => {
  it.each(rows.map((row) => [nameOf(row), row] as const))('%s', (_, row) => {
    const wrong = situations
      .filter((situation) => covers(row, situation))
      .flatMap((situation) => {
        const record = recordOf(situation);
        const request = claim(() => situation.fingerprint === 'same');
        const decision = decide(record, request, NOW, policyOf(situation));
        const passedOn = 'record' in decision ? decision.record : undefined;
        const right = told(decision) === row.decision;
        // The very record that was read: its owner and attempt are the fence of whatever is written next.
        const rightRecord = passedOn === (row.decision === 'reserve' ? undefined : record);
        return right && rightRecord ? [] : [{ situation, decision }];
      });
    expect(wrong.slice(0, SHOWN)).toEqual([]);
  });

  it('a key is free exactly where a request may reserve it', () => {
    const wrong = situations.filter((situation) => {
      const record = recordOf(situation);
      const policy = policyOf(situation);
      const reserves = decide(record, claim(), NOW, policy).kind === 'reserve';
      return reserves !== (record === undefined || isReusable(record, NOW, policy));
    });
    expect(wrong.slice(0, SHOWN)).toEqual([]);
  });
});

/** The last millisecond of one answer, and the first of the next. */
function around(last: EpochMs, record: LedgerRecord, policy: Policy = basePolicy): string[] {
  return [last, last + 1].map((now) => told(decide(record, claim(), now, policy)));
}

describe('to the millisecond', () => {
  it('a lease is live until its end and the skew have passed', () => {
    const record: InProgress = { ...inProgress, effects: 'transactional', leaseUntil: NOW };
    expect(around(NOW + 700, record)).toEqual(['reject', 'takeOver']);
    expect(around(NOW, record, { ...basePolicy, skewMs: 0 })).toEqual(['reject', 'takeOver']);
  });

  it('a result is replayed until its expiry and the skew have passed', () => {
    const record: CompletedDelivered = { ...completed, expiresAt: NOW, ttl: NOW / 1_000 + 3_600 };
    expect(around(NOW + 700, record)).toEqual(['replay', 'reserve']);
    expect(around(NOW + 700, record, { ...basePolicy, afterExpiry: 'gone' })).toEqual(['replay', 'gone']);
    expect(around(NOW, record, { ...basePolicy, skewMs: 0 })).toEqual(['replay', 'reserve']);
  });

  it('a failure is retaken until its expiry and the skew have passed, and starts over after it', () => {
    const record: FailedRetryable = { ...failed, expiresAt: NOW, ttl: NOW / 1_000 + 3_600 };
    expect(around(NOW + 700, record)).toEqual(['retake', 'reserve']);
  });

  it('a key is gone until its ttl, in seconds, and the skew have passed', () => {
    const record: CompletedDelivered = { ...completed, expiresAt: NOW - MINUTE_MS, ttl: NOW / 1_000 };
    expect(around(NOW + 700, record, { ...basePolicy, afterExpiry: 'gone' })).toEqual(['gone', 'reserve']);
  });

  it('an undelivered outbox keeps its key for as long as it takes', () => {
    for (const afterExpiry of ['execute', 'gone'] as const) {
      const decision = decide(undelivered, claim(), Number.MAX_SAFE_INTEGER, { ...basePolicy, afterExpiry });
      expect(decision).toEqual({ kind: 'replay', record: undelivered });
    }
  });

  it('an open outcome never expires, not even with an expiry that has no business being there', () => {
    for (const record of [inProgress, accepted, unknown, parked]) {
      const stray = { ...record, completedAt: 0, expiresAt: 0, ttl: 0 };
      expect(isReusable(stray, NOW, basePolicy)).toBe(false);
      expect(told(decide(stray, claim(), NOW, basePolicy))).toBe(
        told(decide(record, claim(), NOW, basePolicy)),
      );
    }
  });

  it('an attempt is resumed only if its lease ends while providers remember it; the skew does not help', () => {
    const policy: Policy = { ...basePolicy, effects: 'steps' };
    const abandoned = (dedupeSince: EpochMs): InProgress => ({
      ...inProgress,
      leaseUntil: NOW - MINUTE_MS,
      dedupeSince,
    });
    const lastStart = NOW + LEASE_MS - policy.dedupeWindowMs;
    const answers = [lastStart, lastStart - 1].map((since) =>
      told(decide(abandoned(since), claim(), NOW, policy)),
    );
    expect(answers).toEqual(['takeOver', 'lapse, dedupe_window_over']);
  });

  it('what providers remember counts from dedupeSince, not from the first or the last run', () => {
    const policy: Policy = { ...basePolicy, effects: 'steps' };
    const longAgo = NOW - 10 * policy.dedupeWindowMs;
    const abandoned = { ...inProgress, leaseUntil: NOW - MINUTE_MS };
    const vouchedFor = { ...abandoned, createdAt: longAgo, lastRunAt: longAgo };
    expect(told(decide(vouchedFor, claim(), NOW, policy))).toBe('takeOver');
    const forgotten = { ...abandoned, dedupeSince: longAgo };
    expect(told(decide(forgotten, claim(), NOW, policy))).toBe('lapse, dedupe_window_over');
  });
});

describe('a client is told when to come back', () => {
  it.each(['reject', 'accept', 'wait'] as const)(
    'in flight (%s): soon, however long the lease',
    (inFlight) => {
      for (const leaseUntil of [NOW, NOW + 900_000]) {
        const record = { ...inProgress, leaseUntil };
        const decision = decide(record, claim(), NOW, { ...basePolicy, inFlight });
        expect(decision).toEqual({ kind: inFlight, record, retryAfterMs: 1_300 });
      }
    },
  );

  const waits = [
    ['unknown: when it is due to be looked at', 45_000, 45_000],
    ['unknown, due at once: not earlier than in flight', 1, 1_300],
    ['unknown, due in the past: not earlier than in flight', -45_000, 1_300],
  ] as const;
  it.each(waits)('%s', (_, dueInMs, retryAfterMs) => {
    const record: Unknown = { ...unknown, due: { shard: 'due#1', at: NOW + dueInMs } };
    const decision = decide(record, claim(), NOW, basePolicy);
    expect(decision).toEqual({ kind: 'unknown', record, parked: false, retryAfterMs });
  });

  it('parked: told so, whenever it was parked', () => {
    const record: Unknown = { ...unknown, due: { shard: 'parked#1', at: NOW + 45_000, parkedAt: 0 } };
    const decision = decide(record, claim(), NOW, basePolicy);
    expect(decision).toEqual({ kind: 'unknown', record, parked: true, retryAfterMs: 45_000 });
  });
});

describe('an abandoned attempt with an open effect', () => {
  it('is told by the name of that effect, wherever it stands among the steps', () => {
    const steps: readonly (readonly [string, Step])[] = [
      ['charge', done],
      ['ship', open],
      ['notify', done],
    ];
    for (const order of [steps, steps.toReversed(), [...steps.slice(1), ...steps.slice(0, 1)]]) {
      const record: InProgress = { ...inProgress, leaseUntil: NOW - MINUTE_MS, steps: new Map(order) };
      const decision = decide(record, claim(), NOW, { ...basePolicy, effects: 'steps' });
      expect(decision).toEqual({ kind: 'lapse', record, doubt: { kind: 'open_effect', step: 'ship' } });
    }
  });

  it('keeps its key while its lease is live', () => {
    const record: InProgress = { ...inProgress, steps: new Map([['ship', open]]) };
    expect(decide(record, claim(), NOW, basePolicy).kind).toBe('reject');
  });
});

describe.each(unexpired)('the fingerprint of an unexpired record: %s', (_, record) => {
  it('is asked for before anything else: another request is misuse, whatever the policy says', () => {
    for (const afterExpiry of ['execute', 'gone'] as const) {
      for (const effects of ['transactional', 'steps', 'opaque'] as const) {
        const policy: Policy = { ...basePolicy, afterExpiry, effects };
        const decision = decide(
          record,
          claim(() => false),
          NOW,
          policy,
        );
        expect(decision).toEqual({ kind: 'misuse', record });
      }
    }
  });

  it('is compared as it was stored', () => {
    const asked: string[] = [];
    const request = claim((stored) => asked.push(stored) > 0);
    decide(record, request, NOW, basePolicy);
    expect(asked).toEqual([STORED]);
  });

  it('in a version that this release cannot compute stops the request: it is not run, and not called misuse', () => {
    const body = new TextEncoder().encode('{}');
    const input = { method: 'POST', path: '/', query: [], contentType: undefined, headers: [], body };
    const request = { fingerprint: fingerprintOf(input), leaseUntil: NOW + LEASE_MS };
    const newer: LedgerRecord = { ...record, fingerprint: 'v9:stored' };
    expect(() => decide(newer, request, NOW, basePolicy)).toThrow(RecordUnreadable);
  });
});
