import type { Fence, InProgress } from '../core/record.ts';
import { MalformedEvent } from './errors.ts';
import { type Fields, isFields } from './events/fields.ts';

/** Which attempt of which record is to be finished: that one, and no later one. */
export interface Scheduled extends Fence {
  readonly pk: string;
  readonly operationId: string;
}

/** Beside what a gateway sends, where no client's request can put anything. */
const FIELD = 'oncekey';

/** An event that was kept, for the function that once got it, with the attempt it is to finish. */
export function completionEvent(event: Uint8Array, record: InProgress): Uint8Array {
  const kept: unknown = JSON.parse(Buffer.from(event).toString('utf8'));
  const { pk, operationId, owner, attempt } = record;
  const complete: Scheduled = { pk, operationId, owner, attempt };
  return new Uint8Array(Buffer.from(JSON.stringify({ ...(kept as Fields), [FIELD]: { complete } })));
}

export function scheduledIn(event: unknown): Scheduled | undefined {
  const marker = isFields(event) ? event[FIELD] : undefined;
  if (marker === undefined) return undefined;
  const { pk, operationId, owner, attempt } =
    isFields(marker) && isFields(marker['complete']) ? marker['complete'] : {};
  if (
    typeof pk === 'string' &&
    typeof operationId === 'string' &&
    typeof owner === 'string' &&
    Number.isSafeInteger(attempt)
  ) {
    return { pk, operationId, owner, attempt: Number(attempt) };
  }
  throw new MalformedEvent(
    `This event has a field ${FIELD} that does not say which attempt is to be finished. Only the completer sets it; pass it on as it is.`,
  );
}
