import type { Books } from './books.ts';
import type { NewId } from './ids.ts';
import type { Answer, Changes, EventType, Intent, ProviderEvent, Shown } from './records.ts';

/** A request that was understood, and may change something. */
export interface Command {
  /** Whether it tries to take money: then it is what faults are for. */
  readonly charges: boolean;
  /** Decides what happens; changes nothing by itself. Throws a `Refusal`, which is then what is answered under the key. */
  run(scene: Scene): Outcome;
}

export interface Scene {
  readonly books: Books;
  /** In milliseconds. */
  readonly now: number;
  readonly newId: NewId;
  readonly newSecret: () => string;
  /** No card is any good. */
  readonly declinesAll: boolean;
  readonly request: string;
  readonly idempotencyKey?: string;
  /** Whether somebody is told of events. */
  readonly sendsEvents: boolean;
}

export interface Outcome {
  readonly changes: Changes;
  readonly answer: Answer;
}

export const seconds = (ms: number): number => Math.floor(ms / 1_000);

export function shownIntent({ id, version }: Intent): Shown {
  return { kind: 'intent', id, version };
}

export function newEvent(
  { newId, now, request, idempotencyKey, sendsEvents }: Scene,
  type: EventType,
  subject: Shown,
  previous?: Readonly<Record<string, unknown>>,
): ProviderEvent {
  return {
    id: newId('evt'),
    version: 0,
    created: seconds(now),
    ...{ type, subject, request },
    ...(previous && { previous }),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    isSent: sendsEvents,
  };
}
