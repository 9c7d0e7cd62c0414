import { describe, expect, it } from 'vitest';
import type { Invoked } from '../../../lib/local/ports.ts';
import { gateway, NOW, ok, type Sent } from './stage.ts';

/** As the reference deployment has it. */
const FORMAT = JSON.stringify({
  requestId: '$context.requestId',
  time: '$context.requestTime',
  route: '$context.routeKey',
  status: '$context.status',
  latencyMs: '$context.responseLatency',
  integrationError: '$context.integrationErrorMessage',
  authorizerError: '$context.authorizer.error',
});

async function logged(sent: Sent, setting: Parameters<typeof gateway>[0] = {}, accessLogFormat = FORMAT) {
  const api = await gateway({ ...setting, api: { ...setting.api, accessLogFormat } });
  await api.send(sent);
  return { access: api.reports.filter(({ kind }) => kind === 'access'), api };
}

describe('the access log', () => {
  it('has a line for each request, in the format of the stage', async () => {
    const { access, api } = await logged({ path: '/operations/k-1' }, { routes: ['GET /operations/{key}'] });
    const fields = {
      requestId: api.events[0].requestContext.requestId,
      time: '15/Jan/2030:12:30:05 +0000',
      route: 'GET /operations/{key}',
      status: '200',
      latencyMs: '0',
      integrationError: '-',
      authorizerError: '-',
    };
    expect(access).toEqual([
      { at: NOW, source: 'api', level: 'info', kind: 'access', message: JSON.stringify(fields), fields },
    ]);
  });

  it('never has the path, in which a key may be, not even for a format that asks for it', async () => {
    const key = 'sk-8e03978e';
    const sent = { path: `/operations/${key}?key=${key}`, headers: [['Idempotency-Key', key]] } as const;
    const everything = `${FORMAT} $context.path $context.resourcePath $context.request.path`;
    for (const routes of [['GET /operations/{key}'], ['GET /elsewhere']]) {
      const { api } = await logged(sent, { routes }, everything);
      expect(api.reports).toHaveLength(1);
      expect(JSON.stringify(api.reports)).not.toContain(key);
    }
    const failing = await logged(sent, { invoke: async () => ({ kind: 'throttled' }) }, everything);
    expect(failing.api.reports).toHaveLength(2);
    expect(JSON.stringify(failing.api.reports)).not.toContain(key);
  });

  it('has a hyphen for the route of a request that no route takes', async () => {
    const { access } = await logged({ path: '/nowhere' }, { routes: ['GET /here'] });
    expect(access).toMatchObject([{ level: 'warn', fields: { route: '-', status: '404' } }]);
  });

  it('says how long it took', async () => {
    const api = await gateway({
      api: { accessLogFormat: '$context.responseLatency $context.integrationLatency' },
      fn: () => {
        api.time.now += 250;
        return ok;
      },
    });
    await api.send();
    expect(api.reports).toMatchObject([{ at: NOW + 250, message: '250 250' }]);
    expect(api.reports[0]).not.toHaveProperty('fields');
  });

  it('says what a function failed of, which its client is not told', async () => {
    const invoked: Invoked = {
      kind: 'failed',
      error: 'Unhandled',
      payload: JSON.stringify({ errorType: 'Error', errorMessage: 'no "rows"\nat all' }),
    };
    const { access, api } = await logged({}, { routes: ['GET /'], invoke: async () => invoked });
    const message =
      'The Lambda function returned the following error: no "rows"\nat all. Check your Lambda function code and try again.';
    expect(access).toMatchObject([{ level: 'error', fields: { status: '500', integrationError: message } }]);
    expect(api.reports).toContainEqual({
      at: NOW,
      source: 'api',
      level: 'error',
      kind: 'platform',
      message: `GET / was answered with 500: ${message}`,
    });
  });

  it('tells what Lambda said from what the function said', async () => {
    const format =
      '$context.integrationStatus $context.integration.status $context.status $context.error.message';
    const status = async (setting: Parameters<typeof gateway>[0]) => {
      const { access } = await logged({}, setting, format);
      return access[0]?.message;
    };
    expect(await status({ fn: () => ({ ...ok, statusCode: 418 }) })).toBe('200 418 418 -');
    expect(await status({ fn: () => ({ statusCode: 'x' }) })).toBe('200 - 500 Internal Server Error');
    expect(await status({ invoke: async () => ({ kind: 'throttled' }) })).toBe(
      '429 - 503 Service Unavailable',
    );
    expect(await status({ routes: [] })).toBe('- - 404 Not Found');
  });

  it('knows the caller by its claims, and why a token was refused', async () => {
    const authorizer = {
      name: 'T',
      issuer: 'https://i.test',
      audience: ['a'],
      header: 'authorization',
      scopes: [],
    };
    const api = { routes: [{ routeKey: 'GET /', functionName: 'f', authorizer }] };
    const format = '$context.authorizer.claims.sub $context.authorizer.claims.none $context.authorizer.error';
    const allowed = { kind: 'allowed', claims: { sub: 'acme' }, scopes: null } as const;
    const letIn = await logged({}, { api, authorize: async () => allowed }, format);
    expect(letIn.access).toMatchObject([{ message: 'acme - -' }]);
    const refused = {
      kind: 'refused',
      status: 401,
      challenge: 'Bearer',
      error: 'missing: token not provided',
    } as const;
    const keptOut = await logged({}, { api, authorize: async () => refused }, format);
    expect(keptOut.access).toMatchObject([{ level: 'warn', message: '- - missing: token not provided' }]);
  });

  it('knows the request', async () => {
    const format =
      '$context.httpMethod $context.protocol $context.stage $context.apiId $context.accountId $context.domainName $context.domainPrefix $context.identity.sourceIp $context.identity.userAgent $context.requestTimeEpoch $context.responseLength $context.dataProcessed';
    const sent = { method: 'POST', body: 'abc', headers: [['User-Agent', 'curl/8']] } as const;
    const { access } = await logged(sent, {}, format);
    expect(access[0]?.message).toBe(
      `POST HTTP/1.1 $default service 000000000000 api.example.test api 127.0.0.1 curl/8 ${NOW} 2 5`,
    );
  });

  it('is not kept where the stage has no format', async () => {
    const api = await gateway();
    await api.send();
    expect(api.reports).toEqual([]);
  });
});
