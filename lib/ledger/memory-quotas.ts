import { schedule } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';
import type { QuotaFlag, Quotas } from './quotas.ts';
import { quotaMinuteSk } from './schema.ts';

interface Counted {
  readonly keys: number;
  readonly minute: EpochMs;
}

/** The twin of `dynamodb-quotas.ts`, for the ledger in memory. */
export function memoryQuotas(): { readonly quotas: Quotas; prune(now: EpochMs): void } {
  const counted = new Map<string, Counted>();
  const open = new Map<string, ReadonlySet<string>>();
  const flags = new Map<string, QuotaFlag>();

  const quotas: Quotas = {
    async addNew(tenant, minute, keys) {
      const name = `${quotaMinuteSk(minute)} ${tenant}`;
      const sum = (counted.get(name)?.keys ?? 0) + keys;
      counted.set(name, { keys: sum, minute });
      return sum;
    },

    async noteOpened(tenant, pks, most) {
      const before = open.get(tenant) ?? new Set();
      if (before.size > most) return { noted: false, pks: [...before] };
      const after = new Set([...before, ...pks]);
      open.set(tenant, after);
      return { noted: true, pks: [...after] };
    },

    async noteClosed(tenant, pks) {
      const closed = new Set(pks);
      const left = [...(open.get(tenant) ?? [])].filter((pk) => !closed.has(pk));
      if (left.length > 0) open.set(tenant, new Set(left));
      else open.delete(tenant);
    },

    async raise(tenant, { until, reason }, enough) {
      const before = flags.get(tenant);
      if (before && before.until >= enough) return false;
      flags.set(tenant, { until, reason });
      return true;
    },

    async flag(tenant) {
      const flag = flags.get(tenant);
      return flag && { ...flag };
    },
  };

  return {
    quotas,
    prune(now) {
      const keptMs = schedule.quotaKeptSeconds * 1_000;
      for (const [name, { minute }] of counted) if (minute + keptMs < now) counted.delete(name);
      for (const [tenant, { until }] of flags) if (until + keptMs < now) flags.delete(tenant);
    },
  };
}
