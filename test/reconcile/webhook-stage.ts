import { createHmac, randomUUID } from 'node:crypto';
import type { Claim } from '../../lib/core/moves.ts';
import type { LedgerRecord, Unknown } from '../../lib/core/record.ts';
import { executed, type UnknownOperation } from '../../lib/effects/resolver.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';
import { eventRef } from '../../lib/reconcile/event-claim.ts';
import { stripeSignature } from '../../lib/reconcile/stripe-signature.ts';
import { webhook } from '../../lib/reconcile/webhook.ts';
import type { WebhookEvent, WebhookOptions } from '../../lib/reconcile/webhook-options.ts';
import { inProgress, movedRecord, START, unknownBy } from '../../lib/testing/contract/subject.ts';
import { httpApi } from '../http/events.ts';

const SECRET = 'whsec_current';
export const RUN_MS = 10_000;

/** As Stripe sends it, with what our handler put into its metadata. */
export interface PaymentEvent extends WebhookEvent {
  readonly data: { readonly object: { readonly metadata?: Readonly<Record<string, unknown>> | null } };
}

export const eventOf = (metadata?: Readonly<Record<string, unknown>> | null, type = 'payment.succeeded') => ({
  ...{ id: `evt_${randomUUID()}`, type },
  data: { object: { ...(metadata !== undefined && { metadata }) } },
});

export const aboutRecord = ({ pk }: Pick<LedgerRecord, 'pk'>) => eventOf({ operationRef: pk });

export function signed(body: string | Uint8Array, now: number = START): Record<string, string> {
  const time = Math.floor(now / 1_000);
  const digest = createHmac('sha256', SECRET).update(`${time}.`).update(body).digest('hex');
  return { 'Stripe-Signature': `t=${time},v1=${digest}` };
}

export interface Answer {
  readonly statusCode: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What the provider is asked, and what it says: that it has happened, if nothing else is set. */
export function providerOf(answer: (call: number, operation: UnknownOperation) => unknown = () => paid) {
  const asked: UnknownOperation[] = [];
  return {
    asked,
    fetch: async (_: unknown, operation: UnknownOperation) => {
      asked.push(operation);
      return (await answer(asked.length, operation)) as typeof paid;
    },
  };
}

export const paid = executed({ statusCode: 201, body: '{"payment":"pi_1"}' });

/** An endpoint whose clock the test sets, with everything it says written down. */
export function endpoint(
  ledger: Ledger<unknown>,
  time: { now: number },
  options: Partial<WebhookOptions<PaymentEvent>>,
) {
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const clock = () => time.now;
  const hook = webhook<unknown, PaymentEvent>({
    ledger,
    verify: stripeSignature({ secrets: [SECRET], clock }),
    subject: ({ data }) => ({ operationRef: data.object.metadata?.['operationRef'] as string }),
    clock,
    log: (entry) => logged.push(entry),
    metrics: (sample) => measured.push(sample),
    ...options,
  });
  return {
    ...{ hook, logged, measured },
    /** As the provider sends it, with so much time left. */
    async send(event: unknown, remainingMs = RUN_MS): Promise<Answer> {
      const body = typeof event === 'string' ? event : JSON.stringify(event);
      const request = httpApi({ headers: signed(body, time.now), body });
      return (await hook(request, { getRemainingTimeInMillis: () => remainingMs })) as Answer;
    },
    decisions: () => logged.map(({ decision, reason }) => (reason ? `${decision}: ${reason}` : decision)),
    counted: () => Object.assign({}, ...measured.map(({ metrics }) => metrics)) as Record<string, number>,
  };
}

export async function unknownRecord(
  ledger: Ledger<unknown>,
  overrides: Partial<Claim> = {},
): Promise<Unknown> {
  return unknownBy(ledger, await inProgress(ledger, { effects: 'opaque', ...overrides }));
}

/** With a charge that was tried, and of which nobody knows what came. */
export async function unknownStep(ledger: Ledger<unknown>): Promise<Unknown> {
  const mine = await inProgress(ledger, { effects: 'steps' });
  return unknownBy(ledger, movedRecord(await ledger.openStep(mine, 'charge', START)));
}

/** What is noted of an event. */
export function noted(ledger: Ledger<unknown>, { id }: { readonly id: string }, name = 'webhook') {
  return ledger.read(eventRef(name, id).pk);
}

/** Something that a test lets happen when it is time. */
export function gate() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open: () => open(), opened };
}

export const codeOf = ({ body }: Answer) => JSON.parse(body).code as string | undefined;
