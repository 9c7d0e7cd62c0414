import { type Ledger, type LedgerRecord, sweeper } from '../../lib/index.ts';

type AtOnce = Pick<ReturnType<typeof sweeper>, 'look'>;

/**
 * Moves what is abandoned as soon as somebody sees it, where the record itself says how: without its service's resolvers and
 * its invoker, a sweep may free what committed nothing, and call unknown what may have run. Abandoned steps are resumed by
 * the service's own sweep, and so is whatever somebody else has moved meanwhile.
 */
export function movedAtOnce(ledger: Ledger<unknown>, clock: () => number = Date.now): AtOnce {
  const sweep = sweeper({ ledger, clock });
  return {
    look: async (record: LedgerRecord, until: number) =>
      record.status === 'in_progress' && record.effects !== 'steps' ? sweep.look(record, until) : 'nothing',
  };
}
