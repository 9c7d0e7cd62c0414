import { describe, expect, it } from 'vitest';
import { readEvent } from '../../../lib/http/request.ts';
import type { AuthorizerModel } from '../../../lib/local/model.ts';
import { gateway, NOW, type Sent, sendText } from './stage.ts';

const tokens: AuthorizerModel = {
  name: 'Tokens',
  issuer: 'https://issuer.example.test',
  audience: ['payments'],
  header: 'Authorization',
  scopes: [],
};

async function eventOf(sent: Sent, setting: Parameters<typeof gateway>[0] = {}) {
  const api = await gateway(setting);
  await api.send(sent);
  return { event: api.events[0], port: api.port };
}

describe('the event of a request', () => {
  it('is payload format 2.0, whole', async () => {
    const claims = { sub: 'acme', exp: '1894710605' };
    const { event, port } = await eventOf(
      {
        method: 'POST',
        path: '/payments/pay_1/refund?expand=charge&expand=customer&note=caf%C3%A9+au+lait',
        headers: [
          ['Content-Type', 'application/json'],
          ['User-Agent', 'acme-checkout/4.2'],
          ['Authorization', 'Bearer abc'],
          ['Cookie', 'session=abc; theme=dark'],
          ['X-Tag', 'one'],
          ['x-tag', 'two'],
        ],
        body: '{"amount":1250}',
      },
      {
        api: {
          routes: [{ routeKey: 'POST /payments/{id}/refund', functionName: 'payments', authorizer: tokens }],
        },
        authorize: async () => ({ kind: 'allowed', claims, scopes: null }),
        random: () => 0.5,
      },
    );
    expect(event).toEqual({
      version: '2.0',
      routeKey: 'POST /payments/{id}/refund',
      rawPath: '/payments/pay_1/refund',
      rawQueryString: 'expand=charge&expand=customer&note=caf%C3%A9+au+lait',
      cookies: ['session=abc', 'theme=dark'],
      headers: {
        host: 'api.example.test',
        'content-length': '15',
        'content-type': 'application/json',
        'user-agent': 'acme-checkout/4.2',
        authorization: 'Bearer abc',
        'x-tag': 'one,two',
        'x-amzn-trace-id': 'Root=1-70eefd4d-808080808080808080808080',
        'x-forwarded-for': '127.0.0.1',
        'x-forwarded-port': String(port),
        'x-forwarded-proto': 'http',
      },
      queryStringParameters: { expand: 'charge,customer', note: 'café au lait' },
      pathParameters: { id: 'pay_1' },
      requestContext: {
        accountId: '000000000000',
        apiId: 'service',
        authorizer: { jwt: { claims, scopes: null } },
        domainName: 'api.example.test',
        domainPrefix: 'api',
        http: {
          method: 'POST',
          path: '/payments/pay_1/refund',
          protocol: 'HTTP/1.1',
          sourceIp: '127.0.0.1',
          userAgent: 'acme-checkout/4.2',
        },
        requestId: 'gICAgICAgICAgIA=',
        routeKey: 'POST /payments/{id}/refund',
        stage: '$default',
        time: '15/Jan/2030:12:30:05 +0000',
        timeEpoch: NOW,
      },
      body: '{"amount":1250}',
      isBase64Encoded: false,
    });
  });

  it('leaves out what the request does not have', async () => {
    const { event } = await eventOf({});
    expect(Object.keys(event).toSorted()).toEqual(
      [
        'version',
        'routeKey',
        'rawPath',
        'rawQueryString',
        'headers',
        'requestContext',
        'isBase64Encoded',
      ].toSorted(),
    );
    expect(event.rawQueryString).toBe('');
    expect(event.requestContext).not.toHaveProperty('authorizer');
    expect(event.requestContext.http.userAgent).toBe('');
  });

  it('is what the product takes for an HTTP API', async () => {
    const { event } = await eventOf({
      method: 'POST',
      path: '/payments?a=1&a=2',
      headers: [['Idempotency-Key', '"k"']],
      body: Uint8Array.of(0, 255),
    });
    const request = readEvent(event);
    expect(request).toMatchObject({ source: 'http-api', method: 'POST', path: '/payments' });
    expect(request.query).toEqual([
      ['a', '1'],
      ['a', '2'],
    ]);
    expect(request.headers.get('idempotency-key')).toEqual(['"k"']);
    expect([...request.body]).toEqual([0, 255]);
  });

  it('has another id for every request, and tells it the client', async () => {
    const api = await gateway();
    const answers = [await api.send(), await api.send()];
    const ids = api.events.map((event) => event.requestContext.requestId);
    expect(new Set(ids).size).toBe(2);
    expect(answers.map((answer) => answer.header('apigw-requestid'))).toEqual(ids);
  });

  it('has no port in its domain name, as there is none at AWS', async () => {
    const { event } = await eventOf({ headers: [['Host', 'localhost:3000']] });
    expect(event.headers.host).toBe('localhost:3000');
    expect(event.requestContext.domainName).toBe('localhost');
  });
});

describe('the headers of an event', () => {
  it('say length 0 where there is no body, and nothing of a type', async () => {
    const { event } = await eventOf({});
    expect(event.headers['content-length']).toBe('0');
    expect(event.headers).not.toHaveProperty('content-type');
  });

  it('name a type where the client says that the body is empty', async () => {
    const { event } = await eventOf({ method: 'POST', body: '' });
    expect(event.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(event).not.toHaveProperty('body');
    const typed = await eventOf({ method: 'POST', body: '', headers: [['Content-Type', 'text/html']] });
    expect(typed.event.headers['content-type']).toBe('text/html');
  });

  it('go on with a trace and with a list of proxies, and do not believe the rest', async () => {
    const { event, port } = await eventOf({
      headers: [
        ['X-Amzn-Trace-Id', 'Root=1-65f1c1a2-3b9f0d2c1a7e4f5b6c8d9e0f;Sampled=1'],
        ['X-Forwarded-For', '203.0.113.7'],
        ['X-Forwarded-Proto', 'https'],
        ['X-Forwarded-Port', '443'],
      ],
    });
    expect(event.headers).toMatchObject({
      'x-amzn-trace-id': 'Root=1-65f1c1a2-3b9f0d2c1a7e4f5b6c8d9e0f;Sampled=1',
      'x-forwarded-for': '203.0.113.7, 127.0.0.1',
      'x-forwarded-proto': 'http',
      'x-forwarded-port': String(port),
    });
    expect(event.requestContext.http.sourceIp).toBe('127.0.0.1');
  });

  it('have no cookies, which have a field of their own', async () => {
    const { event } = await eventOf({
      headers: [
        ['Cookie', 'a=1; b="2;'],
        ['Cookie', ' c=3 ;;'],
      ],
    });
    expect(event.headers).not.toHaveProperty('cookie');
    expect(event.cookies).toEqual(['a=1', 'b="2', 'c=3']);
  });

  it('have nothing that is only between the client and the gateway', async () => {
    const { event } = await eventOf({
      headers: [
        ['Connection', 'keep-alive, X-Hop'],
        ['Keep-Alive', 'timeout=5'],
        ['X-Hop', 'gone'],
        ['TE', 'trailers'],
        ['X-Stays', 'here'],
      ],
    });
    const names = Object.keys(event.headers);
    expect(names).toContain('x-stays');
    for (const name of ['connection', 'keep-alive', 'x-hop', 'te']) expect(names).not.toContain(name);
  });

  it('have every repeated line, also of those that Node keeps one of', async () => {
    const { event } = await eventOf({
      headers: [
        ['User-Agent', 'one'],
        ['User-Agent', 'two'],
        ['Idempotency-Key', '"a"'],
        ['idempotency-key', '"b"'],
      ],
    });
    expect(event.headers['user-agent']).toBe('one,two');
    expect(event.headers['idempotency-key']).toBe('"a","b"');
  });

  it('are text in UTF-8', async () => {
    const value = Buffer.from('café', 'utf8').toString('latin1');
    const { event } = await eventOf({ headers: [['X-Note', value]] });
    expect(event.headers['x-note']).toBe('café');
  });
});

describe('the body of an event', () => {
  const text = '{"grüße":"λ"}';

  it.each([
    'application/json',
    'application/json; charset=utf-8',
    'APPLICATION/JSON',
    'application/xml',
    'application/javascript',
    'text/plain',
    'text/csv; header=present',
  ])('is text for %s', async (type) => {
    const { event } = await eventOf({ method: 'POST', headers: [['Content-Type', type]], body: text });
    expect(event).toMatchObject({ body: text, isBase64Encoded: false });
  });

  it.each([
    'application/octet-stream',
    'application/x-www-form-urlencoded',
    'application/problem+json',
    'application/vnd.api+json',
    'multipart/form-data; boundary=x',
    'image/png',
  ])('is base64 for %s', async (type) => {
    const { event } = await eventOf({ method: 'POST', headers: [['Content-Type', type]], body: text });
    expect(event).toMatchObject({ body: Buffer.from(text).toString('base64'), isBase64Encoded: true });
  });

  it('is base64 where nobody names its type', async () => {
    const { event } = await eventOf({ method: 'POST', body: text });
    expect(event).toMatchObject({ body: Buffer.from(text).toString('base64'), isBase64Encoded: true });
  });

  it('is base64 where it is called text and is none: no byte of it may change', async () => {
    const body = Uint8Array.of(0x7b, 0xff, 0x7d);
    const { event } = await eventOf({
      method: 'POST',
      headers: [['Content-Type', 'application/json']],
      body,
    });
    expect(event).toMatchObject({ body: 'e/99', isBase64Encoded: true });
  });

  it('is whole when it came in chunks, and has its length', async () => {
    const api = await gateway();
    await sendText(
      api.port,
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n',
    );
    expect(api.events[0]).toMatchObject({ body: 'abcde', headers: { 'content-length': '5' } });
    expect(api.events[0].headers).not.toHaveProperty('transfer-encoding');
  });
});

describe('the query of an event', () => {
  it.each([
    ['a=1&a=2&b=3', { a: '1,2', b: '3' }],
    ['empty=&none', { empty: '', none: '' }],
    ['literal=a+b&encoded=a%2Bb', { literal: 'a b', encoded: 'a+b' }],
    ['redirect=https%3A%2F%2Fexample.com%2Fa', { redirect: 'https://example.com/a' }],
    ['filter%5Bname%5D=caf%C3%A9', { 'filter[name]': 'café' }],
    ['a=b=c', { a: 'b=c' }],
    ['=nameless', { '': 'nameless' }],
    ['bad=50%', { bad: '50%' }],
    ['a=?&b=/', { a: '?', b: '/' }],
    ['__proto__=x', JSON.parse('{"__proto__":"x"}')],
    ['&&', undefined],
  ])('%s is read name by name, and kept as it was sent', async (query, parameters) => {
    const { event } = await eventOf({ path: `/?${query}` });
    expect(event.rawQueryString).toBe(query);
    expect(event.queryStringParameters).toEqual(parameters);
  });

  it.each([
    ['http://elsewhere.test:80/payments/1?x=1', '/payments/1'],
    ['HTTPS://elsewhere.test?x=1', '/'],
  ])('is found behind a target with an authority, as a proxy sends it: %s', async (target, rawPath) => {
    const api = await gateway();
    await sendText(api.port, `GET ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    expect(api.events[0]).toMatchObject({ rawPath, rawQueryString: 'x=1' });
  });
});
