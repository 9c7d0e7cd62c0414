import type { Completed, EpochMs, Reply } from '../core/record.ts';
import type { Answer, Operation } from './operation.ts';

export interface WarmCacheLimits {
  readonly entries: number;
  readonly bytes: number;
}

/** A retry storm repeats few keys; more than this would only keep memory from the handler. */
const defaultWarmCache: WarmCacheLimits = { entries: 256, bytes: 1024 * 1024 };

/** Keys, times and names of one record. */
const ENTRY_BYTES = 512;

/** As the option says: off, on, or on with limits of one's own. */
export function warmCacheOf(option: boolean | Partial<WarmCacheLimits> | undefined): WarmCache | undefined {
  if (!option) return undefined;
  return warmCache({ ...defaultWarmCache, ...(option === true ? {} : option) });
}

export interface WarmCache {
  find(operation: Operation, now: EpochMs): Answer | undefined;
  keep(record: Completed, reply: Reply): void;
}

/**
 * Completed responses in the memory of one environment: a replay from here costs no call. Only 2xx are kept, since
 * nothing ever changes them before they expire; a stored failure may be reopened by an operator. What goes in and what
 * comes out are copies.
 */
function warmCache(limits: WarmCacheLimits): WarmCache {
  const kept = new Map<string, { readonly record: Completed; readonly reply: Reply }>();
  let bytes = 0;

  function drop(pk: string): void {
    const entry = kept.get(pk);
    if (entry) bytes -= sizeOf(entry);
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
      if (!success || record.outbox || sizeOf({ record, reply }) > limits.bytes) return;
      drop(pk);
      kept.set(pk, structuredClone({ record, reply }));
      bytes += sizeOf({ record, reply });
      for (const oldest of kept.keys()) {
        if (kept.size <= limits.entries && bytes <= limits.bytes) break;
        drop(oldest);
      }
    },
  };
}

/** What an entry holds, near enough: the body, the record's own copy of it, the headers of both, and the rest. */
function sizeOf({ record, reply }: { readonly record: Completed; readonly reply: Reply }): number {
  const { body, headers } = record.response;
  const inline = 'inline' in body ? body.inline.byteLength : 0;
  const text = [...headers.flat(), ...reply.headers.flat()].reduce((sum, part) => sum + part.length, 0);
  return reply.body.byteLength + inline + 2 * text + ENTRY_BYTES;
}
