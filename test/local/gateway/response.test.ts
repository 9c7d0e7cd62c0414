import { connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import { gateway, ok, returning, send, sendText, signal } from './stage.ts';

async function answerTo(result: unknown) {
  const api = await gateway({ fn: () => result });
  return api.send();
}

async function answerToPayload(payload: string) {
  const api = await gateway({ invoke: async () => ({ kind: 'returned', payload }) });
  return api.send();
}

const BROKEN = '{"message":"Internal Server Error"}';

describe('a result with a status code', () => {
  it('is the response: its status, headers, cookies and body', async () => {
    const answer = await answerTo({
      statusCode: 201,
      headers: { 'Content-Type': 'application/json', Location: '/payments/pay_1', 'X-Tag': 'one, two' },
      cookies: ['session=abc; HttpOnly', 'theme=dark'],
      body: '{"id":"pay_1"}',
      isBase64Encoded: false,
    });
    expect(answer.status).toBe(201);
    expect(answer.body.toString()).toBe('{"id":"pay_1"}');
    const lines = answer.lines.filter(([name]) => !['date', 'connection', 'apigw-requestid'].includes(name));
    expect(lines).toEqual([
      ['content-type', 'application/json'],
      ['location', '/payments/pay_1'],
      ['x-tag', 'one, two'],
      ['set-cookie', 'session=abc; HttpOnly'],
      ['set-cookie', 'theme=dark'],
      ['content-length', '14'],
    ]);
  });

  it('has its bytes decoded, if it says that they are base64', async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const headers = { 'content-type': 'application/pdf' };
    const answer = await answerTo({
      statusCode: 200,
      headers,
      body: bytes.toString('base64'),
      isBase64Encoded: true,
    });
    expect(answer.body).toEqual(bytes);
    expect(answer.header('content-length')).toBe('256');
  });

  it('is text in UTF-8, of which nobody has said a type', async () => {
    const answer = await answerTo({ statusCode: 200, body: 'grüße' });
    expect(answer.header('content-type')).toBe('text/plain; charset=utf-8');
    expect(answer.header('content-length')).toBe('7');
    expect(answer.body.toString()).toBe('grüße');
  });

  it.each([{ statusCode: 200 }, { statusCode: 200, body: null, headers: null, cookies: null }])(
    'has no body, if there is none: %j',
    async (result) => {
      const answer = await answerTo(result);
      expect(answer).toMatchObject({ status: 200, body: Buffer.alloc(0) });
      expect(answer.header('content-length')).toBe('0');
    },
  );

  it('is taken with a status in quotes', async () => {
    expect((await answerTo({ ...ok, statusCode: '202' })).status).toBe(202);
  });

  it('has headers that are numbers or booleans as text, and those that are null not at all', async () => {
    const answer = await answerTo({ ...ok, headers: { 'retry-after': 5, 'x-live': false, 'x-none': null } });
    expect(answer.header('retry-after')).toBe('5');
    expect(answer.header('x-live')).toBe('false');
    expect(answer.header('x-none')).toBeUndefined();
  });

  it('says nothing of the connection, its length, its date or its id: those are the gateway’s', async () => {
    const headers = {
      ...{ Connection: 'close', 'Transfer-Encoding': 'chunked', 'Keep-Alive': 'timeout=1', Upgrade: 'h2c' },
      ...{ 'Content-Length': '99', Date: 'yesterday', 'Apigw-Requestid': 'forged' },
    };
    const api = await gateway({ fn: () => ({ ...ok, headers }) });
    const answer = await api.send();
    const names = answer.lines.map(([name]) => name);
    for (const name of ['transfer-encoding', 'upgrade', 'keep-alive']) expect(names).not.toContain(name);
    expect(answer.header('content-length')).toBe('2');
    expect(answer.header('date')).not.toBe('yesterday');
    expect(answer.lines.filter(([name]) => name === 'apigw-requestid')).toEqual([
      ['apigw-requestid', api.events[0].requestContext.requestId],
    ]);
  });

  it('has one line of a header that is there in two spellings', async () => {
    const answer = await answerTo({
      ...ok,
      headers: { 'Content-Type': 'text/html', 'content-type': 'text/css' },
    });
    expect(answer.lines.filter(([name]) => name === 'content-type')).toEqual([['content-type', 'text/css']]);
  });

  it('has headers in UTF-8', async () => {
    const answer = await answerTo({ ...ok, headers: { 'x-note': 'café' } });
    expect(Buffer.from(answer.header('x-note') ?? '', 'latin1').toString('utf8')).toBe('café');
  });

  it.each([204, 304])('has neither body nor length with %i', async (statusCode) => {
    const answer = await answerTo({ statusCode, body: 'ignored' });
    expect(answer.status).toBe(statusCode);
    expect(answer.body).toEqual(Buffer.alloc(0));
    expect(answer.header('content-length')).toBeUndefined();
  });

  it('has a length and no body for HEAD', async () => {
    const api = await gateway({ routes: ['HEAD /'], fn: () => ok });
    const answer = await api.send({ method: 'HEAD' });
    expect(answer.header('content-length')).toBe('2');
    expect(answer.body).toEqual(Buffer.alloc(0));
  });

  it.each([
    ['statusCode', { statusCode: 'OK' }],
    ['statusCode', { statusCode: null }],
    ['statusCode', { statusCode: 0 }],
    ['statusCode', { statusCode: 100 }],
    ['statusCode', { statusCode: 600 }],
    ['statusCode', { statusCode: 200.5 }],
    ['body', { statusCode: 200, body: { id: 1 } }],
    ['body', { statusCode: 200, body: 7 }],
    ['body', { statusCode: 200, body: 'not base64!', isBase64Encoded: true }],
    ['body', { statusCode: 200, body: 'YQ', isBase64Encoded: true }],
    ['isBase64Encoded', { statusCode: 200, isBase64Encoded: 'true' }],
    ['headers', { statusCode: 200, headers: [] }],
    ['headers', { statusCode: 200, headers: { 'x-a': ['one', 'two'] } }],
    ['headers', { statusCode: 200, headers: { 'x a': 'b' } }],
    ['headers', { statusCode: 200, headers: { 'x-a': 'b\r\nset-cookie: forged=1' } }],
    ['cookies', { statusCode: 200, cookies: 'a=1' }],
    ['cookies', { statusCode: 200, cookies: [1] }],
    ['cookies', { statusCode: 200, cookies: ['a=1\r\nx: y'] }],
  ])('is refused with 500 if its %s is no such thing: %j', async (field, result) => {
    const api = await gateway({
      fn: () => result,
      api: { accessLogFormat: '$context.integrationErrorMessage' },
    });
    const answer = await api.send();
    expect(answer.status).toBe(500);
    expect(answer.body.toString()).toBe(BROKEN);
    expect(api.reports.find(({ kind }) => kind === 'access')?.message).toContain(`for field "${field}"`);
  });
});

describe('a result without a status code', () => {
  it.each([
    ['an object', '{"message": "Hello"}', '{"message": "Hello"}'],
    ['a list', '[1, 2]', '[1, 2]'],
    ['a number', '7', '7'],
    ['null, as a function returns that returns nothing', 'null', 'null'],
    ['a text, without its quotes', '"Hello from Lambda!"', 'Hello from Lambda!'],
    ['no JSON', '{"name": "John", "age":', '{"name": "John", "age":'],
    [
      'headers that are its own',
      '{"headers": {"content-type": "text/html"}}',
      '{"headers": {"content-type": "text/html"}}',
    ],
  ])('is the body of a 200, as JSON: %s', async (_, payload, body) => {
    const answer = await answerToPayload(payload);
    expect(answer.status).toBe(200);
    expect(answer.header('content-type')).toBe('application/json');
    expect(answer.body.toString()).toBe(body);
  });
});

describe('a function that does not answer', () => {
  const error = (errorMessage: string) => JSON.stringify({ errorType: 'Error', errorMessage, trace: [] });

  it.each<[string, Invoked, number, string]>([
    ['throws', { kind: 'failed', error: 'Unhandled', payload: error('card 4242') }, 500, BROKEN],
    ['is out of time', { kind: 'failed', error: 'Timeout', payload: error('Task timed out') }, 500, BROKEN],
    ['dies', { kind: 'failed', error: 'Crash', payload: '' }, 500, BROKEN],
    ['cannot be started', { kind: 'throttled' }, 503, '{"message":"Service Unavailable"}'],
  ])('because it %s tells its client nothing but that', async (_, invoked, status, body) => {
    const api = await gateway({ invoke: async () => invoked });
    const answer = await api.send();
    expect(answer.status).toBe(status);
    expect(answer.body.toString()).toBe(body);
    expect(answer.header('content-type')).toBe('application/json');
  });

  it('within 30 seconds is not waited for any longer, and goes on', async () => {
    const [begun, finish, done] = [signal(), signal(), signal()];
    const api = await gateway({
      fn: async () => {
        begun.give();
        await finish.given;
        done.give();
        return ok;
      },
    });
    const asked = api.send();
    await begun.given;
    expect(api.timers.waiting).toEqual([30_000]);
    api.timers.elapse();
    const answer = await asked;
    expect(answer.status).toBe(503);
    expect(answer.body.toString()).toBe('{"message":"Service Unavailable"}');
    finish.give();
    await done.given;
  });

  it('and fails only after that harms nobody', async () => {
    const failure = Promise.withResolvers<Invoked>();
    const begun = signal();
    const api = await gateway({
      invoke: () => {
        begun.give();
        return failure.promise;
      },
    });
    const asked = api.send();
    await begun.given;
    api.timers.elapse();
    await asked;
    failure.reject(new Error('late'));
    expect((await api.send({ path: '/%' })).status).toBe(400);
  });

  it('leaves no timer behind when it does answer', async () => {
    const api = await gateway();
    await api.send();
    expect(api.timers.waiting).toEqual([]);
  });

  it('because there is none of its name is a failure of the gateway, which tells whoever runs it', async () => {
    const api = await gateway({
      routes: ['GET /secret-key'],
      invoke: async () => {
        throw new Error('There is no function payments.');
      },
    });
    const answer = await api.send({ path: '/secret-key' });
    expect(answer.status).toBe(500);
    expect(answer.body.toString()).toBe(BROKEN);
    expect(api.reports).toMatchObject([{ kind: 'platform', level: 'error', source: 'api' }]);
    expect(api.reports[0]?.message).toContain('There is no function payments.');
  });
});

describe('a client that goes away', () => {
  it('does not stop the function that it has asked', async () => {
    const [begun, gone, done] = [signal(), signal(), signal<unknown>()];
    const api = await gateway({
      invoke: async (name, event) => {
        begun.give();
        await gone.given;
        const invoked = await returning(() => ok)(name, event);
        done.give(invoked.kind);
        return invoked;
      },
      api: { accessLogFormat: '$context.status' },
    });
    const socket = connect(api.port, '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi');
    await begun.given;
    socket.destroy();
    gone.give();
    expect(await done.given).toBe('returned');
    expect(api.events[0]).toMatchObject({ body: Buffer.from('hi').toString('base64') });
    expect((await api.send()).status).toBe(200);
    expect(api.reports.map(({ message }) => message)).toEqual(['200', '200']);
  });

  it('and has not sent its whole request has asked for nothing', async () => {
    const api = await gateway();
    const socket = connect(api.port, '127.0.0.1');
    socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\nhalf');
    socket.end();
    await socket.toArray();
    await api.send();
    expect(api.events.map((event) => event.requestContext.http.method)).toEqual(['GET']);
  });
});

describe('a connection', () => {
  it('is kept for further requests, also after a refusal that left a body unread', async () => {
    const api = await gateway({ routes: ['POST /here'] });
    const request = (path: string, more = '') =>
      `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n${more}\r\nbody`;
    const text = await sendText(api.port, request('/nowhere') + request('/here', 'Connection: close\r\n'));
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 200']);
  });

  it('serves many at once, none waiting for another', async () => {
    const all = signal();
    let arrived = 0;
    const api = await gateway({
      fn: async () => {
        arrived += 1;
        if (arrived === 20) all.give();
        await all.given;
        return ok;
      },
    });
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(api.port, {})));
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
  });
});
