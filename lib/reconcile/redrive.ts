import { InvalidArgument, OncekeyError } from '../core/errors.ts';
import type { EpochMs } from '../core/record.ts';
import { requireFunctions, requireKnown, requireOptions } from '../effects/option-checks.ts';
import { workUntil } from '../effects/remaining.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import { nameOf, reporter } from '../observe/report.ts';
import {
  type FailedBatch,
  type FailedObject,
  failedBatchIn,
  failuresOf,
  functionNameIn,
  objectsIn,
  UnusableObject,
} from './failed-batch.ts';

/** What `sentinel()` returns, or the `handle` of `dispatcher()`; or whoever passes the records on to the function that failed. */
export type StreamHandler = (
  event: { Records: unknown[] },
  context: object,
  batch: FailedBatch,
) => Promise<unknown>;

export interface RedriveOptions {
  /** The text of an object, for example `async ({ bucket, key }) => (await s3.getObject(…)).Body.transformToString()`. */
  readonly read: (object: FailedObject) => Promise<string>;
  /** Who does again what a function could not, by the function's name. */
  readonly handlers: Readonly<Record<string, StreamHandler>>;
  /** The name of the handler, where it is not the function's own: a stack makes up names. */
  readonly handlerOf?: (batch: FailedBatch) => string | undefined;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
}

export interface Redriven {
  readonly objects: number;
  readonly records: number;
}

/** Some of a batch could not be done again. It is thrown so that Lambda tries again, and then keeps the event. */
export class RedriveFailed extends OncekeyError {
  override readonly remedy = 'fix-deployment';
}

const OPTIONS = [
  'read',
  'handlers',
  'handlerOf',
  'metrics',
  'log',
  'clock',
] as const satisfies readonly (keyof RedriveOptions)[];

/** What is counted of an object, whoever its records belong to. */
const ALL = { pk: '-', tenant: '-', operation: 'all' };

/** One more than the first: a store that did not answer once may do so now. What then fails waits for Lambda's own retry. */
const TRIES = 2;

/**
 * Does again what a stream's function gave up on, from the objects that its mapping has put into a bucket. Safe to run late
 * and twice: every write of the handlers is fenced by the attempt that the stream showed. Nothing is acknowledged that was
 * not done: whatever is left is thrown.
 */
export function redriver(options: RedriveOptions): (event: unknown, context: object) => Promise<Redriven> {
  requireOptions(options, 'redriver()');
  requireKnown(options, OPTIONS, 'redriver()');
  requireFunctions(options, ['handlerOf', 'metrics', 'log', 'clock']);
  const { read, handlers, handlerOf, clock = Date.now } = options;
  if (typeof read !== 'function') missing('read', 'async ({ bucket, key }) => …, the text of that object');
  requireHandlers(handlers);
  const { measure, tell } = reporter(clock, options.metrics, options.log);

  return async (event, context) => {
    const until = workUntil(context, clock());
    const failures: unknown[] = [];
    const done = { objects: 0, records: 0 };
    const objects = announced(event);
    for (const object of objects) {
      try {
        if (clock() >= until) throw new RedriveFailed('there was no time left for it');
        done.records += await redrive(object, context);
        done.objects += 1;
      } catch (error) {
        report(error);
        failures.push(new RedriveFailed(`${placeOf(object)}: ${messageOf(error)}`, error));
      }
    }
    if (failures.length === 0) return done;
    const why = failures.map(messageOf).join('; ');
    throw new RedriveFailed(
      `${failures.length} of ${objects.length} on-failure objects were not redriven. ${why}`,
      failures.length === 1 ? failures[0] : new AggregateError(failures),
    );
  };

  function announced(event: unknown): readonly FailedObject[] {
    try {
      return objectsIn(event);
    } catch (error) {
      report(error);
      throw error;
    }
  }

  async function redrive(object: FailedObject, context: object): Promise<number> {
    const batch = failedBatchIn(await read(object));
    const handle = handlerFor(batch);
    let left: readonly unknown[] = batch.records;
    let last: unknown;
    for (let tries = 0; tries < TRIES && left.length > 0; tries += 1) {
      try {
        left = failuresOf(left, await handle({ Records: [...left] }, context, batch));
      } catch (error) {
        last = error;
      }
    }
    if (left.length > 0) {
      const count = `${left.length} of ${batch.records.length} records`;
      throw new RedriveFailed(`${count} failed again${last === undefined ? '' : ` (${nameOf(last)})`}`, last);
    }
    tell(ALL, 'info', 'redriven', { reason: batch.condition ?? 'failed' });
    return batch.records.length;
  }

  function handlerFor(batch: FailedBatch): StreamHandler {
    const name = handlerOf ? handlerOf(batch) : functionNameIn(batch.functionArn);
    const handler = name !== undefined && Object.hasOwn(handlers, name) ? handlers[name] : undefined;
    if (handler) return handler;
    throw new UnusableObject(
      'no_handler',
      `there is no handler for ${batch.functionArn} (looked for ${name}); redriver() has ${Object.keys(handlers).join(', ')}. Name the function in handlers, or say in handlerOf which it is`,
    );
  }

  /** The class of what was thrown, or the code of what is wrong with the object; no text of the object itself. */
  function report(error: unknown): void {
    measure(ALL, { 'reconcile.failed.count': 1 });
    const reason = error instanceof UnusableObject ? error.code : nameOf(error);
    tell(ALL, 'error', 'redrive_failed', { reason });
  }
}

function requireHandlers(handlers: unknown): void {
  const named = typeof handlers === 'object' && handlers !== null ? Object.entries(handlers) : [];
  if (named.length === 0) missing('handlers', "{ 'ledger-sentinel': sentinel({ ledger }) }");
  for (const [name, handler] of named) {
    if (typeof handler === 'function') continue;
    throw new InvalidArgument(
      `The handler ${name} of redriver() is ${typeof handler}; expected a function, such as sentinel({ ledger }) or dispatcher({ … }).handle.`,
    );
  }
}

function missing(name: string, example: string): never {
  throw new InvalidArgument(`redriver() needs ${name}, for example ${name}: ${example}.`);
}

function placeOf({ bucket, key }: FailedObject): string {
  return `s3://${bucket}/${key}`;
}

/** Of our own errors, whose messages quote nothing; of others the class. */
function messageOf(error: unknown): string {
  return error instanceof OncekeyError ? error.message : nameOf(error);
}
