import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  calculateJwkThumbprint,
  exportJWK,
  generateKeyPair,
  importJWK,
  type JSONWebKeySet,
  type JWK,
  SignJWT,
} from 'jose';
import { InvalidArgument } from '../../core/errors.ts';
import { textIn } from '../files.ts';

export interface LocalIssuerOptions {
  /** Only a name here: nobody fetches anything from it. */
  readonly issuer: string;
  /** Where its key is kept, so that tokens outlive a restart. */
  readonly folder?: string;
  readonly clock?: () => number;
  readonly newId?: () => string;
}

/** As an OpenID provider makes them: for a subject, to be shown to an audience. */
interface TokenWanted {
  readonly subject: string;
  readonly audience: string | readonly string[];
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly ttlSeconds?: number;
}

/** As a Cognito user pool makes them for a machine: no audience, and the client is its own subject. */
interface PoolTokenWanted {
  readonly clientId: string;
  readonly scopes?: readonly string[];
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly ttlSeconds?: number;
}

export interface LocalIssuer {
  readonly issuer: string;
  /** The public half. */
  readonly keys: JSONWebKeySet;
  /** What an issuer has under `/.well-known/openid-configuration`. */
  readonly configuration: Readonly<Record<string, unknown>>;
  token(wanted: TokenWanted): Promise<string>;
  poolToken(wanted: PoolTokenWanted): Promise<string>;
}

/** As long as Cognito's are good, unless somebody says otherwise. */
const TTL_SECONDS = 3_600;

const ALG = 'RS256';

/** Signs tokens for this machine with a key of its own. */
export async function localIssuer(options: LocalIssuerOptions): Promise<LocalIssuer> {
  const { issuer, folder, clock = Date.now, newId = randomUUID } = options;
  const signingKey = folder === undefined ? await newKey() : await keptKey(folder, issuer);
  const key = await importJWK(signingKey, ALG);
  const published = publicHalf(signingKey);
  const kid = await calculateJwkThumbprint(published);
  const keys = { keys: [{ ...published, kid, alg: ALG, use: 'sig' }] };

  return {
    issuer,
    keys,
    configuration: configurationOf(issuer),
    token: ({ subject, audience, claims, ttlSeconds }) =>
      signed(
        { ...claims, sub: subject, aud: typeof audience === 'string' ? audience : [...audience] },
        ttlSeconds,
      ),
    poolToken: ({ clientId, scopes, claims, ttlSeconds }) =>
      signed(
        {
          ...claims,
          sub: clientId,
          client_id: clientId,
          token_use: 'access',
          version: 2,
          ...(scopes && { scope: scopes.join(' ') }),
        },
        ttlSeconds,
      ),
  };

  function signed(claims: Record<string, unknown>, ttlSeconds = TTL_SECONDS): Promise<string> {
    const iat = Math.floor(clock() / 1_000);
    const whole = { ...claims, iss: issuer, iat, exp: iat + ttlSeconds, jti: newId() };
    return new SignJWT(whole).setProtectedHeader({ alg: ALG, kid }).sign(key);
  }
}

function configurationOf(issuer: string): Readonly<Record<string, unknown>> {
  return {
    issuer,
    jwks_uri: `${issuer.replace(/\/$/, '')}/.well-known/jwks.json`,
    response_types_supported: ['token'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [ALG],
  };
}

async function newKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALG, { extractable: true });
  return exportJWK(privateKey);
}

function publicHalf({ kty, n, e }: JWK): JWK {
  if (kty !== 'RSA' || typeof n !== 'string' || typeof e !== 'string')
    throw new TypeError('It is no RSA key.');
  return { kty, n, e };
}

/** Each issuer has a key of its own: what one signs must not pass for the other's. */
async function keptKey(folder: string, issuer: string): Promise<JWK> {
  const digest = createHash('sha256').update(issuer).digest('hex').slice(0, 12);
  const path = join(folder, `issuer-${digest}.json`);
  const kept = await textIn(path);
  if (kept !== undefined) return keyIn(kept, path);
  await mkdir(folder, { recursive: true });
  await putIfAbsent(path, JSON.stringify(await newKey()));
  return keyIn(await readFile(path, 'utf8'), path);
}

/** A link appears whole or not at all, and does not replace: of two processes that begin at once, one key is kept. */
async function putIfAbsent(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, text, { mode: 0o600, flag: 'wx' });
  try {
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(draft);
  }
}

async function keyIn(text: string, path: string): Promise<JWK> {
  try {
    const key = JSON.parse(text) as JWK;
    if (key.kty === 'RSA' && typeof key.d === 'string' && (await importJWK(key, ALG))) return key;
  } catch {
    // As below. The reason may quote what is in there, and that may be a key.
  }
  throw new InvalidArgument(
    `${path} holds no private RSA key, as a JSON Web Key. Delete the file, and a new key is made; tokens of the old one are then refused.`,
  );
}
