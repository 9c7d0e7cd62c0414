import { InvalidArgument } from '../core/errors.ts';
import type { EpochMs } from '../core/record.ts';
import { OPERATION_OPTIONS, type OperationOptions } from '../effects/operations.ts';
import {
  requireFunctions,
  requireKnown,
  requireLedger,
  requireList,
  requireOptions,
} from '../effects/option-checks.ts';
import type { UnknownOperation, Verdict } from '../effects/resolver.ts';
import { kindOf } from '../http/kind.ts';
import type { HttpRequest } from '../http/request.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { LogSink } from '../observe/log.ts';
import type { MetricSink } from '../observe/metrics.ts';
import type { VerifyWebhook } from './stripe-signature.ts';

/** What every provider's event has. */
export interface WebhookEvent {
  readonly id: string;
  readonly type: string;
}

/** Which operation an event is about. Whatever is named beside the ref must be the record's own, or nothing happens. */
export interface WebhookSubject {
  /** As the handler put it into the provider's metadata. Without one, the event is none of ours. */
  readonly operationRef: string | undefined;
  /** Tells an operation from an earlier one under the same key, whose events may come days late. */
  readonly operationId?: string | undefined;
  /** Where tenants can write metadata of their own, as the provider knows them: the account that the event is of. */
  readonly tenant?: string | undefined;
}

export interface WebhookOptions<E extends WebhookEvent = WebhookEvent, W = unknown> extends OperationOptions {
  readonly ledger: Ledger<W>;
  /** The same that the functions are given. */
  readonly operations?: Readonly<Record<string, OperationOptions>>;
  /** Names the endpoint: events are told apart by it and their id, so two providers need two. Default `webhook`. */
  readonly name?: string;
  /** As `stripeSignature({ secrets })`. */
  readonly verify: VerifyWebhook;
  /** Reads the event from the request. Default: the body is JSON, with `id` and `type`. */
  readonly event?: (request: HttpRequest) => E | Promise<E>;
  /** The types that say how something ended. Others are acknowledged, and nothing is done. Default: all. */
  readonly types?: readonly string[];
  /** Where the provider carries no metadata, this may look up what it calls its object. */
  readonly subject: (event: E) => WebhookSubject | undefined | Promise<WebhookSubject | undefined>;
  /** Asks the provider what became of the operation; never takes the event's word. Default: the operation's resolver. */
  readonly fetch?: (
    event: E,
    operation: UnknownOperation,
    context: { readonly signal: AbortSignal },
  ) => Verdict | Promise<Verdict>;
  readonly metrics?: MetricSink;
  readonly log?: LogSink;
  readonly clock?: () => EpochMs;
  readonly newId?: () => string;
}

const OPTIONS = [
  ...OPERATION_OPTIONS,
  'ledger',
  'operations',
  'name',
  'verify',
  'event',
  'types',
  'subject',
  'fetch',
  'metrics',
  'log',
  'clock',
  'newId',
] as const satisfies readonly (keyof WebhookOptions)[];

/** Of a ledger, what settles a record and what keeps one per event. */
const LEDGER = ['read', 'settle', 'stepResult', 'reserve', 'retake', 'takeOver', 'complete', 'release'];

/** Of the text, not of the store: it is part of an operation's name. */
const NAME_MAX_LENGTH = 64;

const EXAMPLES = {
  verify: 'verify: stripeSignature({ secrets: [process.env.WEBHOOK_SECRET] })',
  subject: 'subject: (event) => ({ operationRef: event.data.object.metadata?.operationRef })',
} as const;

export function requireWebhookOptions(options: object): void {
  requireOptions(options, 'webhook()');
  requireKnown(options, OPTIONS, 'webhook()');
  const given: Readonly<Record<string, unknown>> = { ...options };
  requireLedger(given['ledger'], 'webhook()', LEDGER);
  for (const [name, example] of Object.entries(EXAMPLES)) {
    if (typeof given[name] === 'function') continue;
    throw new InvalidArgument(
      `webhook() needs ${name}, a function, as in ${example}; received ${kindOf(given[name])}.`,
    );
  }
  requireFunctions(options, ['event', 'fetch', 'metrics', 'log', 'clock', 'newId']);
  requireList(options, 'types');
  requireSource(options);
  const { name = 'webhook', types = [''] } = given;
  if (typeof name !== 'string' || name === '' || name.length > NAME_MAX_LENGTH) {
    const expected = `a text of 1 to ${NAME_MAX_LENGTH} characters`;
    throw new InvalidArgument(`webhook(): name is ${JSON.stringify(name)}; expected ${expected}.`);
  }
  if ((types as unknown[]).length === 0 || !(types as unknown[]).every((type) => typeof type === 'string')) {
    throw new InvalidArgument(
      'webhook(): types is a list of event types, such as payment_intent.succeeded, with at least one; leave it out to take all.',
    );
  }
}

/** An endpoint that has nobody to ask would have every event sent again until the provider gives up on it. */
function requireSource({ fetch, resolver, operations }: Partial<WebhookOptions>): void {
  const declared = Object.values(operations ?? {}).some((operation) => operation?.resolver !== undefined);
  if (fetch !== undefined || resolver !== undefined || declared) return;
  throw new InvalidArgument(
    'webhook() has neither fetch nor a resolver in operations, so it could settle nothing. Give it the operations that the functions are given, or fetch: async (event, operation) => …, which asks the provider.',
  );
}
