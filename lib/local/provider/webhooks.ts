import { createHmac } from 'node:crypto';
import { Agent, type RequestOptions, request } from 'node:http';
import { pauses } from '../pauses.ts';
import type { Reporter } from '../ports.ts';
import type { Timers } from '../timers.ts';
import { requireWebhookSettings, type WebhookSettings } from './webhook-settings.ts';

export interface WebhookSender {
  readonly isOn: boolean;
  readonly beforeAnswer: boolean;
  set(settings: WebhookSettings | undefined): void;
  /** Delivers until it is taken or given up. The promise is kept once the first delivery has ended, however it did. */
  tell(event: ToldEvent): Promise<void>;
  /** Ends all deliveries that are under way. */
  forget(): void;
  close(): void;
}

interface ToldEvent {
  readonly id: string;
  readonly type: string;
  body(): string;
}

export interface WebhookSenderOptions {
  readonly settings: WebhookSettings | undefined;
  readonly clock: () => number;
  readonly random: () => number;
  readonly timers: Timers;
  readonly report: Reporter;
  /** The event was taken, or nobody will be told of it any more. */
  readonly onTold: (event: string) => void;
}

/** An endpoint that takes longer has failed, for all that Stripe knows. */
const ANSWER_TIMEOUT_MS = 20_000;

/** 1 s, doubled up to a minute: a quarter of an hour in all. Stripe goes on for days; nobody waits for that here. */
const TRIES_MAX = 20;
const PAUSE_MIN_MS = 1_000;
const PAUSE_MAX_MS = 60_000;

/** As many at a time. The others wait for their turn, as a burst does at Stripe. */
const DELIVERIES_MAX = 32;

export function webhookSender(options: WebhookSenderOptions): WebhookSender {
  const { clock, random, timers, report, onTold } = options;
  const waits = pauses(timers);
  let agent = newAgent();
  let settings = options.settings && requireWebhookSettings(options.settings);
  let era = new AbortController();

  async function deliver(event: ToldEvent, first: () => void): Promise<void> {
    const { signal } = era;
    for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
      const pauseMs = tries === 1 ? (settings?.delayMs ?? 0) : pauseBefore(tries);
      if (!(await waits.pause(pauseMs, signal)) || !settings) return;
      const answered = await post(settings, event, signal);
      first();
      if (signal.aborted) return;
      if (answered === 'taken') return onTold(event.id);
      tellOfFailure(event, tries, answered);
    }
    onTold(event.id);
  }

  function pauseBefore(tries: number): number {
    return Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** (tries - 2)) * (0.5 + random() / 2);
  }

  async function post({ url, secret }: WebhookSettings, event: ToldEvent, signal: AbortSignal) {
    const body = event.body();
    const late = new AbortController();
    let callOff = () => {};
    // Not while it waits for its turn.
    function begin(): void {
      callOff = timers.after(ANSWER_TIMEOUT_MS, () => late.abort());
    }
    try {
      const headers = {
        'content-type': 'application/json; charset=utf-8',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'Stripe/1.0 (+https://stripe.com/docs/webhooks)',
        'stripe-signature': signature(body, secret, Math.floor(clock() / 1_000)),
      };
      const options = { headers, agent, signal: AbortSignal.any([signal, late.signal]) };
      const status = await send(url, body, options, begin);
      return status >= 200 && status < 300 ? 'taken' : `status ${status}`;
    } catch (error) {
      return late.signal.aborted ? `no answer in ${ANSWER_TIMEOUT_MS} ms` : String(error);
    } finally {
      callOff();
    }
  }

  function tellOfFailure({ id, type }: ToldEvent, tries: number, why: string): void {
    const isLast = tries === TRIES_MAX;
    report({
      ...{ at: clock(), source: 'provider', level: isLast ? 'error' : 'warn', kind: 'platform' },
      message: `The webhook was not told of ${type}: ${why}.${isLast ? ' It never will be.' : ''}`,
      fields: { event: id, tries },
    });
  }

  function forget(): void {
    era.abort();
    agent.destroy();
    agent = newAgent();
    era = new AbortController();
  }

  return {
    get isOn() {
      return settings !== undefined;
    },
    get beforeAnswer() {
      return settings?.beforeAnswer ?? false;
    },
    set(next) {
      settings = next && requireWebhookSettings(next);
    },
    tell(event) {
      const copies = settings && random() < (settings.duplicateProbability ?? 0) ? 2 : 1;
      const firsts = Array.from({ length: copies }, () => {
        const { promise, resolve } = Promise.withResolvers<void>();
        deliver(event, resolve).finally(resolve);
        return promise;
      });
      return Promise.all(firsts).then(() => undefined);
    },
    forget,
    close() {
      waits.close();
      forget();
      agent.destroy();
    },
  };
}

function newAgent(): Agent {
  return new Agent({ keepAlive: true, maxSockets: DELIVERIES_MAX });
}

/** Stripe's scheme. Every delivery is signed anew, with its own time. */
function signature(body: string, secret: string, time: number): string {
  return `t=${time},v1=${createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')}`;
}

/** The status. What else is in the answer Stripe does not read. */
function send(url: string, body: string, options: RequestOptions, begin: () => void): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { ...options, method: 'POST' }, (response) => {
      response.on('error', reject);
      response.on('end', () => resolve(response.statusCode ?? 0));
      response.resume();
    });
    sent.on('socket', begin);
    sent.on('error', reject);
    sent.end(body);
  });
}
