import { once } from 'node:events';
import { Agent, createServer as createHttpServer, type RequestListener, request } from 'node:http';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { StoreNotStarted } from '../../../lib/local/store/errors.ts';
import { freePort } from '../../../lib/local/store/port.ts';
import { storeProxy } from '../../../lib/local/store/store-proxy.ts';
import { realTimers } from '../../../lib/local/timers.ts';
import { until } from './processes.ts';
import { useProxies } from './proxied.ts';

const { proxyTo, ends } = useProxies();

const GET = { 'x-amz-target': 'DynamoDB_20120810.GetItem' };

/** A target that sends the bytes it is told to, and keeps those that it gets. */
async function rawTarget() {
  let [answer, got]: [Buffer, Buffer] = [Buffer.alloc(0), Buffer.alloc(0)];
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      got = Buffer.concat([got, data]);
      if (got.includes('END')) socket.write(answer);
    });
  });
  const url = await listen(server);
  return {
    url,
    /** What to answer the next request, which says END in its body. */
    willAnswer(bytes: Buffer) {
      got = Buffer.alloc(0);
      answer = bytes;
    },
    got: () => got,
  };
}

async function httpTarget(listener: RequestListener, port = 0) {
  let connections = 0;
  const server = createHttpServer({ keepAliveTimeout: 0 }, listener);
  server.on('connection', () => {
    connections += 1;
  });
  const url = await listen(server, port);
  return { url, connections: () => connections, server };
}

async function listen(server: ReturnType<typeof createServer>, port = 0): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => sockets.add(socket));
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Answers with the body it got. */
const echo: RequestListener = (incoming, response) => incoming.pipe(response);

interface Asked {
  readonly agent?: Agent;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Resolves with the answer's text, rejects with the socket's error. */
function ask(url: string, { agent, body = '{}', headers = GET }: Asked = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: 'POST', headers, ...(agent && { agent }) }, async (incoming) => {
      const parts: Buffer[] = [];
      incoming.on('data', (part) => parts.push(part));
      incoming.on('end', () => resolve(Buffer.concat(parts).toString()));
      incoming.on('error', reject);
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

/** All bytes that come back, up to the end of the connection. */
async function exchange(url: string, bytes: Buffer): Promise<Buffer> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const parts: Buffer[] = [];
  socket.on('data', (part) => parts.push(part));
  socket.write(bytes);
  await once(socket, 'close');
  return Buffer.concat(parts);
}

const withoutConnection = (bytes: Buffer) => bytes.toString('latin1').replace(/connection: [^\r]*\r\n/gi, '');

describe('what has no fault', () => {
  const token = fc.stringMatching(/^[A-Za-z][A-Za-z0-9-]{0,20}$/).map((name) => `X-${name}`);
  const text = fc.stringMatching(/^[!-~]([ -~]{0,30}[!-~])?$/);
  const headers = fc.array(fc.tuple(token, text), { maxLength: 6 });
  const bytes = fc.uint8Array({ maxLength: 3_000 }).map((some) => Buffer.from(some));
  const head = (first: string, fields: readonly (readonly [string, string])[], length: number) =>
    Buffer.from(
      [first, ...fields.map((field) => field.join(': ')), `coNtent-LENGTH: ${length}`, '', ''].join('\r\n'),
    );

  it('goes through to the byte, both ways: spelling, order and repetition of headers, and any body', async () => {
    const target = await rawTarget();
    const { url } = await proxyTo(target.url);
    await fc.assert(
      fc.asyncProperty(headers, bytes, headers, bytes, async (asking, body, answering, answerBody) => {
        const question = Buffer.concat([body, Buffer.from('END')]);
        const fields = [
          ['Host', 'dynamodb.local'],
          ...asking,
          ['X-AMZ-target', GET['x-amz-target']],
        ] as const;
        const sent = Buffer.concat([
          head(
            'POST /?some=%20query HTTP/1.1',
            [...fields, ['Connection', 'close']] as never,
            question.length,
          ),
          question,
        ]);
        const answer = Buffer.concat([
          head('HTTP/1.1 418 A Teapot, really', answering, answerBody.length),
          answerBody,
        ]);
        target.willAnswer(answer);
        const answered = await exchange(url, sent);
        expect(answered.toString('latin1')).toBe(answer.toString('latin1'));
        expect(withoutConnection(target.got())).toBe(withoutConnection(sent));
      }),
      { numRuns: 50 },
    );
  });

  it('goes through in chunks, if that is how it was sent', async () => {
    const target = await httpTarget((incoming, response) => {
      incoming.on('data', (part) => response.write(part));
      incoming.on('end', () => response.end(incoming.headers['transfer-encoding']));
    });
    const { url } = await proxyTo(target.url);
    const headers = { ...GET, 'transfer-encoding': 'chunked' };
    expect(await ask(url, { headers, body: 'one, ' })).toBe('one, chunked');
  });

  it('shares connections, on both sides', async () => {
    const target = await httpTarget(echo);
    const { url } = await proxyTo(target.url);
    const agent = new Agent({ keepAlive: true });
    ends.push(() => agent.destroy());
    const sockets = new Set<unknown>();
    agent.on('free', (socket) => sockets.add(socket));
    for (let asked = 0; asked < 50; asked += 1)
      expect(await ask(url, { agent, body: `${asked}` })).toBe(`${asked}`);
    expect([target.connections(), sockets.size]).toEqual([1, 1]);
  });

  it('is answered with its own answer, however many are asked at the same time', async () => {
    const target = await httpTarget((incoming, response) => {
      // In another order than they came.
      setImmediate(() => echo(incoming, response as never));
    });
    const { url, seen } = await proxyTo(target.url);
    const agent = new Agent({ keepAlive: true, maxSockets: 40 });
    ends.push(() => agent.destroy());
    const bodies = Array.from({ length: 1_000 }, (_, index) => `${index}-${'x'.repeat(index)}`);
    expect(await Promise.all(bodies.map((body) => ask(url, { agent, body })))).toEqual(bodies);
    expect(seen()).toEqual({
      requests: 1_000,
      faulted: {},
      operations: { GetItem: { requests: 1_000, faulted: {} } },
    });
  });

  it('is carried out also if its client does not wait for the answer', async () => {
    const arrived = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<boolean>();
    const target = await httpTarget(async (_, response) => {
      response.once('close', () => answered.resolve(response.writableFinished));
      arrived.resolve();
      await left.promise;
      response.end('too late');
    });
    const { url } = await proxyTo(target.url);
    const socket = connect(Number(new URL(url).port), '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nwrite');
    await arrived.promise;
    socket.destroy();
    await once(socket, 'close');
    left.resolve();
    expect(await answered.promise).toBe(true);
    expect(await ask(url)).toBe('too late');
  });
});

describe('a target', () => {
  it('that is not there resets connections, is told of once, and is back as soon as it listens', async () => {
    const port = (await freePort(0)) ?? 0;
    const { url, reports } = await proxyTo(`http://127.0.0.1:${port}`);
    for (let asked = 0; asked < 3; asked += 1) {
      await expect(ask(url)).rejects.toMatchObject({ code: 'ECONNRESET' });
    }
    expect(reports.map(({ level, message }) => `${level}: ${message}`)).toEqual([
      expect.stringMatching(
        /^warn: DynamoDB does not answer \(.*ECONNREFUSED.*\); connections to it are reset\.$/,
      ),
    ]);
    await httpTarget(echo, port);
    expect(await ask(url, { body: 'back' })).toBe('back');
    expect(reports.at(-1)).toMatchObject({
      level: 'info',
      message: 'DynamoDB answers again.',
      source: 'store',
    });
  });

  it('that is started again is found by clients that stayed connected', async () => {
    const first = await httpTarget(echo);
    const { url } = await proxyTo(first.url);
    const agent = new Agent({ keepAlive: true });
    ends.push(() => agent.destroy());
    expect(await ask(url, { agent, body: 'before' })).toBe('before');
    first.server.closeAllConnections();
    first.server.close();
    await once(first.server, 'close');
    await expect(ask(url, { agent })).rejects.toMatchObject({ code: 'ECONNRESET' });
    await httpTarget(echo, Number(new URL(first.url).port));
    expect(await ask(url, { agent, body: 'after' })).toBe('after');
  });

  it('that ends in the middle of its answer has given none', async () => {
    const target = await httpTarget((_, response) => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('{"Item":');
      setImmediate(() => response.destroy());
    });
    const { url } = await proxyTo(target.url);
    await expect(ask(url)).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  it.each(['https://dynamodb.eu-central-1.amazonaws.com', 'localhost:8000', ''])(
    'at %j is none',
    async (target) => {
      const refused = proxyTo(target);
      await expect(refused).rejects.toBeInstanceOf(StoreNotStarted);
      await expect(refused).rejects.toThrow(
        `DynamoDB is to be found at ${target}; expected an address such as`,
      );
    },
  );
});

describe('the proxy', () => {
  it('says which port it could not have', async () => {
    const { url } = await proxyTo('http://127.0.0.1:1');
    const port = Number(new URL(url).port);
    const options = { clock: Date.now, random: Math.random, timers: realTimers, report: () => {} };
    const second = storeProxy({ target: 'http://127.0.0.1:1', port, ...options });
    await expect(second).rejects.toBeInstanceOf(StoreNotStarted);
    await expect(second).rejects.toThrow(`cannot listen on port ${port} (`);
  });

  it('leaves nothing behind when it is closed, whatever it held', async () => {
    const target = await httpTarget(() => {});
    const { url, faults, timers, close } = await proxyTo(target.url);
    const unanswered = ask(url, { headers: {} });
    faults.set({ mode: 'drop-request' });
    const lost = ask(url);
    faults.set({ mode: 'delay' });
    const late = ask(url);
    await until(() => timers.waiting.length === 2 && target.connections() === 1);
    const all = Promise.allSettled([unanswered, lost, late]);
    await Promise.all([close(), close()]);
    expect((await all).map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(timers.waiting).toEqual([]);
    expect(await freePort(Number(new URL(url).port))).toBe(Number(new URL(url).port));
  });
});
