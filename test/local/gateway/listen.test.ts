import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { listen, PortTaken } from '../../../lib/local/gateway/listen.ts';
import { manualTimers, send, sendText, signal } from './stage.ts';

const REQUEST = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

describe('a server of this machine', () => {
  it('is found by nobody else', async () => {
    const server = await listen({ port: 0, listener: (_, response) => response.end('hi') });
    expect(server.url).toBe(`http://127.0.0.1:${server.port}`);
    expect(await (await fetch(server.url)).text()).toBe('hi');
    const elsewhere = connect(server.port, '127.0.0.2');
    const [error] = await once(elsewhere, 'error');
    expect(error).toMatchObject({ code: 'ECONNREFUSED' });
    await server.close();
  });

  it('says in one sentence that its port is taken, and what to do', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    const started = listen({ port, listener: () => {} });
    await expect(started).rejects.toThrow(PortTaken);
    await expect(started).rejects.toMatchObject({
      port,
      message: `Port ${port} is taken by another program. Choose another one, as in PORT=${port === 65_535 ? port - 1 : port + 1} npm start.`,
    });
    other.close();
  });

  it('names a port that there is, where the last one is taken', () => {
    expect(new PortTaken(65_535).message).toContain('PORT=65534 npm start');
  });

  it('passes on what else is wrong', async () => {
    await expect(listen({ port: 70_000, listener: () => {} })).rejects.toThrow(RangeError);
  });

  it('leaves it to the listener what to say of long headers', async () => {
    const server = await listen({ port: 0, listener: (_, response) => response.end('mine') });
    const headers = [['X-Long', 'x'.repeat(40_000)]] as const;
    expect((await send(server.port, { headers })).body.toString()).toBe('mine');
    await server.close();
  });
});

describe('closing a server', () => {
  it('ends connections that are kept for later', async () => {
    const server = await listen({ port: 0, listener: (_, response) => response.end('hi') });
    const socket = connect(server.port, '127.0.0.1');
    socket.write(REQUEST);
    await once(socket, 'data');
    const ended = once(socket, 'close');
    await server.close();
    await ended;
  });

  it('ends connections that nobody has used', async () => {
    const server = await listen({ port: 0, listener: (_, response) => response.end('hi') });
    const socket = connect(server.port, '127.0.0.1');
    await once(socket, 'connect');
    // The server has seen it, too, once it has answered another.
    await send(server.port, {});
    const ended = once(socket, 'close');
    socket.resume();
    await server.close();
    await ended;
  });

  it('waits for the requests in flight, and takes no others', async () => {
    const [begun, finish] = [signal(), signal()];
    const timers = manualTimers();
    const server = await listen({
      port: 0,
      timers,
      async listener(_, response) {
        begun.give();
        await finish.given;
        response.end('done');
      },
    });
    const asked = sendText(server.port, REQUEST);
    await begun.given;
    const closed = server.close();
    await expect(send(server.port, {})).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    finish.give();
    expect(await asked).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*done$/);
    await closed;
    expect(timers.waiting).toEqual([]);
  });

  it('does not wait longer than the grace', async () => {
    const begun = signal();
    const timers = manualTimers();
    const server = await listen({ port: 0, timers, graceMs: 700, listener: () => begun.give() });
    const socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(REQUEST);
    await begun.given;
    const ended = once(socket, 'close');
    const closed = server.close();
    expect(timers.waiting).toEqual([700]);
    timers.elapse();
    await closed;
    await ended;
  });

  it('does not wait for a client that has gone', async () => {
    const [begun, gone] = [signal(), signal()];
    const timers = manualTimers();
    const server = await listen({
      port: 0,
      timers,
      listener(_, response) {
        response.on('close', () => gone.give());
        begun.give();
      },
    });
    const socket = connect(server.port, '127.0.0.1');
    socket.write(REQUEST);
    await begun.given;
    socket.destroy();
    await gone.given;
    await server.close();
    expect(timers.waiting).toEqual([]);
  });

  it('may be asked for twice, and frees the port', async () => {
    const server = await listen({ port: 0, listener: (_, response) => response.end('hi') });
    await Promise.all([server.close(), server.close()]);
    const again = await listen({ port: server.port, listener: (_, response) => response.end('again') });
    expect((await send(again.port, {})).body.toString()).toBe('again');
    await again.close();
  });
});
