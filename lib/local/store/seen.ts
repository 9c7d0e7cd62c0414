import type { DataOperation } from './operations.ts';

interface Count {
  readonly requests: number;
  /** By the fault's mode. */
  readonly faulted: Readonly<Record<string, number>>;
}

/** Requests that read or write items, and how many of them met which fault. */
export interface Seen extends Count {
  readonly operations: Readonly<Partial<Record<DataOperation, Count>>>;
}

export interface Tally {
  count(operation: DataOperation, fault: string | undefined): void;
  seen(): Seen;
}

const NOTHING: Count = { requests: 0, faulted: {} };

export function tally(): Tally {
  let total = NOTHING;
  const operations: Partial<Record<DataOperation, Count>> = {};
  return {
    count(operation, fault) {
      total = counted(total, fault);
      operations[operation] = counted(operations[operation] ?? NOTHING, fault);
    },
    seen: () => ({ ...total, operations: { ...operations } }),
  };
}

function counted({ requests, faulted }: Count, fault: string | undefined): Count {
  if (fault === undefined) return { requests: requests + 1, faulted };
  return { requests: requests + 1, faulted: { ...faulted, [fault]: (faulted[fault] ?? 0) + 1 } };
}
