import { InvalidArgument } from '../core/errors.ts';
import { defaultPolicy, type Pauses, schedule } from '../core/policy.ts';
import type { EpochMs, InProgress } from '../core/record.ts';
import { inTime } from '../effects/in-time.ts';
import { requireFunctions, requireKnown, requireLedger, requireOptions } from '../effects/option-checks.ts';
import { completionEvent } from '../http/completion.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import { reporter } from '../observe/report.ts';
import { type ParkPorts, park } from './park.ts';
import { retryPlace } from './places.ts';

/** Invokes a function by its name or ARN, without waiting for what it returns. */
export type Invoker = (functionName: string, event: Uint8Array) => Promise<void>;

/** The part of `Lambda` of `@aws-sdk/client-lambda` that invoking needs. */
export interface LambdaInvoke {
  invoke(input: {
    readonly FunctionName: string;
    readonly InvocationType: 'Event';
    readonly Payload: Uint8Array;
  }): Promise<unknown>;
}

/** The invoker of AWS: asynchronous, so that Lambda itself keeps the event until the function has taken it. */
export function lambdaInvoker(lambda: LambdaInvoke): Invoker {
  return async (functionName, event) => {
    await lambda.invoke({ FunctionName: functionName, InvocationType: 'Event', Payload: event });
  };
}

export type Completion =
  | 'invoked'
  /** Its request was not kept: only its client can finish it, or an operator. */
  | 'no_request'
  | 'parked'
  /** Somebody else has changed the record since it was read. */
  | 'fenced';

export interface CompleterOptions<W = unknown> {
  readonly ledger: Ledger<W>;
  /** How a function is invoked; in AWS `lambdaInvoker(new Lambda())`. */
  readonly invoke: Invoker;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly random?: () => number;
}

/**
 * Finishes abandoned operations: invokes the function again with the event that was kept, for exactly the attempt that
 * was abandoned. Before that, the record is put off, so that an invocation that fails is followed by another, later.
 */
export function completer<W>(options: CompleterOptions<W>): (record: InProgress) => Promise<Completion> {
  requireOptions(options, 'completer()');
  requireKnown(options, ['ledger', 'invoke', 'metrics', 'log', 'clock', 'random'], 'completer()');
  requireLedger(options.ledger, 'completer()', ['request', 'watch']);
  requireFunctions(options, ['invoke', 'metrics', 'log', 'clock', 'random']);
  const { ledger, invoke, clock = Date.now, random = Math.random } = options;
  if (!invoke)
    throw new InvalidArgument('completer() needs invoke, for example invoke: lambdaInvoker(new Lambda()).');
  const report = reporter(clock, options.metrics, options.log);
  const policyOf = () => ({ policy: defaultPolicy });
  return completion({ ledger, invoke, clock, random, report, policyOf });
}

interface CompletionPorts<W> extends ParkPorts<W> {
  readonly ledger: Ledger<W>;
  readonly invoke: Invoker;
  readonly random: () => number;
  readonly policyOf: (operation: string) => { readonly policy: Pauses };
}

export function completion<W>(ports: CompletionPorts<W>): (record: InProgress) => Promise<Completion> {
  const { ledger, invoke, clock, random, report, policyOf } = ports;

  return async (record) => {
    const request = await ledger.request(record);
    if (!request) return 'no_request';
    const due = retryPlace(record, clock(), policyOf(record.operation).policy, random);
    if (due.tries > schedule.reconcileTries) {
      return (await park(ports, record, 'completions_exhausted')) ? 'parked' : 'fenced';
    }
    if ((await ledger.watch(record, due)).kind === 'fenced') return 'fenced';
    await inTime(schedule.askMs, () => invoke(request.function, completionEvent(request.event, record)));
    report.tell(record, 'info', 'completion_invoked', { attempt: record.attempt });
    return 'invoked';
  };
}
