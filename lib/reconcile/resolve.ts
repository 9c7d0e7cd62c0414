import type { EpochMs, Unknown } from '../core/record.ts';
import { type JudgePorts, judgement } from './judge.ts';
import { park, putOff } from './park.ts';
import { waitPlace } from './places.ts';

export interface ResolvePorts<W> extends JudgePorts<W> {
  readonly random: () => number;
}

/** `silent`: rescheduled, because whoever was asked did not answer at all. */
export type Resolution = 'settled' | 'rescheduled' | 'silent' | 'parked' | 'fenced';

/** Asks what became of an operation, and moves its record accordingly. What nobody knows stays unknown. */
export function resolution<W>(ports: ResolvePorts<W>) {
  const { ledger, policyOf } = ports;
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
        return putOff(ports, record, 'undetermined', judged.retryAfterMs);
      case 'failed': {
        const put = await putOff(ports, record, judged.error);
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

  /** Asking again would not help. */
  async function putAside(record: Unknown, error: string): Promise<Resolution> {
    const parked = await park(ports, record, error, { also: { 'reconcile.failed.count': 1 } });
    return parked ? 'parked' : 'fenced';
  }
}
