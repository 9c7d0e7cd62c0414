import { jsonIn } from '../fields.ts';
import type { Invoked } from '../ports.ts';
import type { StreamRecord } from './record.ts';

/** What became of a batch that was sent. */
export type Outcome =
  | { readonly kind: 'done' }
  /** All before `from` are done, by what the function says; `from` and all after it come again. */
  | { readonly kind: 'doneBefore'; readonly from: number }
  | { readonly kind: 'failed'; readonly functionError?: 'Unhandled' }
  /** The function never saw it, so that it costs no retry. */
  | { readonly kind: 'notInvoked' };

const FAILED: Outcome = { kind: 'failed' };

export function outcomeOf(
  invoked: Invoked,
  records: readonly StreamRecord[],
  reportsItemFailures: boolean,
): Outcome {
  if (invoked.kind === 'throttled') return { kind: 'notInvoked' };
  if (invoked.kind === 'failed') return { kind: 'failed', functionError: 'Unhandled' };
  return reportsItemFailures ? reported(invoked.payload, records) : { kind: 'done' };
}

/**
 * An answer that is empty or null, or has no list or an empty one, says that all went well. An identifier that names no
 * record of the batch says that nobody knows which, and so the whole batch has failed.
 */
function reported(payload: string, records: readonly StreamRecord[]): Outcome {
  const answer = payload === '' ? null : jsonIn(payload);
  if (answer === null) return { kind: 'done' };
  if (typeof answer !== 'object' || Array.isArray(answer)) return FAILED;
  const failures = 'batchItemFailures' in answer ? answer.batchItemFailures : null;
  if (failures === null) return { kind: 'done' };
  if (!Array.isArray(failures)) return FAILED;
  return failures.length === 0 ? { kind: 'done' } : fromLowest(failures.map(identifierIn), records);
}

function fromLowest(identifiers: readonly unknown[], records: readonly StreamRecord[]): Outcome {
  const places = identifiers.map((id) => records.findIndex(({ sequenceNumber }) => sequenceNumber === id));
  const from = Math.min(...places);
  return from < 0 ? FAILED : { kind: 'doneBefore', from };
}

function identifierIn(failure: unknown): unknown {
  return typeof failure === 'object' && failure !== null && 'itemIdentifier' in failure
    ? failure.itemIdentifier
    : undefined;
}
