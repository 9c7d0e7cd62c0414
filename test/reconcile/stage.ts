import { randomUUID } from 'node:crypto';
import { defaultPolicy, expiryAfter } from '../../lib/core/policy.ts';
import type { Accepted, Completed, LedgerRecord, OutboxEvent } from '../../lib/core/record.ts';
import type {
  DeliveryContext,
  DeliveryHandler,
  DeliveryHandlers,
  EmittedEvent,
} from '../../lib/effects/deliveries.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { type DispatchOptions, dispatcher } from '../../lib/reconcile/dispatch.ts';
import { claimOf, execute, movedRecord, replyOf, START } from '../../lib/testing/contract/subject.ts';
import type { TestTable } from '../support/table.ts';

export { START };

/** A provider that counts what really happens there, by key if it dedupes. */
export class Provider {
  readonly dedupes: boolean;
  readonly calls: { readonly event: EmittedEvent; readonly context: DeliveryContext }[] = [];
  readonly effects: string[] = [];
  readonly #seen = new Set<string>();

  constructor(dedupes: boolean) {
    this.dedupes = dedupes;
  }

  take(event: EmittedEvent, context: DeliveryContext): void {
    this.calls.push({ event, context });
    if (this.dedupes && this.#seen.has(context.key)) return;
    this.#seen.add(context.key);
    this.effects.push(`${event.type} ${JSON.stringify(event.payload)}`);
  }
}

/** A delivery to it, and what it says of each call. */
export function through(
  provider: Provider,
  outcome: (call: number) => unknown = () => undefined,
): DeliveryHandler {
  return {
    dedupes: provider.dedupes,
    async deliver(event, context) {
      provider.take(event, context);
      return (await outcome(provider.calls.length)) as undefined;
    },
  };
}

export const charge = (amount: number): OutboxEvent => ({
  type: 'charge',
  payload: JSON.stringify({ amount }),
});

/** A record whose business write is committed and whose events wait. */
export async function acceptedWith(ledger: Ledger<unknown>, ...outbox: OutboxEvent[]): Promise<Accepted> {
  const reserved = await ledger.reserve(claimOf(), execute);
  const deferral = { now: START, reply: replyOf('{"status":"pending"}', 202), outbox };
  return movedRecord(await ledger.accept(movedRecord(reserved), deferral));
}

export async function completedWith(ledger: Ledger<unknown>, ...outbox: OutboxEvent[]): Promise<Completed> {
  const reserved = await ledger.reserve(claimOf(), execute);
  const outcome = { now: START, reply: replyOf('{"order":1}'), outbox, ...expiryAfter(defaultPolicy, START) };
  return movedRecord(await ledger.complete(movedRecord(reserved), outcome));
}

/** What the table's stream shows of a record that has come to this state. */
export function streamRecord({ pk, status }: LedgerRecord, before = 'in_progress') {
  return {
    eventID: randomUUID(),
    eventName: 'MODIFY',
    dynamodb: {
      Keys: { pk: { S: pk }, sk: { S: 'record' } },
      OldImage: { status: { S: before } },
      NewImage: { status: { S: status }, outbox: { L: [] } },
      SequenceNumber: `seq-${pk}`,
    },
  };
}

export interface DispatchStage {
  /** Delivers the stream's records, with so much time left. */
  batch(records: readonly unknown[], remainingMs?: number): Promise<readonly string[]>;
  redrive(pk: string): Promise<string>;
  setNow(now: number): void;
  readonly logged: LogEntry[];
  readonly measured: Sample[];
}

/** A dispatcher whose clock the test sets, with everything it says written down. */
export function dispatchStage(
  ledger: Ledger<unknown>,
  deliveries: DeliveryHandlers,
  options: Partial<DispatchOptions> & { readonly time?: { now: number } } = {},
): DispatchStage {
  const { time = { now: START }, ...rest } = options;
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const { handle, redrive } = dispatcher({
    ledger,
    deliveries,
    clock: () => time.now,
    random: () => 1,
    log: (entry) => logged.push(entry),
    metrics: (sample) => measured.push(sample),
    ...rest,
  });
  return {
    logged,
    measured,
    async batch(records, remainingMs = 30_000) {
      const context = { getRemainingTimeInMillis: () => remainingMs };
      const { batchItemFailures } = await handle({ Records: records }, context);
      return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    },
    redrive: (pk) => redrive(pk, time.now + 30_000),
    setNow(now) {
      time.now = now;
    },
  };
}

/** What holds on one holds on the other. */
export function bothLedgers(
  table: TestTable,
): Readonly<Record<string, (clock: () => number) => Ledger<unknown>>> {
  return {
    memory: (clock) => memoryLedger({ clock }),
    DynamoDB: (clock) => dynamoDbLedger({ ...table, clock }) as Ledger<unknown>,
  };
}
