import { randomUUID } from 'node:crypto';
import { InvalidArgument } from '../core/errors.ts';
import { expiryAfter } from '../core/policy.ts';
import { type CompletedDelivered, type EpochMs, isOpen, type LedgerRecord } from '../core/record.ts';
import { OPERATION_OPTIONS, type OperationOptions, reconciledPolicies } from '../effects/operations.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { erasedHeaders } from '../http/erased.ts';
import type { AuditEntry, Audited, Ledger } from '../ledger/ledger.ts';
import { dueShard } from '../ledger/schema.ts';
import { IllegalMove, illegal, made } from './illegal-move.ts';
import { type Listed, type Listing, listed, listOpen } from './listing.ts';
import { settlements } from './settlements.ts';

export interface OperatorOptions<W = unknown> extends OperationOptions {
  readonly ledger: Ledger<W>;
  /** The same that the functions are given. */
  readonly operations?: Readonly<Record<string, OperationOptions>>;
  readonly clock?: () => EpochMs;
  readonly newId?: () => string;
}

/** Who moves a record by hand, and on what evidence. Both are kept for 400 days. */
export interface Signature {
  readonly who: string;
  readonly why: string;
}

export interface Inspection {
  readonly record: LedgerRecord | undefined;
  /** Why the record could not be read, where there is one that could not. */
  readonly unreadable?: string;
  readonly audits: readonly AuditEntry[];
}

export interface Operator {
  /** A record with what was done to it by hand, which may be all that is left. */
  inspect(operationRef: string): Promise<Inspection>;
  /** What is open and watched, oldest due first. A request that is just running is not among it. */
  list(what?: Listing): Promise<readonly Listed[]>;
  /**
   * It happened. Of what is unknown: with the response of the operation, or with the result of its open effect, or of the step
   * that is named. Of what was abandoned or is called not executed: with the response of the operation as a whole. Of what is
   * not delivered: the next event, for a completed operation with the provider's `{ reference }` or nothing.
   */
  settleExecuted(operationRef: string, by: Signature, result?: unknown, step?: string): Promise<LedgerRecord>;
  /** It, or the delivery in doubt, did not happen, which can be known only once nothing can be on its way any more. */
  settleNotExecuted(operationRef: string, by: Signature): Promise<LedgerRecord>;
  /** A stored failure is no longer replayed: the next request with its key runs. Never of what was successful. */
  release(operationRef: string, by: Signature): Promise<LedgerRecord>;
  /** Back where the sweep looks, with all its tries: an outbox to be delivered, steps to be resumed, a resolver to be asked. */
  redrive(operationRef: string, by: Signature): Promise<LedgerRecord>;
  /**
   * Takes out the stored body of what is finished, and what its steps returned. Its key stays as protected as before: a
   * replay has the stored status, no body, and `Idempotency-Erased`. Again is fine, and finishes what a crash left.
   */
  erase(operationRef: string, by: Signature): Promise<LedgerRecord>;
}

const OPTIONS = [
  ...OPERATION_OPTIONS,
  'ledger',
  'operations',
  'clock',
  'newId',
] as const satisfies readonly (keyof OperatorOptions)[];

/** What a person may do with a record. Each move is fenced, signed, and refused with the reason where it is not legal. */
export function operator<W>(options: OperatorOptions<W>): Operator {
  requireOptions(options, 'operator()');
  requireKnown(options, OPTIONS, 'operator()');
  requireLedger(options.ledger, 'operator()', ['read', 'settle', 'attest', 'audits', 'due']);
  requireFunctions(options, ['clock', 'newId']);
  const { ledger, operations, clock = Date.now, newId = randomUUID } = options;
  const policyOf = reconciledPolicies('operator()', options, operations);
  const settle = settlements({ ledger, policyOf, clock, newId });

  return {
    async inspect(pk) {
      const [found, audits] = [await listed(ledger, pk), await ledger.audits(pk)];
      if (found?.status !== 'unreadable') return { record: found, audits };
      return { record: undefined, unreadable: found.reason, audits };
    },

    list: (what) => listOpen(ledger, clock(), what),

    async settleExecuted(pk, by, result, step) {
      const signed = signature(by, 'settle as executed');
      return settle.executed(await existing(pk), signed, result, step);
    },

    async settleNotExecuted(pk, by) {
      const signed = signature(by, 'settle as not executed');
      return settle.notExecuted(await existing(pk), signed);
    },

    async release(pk, by) {
      const signed = signature(by, 'release a stored failure');
      const record = await existing(pk);
      requireReleasable(record);
      const now = clock();
      const failure = { now, errorCode: 'released', ...expiryAfter(policyOf(record.operation).policy, now) };
      return made(record, await ledger.reopen(record, failure, signed));
    },

    async redrive(pk, by) {
      const signed = signature(by, 'redrive');
      const record = await existing(pk);
      if (!isOpen(record)) throw illegal(record, 'nothing of it is open');
      return made(record, await ledger.watch(record, { shard: dueShard(pk), at: clock() }, signed));
    },

    async erase(pk, by) {
      const signed = signature(by, 'erase the stored body');
      const record = await existing(pk);
      if (record.status === 'failed_retryable') throw illegal(record, 'it has no answer that is stored');
      if (record.status !== 'completed')
        throw illegal(record, 'what is stored of it is evidence of an open outcome; settle it first');
      if (record.outbox) throw illegal(record, 'its events are not all delivered; deliver them first');
      const now = clock();
      const erasure = { now, headers: erasedHeaders(record.response.headers, now) };
      return made(record, await ledger.erase(record, erasure, signed));
    },
  };

  async function existing(pk: string): Promise<LedgerRecord> {
    const record = await ledger.read(pk);
    if (record) return record;
    throw new IllegalMove(
      `There is no record ${pk}. It may have expired; its audit entries may still be there.`,
    );
  }

  function signature({ who, why }: Signature, move: string): Audited {
    for (const [name, text] of Object.entries({ who, why })) {
      if (typeof text === 'string' && text.trim() !== '') continue;
      throw new InvalidArgument(
        `To ${move} needs ${name}: it is kept with the record, for whoever asks later.`,
      );
    }
    return { audit: { at: clock(), id: newId(), who, why, move } };
  }
}

/** What the ledger's condition says as well, each with its own reason. */
function requireReleasable(record: LedgerRecord): asserts record is CompletedDelivered {
  if (record.status !== 'completed') throw illegal(record, 'only a completed one can be released');
  const { status } = record.response;
  if (status >= 200 && status < 300)
    throw illegal(record, `it was successful (${status}), so it would happen twice`);
  if (record.outbox)
    throw illegal(
      record,
      'its own write is committed and its events are not all delivered, so it would happen twice',
    );
  if (record.acceptedAt !== undefined)
    throw illegal(record, 'it was accepted on the way, so its own write is committed and would happen twice');
  if (record.effects !== 'steps') return;
  if (record.steps.size > 0)
    throw illegal(
      record,
      `its steps have run (${[...record.steps.keys()].join(', ')}), so they would run twice`,
    );
  if (record.takenOver)
    throw illegal(record, 'an attempt of it was taken over, which may have begun a step that left no trace');
}
