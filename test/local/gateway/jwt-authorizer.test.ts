import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { CompactSign, type JWK, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { readEvent } from '../../../lib/http/request.ts';
import { jwtClaim } from '../../../lib/http/tenant.ts';
import type { Authorization } from '../../../lib/local/gateway/authorization.ts';
import { jwtAuthorizer } from '../../../lib/local/gateway/jwt-authorizer.ts';
import { type LocalIssuer, localIssuer } from '../../../lib/local/gateway/local-issuer.ts';
import type { AuthorizerModel } from '../../../lib/local/model.ts';
import { gateway, NOW } from './stage.ts';

const ISSUER = 'https://issuer.oncekey.test';
const SECONDS = NOW / 1_000;

const tokens: AuthorizerModel = {
  name: 'Tokens',
  issuer: ISSUER,
  audience: ['payments', 'orders'],
  header: 'Authorization',
  scopes: [],
};

const good = { iss: ISSUER, aud: 'payments', sub: 'acme', exp: SECONDS + 60, iat: SECONDS };

type Claims = Readonly<Record<string, unknown>>;
type Sign = (claims: Claims, header?: Claims) => Promise<string>;

let issuer: LocalIssuer;
let stranger: LocalIssuer;
/** By the issuer's own key, whatever the claims are. */
let sign: Sign;
let published: LocalIssuer['keys'];

beforeAll(async () => {
  issuer = await localIssuer({ issuer: ISSUER, clock: () => NOW });
  stranger = await localIssuer({ issuer: ISSUER, clock: () => NOW });
  const { privateKey, publicKey } = rsaKeys();
  published = { keys: [...issuer.keys.keys, { ...publicKey, kid: 'own' }] };
  sign = (claims, header) =>
    new SignJWT(claims as JWTPayload)
      .setProtectedHeader({ alg: 'RS256', kid: 'own', ...header })
      .sign(privateKey);
});

function rsaKeys() {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  return { privateKey, publicKey: publicKey.export({ format: 'jwk' }) as JWK };
}

function authorize(
  credentials: string | undefined,
  authorizer: Partial<AuthorizerModel> = {},
): Promise<Authorization> {
  const keys = (of: string) => (of === ISSUER ? published : undefined);
  return jwtAuthorizer({ keys, clock: () => NOW })({ ...tokens, ...authorizer }, credentials);
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');

async function refusalOf(token: string, authorizer: Partial<AuthorizerModel> = {}): Promise<string> {
  const authorization = await authorize(`Bearer ${token}`, authorizer);
  if (authorization.kind !== 'refused') throw new Error('It was let in.');
  expect(authorization.status).toBe(401);
  const why = /^invalid_token: (.+)$/.exec(authorization.error)?.[1];
  const scope = (authorizer.scopes ?? []).join(' ');
  expect(authorization.challenge).toBe(
    `Bearer scope="${scope}" error="invalid_token" error_description="${why}"`,
  );
  return why ?? '';
}

describe('a token that is let in', () => {
  it.each([
    ['of the issuer', () => issuer.token({ subject: 'acme', audience: 'payments' })],
    ['for one of several audiences', () => issuer.token({ subject: 'acme', audience: ['else', 'orders'] })],
    ['of a pool, whose audience is the client', () => issuer.poolToken({ clientId: 'payments' })],
    ['that ends in a moment', () => sign({ ...good, exp: SECONDS + 1 })],
    ['that begins now', () => sign({ ...good, nbf: SECONDS, iat: SECONDS })],
    ['that does not say when it was issued', () => sign({ ...good, iat: undefined })],
    ['signed with RS512', () => sign(good, { alg: 'RS512' })],
  ])('is one %s', async (_, token) => {
    const authorization = await authorize(`Bearer ${await token()}`);
    expect(authorization.kind).toBe('allowed');
  });

  it.each(['Bearer ', 'bearer ', 'BEARER   ', '', '  '])('comes after "%s"', async (scheme) => {
    expect((await authorize(`${scheme}${await sign(good)}`)).kind).toBe('allowed');
  });

  it('tells its claims as text, as the function gets them', async () => {
    const claims = {
      ...good,
      email_verified: true,
      level: 1.5,
      'cognito:groups': ['admin', 'finance'],
      realm_access: { roles: ['admin'], level: 2 },
      nested: [['a', 1], null],
      nothing: null,
    };
    expect(await authorize(await sign(claims))).toEqual({
      kind: 'allowed',
      scopes: null,
      claims: {
        iss: ISSUER,
        aud: 'payments',
        sub: 'acme',
        exp: String(SECONDS + 60),
        iat: String(SECONDS),
        email_verified: 'true',
        level: '1.5',
        'cognito:groups': '[admin finance]',
        realm_access: 'map[level:2 roles:[admin]]',
        nested: '[[a 1] <nil>]',
      },
    });
  });
});

describe('a token that is refused', () => {
  it.each<[string, Claims, string]>([
    [
      'of another issuer',
      { ...good, iss: 'https://elsewhere.test' },
      'the token does not have a valid issuer',
    ],
    ['of nearly the issuer', { ...good, iss: `${ISSUER}/` }, 'the token does not have a valid issuer'],
    ['of no issuer', { ...good, iss: undefined }, 'the token does not have a valid issuer'],
    ['for another audience', { ...good, aud: 'refunds' }, 'the token does not have a valid audience'],
    ['for nobody', { ...good, aud: undefined }, 'the token does not have a valid audience'],
    ['for no audience', { ...good, aud: [] }, 'the token does not have a valid audience'],
    ['for a number', { ...good, aud: 7 }, 'the token does not have a valid audience'],
    [
      'of another client',
      { ...good, aud: undefined, client_id: 'x' },
      'the token does not have a valid audience',
    ],
    [
      'of the client, for another audience',
      { ...good, aud: 'x', client_id: 'payments' },
      'the token does not have a valid audience',
    ],
    [
      'of the client, for an audience that is null',
      { ...good, aud: null, client_id: 'payments' },
      'the token does not have a valid audience',
    ],
    ['that has expired', { ...good, exp: SECONDS - 1 }, 'the token has expired'],
    ['that expires now', { ...good, exp: SECONDS }, 'the token has expired'],
    ['that never expires', { ...good, exp: undefined }, 'the token has expired'],
    ['that expires as a text', { ...good, exp: String(SECONDS + 60) }, 'the token has expired'],
    ['that begins later', { ...good, nbf: SECONDS + 1 }, 'the token is not valid yet'],
    ['that begins at a text', { ...good, nbf: '0' }, 'the token is not valid yet'],
    ['from the future', { ...good, iat: SECONDS + 1 }, 'the token was issued in the future'],
  ])('is one %s', async (_, claims, why) => {
    expect(await refusalOf(await sign(claims))).toBe(why);
  });

  it('is one without a signature', async () => {
    const none = new UnsecuredJWT(good).encode();
    expect(await refusalOf(none)).toBe('signing method is invalid');
    const [, payload] = none.split('.');
    for (const alg of ['none', 'None', 'NONE']) {
      expect(await refusalOf(`${encoded({ alg, kid: 'own' })}.${payload}.`)).toBe(
        'signing method is invalid',
      );
    }
  });

  it('is one signed with the public key, as if that were a secret', async () => {
    const [key] = issuer.keys.keys;
    if (!key) throw new Error('The issuer has no key.');
    const spki = createPublicKey({ key: { ...key }, format: 'jwk' }).export({ format: 'pem', type: 'spki' });
    for (const secret of [spki, JSON.stringify(key), String(key.n)]) {
      const forged = await new SignJWT(good)
        .setProtectedHeader({ alg: 'HS256', kid: String(key.kid) })
        .sign(Buffer.from(String(secret)));
      expect(await refusalOf(forged)).toBe('signing method is invalid');
    }
  });

  it('is one that brings its key along', async () => {
    const { privateKey, publicKey } = rsaKeys();
    const forged = await new SignJWT(good)
      .setProtectedHeader({ alg: 'RS256', kid: 'own', jwk: publicKey })
      .sign(privateKey);
    expect(await refusalOf(forged)).toBe('the signature of the token is not valid');
  });

  it.each([
    ['no key of the issuer has', { kid: 'another' }],
    ['is no text', { kid: 7 }],
    ['is not there, even if there were only one key', { kid: undefined }],
  ])('is one with a key id that %s', async (_, header) => {
    expect(await refusalOf(await sign(good, header))).toBe('the key of the token is not one of the issuer');
  });

  it('is one signed by a stranger, with the key id of the issuer or with another', async () => {
    const token = await stranger.token({ subject: 'acme', audience: 'payments' });
    expect(await refusalOf(token)).toBe('the key of the token is not one of the issuer');
    const [, payload, signature] = token.split('.');
    const header = encoded({ alg: 'RS256', kid: issuer.keys.keys[0]?.kid });
    expect(await refusalOf(`${header}.${payload}.${signature}`)).toBe(
      'the signature of the token is not valid',
    );
  });

  it('is one in which anything was changed', async () => {
    const [header, , signature] = (await sign(good)).split('.');
    const why = 'the signature of the token is not valid';
    expect(await refusalOf(`${header}.${encoded({ ...good, sub: 'globex' })}.${signature}`)).toBe(why);
    const [, payload] = (await sign(good)).split('.');
    const other = encoded({ alg: 'RS256', kid: 'own', typ: 'JWT' });
    expect(await refusalOf(`${other}.${payload}.${signature}`)).toBe(why);
    expect(await refusalOf(`${header}.${payload}.${signature?.slice(8)}`)).toBe(why);
    expect(await refusalOf(`${header}.${payload}.`)).toBe(why);
  });

  it('is one by a key that is not for this', async () => {
    const [key] = issuer.keys.keys;
    const token = await issuer.token({ subject: 'acme', audience: 'payments' });
    for (const change of [{ use: 'enc' }, { alg: 'RS512' }, { kty: 'oct' }]) {
      const keys = () => ({ keys: [{ ...key, ...change }] }) as never;
      const authorization = await jwtAuthorizer({ keys, clock: () => NOW })(tokens, token);
      expect(authorization).toMatchObject({
        error: 'invalid_token: the key of the token is not one of the issuer',
      });
    }
  });

  it.each(['abc', 'a.b', 'a.b.c.d', 'Bearer'])('is no token at all, as "%s"', async (text) => {
    expect(await refusalOf(text)).toBe('token contains an invalid number of segments');
  });

  it('is one that cannot be read', async () => {
    expect(await refusalOf('!.!.!')).toBe('the header of the token cannot be decoded');
    expect(await refusalOf(`${encoded([1])}.e30.c2ln`)).toMatch(/header|signing method/);
  });

  it.each(['[]', 'null', '7', 'no json'])('is one that claims %s', async (payload) => {
    const { privateKey, publicKey } = rsaKeys();
    const token = await new CompactSign(Buffer.from(payload))
      .setProtectedHeader({ alg: 'RS256', kid: 'k' })
      .sign(privateKey);
    const keys = () => ({ keys: [{ ...publicKey, kid: 'k' }] });
    expect(await jwtAuthorizer({ keys, clock: () => NOW })(tokens, token)).toMatchObject({
      error: 'invalid_token: the claims of the token cannot be decoded',
    });
  });

  it('is any, where nobody knows the keys of the issuer', async () => {
    const why = await refusalOf(await sign(good), { issuer: 'https://nowhere.test' });
    expect(why).toBe('OIDC discovery endpoint communication error');
  });

  it('repeats nothing of the token in its header', async () => {
    const nasty = 'x", scope="admin';
    const token = await sign({ ...good, aud: nasty, iss: nasty }, { kid: nasty });
    const authorization = await authorize(token);
    expect(JSON.stringify(authorization)).not.toContain('admin');
  });
});

describe('no token', () => {
  it.each([undefined, '', '   ', 'Bearer ', 'bearer   '])(
    'is refused without a reason: %j',
    async (credentials) => {
      expect(await authorize(credentials)).toEqual({
        kind: 'refused',
        status: 401,
        challenge: 'Bearer',
        error: 'missing: token not provided',
      });
    },
  );
});

describe('the scopes of a route', () => {
  const scopes = ['payments:write', 'payments:admin'];

  it.each<[string, Claims, readonly string[]]>([
    ['scope, with spaces between', { scope: 'openid payments:write' }, ['openid', 'payments:write']],
    ['scope, as a list', { scope: ['payments:admin'] }, ['payments:admin']],
    ['scp, as a list', { scp: ['payments:write', 'x'] }, ['payments:write', 'x']],
    ['scp, as a text', { scp: 'payments:write' }, ['payments:write']],
  ])(
    'are met by any one of them, in %s, and the function learns all of the token',
    async (_, claims, told) => {
      const token = await sign({ ...good, ...claims });
      expect(await authorize(token, { scopes })).toMatchObject({ kind: 'allowed', scopes: told });
    },
  );

  it.each<Claims>([{}, { scope: 'payments' }, { scope: 'payments:writes' }, { scope: 7 }, { scp: [7] }])(
    'are not met by %j: 403',
    async (claims) => {
      expect(await authorize(await sign({ ...good, ...claims }), { scopes })).toEqual({
        kind: 'refused',
        status: 403,
        challenge:
          'Bearer scope="payments:write payments:admin" error="insufficient_scope" error_description="the token does not have any of the required scopes"',
        error: 'insufficient_scope: the token does not have any of the required scopes',
      });
    },
  );

  it('are in the challenge of a token that is not good', async () => {
    expect(await refusalOf(await sign({ ...good, aud: 'x' }), { scopes })).toBe(
      'the token does not have a valid audience',
    );
  });
});

describe('a route with an authorizer', () => {
  const protectedRoute = (more: Partial<AuthorizerModel> = {}) => ({
    api: {
      routes: [
        { routeKey: 'GET /open', functionName: 'f' },
        { routeKey: 'POST /payments', functionName: 'f', authorizer: { ...tokens, ...more } },
      ],
    },
    authorize: jwtAuthorizer({ keys: () => published, clock: () => NOW }),
  });

  it('asks no function without a token: 401', async () => {
    const api = await gateway(protectedRoute());
    const answer = await api.send({ method: 'POST', path: '/payments', body: '{}' });
    expect(answer.status).toBe(401);
    expect(answer.body.toString()).toBe('{"message":"Unauthorized"}');
    expect(answer.header('www-authenticate')).toBe('Bearer');
    expect(api.invoked).toEqual([]);
  });

  it('says what is wrong with a token as API Gateway does', async () => {
    const api = await gateway(protectedRoute());
    const headers = [['authorization', `Bearer ${await sign({ ...good, aud: 'x' })}`]] as const;
    const answer = await api.send({ method: 'POST', path: '/payments', headers });
    expect(answer.status).toBe(401);
    expect(answer.header('www-authenticate')).toBe(
      'Bearer scope="" error="invalid_token" error_description="the token does not have a valid audience"',
    );
  });

  it('answers 403 to a token without its scopes', async () => {
    const api = await gateway(protectedRoute({ scopes: ['payments:write'] }));
    const headers = [['Authorization', await sign(good)]] as const;
    const answer = await api.send({ method: 'POST', path: '/payments', headers });
    expect(answer.status).toBe(403);
    expect(answer.body.toString()).toBe('{"message":"Forbidden"}');
  });

  it('takes the token out of the header that it names', async () => {
    const api = await gateway(protectedRoute({ header: 'X-Token' }));
    const token = await sign(good);
    const post = { method: 'POST', path: '/payments' };
    expect((await api.send({ ...post, headers: [['Authorization', token]] })).status).toBe(401);
    expect((await api.send({ ...post, headers: [['x-token', token]] })).status).toBe(200);
  });

  it('takes no request with two tokens', async () => {
    const api = await gateway(protectedRoute());
    const token = `Bearer ${await sign(good)}`;
    const headers = [
      ['Authorization', token],
      ['Authorization', token],
    ] as const;
    expect((await api.send({ method: 'POST', path: '/payments', headers })).status).toBe(401);
  });

  it('leaves the others open', async () => {
    const api = await gateway(protectedRoute());
    expect((await api.send({ path: '/open' })).status).toBe(200);
  });

  it('gives the function the claims where the product looks for its tenant', async () => {
    const api = await gateway(protectedRoute());
    const send = async (token: string) =>
      (await api.send({ method: 'POST', path: '/payments', headers: [['Authorization', `Bearer ${token}`]] }))
        .status;
    expect(await send(await issuer.token({ subject: 'acme', audience: 'payments' }))).toBe(200);
    expect(await send(await issuer.poolToken({ clientId: 'orders' }))).toBe(200);
    const [subject, client] = api.events.map(readEvent);
    expect(subject && jwtClaim('sub')(subject)).toBe('acme');
    expect(client && jwtClaim('client_id')(client)).toBe('orders');
  });
});
