import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** What goes wrong with the next charge. */
export type Mishap =
  /** It is charged, and the connection breaks before the answer. */
  | 'lost-after-charge'
  /** It is charged, and nothing ever answers. */
  | 'silent-after-charge'
  /** The connection breaks before anything is charged. */
  | 'lost-before-charge'
  /** It is charged, and then Stripe fails, and remembers that it did. */
  | 'error-after-charge'
  /** It is not decided yet. */
  | 'processing'
  | 'rate-limited'
  | 'lock-timeout'
  | 'key-in-use'
  | 'unauthorized'
  | 'forbidden';

interface Intent {
  readonly id: string;
  readonly object: 'payment_intent';
  readonly amount: number;
  readonly currency: string;
  readonly description: string | null;
  readonly created: number;
  readonly metadata: Readonly<Record<string, string>>;
  status: string;
  last_payment_error: object | null;
}

interface Answer {
  readonly status: number;
  readonly body: object;
  readonly replayed?: boolean;
}

/** As much of Stripe as the service uses, over HTTP and in its wire format, so that its own client is what is tested. */
export interface StripeServer {
  readonly url: string;
  /** Those that were charged. */
  readonly charged: () => readonly Intent[];
  readonly intents: Intent[];
  readonly requests: { readonly method: string; readonly path: string; readonly key: string | undefined }[];
  readonly mishaps: Mishap[];
  /** As long as it lags, search finds nothing. */
  searchLags: boolean;
  /** Nothing can be read, only charged. */
  readsFail: boolean;
  /** Another's charges: so many more in every list. */
  others: number;
  /** As Stripe does after a day. */
  forgetKeys(): void;
  close(): Promise<void>;
}

export const DECLINED = 'pm_card_chargeDeclined';

export async function stripeServer(clock: () => number): Promise<StripeServer> {
  const remembered = new Map<string, Answer & { readonly form: string }>();
  const server = createServer((request, response) => {
    void answer(request, response).catch((error: unknown) => {
      response.statusCode = 500;
      response.end(String(error));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const stripe: StripeServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    intents: [],
    charged: () => stripe.intents.filter(({ status }) => status === 'succeeded'),
    requests: [],
    mishaps: [],
    searchLags: false,
    readsFail: false,
    others: 0,
    forgetKeys: () => remembered.clear(),
    async close() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return stripe;

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const form = await text(request);
    const { pathname, searchParams } = new URL(request.url ?? '', stripe.url);
    const key = request.headers['idempotency-key'] as string | undefined;
    stripe.requests.push({ method: request.method ?? '', path: pathname, key });
    if (request.method === 'POST') charge(request, response, key ?? randomUUID(), form);
    else if (stripe.readsFail) send(response, failure(429, 'invalid_request_error', 'rate_limit'));
    else {
      const missing = failure(404, 'invalid_request_error', 'resource_missing');
      send(response, read(pathname, searchParams) ?? missing);
    }
  }

  function charge(request: IncomingMessage, response: ServerResponse, key: string, form: string): void {
    const mishap = stripe.mishaps.shift();
    if (mishap === 'lost-before-charge') request.socket.destroy();
    else {
      const answered = answerTo(mishap, key, form);
      if (mishap === 'lost-after-charge') request.socket.destroy();
      else if (mishap !== 'silent-after-charge') send(response, answered);
    }
  }

  function answerTo(mishap: Mishap | undefined, key: string, form: string): Answer {
    const turnedAway = mishap && TURNED_AWAY[mishap];
    if (turnedAway) return turnedAway;
    const known = remembered.get(key);
    if (known) return known.form === form ? { ...known, replayed: true } : failure(400, 'idempotency_error');
    const made = intentOf(new URLSearchParams(form), mishap === 'processing');
    const answered = mishap === 'error-after-charge' ? failure(500, 'api_error') : made;
    remembered.set(key, { ...answered, form });
    return answered;
  }

  function intentOf(form: URLSearchParams, processing: boolean): Answer {
    if (form.get('currency') === 'kpw') return failure(400, 'invalid_request_error', 'currency_unknown');
    const declined = form.get('payment_method') === DECLINED;
    const failed = { code: 'card_declined', decline_code: 'insufficient_funds', type: 'card_error' };
    const metadata = [...form].flatMap(([name, value]) => {
      const member = /^metadata\[(\w+)\]$/.exec(name)?.[1];
      return member === undefined ? [] : [[member, value] as const];
    });
    const intent: Intent = {
      id: `pi_${stripe.intents.length + 1}`,
      object: 'payment_intent',
      amount: Number(form.get('amount')),
      currency: form.get('currency') ?? '',
      description: form.get('description'),
      created: Math.floor(clock() / 1_000),
      metadata: Object.fromEntries(metadata),
      status: declined ? 'requires_payment_method' : processing ? 'processing' : 'succeeded',
      last_payment_error: declined ? failed : null,
    };
    stripe.intents.push(intent);
    if (!declined) return { status: 200, body: intent };
    return { status: 402, body: { error: { ...failed, message: 'declined', payment_intent: intent } } };
  }

  function read(path: string, query: URLSearchParams): Answer | undefined {
    if (path === '/v1/payment_intents/search') return found(query.get('query') ?? '');
    if (path === '/v1/payment_intents') return listed(query);
    const intent = stripe.intents.find(({ id }) => path === `/v1/payment_intents/${id}`);
    return intent && { status: 200, body: intent };
  }

  function found(query: string): Answer {
    const wanted = [...query.matchAll(/metadata\['(\w+)'\]:'([^']*)'/g)];
    const data = stripe.intents.filter(({ metadata }) =>
      wanted.every(([, name = '', value]) => metadata[name] === value),
    );
    return {
      status: 200,
      body: { object: 'search_result', data: stripe.searchLags ? [] : data, has_more: false },
    };
  }

  /** Newest first, as Stripe lists; the others' are the newest. */
  function listed(query: URLSearchParams): Answer {
    const [gte, lte] = [Number(query.get('created[gte]')), Number(query.get('created[lte]'))];
    const others = Array.from({ length: stripe.others }, (_, index) => otherIntent(index));
    const all = [...others, ...stripe.intents.toReversed()];
    const inside = all.filter(({ created }) => created >= gte && created <= lte);
    const after = query.get('starting_after');
    const from = after === null ? 0 : inside.findIndex(({ id }) => id === after) + 1;
    const limit = Number(query.get('limit'));
    const data = inside.slice(from, from + limit);
    return { status: 200, body: { object: 'list', data, has_more: from + limit < inside.length } };
  }

  function otherIntent(index: number): Intent {
    const created = Math.floor(clock() / 1_000);
    const rest = { description: null, metadata: {}, status: 'succeeded', last_payment_error: null };
    return {
      id: `pi_other_${index}`,
      object: 'payment_intent',
      amount: 1,
      currency: 'eur',
      created,
      ...rest,
    };
  }
}

const TURNED_AWAY: Partial<Record<Mishap, Answer>> = {
  'rate-limited': failure(429, 'invalid_request_error', 'rate_limit'),
  'lock-timeout': failure(429, 'invalid_request_error', 'lock_timeout'),
  'key-in-use': failure(409, 'idempotency_error', 'idempotency_key_in_use'),
  unauthorized: failure(401, 'invalid_request_error'),
  forbidden: failure(403, 'invalid_request_error'),
};

function failure(status: number, type: string, code?: string): Answer {
  return { status, body: { error: { type, code, message: `it answers ${status}` } } };
}

function send(response: ServerResponse, { status, body, replayed = false }: Answer): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    ...(replayed && { 'idempotent-replayed': 'true' }),
  });
  response.end(JSON.stringify(body));
}
