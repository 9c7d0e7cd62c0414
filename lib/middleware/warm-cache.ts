import type { Completed, EpochMs, Reply } from '../core/record.ts';
import type { Answer, Operation } from './operation.ts';

export interface WarmCacheLimits {
  readonly entries: number;
  readonly bytes: number;
}

/** A retry storm repeats few keys; more than this would only keep memory from the handler. */
export const defaultWarmCache: WarmCacheLimits = { entries: 256, bytes: 1024 * 1024 };

export interface WarmCache {
  find(operation: Operation, now: EpochMs): Answer | undefined;
  keep(record: Completed, reply: Reply): void;
}

/**
 * Completed responses in the memory of one environment: a replay from here costs no call. Only 2xx are kept, since
 * nothing ever changes them before they expire; a stored failure may be reopened by an operator. What goes in and what
 * comes out are copies.
 */
export function warmCache(limits: WarmCacheLimits): WarmCache {
  const kept = new Map<string, { readonly record: Completed; readonly reply: Reply }>();
  let bytes = 0;

  function drop(pk: string): void {
    bytes -= kept.get(pk)?.reply.body.byteLength ?? 0;
    kept.delete(pk);
  }

  return {
    find({ pk, fingerprint }, now) {
      const found = kept.get(pk);
      if (!found) return undefined;
      if (found.record.expiresAt <= now) {
        drop(pk);
        return undefined;
      }
      if (!fingerprint.matches(found.record.fingerprint)) return { kind: 'misuse' };
      kept.delete(pk); // Back in at the end: a Map is in order of insertion, and the first are dropped first.
      kept.set(pk, found);
      return { kind: 'replay', ...structuredClone(found) };
    },

    keep(record, reply) {
      const { pk } = record;
      const success = reply.status >= 200 && reply.status < 300;
      if (!success || record.outbox || reply.body.byteLength > limits.bytes) return;
      drop(pk);
      kept.set(pk, structuredClone({ record, reply }));
      bytes += reply.body.byteLength;
      for (const oldest of kept.keys()) {
        if (kept.size <= limits.entries && bytes <= limits.bytes) break;
        drop(oldest);
      }
    },
  };
}
