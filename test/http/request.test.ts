import { describe, expect, it } from 'vitest';
import { OncekeyError } from '../../lib/core/errors.ts';
import { MalformedEvent, UnsupportedEvent } from '../../lib/http/errors.ts';
import { type HttpRequest, readEvent } from '../../lib/http/request.ts';
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
  unsupportedEvents,
} from './events.ts';

const PATH = '/payments/pay_1/refund';
const ROUTE = '/payments/{id}/refund';
const KEY = '"8e03978e-40d5-43dd-bc93-6894a57f9324"';
const bytes = (text: string) => new Uint8Array(Buffer.from(text));

function errorOf(event: unknown): unknown {
  try {
    readEvent(event);
  } catch (error) {
    return error;
  }
  throw new Error('It was read.');
}

describe('an HTTP event becomes one neutral request', () => {
  const table: [string, () => Record<string, unknown>, Partial<HttpRequest>][] = [
    ['HTTP API', httpApi, { source: 'http-api', method: 'POST', route: ROUTE, multiValueHeaders: false }],
    [
      'function URL',
      functionUrl,
      { source: 'function-url', method: 'PATCH', route: undefined, multiValueHeaders: false },
    ],
    ['REST API', restApi, { source: 'rest-api', method: 'POST', route: ROUTE, multiValueHeaders: true }],
    ['ALB', alb, { source: 'alb', method: 'POST', route: undefined, multiValueHeaders: false }],
    [
      'ALB with multi-value headers',
      albMultiValue,
      { source: 'alb', method: 'POST', route: undefined, multiValueHeaders: true },
    ],
  ];

  it.each(table)('%s', (_, event, expected) => {
    const request = readEvent(event());
    expect(request).toMatchObject(expected);
    expect(request.route).toBe(expected.route);
    expect(request.path).toBe(PATH);
    expect(request.body).toEqual(bytes('{"amount":1250,"currency":"EUR"}'));
    expect(request.headers.get('idempotency-key')).toEqual([KEY]);
    expect(request.headers.get('content-type')).toEqual(['application/json']);
  });

  it.each(table)('%s: the event is not changed, and shares nothing that could be', (_, event) => {
    const given = event();
    const request = readEvent(given);
    expect(given).toEqual(event());
    const before = structuredClone({ ...request, headers: [...request.headers] });
    scramble(given);
    expect({ ...request, headers: [...request.headers] }).toEqual(before);
    expect(Object.isFrozen(request)).toBe(true);
  });

  it.each(table)('%s: a frozen event is read all the same', (_, event) => {
    expect(readEvent(deepFreeze(event()))).toEqual(readEvent(event()));
  });
});

describe('an HTTP API that asks for format 1.0 is read by that format', () => {
  it('with its claims', () => {
    const request = readEvent(httpApiPayload1());
    expect(request).toMatchObject({ source: 'rest-api', route: ROUTE, multiValueHeaders: true });
    expect(request.authorizer.jwt?.['sub']).toBe('user-17');
  });
});

describe('the path of an HTTP API', () => {
  it.each([
    ['$default', '/payments', '/payments'],
    ['$default', '/$default/payments', '/$default/payments'],
    ['live', '/live/payments', '/payments'],
    ['live', '/live', '/'],
    ['live', '/live/', '/'],
    ['live', '/live/live/payments', '/live/payments'],
    ['live', '/lively/payments', '/lively/payments'],
    ['live', '/payments/live', '/payments/live'],
    [undefined, '/undefined/payments', '/undefined/payments'],
  ])('in stage %j: %s is %s', (stage, rawPath, path) => {
    expect(readEvent(httpApi({ rawPath, requestContext: { stage } })).path).toBe(path);
  });

  it('of a function URL is never shortened', () => {
    const event = functionUrl({ rawPath: '/live/x', requestContext: { stage: 'live' } });
    expect(readEvent(event).path).toBe('/live/x');
  });

  it('of a REST API is the one outside its stage', () => {
    expect(readEvent(restApi({ path: '/live/x' })).path).toBe('/live/x');
  });
});

describe('a route names an operation only if it is a template', () => {
  it.each([
    ['POST /payments', '/payments'],
    ['ANY /payments/{id}', '/payments/{id}'],
    ['POST /', '/'],
    ['$default', undefined],
    ['POST /{proxy+}', undefined],
    ['ANY /v1/{rest+}', undefined],
    ['POST payments', undefined],
    [undefined, undefined],
  ])('HTTP API: %s', (routeKey, route) => {
    expect(readEvent(httpApi({ routeKey })).route).toBe(route);
  });

  it.each([
    ['/payments/{id}', '/payments/{id}'],
    ['/{proxy+}', undefined],
    ['/v1/{rest+}', undefined],
    ['$default', undefined],
    ['/$default', undefined],
    [null, undefined],
  ])('REST API: %s', (resource, route) => {
    expect(readEvent(restApi({ resource })).route).toBe(route);
  });
});

describe('the query is decoded, and every value is there', () => {
  it('HTTP API: from the raw string, where joined commas are told from sent ones', () => {
    expect(readEvent(httpApi()).query).toEqual([
      ['expand', 'charge'],
      ['expand', 'customer'],
      ['note', 'café au lait'],
    ]);
  });

  it.each([
    ['', []],
    ['a', [['a', '']]],
    ['a=', [['a', '']]],
    ['=b', [['', 'b']]],
    ['a=b=c', [['a', 'b=c']]],
    [
      '&&a=1&&b=2&',
      [
        ['a', '1'],
        ['b', '2'],
      ],
    ],
    ['a%3Db=c%26d', [['a=b', 'c&d']]],
    ['a+b=c+d%2B', [['a b', 'c d+']]],
    ['euro=%E2%82%AC', [['euro', '€']]],
    ['a=50%', [['a', '50%']]],
    ['a=%zz%41', [['a', '%zzA']]],
    ['a=%FF', [['a', '%FF']]],
    [
      'a=%E2%82&b=%41',
      [
        ['a', '%E2%82'],
        ['b', 'A'],
      ],
    ],
    ['__proto__=1', [['__proto__', '1']]],
  ])('raw %j', (rawQueryString, query) => {
    expect(readEvent(httpApi({ rawQueryString })).query).toEqual(query);
    expect(readEvent(functionUrl({ rawQueryString })).query).toEqual(query);
  });

  it('REST API: it arrives decoded and is not decoded again', () => {
    expect(readEvent(restApi()).query).toEqual([
      ['expand', 'charge'],
      ['expand', 'customer'],
      ['note', '100%25 + tip'],
    ]);
  });

  it('REST API: no query is null', () => {
    const event = restApi({ queryStringParameters: null, multiValueQueryStringParameters: null });
    expect(readEvent(event).query).toEqual([]);
  });

  it('ALB: names and values arrive encoded, and a malformed escape stays', () => {
    expect(readEvent(alb()).query).toEqual([
      ['filter[name]', 'café au lait'],
      ['bad', '50%'],
    ]);
  });

  it('ALB with multi values', () => {
    expect(readEvent(albMultiValue()).query).toEqual([
      ['expand', 'charge+fee'],
      ['expand', 'customer'],
    ]);
  });
});

describe('headers have lower-case names and every value', () => {
  it('HTTP API: what the gateway joined stays joined', () => {
    expect(readEvent(httpApi()).headers.get('x-tag')).toEqual(['one,two']);
  });

  it('HTTP API: cookies are a header again', () => {
    expect(readEvent(httpApi()).headers.get('cookie')).toEqual(['session=abc; theme=dark']);
    expect(readEvent(httpApi({ cookies: [] })).headers.has('cookie')).toBe(false);
    expect(readEvent(httpApi({ cookies: undefined })).headers.has('cookie')).toBe(false);
  });

  it('function URL: cookies that are a header already are not repeated', () => {
    const event = functionUrl({ headers: { cookie: 'session=abc; theme=dark' } });
    expect(readEvent(event).headers.get('cookie')).toEqual(['session=abc; theme=dark']);
  });

  it('REST API: all of the multi values, and the single one only where they are silent', () => {
    const event = restApi({ headers: { 'X-Late': 'added by a middleware' } });
    const { headers } = readEvent(event);
    expect(headers.get('x-tag')).toEqual(['one', 'two']);
    expect(headers.get('idempotency-key')).toEqual([KEY]);
    expect(headers.get('x-late')).toEqual(['added by a middleware']);
  });

  it('REST API: a console test has null for both', () => {
    expect(readEvent(restApi({ headers: null, multiValueHeaders: null })).headers.size).toBe(0);
  });

  it('a null among the values is no value', () => {
    const event = restApi({ headers: { 'X-None': null }, multiValueHeaders: { 'X-Tag': ['one', null] } });
    expect(readEvent(event).headers.get('x-tag')).toEqual(['one']);
    expect(readEvent(event).headers.has('x-none')).toBe(false);
  });

  it('an empty list of values does not hide the single one', () => {
    const event = restApi({ multiValueHeaders: { 'Idempotency-Key': [] } });
    expect(readEvent(event).headers.get('idempotency-key')).toEqual([KEY]);
  });

  it('the same name in two spellings is a repeated header (PEERS 15)', () => {
    const event = alb({ headers: { 'Idempotency-Key': 'a', 'idempotency-key': 'b' } });
    expect(readEvent(event).headers.get('idempotency-key')?.toSorted()).toEqual(['a', 'b']);
  });

  it('names are folded as ASCII: the Kelvin sign is no k', () => {
    const { headers } = readEvent(alb({ headers: { 'X-\u212Aey': 'a' } }));
    expect([...headers.keys()]).toContain('x-\u212Aey');
  });

  it('a name that every object has is a name like any other', () => {
    const event = alb({ headers: JSON.parse('{"__proto__":"a","constructor":"b"}') });
    const { headers } = readEvent(event);
    expect(headers.get('constructor')).toEqual(['b']);
    expect(headers.get('toString')).toBeUndefined();
  });
});

describe('the body is the bytes the client sent', () => {
  const binary = Uint8Array.from({ length: 256 }, (_, index) => index);

  it.each([
    ['base64', { body: Buffer.from(binary).toString('base64'), isBase64Encoded: true }, binary],
    ['base64 of nothing', { body: '', isBase64Encoded: true }, new Uint8Array()],
    ['text', { body: 'grüße 🎉', isBase64Encoded: false }, bytes('grüße 🎉')],
    ['text without the flag', { body: 'QUJD', isBase64Encoded: undefined }, bytes('QUJD')],
    ['text with an empty flag', { body: 'QUJD', isBase64Encoded: null }, bytes('QUJD')],
    ['a byte order mark', { body: '\uFEFF{}' }, bytes('\uFEFF{}')],
    ['null', { body: null }, new Uint8Array()],
    ['absent', { body: undefined }, new Uint8Array()],
  ])('%s', (_, changes, expected) => {
    for (const event of [httpApi, functionUrl, restApi, alb]) {
      expect(readEvent(event(changes)).body).toEqual(expected);
    }
  });

  it('is a copy of its own memory, not a slice of a shared pool', () => {
    const { body } = readEvent(httpApi());
    expect(body.buffer.byteLength).toBe(body.byteLength);
  });

  it('behind a body parser it is what the parser left, whatever its order of members', () => {
    const event = httpApi({ body: JSON.parse('{"amount":1250,"currency":"EUR"}'), isBase64Encoded: true });
    expect(readEvent(event).body).toEqual(bytes('{"amount":1250,"currency":"EUR"}'));
  });

  it.each(['QUI', 'QUI=', 'QUJD', 'Q_-', 'Q/+'])(
    'base64 %s is read, padded or not, in either alphabet',
    (body) => {
      expect(readEvent(httpApi({ body, isBase64Encoded: true })).body).toEqual(
        new Uint8Array(Buffer.from(body, 'base64')),
      );
    },
  );

  it.each(['Q', 'QUJDR', '%%%%', 'QUJD\n', 'QU=D', 'QQ===', 'QQ=', 'QUJD=', '=', '==', '===='])(
    'base64 %j is refused',
    (body) => {
      expect(errorOf(httpApi({ body, isBase64Encoded: true }))).toBeInstanceOf(MalformedEvent);
    },
  );

  it('hostile base64 costs no more than its length', () => {
    const body = `${'='.repeat(2_000_000)}x`;
    expect(errorOf(httpApi({ body, isBase64Encoded: true }))).toBeInstanceOf(MalformedEvent);
  });
});

describe('what the authorizer says', () => {
  it('HTTP API: JWT claims', () => {
    const { authorizer } = readEvent(httpApi());
    expect(authorizer.jwt).toMatchObject({ sub: 'user-17', 'https://example.com/tenant': 'acme' });
    expect(Object.keys(authorizer)).toEqual(['jwt']);
  });

  it('HTTP API: the context of a Lambda authorizer', () => {
    const { authorizer } = readEvent(httpApiLambdaAuthorizer());
    expect(authorizer).toEqual({ lambda: { tenantId: 'acme', plan: 'gold', seats: 12, roles: ['a', 'b'] } });
  });

  it('HTTP API: IAM', () => {
    expect(readEvent(httpApiIam()).authorizer).toEqual({
      iam: {
        accountId: '111122223333',
        userArn: 'arn:aws:sts::111122223333:assumed-role/Checkout/task-7f3a',
        callerId: 'AROAIDPPEZS35WEXAMPLE:task-7f3a',
        accessKey: 'ASIAIOSFODNN7EXAMPLE',
      },
    });
  });

  it('HTTP API: a Cognito identity', () => {
    expect(readEvent(httpApiCognitoIdentity()).authorizer.iam?.cognitoIdentityId).toBe(
      'eu-central-1:3f291106-8703-466b-8f2b-3ecee1ca56ce',
    );
  });

  it('function URL: IAM, or nothing where it is open', () => {
    expect(readEvent(functionUrl()).authorizer.iam?.userArn).toBe('arn:aws:iam::111122223333:user/billing');
    expect(readEvent(functionUrl({ requestContext: { authorizer: undefined } })).authorizer).toEqual({});
  });

  it('REST API: Cognito claims count as JWT claims', () => {
    const { authorizer } = readEvent(restApi());
    expect(authorizer.jwt?.['sub']).toBe('b9a2c3d4-0000-4000-8000-1234567890ab');
    expect(Object.keys(authorizer)).toEqual(['jwt']);
  });

  it('REST API: the context of a Lambda authorizer, its principal included', () => {
    const { authorizer } = readEvent(restApiLambdaAuthorizer());
    expect(authorizer.lambda).toMatchObject({ principalId: 'user-17', tenantId: 'acme' });
    expect(authorizer.jwt).toBeUndefined();
  });

  it('REST API: IAM', () => {
    expect(readEvent(restApiIam()).authorizer).toEqual({
      iam: {
        accountId: '111122223333',
        userArn: 'arn:aws:iam::111122223333:user/billing',
        callerId: 'AIDACKCEVSQ6C2EXAMPLE',
        accessKey: 'AKIAIOSFODNN7EXAMPLE',
      },
    });
  });

  it('REST API: an identity that says nothing is none', () => {
    const event = restApi({ requestContext: { authorizer: null, identity: { userArn: '', caller: '' } } });
    expect(readEvent(event).authorizer).toEqual({});
  });

  it('cannot be changed by a resolver', () => {
    expect(Object.isFrozen(readEvent(httpApi()).authorizer.jwt)).toBe(true);
    expect(Object.isFrozen(readEvent(restApiLambdaAuthorizer()).authorizer.lambda)).toBe(true);
    expect(Object.isFrozen(readEvent(httpApiIam()).authorizer.iam)).toBe(true);
  });

  it('ALB: nothing; its OIDC headers prove nothing by themselves', () => {
    expect(readEvent(alb()).authorizer).toEqual({});
    expect(readEvent(alb({ requestContext: { authorizer: { claims: { sub: 'x' } } } })).authorizer).toEqual(
      {},
    );
  });

  it('is taken from the gateway alone: a body or header that looks like it changes nothing', () => {
    const forged = JSON.stringify({ requestContext: { authorizer: { jwt: { claims: { sub: 'other' } } } } });
    const event = httpApi({ body: forged, headers: { requestContext: forged } });
    expect(readEvent(event).authorizer).toEqual(readEvent(httpApi()).authorizer);
  });
});

describe('an event that is no HTTP request is refused by name', () => {
  it.each(unsupportedEvents)('%s: use %s', (is, instead, event) => {
    const error = errorOf(event);
    expect(error).toBeInstanceOf(UnsupportedEvent);
    expect(error).toBeInstanceOf(OncekeyError);
    const { message, remedy, name } = error as UnsupportedEvent;
    expect({ remedy, name }).toEqual({ remedy: 'fix-code', name: 'UnsupportedEvent' });
    expect(message).toContain(`this is ${is}.`);
    expect(message).toMatch(new RegExp(`\\b${instead.replace(/[()]/g, '\\$&')}(?![A-Za-z])`));
    expect(message).not.toContain('secret-token');
  });
});

describe('an event that only looks like one we know', () => {
  it.each([
    ['a payload format of the future', httpApi({ version: '3.0' })],
    ['a payload format without a version', httpApi({ version: undefined })],
    ['a source that is no text', { Records: [{ eventSource: { toString: 1 } }] }],
  ])('%s is refused', (_, event) => {
    expect(errorOf(event)).toBeInstanceOf(UnsupportedEvent);
  });

  it('a domain that is no text is no function URL', () => {
    expect(readEvent(httpApi({ requestContext: { domainName: { toString: 1 } } })).source).toBe('http-api');
  });
});

describe('an HTTP event with a piece missing is refused by that piece', () => {
  it.each([
    ['rawPath', httpApi({ rawPath: undefined })],
    ['rawPath', functionUrl({ rawPath: 5 })],
    ['rawQueryString', httpApi({ rawQueryString: undefined })],
    ['requestContext', httpApi({ requestContext: null })],
    ['requestContext.http.method', httpApi({ requestContext: { http: null } })],
    ['requestContext.http.method', httpApi({ requestContext: { http: { method: 7 } } })],
    ['a value in cookies', httpApi({ cookies: [1] })],
    ['headers', httpApi({ headers: 'x' })],
    ['a value in headers', httpApi({ headers: { 'x-a': 1 } })],
    ['path', restApi({ path: undefined })],
    ['requestContext', restApi({ requestContext: undefined })],
    ['a value in multiValueHeaders', restApi({ multiValueHeaders: { 'X-A': 'single' } })],
    ['a value in multiValueHeaders', restApi({ multiValueHeaders: { 'X-A': [{}] } })],
    ['multiValueQueryStringParameters', restApi({ multiValueQueryStringParameters: [] })],
    ['httpMethod', alb({ httpMethod: undefined })],
    ['path', alb({ path: null })],
    ['body', httpApi({ body: 'not base64!', isBase64Encoded: true })],
    ['body', httpApi({ body: () => 1 })],
  ])('%s', (field, event) => {
    const error = errorOf(event);
    expect(error).toBeInstanceOf(MalformedEvent);
    expect((error as MalformedEvent).remedy).toBe('fix-code');
    expect((error as MalformedEvent).message).toContain(`cannot be read: ${field} is `);
    expect((error as MalformedEvent).message).not.toContain('not base64!');
  });

  it('a body that JSON cannot write is refused, not a crash', () => {
    const loop: Record<string, unknown> = {};
    loop['self'] = loop;
    expect(errorOf({ ...httpApi(), body: loop })).toBeInstanceOf(MalformedEvent);
    expect(errorOf({ ...httpApi(), body: { amount: 1n } })).toBeInstanceOf(MalformedEvent);
  });
});

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(value).forEach(deepFreeze);
  return Object.freeze(value);
}

/** Overwrites every leaf, as a handler might. */
function scramble(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  const fields = value as Record<string, unknown>;
  for (const name of Object.keys(fields)) {
    scramble(fields[name]);
    if (typeof fields[name] !== 'object') fields[name] = 'scrambled';
  }
}
