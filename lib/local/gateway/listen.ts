import { createServer, type RequestListener } from 'node:http';
import { listening } from '../loopback.ts';
import { realTimers, type Timers } from '../timers.ts';

export interface ListenOptions {
  /** 0 is any that is free. */
  readonly port: number;
  readonly listener: RequestListener;
  /** How long `close` waits for requests in flight. */
  readonly graceMs?: number;
  readonly timers?: Timers;
}

export interface Listening {
  readonly port: number;
  readonly url: string;
  close(): Promise<void>;
}

export class PortTaken extends Error {
  override readonly name = 'PortTaken';
  readonly port: number;

  constructor(port: number) {
    super(
      `Port ${port} is taken by another program. Choose another one, as in PORT=${port < 65_535 ? port + 1 : port - 1} npm start.`,
    );
    this.port = port;
  }
}

/** As long as it takes to answer what is nearly done; what takes longer is settled by the next start. */
const GRACE_MS = 5_000;

/** More than any gateway takes: it is the listener that says so, and not Node. */
const HEADERS_MAX_BYTES = 64 * 1_024;

/** A server that can be ended: no request is cut off within the grace, and no socket is left after it. */
export async function listen(options: ListenOptions): Promise<Listening> {
  const { port, listener, graceMs = GRACE_MS, timers = realTimers } = options;
  const inFlight = new Set<object>();
  let whenIdle = () => {};
  const server = createServer({ maxHeaderSize: HEADERS_MAX_BYTES }, (request, response) => {
    inFlight.add(response);
    response.on('close', () => {
      inFlight.delete(response);
      if (inFlight.size === 0) whenIdle();
    });
    listener(request, response);
  });
  const address = await listening(server, port).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'EADDRINUSE' ? new PortTaken(port) : error;
  });
  let closing: Promise<void> | undefined;
  return { ...address, close: () => (closing ??= close()) };

  async function close(): Promise<void> {
    // Takes no more, and ends the connections on which nothing is asked.
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    if (inFlight.size > 0) await idle();
    server.closeAllConnections();
    await closed;
  }

  function idle(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = timers.after(graceMs, resolve);
      whenIdle = () => {
        cancel();
        resolve();
      };
    });
  }
}
