import { randomUUID } from 'node:crypto';
import type { DynamoDBBatchResponse } from 'aws-lambda';
import { eachOf } from '../core/each-of.ts';
import { InvalidArgument } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { schedule } from '../core/policy.ts';
import type { EpochMs } from '../core/record.ts';
import type { DeliveryHandlers } from '../effects/deliveries.ts';
import { OPERATION_OPTIONS, type OperationOptions, reconciledPolicies } from '../effects/operations.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { ANSWER_MS, workUntil } from '../effects/remaining.ts';
import { allowedHeaders, defaultStoredHeaders } from '../http/headers.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import { nameOf, reporter, unread } from '../observe/report.ts';
import { type Delivered, outboxDelivery } from './deliver-outbox.ts';
import { type RecordChange, recordChanges } from './stream.ts';

export interface DispatchOptions<W = unknown> extends OperationOptions {
  readonly ledger: Ledger<W>;
  /** Who delivers which type of event. */
  readonly deliveries: DeliveryHandlers;
  /** The same that the functions are given which emit the events: retention and dedupe window are read from it. */
  readonly operations?: Readonly<Record<string, OperationOptions>>;
  readonly storedHeaders?: readonly string[];
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly random?: () => number;
  readonly newId?: () => string;
}

export interface Dispatcher {
  /** A Lambda handler for the table's stream. Its mapping needs `ReportBatchItemFailures`. */
  handle(event: unknown, context: object): Promise<DynamoDBBatchResponse>;
  /** Goes on with one record's outbox where it stands, if it is due. */
  redrive(operationRef: string, until: EpochMs): Promise<Delivered>;
}

const OPTIONS = [
  ...OPERATION_OPTIONS,
  'ledger',
  'deliveries',
  'operations',
  'storedHeaders',
  'metrics',
  'log',
  'clock',
  'random',
  'newId',
] as const satisfies readonly (keyof DispatchOptions)[];

/** Where the runtime does not say how long an invocation may take: long enough for one delivery. */
const UNKNOWN_REMAINING_MS = schedule.deliverMs + ANSWER_MS;

/**
 * Delivers what handlers emitted. At least once in, one effect out: the key of an event is the same in every try, and to a
 * provider that does not dedupe there is only one.
 */
export function dispatcher<W>(options: DispatchOptions<W>): Dispatcher {
  const deliverOutbox = checked(options);
  const { clock = Date.now } = options;
  const { measure, tell } = reporter(clock, options.metrics, options.log);

  return {
    async handle(event, context) {
      const until = workUntil(context, clock(), UNKNOWN_REMAINING_MS);
      const changes = recordChanges(event).filter(isFresh);
      const failed = new Set<string>();
      await eachOf(new Set(changes.map(({ pk }) => pk)), limits.dispatchConcurrency, async (pk) => {
        try {
          if ((await deliverOutbox(pk, until)) !== 'no_time') return;
          tell(unread(pk), 'warn', 'no_time'); // Give the function more than a few seconds.
          failed.add(pk);
        } catch (error) {
          measure(unread(pk), { 'store.error.count': 1 });
          tell(unread(pk), 'error', 'dispatch_failed', { reason: nameOf(error) });
          failed.add(pk);
        }
      });
      const again = changes.filter(({ pk }) => failed.has(pk));
      return { batchItemFailures: again.map(({ sequenceNumber }) => ({ itemIdentifier: sequenceNumber })) };
    },

    redrive: (operationRef, until) => deliverOutbox(operationRef, until),
  };
}

/** Its outbox has just come into being. Our own notes on it come by here too, and are no reason to start again. */
function isFresh({ before, after }: RecordChange): boolean {
  return after?.hasOutbox === true && before?.status !== after.status;
}

function checked<W>(options: DispatchOptions<W>) {
  requireOptions(options, 'dispatcher()');
  requireKnown(options, OPTIONS, 'dispatcher()');
  const { ledger, deliveries } = options;
  requireLedger(ledger, 'dispatcher()');
  if (typeof deliveries !== 'object' || deliveries === null)
    missing('deliveries', "{ 'charge.requested': { dedupes: true, deliver } }");
  for (const [type, handler] of Object.entries(deliveries)) {
    if (typeof handler?.deliver === 'function' && typeof handler.dedupes === 'boolean') continue;
    throw new InvalidArgument(
      `The delivery of ${type} needs deliver, a function, and dedupes: true if its provider does the same thing once given the same key, false if not.`,
    );
  }
  requireFunctions(options, ['metrics', 'log', 'clock', 'random', 'newId']);
  const { storedHeaders = defaultStoredHeaders, operations } = options;
  allowedHeaders(storedHeaders);
  const { clock = Date.now, random = Math.random, newId = randomUUID } = options;
  const policyOf = reconciledPolicies('dispatcher()', options, operations);
  const report = reporter(clock, options.metrics, options.log);
  return outboxDelivery({ ledger, deliveries, policyOf, storedHeaders, clock, random, newId, report });
}

function missing(name: string, example: string): never {
  throw new InvalidArgument(`dispatcher() needs ${name}, for example ${name}: ${example}.`);
}
