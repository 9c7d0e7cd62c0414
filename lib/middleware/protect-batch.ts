import type { EventBridgeEvent, SQSBatchResponse, SQSRecord } from 'aws-lambda';
import { InvalidArgument } from '../core/errors.ts';
import type { EpochMs } from '../core/record.ts';
import { requireOptions } from '../effects/option-checks.ts';
import { remainingMs } from '../effects/remaining.ts';
import { UnsupportedEvent } from '../http/errors.ts';
import { kindOf } from '../http/kind.ts';
import { nameOf, reporter } from '../observe/report.ts';
import type { GuardOptions } from './guard-options.ts';
import { type CallContext, guarded, jsonBody } from './protect.ts';

/** A message of SQS, or an event of EventBridge. */
export type Message = SQSRecord | EventBridgeEvent<string, unknown>;

export interface ProtectBatchOptions<M extends Message, W = unknown> extends GuardOptions<M, W> {
  /**
   * From what the message says, never its messageId or the event's id: a producer that sends again, and a redrive out of
   * a dead-letter queue, make new ones.
   */
  readonly key: (message: M) => string;
  /**
   * What must be the same for the same key. Default: the body of an SQS message; source, detail type and detail of an
   * event. A body that is the envelope of SNS or EventBridge has ids and times of its own: choose what is inside.
   */
  readonly fingerprint?: (message: M) => unknown;
  /** How long a message that was processed is known. Default 42 days. */
  readonly retentionSeconds?: number;
  /** How many messages of a standard queue are processed at a time. Default 10. */
  readonly concurrency?: number;
}

/** SQS's own default batch. */
const CONCURRENCY = 10;

/**
 * As long as a message can be on its way with one redrive. A queue keeps it for 14 days at most; the dead-letter queue of
 * a FIFO queue starts counting anew, and so does a redrive out of any. Forgotten earlier, it would be processed a second
 * time. Whoever redrives the same message again and again, or replays an archive, needs more.
 */
const RETENTION_SECONDS = 42 * 24 * 3_600;

/** Enough to answer Lambda before it ends the invocation, and later than every call has been told to stop. */
const ANSWER_MS = 250;

/** Where the runtime does not say how long an invocation may take: as long as SQS hides a message by default. */
const UNKNOWN_REMAINING_MS = 30_000;

/**
 * A Lambda handler for SQS batches and single EventBridge events that processes each message once. What could not be
 * processed, or not yet, goes back to the queue; an event's failure is thrown, so that Lambda sends it again.
 * The function's result is not kept: nobody would read it.
 *
 * The event source mapping needs `ReportBatchItemFailures`. Without it Lambda ignores the answer and deletes all.
 */
export function protectBatch<M extends Message = SQSRecord, W = unknown>(
  fn: (message: M, context: CallContext<W>) => Promise<unknown>,
  options: ProtectBatchOptions<M, W>,
): (event: unknown, context: object) => Promise<SQSBatchResponse> {
  requireOptions(options, 'protectBatch()');
  const { concurrency = CONCURRENCY, retentionSeconds = RETENTION_SECONDS, ...rest } = options;
  const { operation, clock = Date.now } = options;
  const { tell } = reporter(clock, options.metrics, options.log);
  if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
    throw new InvalidArgument(
      `protectBatch(): concurrency is ${concurrency}; expected a whole number of at least 1.`,
    );
  }
  if (typeof retentionSeconds !== 'number') {
    throw new InvalidArgument(
      `protectBatch(): retentionSeconds is ${kindOf(retentionSeconds)}; expected a number.`,
    );
  }
  const processed = async (message: M, context: CallContext<W>): Promise<void> => {
    await fn(message, context);
  };
  const more = ['retentionSeconds', 'concurrency'];
  const own = { ...rest, retentionSeconds, ...(typeof rest.key === 'function' && { key: checkedKey }) };
  const guard = guarded('protectBatch()', processed, own, more, bodyOf);

  return async (event, context) => {
    const deadline = clock() + remainingMs(context, UNKNOWN_REMAINING_MS);
    if (isEventBridge(event)) {
      await guard.call(event as M, guard.select(event as M, deadline));
      return { batchItemFailures: [] };
    }
    const records = sqsRecords(event);
    const over = timer(deadline - ANSWER_MS - clock());
    const done = (record: SQSRecord) => isDone(record, deadline, over.passed);
    const returned = isFifo(records) ? await inOrder(records, done) : await atOnce(records, done);
    over.stop();
    return { batchItemFailures: returned.map(({ messageId }) => ({ itemIdentifier: messageId })) };
  };

  function checkedKey(message: M): string {
    const key = rest.key(message);
    if (key !== ('messageId' in message ? message.messageId : message.id)) return key;
    throw new InvalidArgument(
      'protectBatch(): the key is the id of the message itself, which is another one when it is sent again. Select it from what the message says.',
    );
  }

  async function isDone(record: SQSRecord, deadline: EpochMs, over: Promise<false>): Promise<boolean> {
    const message = record as M;
    let selected: ReturnType<typeof guard.select>;
    try {
      selected = guard.select(message, deadline);
    } catch (error) {
      tell({ pk: '-', tenant: '-', operation }, 'error', 'message_refused', { reason: nameOf(error) });
      return false;
    }
    const done = guard.call(message, selected).then(
      () => true,
      () => false, // The guard has told why.
    );
    // A call that hangs must not send its finished neighbours back with it, again and again, until they are dead
    // letters. But an opaque one could wake up in a later invocation and charge long after it was declared dead: there
    // we wait for Lambda to kill it.
    return rest.effects === 'transactional' ? Promise.race([done, over]) : done;
  }

  async function atOnce(
    records: readonly SQSRecord[],
    done: (record: SQSRecord) => Promise<boolean>,
  ): Promise<readonly SQSRecord[]> {
    const returned = new Set<SQSRecord>();
    const queue = records.values();
    const worker = async () => {
      for (const record of queue) if (!(await done(record))) returned.add(record);
    };
    await Promise.all(Array.from({ length: Math.min(concurrency, records.length) }, worker));
    return records.filter((record) => returned.has(record));
  }
}

/** Within a group, what comes after a failure would overtake it. */
async function inOrder(
  records: readonly SQSRecord[],
  done: (record: SQSRecord) => Promise<boolean>,
): Promise<readonly SQSRecord[]> {
  const returned: SQSRecord[] = [];
  const blocked = new Set<string | undefined>();
  for (const record of records) {
    const group = record.attributes?.MessageGroupId;
    if (!blocked.has(group) && (await done(record))) continue;
    blocked.add(group);
    returned.push(record);
  }
  return returned;
}

/** Not by the group: standard queues have groups too, for fairness, and no order. */
function isFifo(records: readonly SQSRecord[]): boolean {
  return records.some(({ eventSourceARN }) => eventSourceARN?.endsWith('.fifo'));
}

/** The text itself where there is one: parsing it first would round its numbers. */
function bodyOf(message: Message): Uint8Array {
  if ('messageId' in message) return new Uint8Array(Buffer.from(message.body));
  const { source, 'detail-type': type, detail } = message;
  return jsonBody('protectBatch()', 'event', { source, type, detail });
}

function isEventBridge(event: unknown): event is EventBridgeEvent<string, unknown> {
  if (typeof event !== 'object' || event === null) return false;
  return 'detail-type' in event && 'source' in event && 'detail' in event;
}

function sqsRecords(event: unknown): readonly SQSRecord[] {
  const { Records: records } = (event ?? {}) as { readonly Records?: unknown };
  if (!Array.isArray(records)) throw unsupported(kindOf(event));
  for (const record of records) {
    const { eventSource, EventSource, messageId, body } = record ?? {};
    const source = eventSource ?? EventSource;
    if (source !== 'aws:sqs') throw unsupported(`a batch of ${source ?? 'unnamed records'}`);
    if (typeof messageId !== 'string' || typeof body !== 'string')
      throw unsupported('a batch of aws:sqs without messageId or body');
  }
  return records;
}

function unsupported(received: string): UnsupportedEvent {
  return new UnsupportedEvent(
    `protectBatch() takes SQS batches and single EventBridge events; this is ${received}. Call a function wrapped in protect for each of its records, and select the key from the record.`,
  );
}

function timer(ms: number): { readonly passed: Promise<false>; stop(): void } {
  let pending: NodeJS.Timeout | undefined;
  const passed = new Promise<false>((resolve) => {
    pending = setTimeout(() => resolve(false), Math.max(0, ms));
  });
  return { passed, stop: () => clearTimeout(pending) };
}
