import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type Faults, parseFaults } from '../faults.ts';
import { closed, listening } from '../loopback.ts';
import { goneFrom, pauses } from '../pauses.ts';
import type { Report, Reporter } from '../ports.ts';
import type { Timers } from '../timers.ts';
import { StoreNotStarted } from './errors.ts';
import { type Answer, bodyOf, openTarget } from './forward.ts';
import { dataOperation } from './operations.ts';
import { type Seen, tally } from './seen.ts';
import { drawn, type Met, STORE_FAULTS, type StoreFault } from './store-faults.ts';

export interface StoreProxyOptions {
  /** Where DynamoDB listens; it may come and go. */
  readonly target: string;
  /** Any free one, if none is given. */
  readonly port?: number;
  readonly clock: () => number;
  readonly random: () => number;
  readonly timers: Timers;
  readonly report: Reporter;
}

export interface StoreProxy {
  /** For AWS_ENDPOINT_URL_DYNAMODB. */
  readonly url: string;
  readonly faults: {
    get(): Faults<StoreFault>;
    /** For requests that come from now on. Throws `InvalidFault` for what is none, and leaves all as it was. */
    set(value: unknown): void;
  };
  seen(): Seen;
  close(): Promise<void>;
}

/** One request and whoever waits for its answer. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly body: Buffer;
  readonly response: ServerResponse;
}

/**
 * The network between functions and DynamoDB. What has no fault goes through to the byte. While DynamoDB is not there, a
 * client's connection is reset, as it would be between the two: there is no 503 of DynamoDB's that nobody has sent.
 */
export async function storeProxy(options: StoreProxyOptions): Promise<StoreProxy> {
  const { clock, random, timers, report } = options;
  const target = openTarget(targetUrl(options.target));
  const { count, seen } = tally();
  const waits = pauses(timers);
  let faults: Faults<StoreFault> = { mode: 'none', probability: 1 };
  let reachable = true;
  let closing: Promise<void> | undefined;

  const tell = (level: Report['level'], message: string, fields?: Report['fields']) =>
    report({ at: clock(), source: 'store', level, kind: 'platform', message, ...(fields && { fields }) });

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const exchange = { request, response, body: await bodyOf(request) };
    const operation = dataOperation(request.headers['x-amz-target']?.toString());
    if (!operation) return pass(exchange);
    const met = drawn(faults, random, operation, exchange.body);
    count(operation, met?.mode);
    if (!met) return pass(exchange);
    tell('debug', `${operation} meets ${met.mode}.`, { operation, mode: met.mode });
    return meet(met, exchange);
  }

  async function meet({ mode, latencyMs, answer }: Met, exchange: Exchange): Promise<void> {
    if (mode === 'drop-response') await forward(exchange);
    // Nobody is left to be answered, or the network itself has gone.
    if (!(await waits.pause(latencyMs, mode === 'delay' ? undefined : goneFrom(exchange.response)))) return;
    if (mode === 'delay') return pass(exchange);
    if (answer) reply(exchange.response, answer);
    else reset(exchange);
  }

  async function pass(exchange: Exchange): Promise<void> {
    reply(exchange.response, await forward(exchange));
  }

  async function forward({ request, body }: Exchange): Promise<Answer> {
    try {
      if (closing) throw new Error('the proxy was closed');
      const forwarded = await target.forward(request, body);
      if (!reachable) tell('info', 'DynamoDB answers again.');
      reachable = true;
      return forwarded;
    } catch (error) {
      if (reachable && !closing)
        tell('warn', `DynamoDB does not answer (${error}); connections to it are reset.`);
      reachable = false;
      throw error;
    }
  }

  const server = createServer({ keepAliveTimeout: 0 }, (request, response) => {
    // Whoever left in the middle of a request is not missed; whoever waits is not told what nobody said.
    serve(request, response).catch(() => reset({ request }));
  });
  const { url } = await listening(server, options.port ?? 0).catch((cause: unknown) => {
    throw new StoreNotStarted(
      `The proxy of the store cannot listen on port ${options.port} (${(cause as Error).message}): end the process that has it, or give another port.`,
      cause,
    );
  });

  return {
    url,
    faults: {
      get: () => faults,
      set(value) {
        faults = parseFaults(STORE_FAULTS, value);
        tell('info', `Faults of the store: ${JSON.stringify(faults)}.`, { ...faults });
      },
    },
    seen,
    async close() {
      if (!closing) {
        closing = closed(server);
        waits.close();
        target.close();
      }
      await closing;
    },
  };
}

function targetUrl(text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol === 'http:') return url;
  throw new StoreNotStarted(
    `DynamoDB is to be found at ${text}; expected an address such as http://127.0.0.1:8000, on this machine and without TLS.`,
  );
}

/** Nobody waits for it where the client has given up. */
function reply(response: ServerResponse, { status, message, headers, body }: Answer): void {
  if (response.destroyed) return;
  // All that is sent is what DynamoDB sent: Node would add these two.
  response.sendDate = false;
  response.removeHeader('connection');
  response.writeHead(status, message, headers).end(body);
}

/** Without a goodbye: a connection that is closed in order says that there is no answer, and this is about not knowing. */
function reset({ request }: Pick<Exchange, 'request'>): void {
  request.socket.resetAndDestroy();
}
