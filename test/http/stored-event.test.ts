import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { type HttpRequest, readEvent } from '../../lib/http/request.ts';
import { storableEvent } from '../../lib/http/stored-event.ts';
import {
  alb,
  albMultiValue,
  functionUrl,
  httpApi,
  httpApiCognitoIdentity,
  httpApiIam,
  httpApiLambdaAuthorizer,
  httpApiPayload1,
  restApi,
  restApiIam,
  restApiLambdaAuthorizer,
} from './events.ts';

type Event = Record<string, unknown>;

const events: readonly (readonly [string, Event])[] = [
  ['HTTP API', httpApi()],
  [
    'HTTP API behind a stage',
    httpApi({ rawPath: '/live/payments/pay_1/refund', requestContext: { stage: 'live' } }),
  ],
  ['HTTP API with a Lambda authorizer', httpApiLambdaAuthorizer()],
  ['HTTP API with IAM', httpApiIam()],
  ['HTTP API with a Cognito identity', httpApiCognitoIdentity()],
  ['HTTP API, format 1.0', httpApiPayload1()],
  ['function URL', functionUrl()],
  ['REST API', restApi()],
  ['REST API with a Lambda authorizer', restApiLambdaAuthorizer()],
  ['REST API with IAM', restApiIam()],
  [
    'REST API with a Cognito identity',
    restApi({ requestContext: { identity: { cognitoIdentityId: 'eu-central-1:3f291106' } } }),
  ],
  ['ALB', alb()],
  ['ALB with multi-value headers', albMultiValue()],
];

const restored = (event: unknown, headers: readonly string[] = []): Event =>
  JSON.parse(Buffer.from(storableEvent(event, headers) as Uint8Array).toString('utf8'));

/** All of a request but its headers, of which only some are kept. */
const { headers: _, ...unchanged }: { [Field in keyof HttpRequest]: true } = {
  source: true,
  method: true,
  path: true,
  route: true,
  query: true,
  headers: true,
  body: true,
  authorizer: true,
  multiValueHeaders: true,
};
const withoutHeaders = (request: HttpRequest) =>
  Object.fromEntries(Object.keys(unchanged).map((field) => [field, request[field as keyof HttpRequest]]));

/** Secrets and addresses at every place where an event of any kind has them. */
function laden(event: Event): Event {
  const secrets = {
    Authorization: 'Bearer secret-1',
    cookie: 'session=secret-2',
    'X-Api-Key': 'secret-3',
    'idempotency-key': '"secret-4"',
    'user-agent': 'secret-5',
    'x-forwarded-for': 'secret-6',
    'x-amz-security-token': 'secret-7',
    'x-amzn-oidc-data': 'secret-8',
  };
  const several = Object.entries(secrets).map(([name, value]) => [name, [value]]);
  const context = event['requestContext'] as Record<string, Event | undefined>;
  return {
    ...event,
    ...(event['headers'] !== undefined && { headers: { ...(event['headers'] as Event), ...secrets } }),
    ...(event['multiValueHeaders'] !== undefined && {
      multiValueHeaders: { ...(event['multiValueHeaders'] as Event), ...Object.fromEntries(several) },
    }),
    cookies: ['session=secret-9'],
    requestContext: {
      ...context,
      ...(context['http'] && { http: { ...context['http'], sourceIp: 'secret-10', userAgent: 'secret-11' } }),
      ...(context['identity'] && {
        identity: {
          ...context['identity'],
          sourceIp: 'secret-12',
          userAgent: 'secret-13',
          apiKey: 'secret-14',
          apiKeyId: 'secret-15',
          clientCert: { clientCertPem: 'secret-16' },
        },
      }),
      requestId: 'secret-17',
      connectionId: 'secret-18',
    },
  };
}

describe.each(events)('what is kept of an event: %s', (_name, event) => {
  it('is the same request to whoever reads it again', () => {
    expect(withoutHeaders(readEvent(restored(event)))).toEqual(withoutHeaders(readEvent(event)));
    expect(readEvent(restored(event)).headers.get('content-type')).toEqual(['application/json']);
  });

  it('is all there the second time as well', () => {
    expect(restored(restored(event))).toEqual(restored(event));
  });

  it('has no credential, no address and nothing of the moment', () => {
    const text = JSON.stringify(restored(laden(event)));
    expect(JSON.stringify(laden(event))).toContain('secret-');
    expect(text).not.toContain('secret-');
    expect(text).not.toContain('203.0.113.7');
    expect(text).not.toContain('8e03978e');
    expect(text).not.toMatch(/acme-checkout|curl|trace-id|timeEpoch|13\/Mar/i);
    const kept = [...readEvent(restored(laden(event))).headers.keys()];
    expect(['accept', 'content-type']).toEqual(expect.arrayContaining(kept));
  });

  it('has the headers that were asked for, under any case, with all their values', () => {
    const [one, other] = [readEvent(event), readEvent(restored(event, ['X-TAG', 'host']))];
    expect(other.headers.get('x-tag')).toEqual(one.headers.get('x-tag'));
    expect(other.headers.get('host')).toEqual(one.headers.get('host'));
    expect(other.headers.get('host')).toBeDefined();
  });

  it('has a body that a parser has already parsed as text again', () => {
    const parsed = { ...event, body: { amount: 1250, currency: 'EUR' } };
    expect(restored(parsed)).toMatchObject({
      body: '{"amount":1250,"currency":"EUR"}',
      isBase64Encoded: false,
    });
    expect(readEvent(restored(parsed)).body).toEqual(readEvent(event).body);
    const decoded = { ...parsed, isBase64Encoded: true };
    expect(readEvent(restored(decoded)).body).toEqual(readEvent(event).body);
  });

  it('has a binary body, an empty one and none as they were', () => {
    const binary = { ...event, body: Buffer.from([0, 255, 128]).toString('base64'), isBase64Encoded: true };
    for (const each of [
      binary,
      { ...event, body: '' },
      { ...event, body: null },
      { ...event, body: 'Zoë 💳' },
    ]) {
      expect(readEvent(restored(each)).body).toEqual(readEvent(each).body);
      expect(restored(each)['body']).toBe(each.body);
    }
  });

  it('shares nothing with the event, and leaves it as it was', () => {
    const before = structuredClone(event);
    storableEvent(event, []);
    expect(event).toEqual(before);
  });
});

describe('what is kept of an event', () => {
  it.each(['authorization', 'Cookie', 'Idempotency-Key', 'proxy-authorization'])(
    'never has %s, even if it is asked for',
    (name) => {
      expect(() => storableEvent(httpApi(), [name])).toThrow(InvalidArgument);
    },
  );

  it('has what the handler reads besides: the route, its parameters and the stage', () => {
    const { routeKey, pathParameters, stageVariables, queryStringParameters } = httpApi();
    expect(restored(httpApi())).toMatchObject({
      ...{ version: '2.0', routeKey, pathParameters, stageVariables, queryStringParameters },
      requestContext: { apiId: 'a1b2c3d4e5', stage: '$default', http: { protocol: 'HTTP/1.1' } },
    });
    expect(restored(restApi())).toMatchObject({
      resource: '/payments/{id}/refund',
      pathParameters: { id: 'pay_1' },
      requestContext: { accountId: '123456789012', resourcePath: '/payments/{id}/refund', stage: 'live' },
    });
  });

  it('has whoever was authenticated, also where only the handler looks', () => {
    const identity = { user: 'AIDAUSERIDEXAMPLE0000', cognitoIdentityPoolId: 'eu-central-1:4f291106' };
    expect(restored(restApi({ requestContext: { identity } }))).toMatchObject({
      requestContext: { identity },
    });
    const authentication = { clientCert: { subjectDN: 'CN=acme' } };
    expect(restored(httpApi({ requestContext: { authentication } }))).toMatchObject({
      requestContext: { authentication },
    });
  });
});
