import { InvalidArgument } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { InProgress, OutboxEvent } from '../core/record.ts';
import { jsonText, NotJson } from './json-result.ts';
import { type StepMethods, type StepPorts, type Steps, stepsOf } from './steps.ts';

/** What a handler gets: who it is, until when, and the only safe ways to change something. */
export interface Once<W> extends StepMethods {
  /** Constant across all attempts of this operation; derive downstream keys from it. */
  readonly operationId: string;
  /** Names the record; put it into the provider's metadata, so that webhooks and the audit lead back here. */
  readonly operationRef: string;
  /** Whose key it is. */
  readonly tenant: string;
  readonly attempt: number;
  /** Aborts before the lease can pass. Nothing may be sent to a provider after it. */
  readonly signal: AbortSignal;
  /** Joins the transaction that completes the record, or inside a step the one that saves it: both happen, or neither. */
  write(...items: readonly W[]): void;
  /** An event for the outbox, committed with the record and delivered afterwards. */
  emit(event: { readonly type: string; readonly payload: unknown }): void;
  /** Answer now; delivery of the outbox produces the final response. */
  defer(): void;
}

export interface UnitOfWork<W> {
  readonly once: Once<W>;
  readonly steps: Steps<W>;
  readonly writes: readonly W[];
  readonly outbox: readonly OutboxEvent[];
  readonly deferred: boolean;
  /** The handler has ended; whatever it still tries to add would be lost, so it is told. Waits for a step that runs. */
  close(): Promise<void>;
  /** What the handler collected is not to be committed: it threw before it had collected all. */
  discard(): void;
}

/** Collects what a handler wants to commit. Nothing but its steps is written before it has ended. */
export function unitOfWork<W>(ports: StepPorts<W>, mine: InProgress, signal: AbortSignal): UnitOfWork<W> {
  const steps = stepsOf(ports, mine, signal);
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

  /** A step that is recorded is not run again, and what it said would be missing from the resumed attempt's completion. */
  function requireNoStep(what: string): void {
    if (steps.inside === undefined) return;
    throw new InvalidArgument(`${what} was called inside the step ${steps.inside}; call it after the step.`);
  }

  return {
    steps,
    writes,
    outbox,
    get deferred() {
      return deferred;
    },
    async close() {
      open = false;
      await steps.close();
    },
    discard() {
      writes.length = 0;
      outbox.length = 0;
      deferred = false;
    },
    once: {
      operationId: mine.operationId,
      operationRef: mine.pk,
      tenant: mine.tenant,
      attempt: mine.attempt,
      signal,
      step: steps.step,
      effect: steps.effect,
      write(...items) {
        requireOpen('once.write');
        if (steps.inside === undefined) writes.push(...items);
        else steps.write(items);
      },
      emit(event) {
        requireOpen('once.emit');
        requireNoStep('once.emit');
        if (outbox.length >= limits.eventsMax) {
          throw new InvalidArgument(`An operation may emit ${limits.eventsMax} events; this is one more.`);
        }
        outbox.push(outboxEvent(event));
      },
      defer() {
        requireOpen('once.defer');
        requireNoStep('once.defer');
        deferred = true;
      },
    },
  };
}

function outboxEvent({ type, payload }: { readonly type: string; readonly payload: unknown }): OutboxEvent {
  if (typeof type !== 'string' || type === '') {
    throw new InvalidArgument(`once.emit needs a type, such as 'charge.requested'; received ${typeof type}.`);
  }
  try {
    return { type, payload: jsonText(payload, 'payload') };
  } catch (error) {
    if (!(error instanceof NotJson)) throw error;
    throw new InvalidArgument(`The event ${type} cannot be kept: ${error.message}.`, error);
  }
}
