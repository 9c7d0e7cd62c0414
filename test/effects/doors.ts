import { randomUUID } from 'node:crypto';
import type { EpochMs, LedgerRecord } from '../../lib/core/record.ts';
import { scopePk } from '../../lib/core/scope.ts';
import type { StepContext } from '../../lib/effects/steps.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { GuardOptions } from '../../lib/middleware/guard-options.ts';
import {
  OperationInProgress,
  OperationUnavailable,
  OutcomeUnknown,
} from '../../lib/middleware/operation-errors.ts';
import { type CallContext, protect } from '../../lib/middleware/protect.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { post, stage } from '../middleware/stage.ts';

export type Once<W = unknown> = CallContext<W>['once'];
export type Handler<W = unknown> = (once: Once<W>) => Promise<unknown>;

/** What a caller gets: the result, the record's word in its place, or the handler's own error. */
export type Told = { readonly result: unknown } | { readonly code: string } | { readonly error: unknown };

type Choices = Partial<Pick<GuardOptions<unknown, unknown>, 'dedupeWindowMs' | 'inFlight' | 'sleep'>>;

/** One deployment of a handler, behind one of the two doors. */
interface Deployed {
  call(key?: string, remainingMs?: number): Promise<Told>;
  readonly measured: readonly Sample[];
}

interface Door {
  readonly name: string;
  readonly operation: string;
  open<W>(
    ledger: Ledger<W>,
    clock: () => EpochMs,
    handler: Handler<W>,
    choices: Choices,
  ): Omit<Deployed, 'call'> & { send(key: string, remainingMs: number): Promise<Told> };
}

export const http: Door = {
  name: 'idempotency()',
  operation: 'POST /payments',
  open(ledger, clock, handler, choices) {
    const run = async (_: unknown, { once }: { once: Once<never> }) => {
      const value = await handler(once as never);
      return { statusCode: 200, headers: {}, body: JSON.stringify(value ?? null) };
    };
    const { call, measured } = stage(ledger, run as never, { effects: 'steps', clock, ...choices });
    return {
      measured,
      async send(key, remainingMs) {
        const { statusCode, body } = await call(post({ key }), remainingMs);
        const told = JSON.parse(body);
        return statusCode === 200 ? { result: told } : { code: told.code };
      },
    };
  },
};

const call: Door = {
  name: 'protect()',
  operation: 'charge',
  open(ledger, clock, handler, choices) {
    const measured: Sample[] = [];
    const run = protect(
      async (_: { key: string; remainingMs: number }, { once }) => (await handler(once as never)) ?? null,
      {
        ...{ ledger, clock, operation: 'charge', effects: 'steps', ...choices },
        tenant: () => 'tenant-1',
        key: (input) => input.key,
        fingerprint: () => null,
        remaining: (input) => input.remainingMs,
        log: () => {},
        metrics: (sample) => measured.push(sample),
      },
    );
    return {
      measured,
      async send(key, remainingMs) {
        try {
          return { result: await run({ key, remainingMs }) };
        } catch (error) {
          if (error instanceof OperationInProgress) return { code: 'in_progress' };
          if (error instanceof OutcomeUnknown) return { code: 'outcome_unknown' };
          if (error instanceof OperationUnavailable) return { code: 'store_unavailable' };
          throw error;
        }
      },
    };
  },
};

/** Steps are the same behind both. */
export const doors: readonly Door[] = [http, call];

/** What a call may take, and with it how long its attempt owns the record. */
export const REMAINING_MS = 10_000;
/** Longer than any lease of these tests, skew included. */
export const LAPSE_MS = 20_000;
/** After a lease was handed back, the skew that clocks may have is all that there is to wait for. */
export const HANDED_BACK_MS = 1_001;

/** A ledger, a clock that stands still unless it is told to go, and the deployments of a handler one after another. */
export function place<W = unknown>(
  door: Door,
  ledgerOf: (clock: () => EpochMs) => Ledger<W> = (clock) => memoryLedger<W>({ clock }),
) {
  let now = Date.UTC(2030, 0, 15, 12);
  const clock = () => now;
  const ledger = ledgerOf(clock);
  const key = randomUUID();
  const pk = scopePk({ tenant: 'tenant-1', operation: door.operation, key });

  function deploy(handler: Handler<W>, choices: Choices = {}, through = ledger): Deployed {
    const { send, measured } = door.open(through, clock, handler, choices);
    return {
      measured,
      call: (ofKey = key, remainingMs = REMAINING_MS) =>
        send(ofKey, remainingMs).catch((error: unknown) => ({ error })),
    };
  }

  return {
    ledger,
    key,
    pk,
    clock,
    deploy,
    pass(ms: number) {
      now += ms;
    },
    /** Runs the handler once under the key of this place. */
    async run(handler: Handler<W>, choices: Choices = {}): Promise<Told> {
      return deploy(handler, choices).call();
    },
    async record(): Promise<LedgerRecord | undefined> {
      return ledger.read(pk);
    },
    async status(): Promise<string | undefined> {
      return (await ledger.read(pk))?.status;
    },
  };
}

export type Place<W = unknown> = ReturnType<typeof place<W>>;

/** A step's function that keeps what it was called with. */
export function counted<T>(returns: T | ((call: number) => T | Promise<T>)) {
  const calls: StepContext[] = [];
  const run = async (context: StepContext): Promise<T> => {
    calls.push(context);
    return typeof returns === 'function'
      ? (returns as (call: number) => T | Promise<T>)(calls.length)
      : returns;
  };
  return Object.assign(run, { calls });
}

export function gate() {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

/** The error of a call that ended with one. */
export function errorOf(told: Told): unknown {
  if ('error' in told) return told.error;
  throw new Error(`expected an error, got ${JSON.stringify(told)}`);
}

export function boom(): never {
  throw new Error('boom');
}
