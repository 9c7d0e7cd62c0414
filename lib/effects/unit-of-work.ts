import { InvalidArgument } from '../core/errors.ts';
import type { Effects, OutboxEvent } from '../core/record.ts';

/** Thrown by a handler that knows that nothing has happened: the key may run again. */
export class NotExecuted extends Error {
  override readonly name = 'NotExecuted';
}

/** What a handler gets: who it is, until when, and the only safe ways to change something. */
export interface Once<W> {
  /** Constant across all attempts of this operation; derive downstream keys from it. */
  readonly operationId: string;
  readonly attempt: number;
  /** Aborts before the lease can pass. Nothing may be sent to a provider after it. */
  readonly signal: AbortSignal;
  /** Joins the transaction that completes the record: both happen, or neither. */
  write(...items: readonly W[]): void;
  /** An event for the outbox, committed with the record and delivered afterwards. */
  emit(event: { readonly type: string; readonly payload: unknown }): void;
  /** Answer now; delivery of the outbox produces the final response. */
  defer(): void;
}

export interface UnitOfWork<W> {
  readonly once: Once<W>;
  readonly writes: readonly W[];
  readonly outbox: readonly OutboxEvent[];
  readonly deferred: boolean;
  /** The handler has ended; whatever it still tries to add would be lost, so it is told. */
  close(): void;
}

export interface RunningAttempt {
  readonly operationId: string;
  readonly attempt: number;
  readonly effects: Effects;
}

/** Collects what a handler wants to commit. Nothing is written before it has ended. */
export function unitOfWork<W>(mine: RunningAttempt, signal: AbortSignal): UnitOfWork<W> {
  const writes: W[] = [];
  const outbox: OutboxEvent[] = [];
  let deferred = false;
  let open = true;

  /** An opaque effect may be found executed later by a resolver, which could not supply the lost writes. */
  function requireOpen(what: string): void {
    if (!open) {
      throw new InvalidArgument(`${what} came after the handler had ended; await it inside the handler.`);
    }
    if (mine.effects === 'opaque') {
      throw new InvalidArgument(
        `${what} is refused with effects: 'opaque'. Declare effects: 'transactional' and make every change through once.write and once.emit.`,
      );
    }
  }

  return {
    writes,
    outbox,
    get deferred() {
      return deferred;
    },
    close() {
      open = false;
    },
    once: {
      operationId: mine.operationId,
      attempt: mine.attempt,
      signal,
      write(...items) {
        requireOpen('once.write');
        writes.push(...items);
      },
      emit(event) {
        requireOpen('once.emit');
        outbox.push(outboxEvent(event));
      },
      defer() {
        requireOpen('once.defer');
        deferred = true;
      },
    },
  };
}

function outboxEvent({ type, payload }: { readonly type: string; readonly payload: unknown }): OutboxEvent {
  if (typeof type !== 'string' || type === '') {
    throw new InvalidArgument(`once.emit needs a type, such as 'charge.requested'; received ${typeof type}.`);
  }
  const text: string | undefined = JSON.stringify(payload);
  if (text === undefined) {
    throw new InvalidArgument(`The payload of ${type} is ${typeof payload}, which JSON cannot hold.`);
  }
  return { type, payload: text };
}
