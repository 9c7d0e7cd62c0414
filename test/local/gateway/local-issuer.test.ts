import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLocalJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../../lib/core/errors.ts';
import { localIssuer } from '../../../lib/local/gateway/local-issuer.ts';
import { NOW } from './stage.ts';

const ISSUER = 'https://issuer.oncekey.test';
const clock = () => NOW;

let parent: string;
let folders = 0;

beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'oncekey-issuer-'));
});

afterAll(() => rm(parent, { recursive: true }));

/** One that nobody has made yet. */
const newFolder = () => join(parent, String(folders++), 'data');

describe('a local issuer', () => {
  it('makes tokens as an OpenID provider does', async () => {
    const issuer = await localIssuer({ issuer: ISSUER, clock, newId: () => 'id-1' });
    const claims = { 'https://example.com/tenant': 'acme', iss: 'https://forged.test', sub: 'forged' };
    const token = await issuer.token({ subject: 'user-17', audience: 'payments', claims, ttlSeconds: 60 });
    expect(decodeJwt(token)).toEqual({
      iss: ISSUER,
      sub: 'user-17',
      aud: 'payments',
      iat: NOW / 1_000,
      exp: NOW / 1_000 + 60,
      jti: 'id-1',
      'https://example.com/tenant': 'acme',
    });
  });

  it('makes tokens as a Cognito user pool does for a machine: without an audience', async () => {
    const issuer = await localIssuer({ issuer: ISSUER, clock, newId: () => 'id-1' });
    const token = await issuer.poolToken({ clientId: 'acme-client', scopes: ['a/read', 'a/write'] });
    expect(decodeJwt(token)).toEqual({
      iss: ISSUER,
      sub: 'acme-client',
      client_id: 'acme-client',
      token_use: 'access',
      version: 2,
      scope: 'a/read a/write',
      iat: NOW / 1_000,
      exp: NOW / 1_000 + 3_600,
      jti: 'id-1',
    });
    expect(decodeJwt(await issuer.poolToken({ clientId: 'c' }))).not.toHaveProperty('scope');
  });

  it('signs with the key that it publishes, of which only the public half is told', async () => {
    const issuer = await localIssuer({ issuer: ISSUER, clock });
    const token = await issuer.token({ subject: 'acme', audience: ['payments', 'orders'] });
    const options = { issuer: ISSUER, audience: 'orders', currentDate: new Date(NOW), algorithms: ['RS256'] };
    const { payload } = await jwtVerify(token, createLocalJWKSet(issuer.keys), options);
    expect(payload.sub).toBe('acme');
    const [key] = issuer.keys.keys;
    expect(Object.keys(key ?? {}).toSorted()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
    expect(decodeProtectedHeader(token)).toEqual({ alg: 'RS256', kid: key?.kid });
  });

  it('says of itself what clients look for', async () => {
    const { configuration } = await localIssuer({ issuer: `${ISSUER}/`, clock });
    expect(configuration).toMatchObject({
      issuer: `${ISSUER}/`,
      jwks_uri: `${ISSUER}/.well-known/jwks.json`,
      id_token_signing_alg_values_supported: ['RS256'],
    });
  });
});

describe('the key of a local issuer', () => {
  it('is another one each time, where it is kept nowhere', async () => {
    const [a, b] = [await localIssuer({ issuer: ISSUER }), await localIssuer({ issuer: ISSUER })];
    expect(a.keys).not.toEqual(b.keys);
  });

  it('is the same after a restart, where it is kept in a folder, for nobody else to read', async () => {
    const folder = newFolder();
    const before = await localIssuer({ issuer: ISSUER, folder, clock });
    const token = await before.token({ subject: 'acme', audience: 'payments' });
    const after = await localIssuer({ issuer: ISSUER, folder, clock });
    expect(after.keys).toEqual(before.keys);
    await jwtVerify(token, createLocalJWKSet(after.keys), { currentDate: new Date(NOW) });
    const files = await readdir(folder);
    expect(files).toHaveLength(1);
    const { mode } = await stat(join(folder, String(files[0])));
    expect(mode & 0o777).toBe(0o600);
  });

  it('is one, whoever of several that begin at once comes first', async () => {
    const folder = newFolder();
    const issuers = await Promise.all(
      Array.from({ length: 4 }, () => localIssuer({ issuer: ISSUER, folder })),
    );
    const ids = new Set(issuers.map(({ keys }) => keys.keys[0]?.kid));
    expect(ids.size).toBe(1);
    expect(await readdir(folder)).toHaveLength(1);
  });

  it('is not that of another issuer in the same folder', async () => {
    const folder = newFolder();
    const a = await localIssuer({ issuer: ISSUER, folder });
    const b = await localIssuer({ issuer: `${ISSUER}/pool`, folder });
    expect(a.keys).not.toEqual(b.keys);
  });

  it.each([
    '',
    '{',
    '{}',
    '{"kty":"RSA","n":"AQAB","e":"AQAB"}',
    '{"kty":"RSA","n":"AQAB","e":"AQAB","d":"AQAB"}',
    '{"kty":"oct","k":"AQAB","d":"AQAB"}',
  ])('is not replaced by a new one where the file holds something else: %j', async (content) => {
    const folder = newFolder();
    await localIssuer({ issuer: ISSUER, folder });
    const path = join(folder, String((await readdir(folder))[0]));
    await writeFile(path, content);
    const begin = localIssuer({ issuer: ISSUER, folder });
    await expect(begin).rejects.toThrow(InvalidArgument);
    await expect(begin).rejects.toThrow(`${path} holds no private RSA key`);
    expect(await readFile(path, 'utf8')).toBe(content);
  });
});
