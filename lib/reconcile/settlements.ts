import {
  type Completed,
  type EpochMs,
  type FailedRetryable,
  type InProgress,
  type LedgerRecord,
  lapsesAt,
  openStep,
  outboxOf,
  type Undelivered,
} from '../core/record.ts';
import { expiryOf } from '../effects/operations.ts';
import type { Audited, DeliveryNote, Ledger } from '../ledger/ledger.ts';
import { dueShard } from '../ledger/schema.ts';
import { illegal, made } from './illegal-move.ts';
import { openDelivery, storableReply, type VerdictPorts, verdicts } from './verdicts.ts';

export interface SettlementPorts<W> extends VerdictPorts {
  readonly ledger: Ledger<W>;
}

/**
 * What a person's verdict makes of a record. Its state says what the verdict is about: an unknown outcome or its open effect,
 * the next event that is not known to be delivered, or the operation as a whole where an attempt was abandoned or is called
 * not executed.
 */
export function settlements<W>({ ledger, policyOf, clock, newId }: SettlementPorts<W>) {
  const { settlesAt, executedTo, notExecutedTo } = verdicts({ policyOf, clock, newId });

  return {
    async executed(
      record: LedgerRecord,
      signed: Audited,
      result: unknown,
      step: string | undefined,
    ): Promise<LedgerRecord> {
      if (step !== undefined && !isAboutStep(record))
        throw illegal(record, `a step is settled only where its outcome is unknown, so leave out ${step}`);
      switch (record.status) {
        case 'unknown': {
          const open = openStep(record);
          if (open !== undefined && step !== undefined && step !== open)
            throw illegal(record, `its open effect is ${open}, not ${step}; settle that one first`);
          // What is named may have its result already: nothing is to be noted, and the operation goes on after it.
          const known = step !== undefined && record.steps.get(step)?.state === 'done';
          const target = known ? notExecutedTo(record) : executedTo(record, result, step);
          if (!target) throw illegal(record, 'none of its effects is open; name the step that has happened');
          return made(record, await ledger.settle(record, target, signed));
        }
        case 'in_progress':
        case 'failed_retryable':
          return attested(record, signed, result);
        case 'accepted': {
          const open = openDelivery(record);
          if (open && open.index < open.last) return happened(record, signed, result);
          const reply = storableReply(result);
          const now = clock();
          const expiry = expiryOf(policyOf(record.operation), reply, now);
          const target = { to: 'completed', now, reply, ...expiry } as const;
          return made(record, await ledger.settleAccepted(record, target, signed));
        }
        case 'completed':
          if (!record.outbox) throw illegal(record, 'it has its answer, and nothing of it is open');
          return happened(record, signed, result);
        default:
          return record satisfies never;
      }
    },

    async notExecuted(record: LedgerRecord, signed: Audited): Promise<LedgerRecord> {
      switch (record.status) {
        case 'unknown':
          requireSettled(record, settlesAt(record));
          return made(record, await ledger.settle(record, notExecutedTo(record), signed));
        case 'completed':
          return neverHappened(record, signed);
        case 'in_progress':
          throw illegal(record, 'that nothing of it ran is for the sweep to decide; redrive it');
        case 'failed_retryable':
          throw illegal(record, 'it is called not executed already, and the next request with its key runs');
        case 'accepted':
          throw illegal(record, 'its own write is committed; redrive it, and its events are delivered');
        default:
          return record satisfies never;
      }
    },
  };

  /** After a restore, or where nobody can go on: the operation as a whole has ended with this answer. */
  async function attested(
    record: InProgress | FailedRetryable,
    signed: Audited,
    result: unknown,
  ): Promise<Completed> {
    const declared = policyOf(record.operation);
    const { skewMs } = declared.policy;
    const now = clock();
    if (record.status === 'in_progress' && now < lapsesAt(record, skewMs))
      throw illegal(record, `it may be running until ${iso(lapsesAt(record, skewMs))}; come back then`);
    if (record.status === 'failed_retryable' && record.expiresAt < now)
      throw illegal(record, 'it has expired, so its key is free and the next request is a new operation');
    const reply = storableReply(result);
    const attestation = { now, reply, skewMs, ...expiryOf(declared, reply, now) };
    return made(record, await ledger.attest(record, attestation, signed));
  }

  /** The next event has been delivered. What a completed operation answers stays as it is. */
  async function happened(record: Undelivered, signed: Audited, result: unknown): Promise<LedgerRecord> {
    const { index, claim } = nextOf(record);
    const known = record.status === 'accepted' ? { reply: storableReply(result) } : referenceIn(result);
    return noted(
      record,
      index,
      { to: 'done', at: clock(), ...(claim && { claim: claim.id }), ...known },
      signed,
    );
  }

  async function neverHappened(record: Completed, signed: Audited): Promise<LedgerRecord> {
    if (!record.outbox) throw illegal(record, 'it has its answer, and nothing of it is open');
    const { index, claim } = nextOf(record);
    if (!claim)
      throw illegal(
        record,
        'none of its deliveries is under a claim, so redrive it; where the memory of the provider is over, deliver it by hand and settle it as executed',
      );
    requireSettled(record, settlesAt({ leaseUntil: claim.until, operation: record.operation }));
    return noted(record, index, { to: 'none', claim: claim.id }, signed);
  }

  /** Then due at once: what comes after it is for the dispatcher. If we end here, it stays parked and can be redriven. */
  async function noted(
    record: Undelivered,
    index: number,
    note: DeliveryNote,
    signed: Audited,
  ): Promise<LedgerRecord> {
    const settled = made(record, await ledger.noteDelivery(record, index, note, signed));
    const placed = await ledger.watch(settled, { shard: dueShard(record.pk), at: clock() });
    return placed.record ?? settled;
  }

  function requireSettled(record: LedgerRecord, settledAt: EpochMs): void {
    if (clock() >= settledAt) return;
    throw illegal(
      record,
      `a request of its last attempt may still be on its way until ${iso(settledAt)}; come back then`,
    );
  }
}

/** What is in doubt is an effect of its own, and neither the operation as a whole nor one of its deliveries. */
function isAboutStep(record: LedgerRecord): boolean {
  return record.status === 'unknown' && record.effects === 'steps' && !record.accepted;
}

/** The first event that is not known to be delivered, and who claimed to deliver it. */
function nextOf(record: Undelivered) {
  const events = outboxOf(record);
  const index = events.findIndex(({ delivery }) => !delivery || delivery.state === 'claimed');
  const delivery = events[index]?.delivery;
  if (index === -1) throw illegal(record, 'all of its events are delivered; redrive it, and it ends');
  return { index, claim: delivery?.state === 'claimed' ? delivery : undefined };
}

function referenceIn(result: unknown) {
  const { reference } = (result ?? {}) as { readonly reference?: unknown };
  return typeof reference === 'string' ? { reference } : {};
}

function iso(at: EpochMs): string {
  return new Date(at).toISOString();
}
