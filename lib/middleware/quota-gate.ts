import { limits } from '../core/limits.ts';
import { schedule } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';
import type { Quotas } from '../ledger/quotas.ts';
import type { Operation } from './operation.ts';

/** Says for how long a tenant gets no new keys; 0 while it may have them. It never fails. */
export type QuotaGate = (operation: Operation) => Promise<number>;

/** What is known of a tenant, since when, and who is just asking. */
interface Known {
  readonly at: EpochMs;
  readonly until: EpochMs;
  readonly asking?: Promise<EpochMs>;
}

/**
 * The flag of each tenant, remembered for some seconds: a request costs no call for it, but for the first of a while. A store
 * that does not answer in time is told of and taken for a no: a quota spares the store, and must not be what stops a payment.
 */
export function quotaGate(
  quotas: Quotas,
  clock: () => EpochMs,
  failed: (operation: Operation, error: unknown) => void,
): QuotaGate {
  const known = new Map<string, Known>();

  return async (operation) => {
    const found = known.get(operation.tenant);
    const fresh = found && clock() < found.at + schedule.quotaCacheMs;
    const until = fresh ? found.until : await (found?.asking ?? ask(operation, found?.until ?? 0));
    return Math.max(0, until - clock());
  };

  function ask(operation: Operation, before: EpochMs): Promise<EpochMs> {
    const { tenant } = operation;
    const asking = flagged(operation, before).then((until) => {
      keep(tenant, { at: clock(), until });
      return until;
    });
    keep(tenant, { at: Number.NEGATIVE_INFINITY, until: before, asking });
    return asking;
  }

  async function flagged(operation: Operation, before: EpochMs): Promise<EpochMs> {
    try {
      const flag = await quotas.flag(operation.tenant, { until: clock() + schedule.quotaReadMs });
      return flag?.until ?? 0;
    } catch (error) {
      failed(operation, error);
      return before; // What was known is true until its own end.
    }
  }

  /** At the end: a Map is in order of insertion, and the first are dropped first. */
  function keep(tenant: string, what: Known): void {
    known.delete(tenant);
    known.set(tenant, what);
    for (const oldest of known.keys()) {
      if (known.size <= limits.quotaTenants) break;
      known.delete(oldest);
    }
  }
}
