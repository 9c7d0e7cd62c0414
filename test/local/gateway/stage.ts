import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { afterEach } from 'vitest';
import { type HttpApiOptions, httpApi } from '../../../lib/local/gateway/http-api.ts';
import { type Listening, listen } from '../../../lib/local/gateway/listen.ts';
import type { ApiModel } from '../../../lib/local/model.ts';
import type { Functions, Invoked, Report } from '../../../lib/local/ports.ts';
import type { Timers } from '../../../lib/local/timers.ts';

export const NOW = Date.UTC(2030, 0, 15, 12, 30, 5);

/** A request in every detail; names and values go out as they are here. */
export interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string | Uint8Array;
}

export interface Answered {
  readonly status: number;
  /** Every line, names in small letters. */
  readonly lines: readonly (readonly [string, string])[];
  readonly body: Buffer;
  header(name: string): string | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: the tests look into what the gateway made.
export type Event = any;

type Fn = (event: Event, name: string) => unknown;

export interface Gateway {
  readonly url: string;
  readonly port: number;
  readonly events: readonly Event[];
  readonly invoked: readonly string[];
  readonly reports: readonly Report[];
  readonly time: { now: number };
  readonly timers: ManualTimers;
  send(sent?: Sent): Promise<Answered>;
}

export interface ManualTimers extends Timers {
  readonly waiting: readonly number[];
  /** The time that is waited for is over. */
  elapse(): void;
}

export function manualTimers(): ManualTimers {
  const timers = new Map<() => void, number>();
  return {
    after(ms, then) {
      timers.set(then, ms);
      return () => timers.delete(then);
    },
    get waiting() {
      return [...timers.values()];
    },
    elapse() {
      for (const then of timers.keys()) then();
      timers.clear();
    },
  };
}

const open: Listening[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((one) => one.close()));
});

export const ok = { statusCode: 200, headers: { 'content-type': 'text/plain' }, body: 'ok' };

/** Returns what the function returns, as Lambda does: by its JSON. */
export function returning(fn: Fn): (name: string, event: string) => Promise<Invoked> {
  return async (name, event) => {
    const result = await fn(JSON.parse(event), name);
    return { kind: 'returned', payload: JSON.stringify(result) ?? 'null' };
  };
}

interface Setting extends Partial<Omit<HttpApiOptions, 'api' | 'functions'>> {
  readonly api?: Partial<ApiModel>;
  readonly routes?: readonly string[];
  readonly fn?: Fn;
  readonly invoke?: Functions['invoke'];
}

/** A gateway on a port of its own, in front of a function of the test. It is closed when the test is over. */
export async function gateway(setting: Setting = {}): Promise<Gateway> {
  const { api, routes = ['$default'], fn = () => ok, invoke = returning(fn), ...options } = setting;
  const events: Event[] = [];
  const invoked: string[] = [];
  const reports: Report[] = [];
  const time = { now: NOW };
  const timers = manualTimers();
  const functions: Functions = {
    invoke(name, event) {
      invoked.push(name);
      events.push(JSON.parse(event));
      return invoke(name, event);
    },
    invokeLater: () => {
      throw new Error('The API waits for its functions.');
    },
  };
  const listener = httpApi({
    api: {
      name: 'service',
      routes: routes.map((routeKey) => ({ routeKey, functionName: routeKey })),
      ...api,
    },
    functions,
    authorize: async () => {
      throw new Error('No route of this test has an authorizer.');
    },
    report: (report) => reports.push(report),
    clock: () => time.now,
    timers,
    ...options,
  });
  const { port, url } = await listening(listener);
  return { url, port, events, invoked, reports, time, timers, send: (sent = {}) => send(port, sent) };
}

async function listening(listener: Parameters<typeof listen>[0]['listener']): Promise<Listening> {
  const server = await listen({ port: 0, listener });
  open.push(server);
  return server;
}

export async function send(port: number, sent: Sent): Promise<Answered> {
  const { method = 'GET', path = '/', headers = [], body } = sent;
  const named = headers.some(([name]) => name.toLowerCase() === 'host');
  const length = body === undefined ? [] : [['Content-Length', String(Buffer.byteLength(body))] as const];
  const lines = [...(named ? [] : [['Host', 'api.example.test'] as const]), ...length, ...headers];
  const request = httpRequest({ port, host: '127.0.0.1', method, path, headers: lines.flat(), agent: false });
  request.end(body);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  return answered(response);
}

async function answered(response: IncomingMessage): Promise<Answered> {
  const body = Buffer.concat(await response.toArray());
  const { rawHeaders, statusCode = 0 } = response;
  const lines = rawHeaders.flatMap((name, index): [string, string][] =>
    index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1] ?? '']] : [],
  );
  return {
    status: statusCode,
    lines,
    body,
    header: (name) => lines.find(([one]) => one === name)?.[1],
  };
}

/** For what no client would send, or not like this. All that comes back until the connection is closed. */
export async function sendText(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(text);
  const chunks: Buffer[] = await socket.toArray();
  return Buffer.concat(chunks).toString('utf8');
}

/** Somebody else sets when something has happened. */
export function signal<T = void>(): { readonly given: Promise<T>; give(value: T): void } {
  const { promise, resolve } = Promise.withResolvers<T>();
  return { given: promise, give: resolve };
}
