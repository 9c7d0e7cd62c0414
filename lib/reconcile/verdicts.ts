import { withStep } from '../core/moves.ts';
import { expiryAfter } from '../core/policy.ts';
import { type EpochMs, openStep, type Unknown } from '../core/record.ts';
import { jsonText } from '../effects/json-result.ts';
import { expiryOf, type OperationPolicy } from '../effects/operations.ts';
import { defaultStoredHeaders, storableHeaders } from '../http/headers.ts';
import { readReply } from '../http/reply.ts';
import type { SettleTo } from '../ledger/ledger.ts';
import { dueShard } from '../ledger/schema.ts';

export interface VerdictPorts {
  readonly policyOf: (operation: string) => OperationPolicy;
  readonly clock: () => EpochMs;
  readonly newId: () => string;
}

/** What a verdict makes of an unknown record, whoever found it: a resolver, a webhook or an operator. */
export function verdicts({ policyOf, clock, newId }: VerdictPorts) {
  return { settlesAt, executedTo, notExecutedTo };

  /** Until then a request of the last attempt may still be on its way: "not there" would be said too early. */
  function settlesAt({ leaseUntil, operation }: Pick<Unknown, 'leaseUntil' | 'operation'>): EpochMs {
    const { skewMs, settlingMs } = policyOf(operation).policy;
    return leaseUntil + skewMs + settlingMs;
  }

  /**
   * Nothing, where the verdict is about no effect that the record knows of, or about another than the one in doubt: what
   * became of that nobody has said. Throws if the result cannot be kept. */
  function executedTo(record: Unknown, result: unknown, happened?: string): SettleTo | undefined {
    const now = clock();
    if (record.effects === 'steps' && !record.accepted) {
      const open = openStep(record);
      const name = happened ?? open;
      if (name === undefined || (open !== undefined && open !== name)) return undefined;
      if (record.steps.get(name)?.state === 'done') return undefined;
      const last = Math.max(0, ...[...record.steps.values()].map((step) => step.at));
      const at = Math.max(now, last + (record.steps.has(name) ? 0 : 1)); // After those before it.
      const text = result === undefined ? '' : jsonText(result, 'result');
      const step = { state: 'done', attempt: record.attempt, at, result: text } as const;
      withStep({ ...record, status: 'in_progress' }, name, step); // Refused as a handler's would be: by its name, or one too many.
      return { to: 'in_progress', step: { name, step }, ...reentry(record, now) };
    }
    const open = openDelivery(record);
    if (happened !== undefined && happened !== open?.type) return undefined;
    const reply = storableReply(result);
    if (open && open.index < open.last) {
      return { to: 'accepted', delivered: { index: open.index, at: now, reply }, ...reentry(record, now) };
    }
    return { to: 'completed', now, reply, ...expiryOf(policyOf(record.operation), reply, now) };
  }

  function notExecutedTo(record: Unknown): SettleTo {
    const now = clock();
    if (record.accepted) return { to: 'accepted', ...reentry(record, now) };
    if (record.effects === 'steps') {
      const name = openStep(record);
      const step = name === undefined ? undefined : { name, step: undefined };
      return { to: 'in_progress', step, ...reentry(record, now) };
    }
    const { policy } = policyOf(record.operation);
    return { to: 'failed_retryable', now, errorCode: 'not_executed', ...expiryAfter(policy, now) };
  }

  /** Back to work, and due at once: nobody else will start it. */
  function reentry({ pk }: Unknown, now: EpochMs) {
    return { now, owner: newId(), due: { shard: dueShard(pk), at: now } };
  }
}

/** The event that the doubt is about: the first that is not known to be delivered. */
export function openDelivery({ accepted }: Pick<Unknown, 'accepted'>) {
  const events = accepted?.outbox ?? [];
  const index = events.findIndex(({ delivery }) => !delivery || delivery.state === 'claimed');
  const event = events[index];
  return event && { index, last: events.length - 1, type: event.type };
}

export function storableReply(result: unknown) {
  const reply = readReply(result, 'http-api');
  return { ...reply, headers: storableHeaders(reply.headers, defaultStoredHeaders) };
}
