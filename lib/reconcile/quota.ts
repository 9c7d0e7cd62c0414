import { eachOf } from '../core/each-of.ts';
import { limits } from '../core/limits.ts';
import { minuteOf, quotaFlagMs, schedule } from '../core/policy.ts';
import { type EpochMs, isOpen } from '../core/record.ts';
import { eventOperation } from '../core/scope.ts';
import { refuse, requireKnown, requireQuotas, requireWhole } from '../effects/option-checks.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { QuotaFlag } from '../ledger/quotas.ts';
import { nameOf, type Report } from '../observe/report.ts';
import { type RecordChange, showsOpen } from './stream.ts';

/** How many keys one tenant may take. At least one of the two. */
export interface QuotaLimits {
  /** Keys that were never used before, within one minute of the clock. */
  readonly newKeysPerMinute?: number;
  /** Keys whose outcome is not final: in progress, deferred, undelivered or unknown. */
  readonly openKeys?: number;
}

interface QuotaPorts extends Report {
  readonly ledger: Pick<Ledger<never>, 'read' | 'quotas'>;
  readonly clock: () => EpochMs;
}

/** What a batch says of one tenant. */
interface Tally {
  readonly opened: ReadonlySet<string>;
  readonly closed: ReadonlySet<string>;
  /** By minute, the operations that began in it. */
  readonly begun: ReadonlyMap<EpochMs, ReadonlySet<string>>;
}

/** Once with what is there, and once more after what had ended was taken out. */
const ROUNDS = 2;

export function requireQuotaLimits(quota: unknown, ledger: unknown): void {
  if (quota === undefined) return;
  const expected = '{ newKeysPerMinute, openKeys }, or one of them';
  if (typeof quota !== 'object' || quota === null || Array.isArray(quota)) refuse('quota', quota, expected);
  requireKnown(quota, ['newKeysPerMinute', 'openKeys'], 'quota');
  requireWhole(quota, 'newKeysPerMinute', 1, limits.newKeysPerMinuteMax);
  requireWhole(quota, 'openKeys', 1, limits.openKeysMax);
  if (Object.values(quota).every((limit) => limit === undefined)) refuse('quota', quota, expected);
  requireQuotas(ledger, 'sentinel()');
}

/**
 * Counts the keys of each tenant from the stream, and raises the flag of who is over a limit. Nothing of it is worth a batch:
 * what cannot be counted is told and left out, so that nobody's leftovers wait for it.
 */
export function quotaCounter(
  quota: QuotaLimits | undefined,
  { ledger, clock, measure, tell }: QuotaPorts,
): (changes: readonly RecordChange[], failed: readonly RecordChange[], until: EpochMs) => Promise<void> {
  if (!quota || !ledger.quotas) return async () => {};
  const { quotas } = ledger;
  const { newKeysPerMinute, openKeys } = quota;

  return async (changes, failed, until) => {
    const tallies = talliesOf(changes, failed);
    await eachOf(tallies, limits.sweepConcurrency, async ([tenant, tally]) => {
      try {
        const call = { until };
        if (newKeysPerMinute !== undefined) await countNew(tenant, tally, newKeysPerMinute, call);
        if (openKeys !== undefined) await countOpen(tenant, tally, openKeys, call);
      } catch (error) {
        measure(about(tenant), { 'store.error.count': 1 });
        tell(about(tenant), 'error', 'quota_uncounted', { reason: nameOf(error) });
      }
    });
  };

  async function countNew(
    tenant: string,
    { begun }: Tally,
    limit: number,
    call: { until: EpochMs },
  ): Promise<void> {
    for (const [minute, operations] of begun) {
      if (minute + schedule.quotaLateMs < clock()) continue;
      const taken = await quotas.addNew(tenant, minute, operations.size, call);
      if (taken > limit) await raise(tenant, 'new_keys', quotaFlagMs(taken, limit), call);
    }
  }

  async function countOpen(
    tenant: string,
    { opened, closed }: Tally,
    limit: number,
    call: { until: EpochMs },
  ): Promise<void> {
    if (closed.size > 0) await quotas.noteClosed(tenant, [...closed], call);
    if (opened.size === 0) return;
    const some = [...opened].slice(0, limit + 1);
    for (let round = 0; round < ROUNDS; round += 1) {
      const { noted, pks } = await quotas.noteOpened(tenant, some, limit, clock(), call);
      if (pks.length <= limit || (await isFlagged(tenant, call))) return;
      const ended = await endedAmong(pks, limit, call);
      if (ended.length > 0) await quotas.noteClosed(tenant, ended, call);
      if (pks.length - ended.length > limit) return raise(tenant, 'open_keys', schedule.quotaFlagMs, call);
      if (noted) return;
    }
  }

  /**
   * The stream is a minute late, comes twice and in any order; before anybody is turned away the records themselves are asked.
   * What has ended is taken out of the count, so that it mends itself where it matters.
   */
  async function endedAmong(
    pks: readonly string[],
    limit: number,
    call: { until: EpochMs },
  ): Promise<readonly string[]> {
    const ended: string[] = [];
    let open = 0;
    await eachOf(pks, limits.sweepConcurrency, async (pk) => {
      if (open > limit) return;
      const record = await ledger.read(pk, call);
      if (record && isOpen(record)) open += 1;
      else ended.push(pk);
    });
    return ended;
  }

  async function isFlagged(tenant: string, call: { until: EpochMs }): Promise<boolean> {
    const flag = await quotas.flag(tenant, call);
    return flag !== undefined && flag.until >= enoughFor(schedule.quotaFlagMs);
  }

  async function raise(
    tenant: string,
    reason: QuotaFlag['reason'],
    ms: number,
    call: { until: EpochMs },
  ): Promise<void> {
    const flag = { until: clock() + ms, reason };
    if (!(await quotas.raise(tenant, flag, enoughFor(ms), call))) return;
    measure(about(tenant), { 'quota.flagged.count': 1 });
    tell(about(tenant), 'warn', 'quota_flagged', { reason });
  }

  /** Half of it is enough: each batch would move the end a little otherwise, at the price of a write. */
  function enoughFor(ms: number): EpochMs {
    return clock() + ms / 2;
  }
}

/** The tenant is a property of what is told, as always; what is counted is counted for all operations together. */
function about(tenant: string) {
  return { pk: '-', tenant, operation: 'all' };
}

function talliesOf(
  changes: readonly RecordChange[],
  failed: readonly RecordChange[],
): ReadonlyMap<string, Tally> {
  const tallies = new Map<
    string,
    { opened: Set<string>; closed: Set<string>; begun: Map<EpochMs, Set<string>> }
  >();
  const wasOpen = new Map<string, boolean>();
  const doneTo = firstOf(changes, failed);
  for (const [place, change] of changes.entries()) {
    const { tenant, operation, pk, begun } = change;
    // An event is no tenant's: its provider sends as many as there are.
    if (tenant === undefined || operation === eventOperation(tenant)) continue;
    const tally = tallies.get(tenant) ?? { opened: new Set(), closed: new Set(), begun: new Map() };
    tallies.set(tenant, tally);
    if (!wasOpen.has(pk)) wasOpen.set(pk, showsOpen(change.before));
    const isOpenNow = showsOpen(change.after);
    tally.opened.delete(pk);
    tally.closed.delete(pk);
    if (isOpenNow !== wasOpen.get(pk)) (isOpenNow ? tally.opened : tally.closed).add(pk);
    if (!begun || place >= doneTo) continue;
    const minute = minuteOf(begun.at);
    tally.begun.set(minute, (tally.begun.get(minute) ?? new Set()).add(begun.operationId));
  }
  return tallies;
}

/** Lambda sends again all from the first failure on. A set of names takes that; a number would count it twice. */
function firstOf(changes: readonly RecordChange[], failed: readonly RecordChange[]): number {
  const places = failed.map((change) => changes.indexOf(change));
  return Math.min(changes.length, ...places);
}
