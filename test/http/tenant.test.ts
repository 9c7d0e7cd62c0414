import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../lib/core/errors.ts';
import { type HttpRequest, readEvent } from '../../lib/http/request.ts';
import { allOf, iamPrincipal, jwtClaim, lambdaAuthorizer } from '../../lib/http/tenant.ts';
import {
  alb,
  functionUrl,
  httpApi,
  httpApiCognitoIdentity,
  httpApiIam,
  httpApiLambdaAuthorizer,
  restApi,
  restApiIam,
  restApiLambdaAuthorizer,
} from './events.ts';

function withAuthorizer(authorizer: HttpRequest['authorizer']): HttpRequest {
  return { ...readEvent(alb()), authorizer };
}

describe('the tenant comes from the authorizer', () => {
  it.each([
    ['HTTP API, a JWT claim', jwtClaim('sub'), httpApi(), 'user-17'],
    ['a claim named by a URL', jwtClaim('https://example.com/tenant'), httpApi(), 'acme'],
    ['REST API, a Cognito claim', jwtClaim('sub'), restApi(), 'b9a2c3d4-0000-4000-8000-1234567890ab'],
    ['HTTP API, a Lambda authorizer', lambdaAuthorizer('tenantId'), httpApiLambdaAuthorizer(), 'acme'],
    ['a number', lambdaAuthorizer('seats'), httpApiLambdaAuthorizer(), '12'],
    ['REST API, a Lambda authorizer', lambdaAuthorizer('tenantId'), restApiLambdaAuthorizer(), 'acme'],
    ['its principal', lambdaAuthorizer('principalId'), restApiLambdaAuthorizer(), 'user-17'],
    ['an IAM user', iamPrincipal(), restApiIam(), 'arn:aws:iam::111122223333:user/billing'],
    [
      'an IAM user on a function URL',
      iamPrincipal(),
      functionUrl(),
      'arn:aws:iam::111122223333:user/billing',
    ],
    ['an IAM role', iamPrincipal(), httpApiIam(), 'arn:aws:sts::111122223333:assumed-role/Checkout'],
    [
      'a Cognito identity',
      iamPrincipal(),
      httpApiCognitoIdentity(),
      'eu-central-1:3f291106-8703-466b-8f2b-3ecee1ca56ce',
    ],
  ])('%s', (_, resolve, event, tenant) => {
    expect(resolve(readEvent(event))).toBe(tenant);
  });

  it.each([
    ['a claim where there is no JWT', jwtClaim('sub'), httpApiLambdaAuthorizer()],
    ['a claim on an ALB, whose headers may be forged', jwtClaim('sub'), alb()],
    ['a context where there is a JWT', lambdaAuthorizer('tenantId'), httpApi()],
    ['claims as a context', lambdaAuthorizer('sub'), restApi()],
    ['IAM where there is none', iamPrincipal(), restApi()],
    ['a list that an HTTP API printed', jwtClaim('cognito:groups'), httpApi()],
    ['an object that an HTTP API printed', jwtClaim('realm_access'), httpApi()],
    ['a list', lambdaAuthorizer('roles'), httpApiLambdaAuthorizer()],
    ['a claim that is not there', jwtClaim('tenant'), httpApi()],
  ])('nothing from %s', (_, resolve, event) => {
    expect(resolve(readEvent(event))).toBeUndefined();
  });
});

describe('a value that names nobody is no tenant', () => {
  const nobody = [
    ...[undefined, null, '', ' ', '\t\n', true, false, [], ['acme'], {}, { id: 'acme' }, () => 'acme'],
    ...[Number.NaN, Number.POSITIVE_INFINITY, 0.5, 2 ** 53, -(2 ** 53), 1n, Symbol('acme')],
    ...['undefined', 'null', 'NaN', '[object Object]'],
  ];

  it.each(nobody.map((value) => [value]))('%s', (value) => {
    expect(jwtClaim('t')(withAuthorizer({ jwt: { t: value } }))).toBeUndefined();
    expect(lambdaAuthorizer('t')(withAuthorizer({ lambda: { t: value } }))).toBeUndefined();
  });

  it.each([
    [0, '0'],
    [-1, '-1'],
    [42, '42'],
    [2 ** 53 - 1, '9007199254740991'],
    ['0', '0'],
    [' acme ', ' acme '],
    ['Null', 'Null'],
  ])('but %j is', (value, tenant) => {
    expect(jwtClaim('t')(withAuthorizer({ jwt: { t: value } }))).toBe(tenant);
    expect(lambdaAuthorizer('t')(withAuthorizer({ lambda: { t: value } }))).toBe(tenant);
  });

  it.each(['constructor', 'toString', '__proto__', 'hasOwnProperty'])(
    '%s, which every object has',
    (name) => {
      expect(jwtClaim(name)(withAuthorizer({ jwt: {} }))).toBeUndefined();
      expect(lambdaAuthorizer(name)(withAuthorizer({ lambda: {} }))).toBeUndefined();
    },
  );

  it('an inherited one', () => {
    const inherited = Object.create({ t: 'acme' });
    expect(jwtClaim('t')(withAuthorizer({ jwt: inherited }))).toBeUndefined();
    expect(lambdaAuthorizer('t')(withAuthorizer({ lambda: inherited }))).toBeUndefined();
  });

  it.each(['', undefined, 7])('a resolver without a name is refused when it is made: %j', (name) => {
    expect(() => jwtClaim(name as string)).toThrow(InvalidArgument);
    expect(() => lambdaAuthorizer(name as string)).toThrow(InvalidArgument);
  });
});

describe('an IAM principal', () => {
  it.each([
    ['arn:aws:sts::111122223333:assumed-role/Checkout/a', 'arn:aws:sts::111122223333:assumed-role/Checkout'],
    ['arn:aws-cn:sts::1:assumed-role/R/s@x.com', 'arn:aws-cn:sts::1:assumed-role/R'],
    ['arn:aws:sts::1:federated-user/Bob', 'arn:aws:sts::1:federated-user/Bob'],
    ['arn:aws:iam::1:user/assumed-role/x/y', 'arn:aws:iam::1:user/assumed-role/x/y'],
    ['arn:aws:iam::1:root', 'arn:aws:iam::1:root'],
  ])('%s is %s, whatever its session is called', (userArn, principal) => {
    expect(iamPrincipal()(withAuthorizer({ iam: { userArn } }))).toBe(principal);
  });

  it('two identities that share a Cognito role are two tenants', () => {
    const userArn = 'arn:aws:sts::1:assumed-role/AppUsers/CognitoIdentityCredentials';
    const tenants = ['eu-central-1:a', 'eu-central-1:b'].map((cognitoIdentityId) =>
      iamPrincipal()(withAuthorizer({ iam: { userArn, cognitoIdentityId } })),
    );
    expect(new Set(tenants).size).toBe(2);
  });

  it('without an ARN there is none', () => {
    expect(iamPrincipal()(withAuthorizer({ iam: { accountId: '1', accessKey: 'AKIA' } }))).toBeUndefined();
  });
});

describe('several resolvers combined', () => {
  const request = readEvent(httpApi());
  const says = (value: unknown) => () => value as string | undefined;

  it('name all of what they found', () => {
    expect(allOf(jwtClaim('https://example.com/tenant'), jwtClaim('sub'))(request)).toBe(
      '["acme","user-17"]',
    );
  });

  it.each([undefined, '', null, 7])('name nobody if one of them finds %j', (value) => {
    expect(allOf(says('acme'), says(value))(request)).toBeUndefined();
    expect(allOf(says(value), says('acme'))(request)).toBeUndefined();
  });

  it('are at least one', () => {
    expect(() => allOf()).toThrow(InvalidArgument);
  });

  it('never give two different lists one name', () => {
    const text = fc.string({
      unit: fc.constantFrom('a', '"', ',', '\\', '[', ']', '\ud83d', '\ude00'),
      minLength: 1,
    });
    const list = fc.array(text, { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(list, list, (left, right) => {
        const [one, other] = [left, right].map((parts) => allOf(...parts.map(says))(request));
        expect(one === other).toBe(
          left.length === right.length && left.every((part, at) => part === right[at]),
        );
      }),
      { numRuns: 2_000 },
    );
  });
});
