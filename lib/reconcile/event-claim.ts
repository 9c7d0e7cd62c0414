import { decide } from '../core/decide.ts';
import { StoreUnavailable } from '../core/errors.ts';
import { fingerprintOf } from '../core/fingerprint.ts';
import type { Attempt } from '../core/moves.ts';
import { defaultPolicy, expiryAfter, type Policy } from '../core/policy.ts';
import type { EpochMs, InProgress, LedgerRecord, Reply } from '../core/record.ts';
import { eventOperation, scopePk } from '../core/scope.ts';
import type { Ledger, Taken } from '../ledger/ledger.ts';

interface ClaimPorts<W> {
  readonly ledger: Pick<Ledger<W>, 'reserve' | 'retake' | 'takeOver' | 'complete' | 'release'>;
  readonly clock: () => EpochMs;
  readonly newId: () => string;
}

/** A provider's event, as the ledger knows it. */
export interface EventRef {
  readonly pk: string;
  readonly tenant: string;
  readonly operation: string;
  readonly id: string;
}

export type EventClaimed =
  | { readonly kind: 'mine'; readonly record: InProgress }
  /** It was handled to its end before. */
  | { readonly kind: 'handled' }
  /** Another delivery of it is being handled. */
  | { readonly kind: 'busy'; readonly retryAfterMs: number };

/** Stripe sends an event again for three days, and what comes later than that is asked about again, which does no harm. */
const RETENTION_SECONDS = 4 * 24 * 3_600;

/**
 * Handling an event is asking and then settling under a fence, so it may be done again after a crash: that is what
 * `transactional` promises. Nothing of it is ever unknown.
 */
const POLICY: Policy = {
  ...defaultPolicy,
  effects: 'transactional',
  inFlight: 'reject',
  retentionSeconds: RETENTION_SECONDS,
};

/** Each turn is a race that another delivery won. */
const TURNS = 4;

/** One name per endpoint: two endpoints may be sent the same event, and each must handle it. */
export function eventRef(name: string, id: string): EventRef {
  const scope = { tenant: name, operation: eventOperation(name) };
  return { ...scope, id, pk: scopePk({ ...scope, key: id }) };
}

/** The dedupe of events, by a record of their own in the same ledger. */
export function eventClaims<W>({ ledger, clock, newId }: ClaimPorts<W>) {
  return { claim, done, giveBack };

  async function claim(ref: EventRef, deadline: EpochMs, until: EpochMs): Promise<EventClaimed> {
    // By its id alone: a provider may write its own counters into the body of the second delivery.
    const body = new Uint8Array(Buffer.from(ref.id));
    const about = { method: 'WEBHOOK', path: ref.tenant, query: [], contentType: undefined, headers: [] };
    const fingerprint = fingerprintOf({ ...about, body });
    let found: LedgerRecord | undefined;
    for (let turn = 0; turn < TURNS; turn += 1) {
      const by = attempt(deadline);
      const decision = found
        ? decide(found, { fingerprint, leaseUntil: by.leaseUntil }, by.now, POLICY)
        : ({ kind: 'reserve' } as const);
      let taken: Taken;
      switch (decision.kind) {
        case 'reserve': {
          const { pk, tenant, operation } = ref;
          const scope = { pk, tenant, operation, fingerprint: fingerprint.current, operationId: newId() };
          taken = await ledger.reserve({ ...by, ...scope }, POLICY, { until });
          break;
        }
        case 'retake':
          taken = await ledger.retake(decision.record, by, { until });
          break;
        case 'takeOver':
          taken = await ledger.takeOver(decision.record, { ...by, skewMs: POLICY.skewMs }, { until });
          break;
        case 'replay':
          return { kind: 'handled' };
        case 'reject':
          return { kind: 'busy', retryAfterMs: decision.retryAfterMs };
        default:
          // No other state is ever written for an event, so somebody else's record is under its name.
          throw new StoreUnavailable(`The event's record ${ref.pk} is ${decision.kind}; nothing was done.`);
      }
      if (taken.kind === 'owned') return { kind: 'mine', record: taken.record };
      found = taken.record;
    }
    throw new StoreUnavailable(`The event's record ${ref.pk} kept changing hands; nothing was done.`);
  }

  /** Says whether it counts as handled: if another delivery has taken over, that one answers for it. */
  async function done(mine: InProgress, reply: Reply, until: EpochMs): Promise<boolean> {
    const now = clock();
    const outcome = { now, reply, outbox: [], ...expiryAfter(POLICY, now) };
    const completed = await ledger.complete(mine, outcome, [], { until });
    if (completed.kind === 'refused') return false; // There are no writes that could be refused.
    return completed.record?.status === 'completed';
  }

  async function giveBack(mine: InProgress, errorCode: string, until: EpochMs): Promise<void> {
    const now = clock();
    await ledger.release(mine, { now, errorCode, ...expiryAfter(POLICY, now) }, { until });
  }

  function attempt(deadline: EpochMs): Attempt {
    const leaseUntil = deadline + POLICY.leaseMarginMs;
    return { owner: newId(), effects: POLICY.effects, now: clock(), leaseUntil };
  }
}
