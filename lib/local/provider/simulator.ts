import { InvalidArgument } from '../../core/errors.ts';
import { pauses } from '../pauses.ts';
import type { Reporter } from '../ports.ts';
import type { Timers } from '../timers.ts';
import { brokenDown, type Reply, refuse, stripeApi } from './api.ts';
import { type Books, emptyBooks } from './books.ts';
import { readEntry, writeEntry } from './entries.ts';
import { type FaultSwitch, faultSwitch } from './fault-modes.ts';
import { randomLetters } from './ids.ts';
import { fileJournal, memoryJournal } from './journal.ts';
import { type MadeCharge, madeCharges } from './made-charges.ts';
import type { ProviderEvent } from './records.ts';
import { apiServer } from './server.ts';
import type { WebhookSettings } from './webhook-settings.ts';
import { webhookSender } from './webhooks.ts';
import { wireEvent, wireIntent } from './wire.ts';

export interface StripeSimulatorOptions {
  /** Any that is free, if none is given. */
  readonly port?: number;
  /** The secret key that requests must carry. */
  readonly apiKey: string;
  readonly clock: () => number;
  readonly random: () => number;
  readonly timers: Timers;
  /** Where the journal of all charges is; without one, they are forgotten at the end. */
  readonly folder?: string;
  readonly webhooks?: WebhookSettings;
  readonly report: Reporter;
}

export interface StripeSimulator {
  readonly url: string;
  /**
   * Every charge that really happened, oldest first: money moved. The newest may be on their way to disk, and nobody has been
   * answered about those. Throws once it cannot be told for sure.
   */
  charges(): readonly MadeCharge[];
  /** As the API answers them, oldest first. */
  intents(): readonly ReturnType<typeof wireIntent>[];
  readonly faults: Pick<FaultSwitch, 'set' | 'current'>;
  /** Search sees what is at least so old. */
  setSearchLagMs(ms: number): void;
  /** Undefined: nobody is told of anything. What nobody has been told of yet goes to the new address. */
  setWebhooks(settings: WebhookSettings | undefined): void;
  /** Forgets everything, on disk as well. What is under way is forgotten with it. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

/** A payment provider on this machine that speaks as Stripe does, and can be told to fail as Stripe does. */
export async function stripeSimulator(options: StripeSimulatorOptions): Promise<StripeSimulator> {
  const { apiKey, clock, random, timers, folder, report } = options;
  if (apiKey === '') throw new InvalidArgument('apiKey is empty; give the one that clients send.');
  const faults = faultSwitch(random);
  const waits = pauses(timers);
  const state: { books: Books; searchLagMs: number; broken: unknown } = {
    books: emptyBooks(),
    searchLagMs: 0,
    broken: undefined,
  };
  const webhooks = webhookSender({ clock, random, timers, report, settings: options.webhooks, onTold });
  const journal =
    folder === undefined
      ? memoryJournal()
      : await fileJournal(folder, (line) => state.books.enter(readEntry(line)));

  function onTold(event: string): void {
    if (!state.books.isUntold(event)) return;
    const entry = { n: state.books.next(), told: event };
    state.books.enter(entry);
    journal.append(writeEntry(entry)).catch(breakDown);
  }

  function tell(event: ProviderEvent): void {
    const { books } = state;
    void webhooks.tell({ ...event, body: () => JSON.stringify(wireEvent(event, books)) });
  }

  function breakDown(error: unknown): void {
    if (state.broken !== undefined) return;
    state.broken = error;
    const message = `The payment provider answers nobody any more: ${String(error)}`;
    report({ at: clock(), source: 'provider', level: 'error', kind: 'platform', message });
  }

  const api = stripeApi({
    ...{ apiKey, clock, random, journal, faults, webhooks, waits },
    books: () => state.books,
    searchLagMs: () => state.searchLagMs,
    broken: breakDown,
  });

  function failed(error: unknown): Reply {
    const message = `The payment provider failed on a request: ${String(error)}`;
    if (error !== state.broken) {
      report({ at: clock(), source: 'provider', level: 'error', kind: 'platform', message });
    }
    return refuse(brokenDown(), state.books);
  }

  const server = await apiServer({
    port: options.port ?? 0,
    waits,
    newRequestId: () => `req_${randomLetters(random, 14)}`,
    answer: async (request) => {
      // Nobody is told of what may not be so.
      if (state.broken !== undefined) throw state.broken;
      return api(request);
    },
    refuse: (refusal) => refuse(refusal, state.books),
    failed,
    log({ id, method, path, idempotencyKey }, status, isReplay) {
      report({
        ...{ at: clock(), source: 'provider', level: 'info', kind: 'access' },
        message: `${method} ${path} ${status ?? 'is never answered'}`,
        fields: { request: id, ...(status !== undefined && { status }), isReplay, idempotencyKey },
      });
    },
  }).catch(async (error: unknown) => {
    await journal.close();
    throw error;
  });
  for (const event of state.books.untold()) tell(event);

  return {
    url: server.url,
    charges() {
      if (state.broken === undefined) return madeCharges(state.books);
      throw new TypeError('What was charged cannot be told any more.', { cause: state.broken });
    },
    intents: () => state.books.intents.oldestFirst().map(wireIntent),
    faults,
    setSearchLagMs(ms) {
      if (!(ms >= 0)) throw new InvalidArgument(`The lag of search is ${ms}; expected milliseconds from 0.`);
      state.searchLagMs = ms;
    },
    setWebhooks(settings) {
      webhooks.set(settings);
      webhooks.forget();
      if (settings) for (const event of state.books.untold()) tell(event);
    },
    async reset() {
      webhooks.forget();
      state.books = emptyBooks();
      await journal.erase();
    },
    async close() {
      waits.close();
      webhooks.close();
      await server.close();
      await journal.close();
    },
  };
}
