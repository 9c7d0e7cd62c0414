import type { EpochMs } from '../core/record.ts';

/** A tenant that gets no new keys, until when, and for having too many of what. */
export interface QuotaFlag {
  readonly until: EpochMs;
  readonly reason: 'new_keys' | 'open_keys';
}

/** The records of a tenant that are open as far as the stream told, and whether those given are among them now. */
export interface OpenKeys {
  readonly noted: boolean;
  readonly pks: readonly string[];
}

/** As a ledger's `Until`, which is made of this file among others. */
interface Call {
  readonly until?: EpochMs;
}

/**
 * What is counted of tenants, beside their records and never by a request. None of it is evidence: lost, it is counted anew,
 * and no outcome depends on it. So these are no moves, and only two of them have a condition.
 */
export interface Quotas {
  /** Adds to the count of new keys in that minute, and tells it. */
  addNew(tenant: string, minute: EpochMs, keys: number, call?: Call): Promise<number>;
  /** Adds to the open ones, unless there are more than `most` already. Twice is as once. */
  noteOpened(
    tenant: string,
    pks: readonly string[],
    most: number,
    now: EpochMs,
    call?: Call,
  ): Promise<OpenKeys>;
  /** Takes out of the open ones what is there. */
  noteClosed(tenant: string, pks: readonly string[], call?: Call): Promise<void>;
  /** Unless the flag there lasts until `enough` or longer. Says whether it was raised. */
  raise(tenant: string, flag: QuotaFlag, enough: EpochMs, call?: Call): Promise<boolean>;
  /** As it was a moment ago, perhaps; one that has ended may still be there. */
  flag(tenant: string, call?: Call): Promise<QuotaFlag | undefined>;
}
