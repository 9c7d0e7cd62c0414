import { schedule } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';
import { quotaPk } from '../core/scope.ts';
import { type Clause, countUpdateOf } from './expression.ts';
import type { Item } from './item.ts';
import type { QuotaFlag, Quotas } from './quotas.ts';
import { QUOTA_FLAG_SK, QUOTA_OPEN_SK, quotaMinuteSk } from './schema.ts';
import type { openTable } from './table.ts';

/* In the ledger's own table, under keys that no record has. Every item ends by TTL. */

const lastsUntil = (ttl: number): Clause => ({ text: '#ttl = :ttl', values: { ':ttl': ttl } });

/** The item stays small: over the limit is over the limit, by however many. */
const roomFor = (most: number): Clause => ({
  text: 'attribute_not_exists(#open) OR size(#open) <= :most',
  values: { ':most': most },
});

/** To take something out of nothing would make an item that has no TTL. */
const present: Clause = { text: 'attribute_exists(#open)' };

/** Every batch of a tenant that is over its limit says so; the first of them is enough. */
const endsBefore = (enough: EpochMs): Clause => ({
  text: 'attribute_not_exists(#until) OR #until < :enough',
  values: { ':enough': enough },
});

export function dynamoDbQuotas(table: ReturnType<typeof openTable>): Quotas {
  return {
    async addNew(tenant, minute, keys, call) {
      const change = countUpdateOf({
        SET: [lastsUntil(secondsOf(minute) + schedule.quotaKeptSeconds)],
        ADD: [{ text: '#keys :keys', values: { ':keys': keys } }],
      });
      const key = { pk: quotaPk(tenant), sk: quotaMinuteSk(minute) };
      const counted = await table.count(key, change, table.until(call));
      return 'won' in counted ? Number(counted.won['keys']) : 0;
    },

    async noteOpened(tenant, pks, most, now, call) {
      const change = countUpdateOf(
        {
          SET: [lastsUntil(secondsOf(now) + schedule.openEndedSeconds)],
          ADD: [{ text: '#open :opened', values: { ':opened': new Set(pks) } }],
        },
        [roomFor(most)],
      );
      const noted = await table.count(keyOf(tenant, QUOTA_OPEN_SK), change, table.until(call));
      return 'won' in noted
        ? { noted: true, pks: openIn(noted.won) }
        : { noted: false, pks: openIn(noted.lost) };
    },

    async noteClosed(tenant, pks, call) {
      const closed: Clause = { text: '#open :closed', values: { ':closed': new Set(pks) } };
      const change = countUpdateOf({ DELETE: [closed] }, [present]);
      await table.count(keyOf(tenant, QUOTA_OPEN_SK), change, table.until(call));
    },

    async raise(tenant, { until, reason }, enough, call) {
      const values = { ':until': until, ':reason': reason, ':tenant': tenant };
      const said = { text: '#until = :until, #reason = :reason, #tenant = :tenant', values };
      const ttl = lastsUntil(secondsOf(until) + schedule.quotaKeptSeconds);
      const change = countUpdateOf({ SET: [said, ttl] }, [endsBefore(enough)]);
      return 'won' in (await table.count(keyOf(tenant, QUOTA_FLAG_SK), change, table.until(call)));
    },

    async flag(tenant, call) {
      const item = await table.glance(keyOf(tenant, QUOTA_FLAG_SK), table.until(call));
      return item && { until: Number(item['until']), reason: item['reason'] as QuotaFlag['reason'] };
    },
  };
}

function keyOf(tenant: string, sk: string) {
  return { pk: quotaPk(tenant), sk };
}

function openIn(item: Item | undefined): readonly string[] {
  const open: unknown = item?.['open'];
  return open instanceof Set ? [...open] : [];
}

function secondsOf(at: EpochMs): number {
  return Math.ceil(at / 1_000);
}
