import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../../lib/core/errors.ts';
import { routeTable } from '../../../lib/local/gateway/routes.ts';
import { gateway } from './stage.ts';

/** The worked example of API Gateway's documentation. */
const DOCUMENTED = [
  'GET /pets/dog/1',
  'GET /pets/dog/{id}',
  'GET /pets/{proxy+}',
  'ANY /{proxy+}',
  '$default',
];

async function taken(routes: readonly string[], method: string, path: string) {
  const api = await gateway({ routes });
  const { status } = await api.send({ method, path });
  const event = api.events[0];
  return event ? { route: event.routeKey, parameters: event.pathParameters } : status;
}

describe('the route that takes a request', () => {
  it.each([
    ['GET', '/pets/dog/1', 'GET /pets/dog/1', undefined],
    ['GET', '/pets/dog/2', 'GET /pets/dog/{id}', { id: '2' }],
    ['GET', '/pets/cat/1', 'GET /pets/{proxy+}', { proxy: 'cat/1' }],
    ['POST', '/test/5', 'ANY /{proxy+}', { proxy: 'test/5' }],
    ['GET', '/', '$default', undefined],
  ])('is for %s %s the documented one, %s', async (method, path, route, parameters) => {
    expect(await taken(DOCUMENTED, method, path)).toEqual({ route, parameters });
    expect(await taken(DOCUMENTED.toReversed(), method, path)).toEqual({ route, parameters });
  });

  it.each([
    ['a whole match before a greedy one', ['GET /a/{rest+}', 'GET /a/{id}'], '/a/1', 'GET /a/{id}'],
    ['a whole match by ANY before a greedy one by method', ['GET /{rest+}', 'ANY /a'], '/a', 'ANY /a'],
    ['the method before ANY', ['ANY /a/{id}', 'GET /a/{id}'], '/a/1', 'GET /a/{id}'],
    ['what is literal further left', ['GET /a/{b}/c', 'GET /a/b/{c}'], '/a/b/c', 'GET /a/b/{c}'],
    ['the longer of two greedy ones', ['GET /{rest+}', 'GET /a/{rest+}'], '/a/b/c', 'GET /a/{rest+}'],
    ['the greedy one of another method', ['POST /a', 'ANY /{rest+}'], '/a', 'ANY /{rest+}'],
  ])('is %s', async (_, routes, path, route) => {
    expect(await taken(routes, 'GET', path)).toMatchObject({ route });
    expect(await taken(routes.toReversed(), 'GET', path)).toMatchObject({ route });
  });

  it.each([
    ['another method of the same path', 'POST', '/payments/1'],
    ['a path that is longer', 'GET', '/payments/1/refunds'],
    ['a path that is shorter', 'GET', '/payments'],
    ['a slash at the end', 'GET', '/payments/1/'],
    ['a variable that stands for nothing', 'GET', '/payments/'],
    ['a slash too many', 'GET', '/payments//1'],
    ['a slash too many at the front', 'GET', '//payments/1'],
    ['another case', 'GET', '/Payments/1'],
    ['HEAD, which GET does not answer', 'HEAD', '/payments/1'],
    ['OPTIONS, where nobody has configured CORS', 'OPTIONS', '/payments/1'],
  ])('is none for %s: 404', async (_, method, path) => {
    expect(await taken(['GET /payments/{id}'], method, path)).toBe(404);
  });

  it('is none for a greedy route of which nothing is left', async () => {
    expect(await taken(['ANY /a/{rest+}'], 'GET', '/a')).toBe(404);
    expect(await taken(['ANY /a/{rest+}'], 'GET', '/a/')).toBe(404);
    expect(await taken(['ANY /{rest+}'], 'GET', '/')).toBe(404);
  });

  it('keeps a slash at the end of what a greedy variable stands for', async () => {
    expect(await taken(['ANY /a/{rest+}'], 'GET', '/a/b/')).toMatchObject({ parameters: { rest: 'b/' } });
  });

  it('answers 404 in the words of API Gateway, and invokes nothing', async () => {
    const api = await gateway({ routes: ['GET /health'] });
    const answer = await api.send({ path: '/nowhere' });
    expect(answer.status).toBe(404);
    expect(answer.body.toString()).toBe('{"message":"Not Found"}');
    expect(answer.header('content-type')).toBe('application/json');
    expect(answer.header('apigw-requestid')).toMatch(/^[A-Za-z0-9+/]{15}=$/);
    expect(api.invoked).toEqual([]);
  });

  it('invokes the function that is behind it', async () => {
    const routes = [
      { routeKey: 'POST /payments', functionName: 'payments' },
      { routeKey: 'GET /payments/{id}', functionName: 'reads' },
    ];
    const api = await gateway({ api: { routes } });
    await api.send({ method: 'POST', path: '/payments' });
    await api.send({ path: '/payments/pay_1' });
    expect(api.invoked).toEqual(['payments', 'reads']);
  });

  it.each(['get /a', 'GET a', '/a', '', 'GET /{rest+}/a', 'GET  /a', 'GET /a b'])(
    'has no route key such as "%s": the gateway does not start',
    (routeKey) => {
      const table = () => routeTable([{ routeKey, functionName: 'f' }]);
      expect(table).toThrow(InvalidArgument);
      expect(table).toThrow(JSON.stringify(routeKey));
    },
  );
});

describe('an encoded path', () => {
  const routes = ['GET /operations/{key}', '$default'];

  /** What HTTP APIs were seen to make of paths, each sent to the default route of a deployed one. */
  it.each([
    ['/capture/plain', '/capture/plain'],
    ['/capture/space%20value', '/capture/space value'],
    ['/capture/question%3Fvalue', '/capture/question'],
    ['/capture/hash%23value', '/capture/hash#value'],
    ['/capture/slash%2Fvalue', '/capture/slash/value'],
    ['/capture/unicode-%CE%BB-%E4%B8%96%E7%95%8C', '/capture/unicode-λ-世界'],
    ['/capture/literal%252Fvalue', '/capture/literal/value'],
    ['/capture/literal%253Fvalue', '/capture/literal?value'],
    ['/capture/literal%2525value', '/capture/literal%value'],
    ['/capture/plus+value', '/capture/plus+value'],
  ])('%s is told to the function as %s', async (path, rawPath) => {
    const api = await gateway();
    await api.send({ path: `${path}?value=a%3Fb` });
    expect(api.events[0].rawPath).toBe(rawPath);
    expect(api.events[0].requestContext.http.path).toBe(rawPath);
    expect(api.events[0].rawQueryString).toBe('value=a%3Fb');
  });

  it.each(['/capture/percent%25done', '/capture/%zz', '/capture/%', '/capture/%ff'])(
    '%s is a bad request: it cannot be decoded twice',
    async (path) => {
      const api = await gateway();
      const answer = await api.send({ path });
      expect(answer.status).toBe(400);
      expect(answer.body.toString()).toBe('{"message":"Bad Request"}');
      expect(api.invoked).toEqual([]);
    },
  );

  it('gives a key in quotes as the client means it', async () => {
    const api = await gateway({ routes });
    await api.send({ path: '/operations/%228e03978e%22?operation=POST%20/payments' });
    expect(api.events[0]).toMatchObject({
      routeKey: 'GET /operations/{key}',
      rawPath: '/operations/"8e03978e"',
      pathParameters: { key: '"8e03978e"' },
      queryStringParameters: { operation: 'POST /payments' },
    });
  });

  it('parts segments at an encoded slash, so that such a key is on another route', async () => {
    const api = await gateway({ routes });
    await api.send({ path: '/operations/a%2Fb' });
    expect(api.events[0].routeKey).toBe('$default');
  });

  it('has a slash within a segment, if that is encoded twice', async () => {
    const api = await gateway({ routes });
    await api.send({ path: '/operations/a%252Fb' });
    expect(api.events[0]).toMatchObject({
      routeKey: 'GET /operations/{key}',
      pathParameters: { key: 'a/b' },
    });
  });
});
