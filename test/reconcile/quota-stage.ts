import { marshall } from '@aws-sdk/util-dynamodb';
import { StoreUnavailable } from '../../lib/core/errors.ts';
import type { Claim } from '../../lib/core/moves.ts';
import type { InProgress, LedgerRecord } from '../../lib/core/record.ts';
import { encode } from '../../lib/ledger/item.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import type { QuotaLimits } from '../../lib/reconcile/quota.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { claimOf, completedBy, execute, movedRecord, outcomeAt } from '../../lib/testing/contract/subject.ts';

let sequence = 0;

/** One change as the stream shows it: the records before and after it, as items. */
export function changed(before: LedgerRecord | undefined, after: LedgerRecord | undefined) {
  sequence += 1;
  const pk = { S: (after ?? before)?.pk ?? '' };
  return {
    dynamodb: {
      Keys: { pk, sk: { S: 'record' } },
      ...(before && { OldImage: imageOf(before) }),
      ...(after && { NewImage: imageOf(after) }),
      SequenceNumber: String(sequence),
    },
  };
}

export type Changed = ReturnType<typeof changed>;

function imageOf(record: LedgerRecord) {
  const item = { pk: record.pk, sk: 'record', v: 1, ...encode(record) };
  const image = marshall(item, { removeUndefinedValues: true });
  return JSON.parse(
    JSON.stringify(image, function (this: Record<string, unknown>, name, value) {
      const bytes = this[name];
      return name === 'B' && bytes instanceof Uint8Array ? Buffer.from(bytes).toString('base64') : value;
    }),
  );
}

/** A sentinel that counts, the requests it hears of, and what it says. */
export function quotaStage<W>(ledger: Ledger<W>, time: { now: number }, quota?: QuotaLimits) {
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  /** Records that the store does not answer for. */
  const away = new Set<string>();
  const partly: Ledger<W> = {
    ...ledger,
    watch: (from, ...rest) => {
      if (away.has(from.pk)) throw new StoreUnavailable('the store did not answer');
      return ledger.watch(from, ...rest);
    },
  };
  const watch = sentinel({
    ledger: partly,
    ...(quota && { quota }),
    clock: () => time.now,
    log: (entry) => logged.push(entry),
    metrics: (sample) => measured.push(sample),
  });
  const open = async (tenant: string, claim: Partial<Claim> = {}): Promise<InProgress> => {
    const times = { now: time.now, leaseUntil: time.now + 30_000 };
    return movedRecord(await ledger.reserve(claimOf({ tenant, ...times, ...claim }), execute));
  };
  return {
    away,
    logged,
    measured,
    open,
    close: (mine: InProgress) => completedBy(ledger as Ledger<unknown>, mine, outcomeAt(time.now)),
    batch: async (...Records: readonly unknown[]) =>
      (await watch({ Records }, { getRemainingTimeInMillis: () => 60_000 })).batchItemFailures,
    /** So many requests that end at once, as the stream shows them. */
    async requests(tenant: string, count: number): Promise<Changed[]> {
      const changes: Changed[] = [];
      for (let request = 0; request < count; request += 1) {
        const mine = await open(tenant);
        const done = await completedBy(ledger as Ledger<unknown>, mine, outcomeAt(time.now));
        changes.push(changed(undefined, mine), changed(mine, done));
      }
      return changes;
    },
    /** Requests that hang, as the stream shows them. */
    async hanging(tenant: string, count: number): Promise<{ mine: InProgress[]; changes: Changed[] }> {
      const mine = await Promise.all(Array.from({ length: count }, () => open(tenant)));
      return { mine, changes: mine.map((record) => changed(undefined, record)) };
    },
    flagged: () =>
      logged
        .filter(({ decision }) => decision === 'quota_flagged')
        .map(({ tenant, reason }) => [tenant, reason]),
  };
}
