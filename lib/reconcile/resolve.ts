import { eventKey, stepKey } from '../core/downstream-key.ts';
import { InvalidArgument } from '../core/errors.ts';
import { schedule } from '../core/policy.ts';
import { type EpochMs, openStep, type Unknown } from '../core/record.ts';
import type { UnknownOperation, Verdict } from '../effects/resolver.ts';
import type { Ledger, Moved, SettleTo } from '../ledger/ledger.ts';
import { nameOf, type Report } from '../observe/report.ts';
import { park } from './park.ts';
import { retryPlace, waitPlace } from './places.ts';
import { openDelivery, type VerdictPorts, verdicts } from './verdicts.ts';

export interface ResolvePorts<W> extends VerdictPorts {
  readonly ledger: Ledger<W>;
  readonly random: () => number;
  readonly report: Report;
}

export type Resolution = 'settled' | 'rescheduled' | 'parked' | 'fenced';

/** Asks what became of an operation, and moves its record accordingly. What nobody knows stays unknown. */
export function resolution<W>(ports: ResolvePorts<W>) {
  const { ledger, policyOf, clock, random, report } = ports;
  const { settlesAt, executedTo, notExecutedTo } = verdicts(ports);

  return async function resolve(record: Unknown): Promise<Resolution> {
    const { resolver } = policyOf(record.operation);
    if (!resolver) return putAside(record, 'no_resolver');
    let verdict: Verdict;
    try {
      verdict = checkedVerdict(record, await resolver(await seenBy(record)));
    } catch (error) {
      return reschedule(record, nameOf(error));
    }
    switch (verdict.kind) {
      case 'undetermined':
        return reschedule(record, 'undetermined', verdict.retryAfterMs);
      case 'notExecuted': {
        const settledAt = settlesAt(record);
        if (clock() < settledAt) return wait(record, settledAt);
        return settle(record, notExecutedTo(record));
      }
      case 'executed':
        return executed(record, verdict.result, verdict.step);
      default:
        return verdict satisfies never;
    }
  };

  async function executed(record: Unknown, result: unknown, step?: string): Promise<Resolution> {
    let target: SettleTo | undefined;
    try {
      target = executedTo(record, result, step);
    } catch (error) {
      return reschedule(record, nameOf(error)); // What it returned cannot be kept; a resolver can be mended.
    }
    return target ? settle(record, target) : putAside(record, 'verdict_without_effect');
  }

  async function settle(record: Unknown, target: SettleTo): Promise<Resolution> {
    const moved: Moved<never> = (await ledger.settle(record, target)) as Moved<never>;
    if (moved.kind === 'fenced') return 'fenced';
    report.measure(record, { 'reconcile.resolved.count': 1 });
    report.tell(record, 'info', `resolved_${target.to}`, { attempt: record.attempt });
    return 'settled';
  }

  async function wait(record: Unknown, at: EpochMs): Promise<Resolution> {
    const moved = await ledger.watch(record, waitPlace(record, at));
    return moved.kind === 'moved' ? 'rescheduled' : 'fenced';
  }

  async function reschedule(record: Unknown, error: string, afterMs?: number): Promise<Resolution> {
    const due = retryPlace(record, clock(), random, error, afterMs);
    if (due.tries >= schedule.reconcileTries) return putAside(record, error, due.tries);
    const moved = await ledger.watch(record, due);
    if (moved.kind === 'fenced') return 'fenced';
    report.measure(record, { 'reconcile.failed.count': 1 });
    report.tell(record, 'warn', 'unresolved', { attempt: record.attempt, reason: error });
    return 'rescheduled';
  }

  async function putAside(record: Unknown, error: string, tries?: number): Promise<Resolution> {
    const parked = await park(ports, record, error, { tries, also: { 'reconcile.failed.count': 1 } });
    return parked ? 'parked' : 'fenced';
  }

  /** What its record knows, and nothing that somebody guessed. */
  async function seenBy(record: Unknown): Promise<UnknownOperation> {
    const { pk, operation, tenant, operationId, attempt, createdAt, lastRunAt } = record;
    const steps = new Map<string, { key: string; result: unknown }>();
    for (const [name, step] of record.steps) {
      if (step.state === 'open') continue;
      const text = await ledger.stepResult(pk, step);
      steps.set(name, {
        key: stepKey(operationId, name),
        result: text === '' ? undefined : JSON.parse(text),
      });
    }
    const events = record.accepted?.outbox ?? [];
    const references = events.map(({ delivery }) =>
      delivery && delivery.state !== 'claimed' ? delivery.reference : undefined,
    );
    const about = { operation, tenant, operationId, attempt, createdAt, lastRunAt };
    return { operationRef: pk, ...about, open: openEffect(record), steps, references };
  }
}

function openEffect(record: Unknown): UnknownOperation['open'] {
  const delivery = openDelivery(record);
  if (delivery) return { name: delivery.type, key: eventKey(record.operationId, delivery.index) };
  const name = openStep(record);
  return name === undefined ? undefined : { name, key: stepKey(record.operationId, name) };
}

/** It comes from outside: what is no verdict must not pass for one. */
function checkedVerdict({ operation }: Unknown, verdict: unknown): Verdict {
  const kind =
    typeof verdict === 'object' && verdict !== null && 'kind' in verdict ? verdict.kind : undefined;
  if (kind === 'executed' || kind === 'notExecuted' || kind === 'undetermined') return verdict as Verdict;
  throw new InvalidArgument(
    `The resolver of ${operation} returned neither executed(), notExecuted() nor undetermined().`,
  );
}
