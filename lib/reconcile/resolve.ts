import { schedule } from '../core/policy.ts';
import type { EpochMs, Unknown } from '../core/record.ts';
import { type JudgePorts, judgement } from './judge.ts';
import { park } from './park.ts';
import { retryPlace, waitPlace } from './places.ts';

export interface ResolvePorts<W> extends JudgePorts<W> {
  readonly random: () => number;
}

/** `silent`: rescheduled, because whoever was asked did not answer at all. */
export type Resolution = 'settled' | 'rescheduled' | 'silent' | 'parked' | 'fenced';

/** Asks what became of an operation, and moves its record accordingly. What nobody knows stays unknown. */
export function resolution<W>(ports: ResolvePorts<W>) {
  const { ledger, policyOf, clock, random, report } = ports;
  const judge = judgement(ports);

  return async function resolve(record: Unknown, until: EpochMs): Promise<Resolution> {
    const { resolver } = policyOf(record.operation);
    if (!resolver) return putAside(record, 'no_resolver');
    const judged = await judge(record, resolver, until);
    switch (judged.kind) {
      case 'settled':
      case 'fenced':
        return judged.kind;
      case 'tooEarly':
        return wait(record, judged.at);
      case 'undetermined':
        return reschedule(record, 'undetermined', judged.retryAfterMs);
      case 'failed': {
        const put = await reschedule(record, judged.error);
        return judged.silent && put === 'rescheduled' ? 'silent' : put;
      }
      case 'withoutEffect':
        return putAside(record, 'verdict_without_effect');
      default:
        return judged satisfies never;
    }
  };

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
}
