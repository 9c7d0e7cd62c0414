import { compactVerify, decodeProtectedHeader, importJWK, type JSONWebKeySet, type JWK } from 'jose';
import type { AuthorizerModel } from '../model.ts';
import type { Authorization, Authorize } from './authorization.ts';
import { printedClaims } from './claims.ts';

export interface JwtAuthorizerOptions {
  /** What an issuer has published; nothing is fetched. */
  readonly keys: (issuer: string) => JSONWebKeySet | undefined;
  readonly clock?: () => number;
}

/** Why a token is not good. What is said of it goes into a header: nothing of the token itself is in it. */
class InvalidToken extends Error {
  override readonly name = 'InvalidToken';
}

type Claims = Readonly<Record<string, unknown>>;

/** API Gateway takes RSA signatures only. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512'];

/** `Bearer ` may be there or not, in any case. */
const SCHEME = /^bearer(?: +|$)/i;

/**
 * The JWT authorizer: the signature by a key of the issuer, then the claims, in the order of API Gateway's
 * documentation, then the scopes of the route. There is no tolerance for clocks.
 */
export function jwtAuthorizer({ keys, clock = Date.now }: JwtAuthorizerOptions): Authorize {
  return async (authorizer, credentials) => {
    const token = credentials?.trim().replace(SCHEME, '') ?? '';
    if (token === '') return refused(401, 'Bearer', 'missing: token not provided');
    try {
      const claims = await signedClaims(token, keys(authorizer.issuer));
      checkClaims(claims, authorizer, clock());
      return scoped(claims, authorizer);
    } catch (error) {
      if (error instanceof InvalidToken) return invalid(authorizer, error.message);
      throw error;
    }
  };
}

function refused(status: 401 | 403, challenge: string, error: string): Authorization {
  return { kind: 'refused', status, challenge, error };
}

function invalid(authorizer: AuthorizerModel, why: string): Authorization {
  return refused(401, challenge(authorizer, 'invalid_token', why), `invalid_token: ${why}`);
}

function challenge({ scopes }: AuthorizerModel, error: string, why: string): string {
  return `Bearer scope="${scopes.join(' ')}" error="${error}" error_description="${why}"`;
}

async function signedClaims(token: string, published: JSONWebKeySet | undefined): Promise<Claims> {
  if (token.split('.').length !== 3) throw new InvalidToken('token contains an invalid number of segments');
  if (!published) throw new InvalidToken('OIDC discovery endpoint communication error');
  const { alg, kid } = headerOf(token);
  if (typeof alg !== 'string' || !ALGORITHMS.includes(alg))
    throw new InvalidToken('signing method is invalid');
  const key = published.keys.find((one) => isFor(one, kid, alg));
  if (!key) throw new InvalidToken('the key of the token is not one of the issuer');
  try {
    const { payload } = await compactVerify(token, await importJWK(key, alg), { algorithms: [alg] });
    return claimsIn(payload);
  } catch (error) {
    if (error instanceof InvalidToken) throw error;
    throw new InvalidToken('the signature of the token is not valid');
  }
}

function headerOf(token: string): { readonly alg?: unknown; readonly kid?: unknown } {
  try {
    return decodeProtectedHeader(token);
  } catch {
    throw new InvalidToken('the header of the token cannot be decoded');
  }
}

/** A key says which algorithm it is for; one for encryption signs nothing. */
function isFor(key: JWK, kid: unknown, alg: string): boolean {
  return (
    typeof kid === 'string' &&
    key.kid === kid &&
    key.kty === 'RSA' &&
    (key.alg ?? alg) === alg &&
    (key.use ?? 'sig') === 'sig'
  );
}

function claimsIn(payload: Uint8Array): Claims {
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload).toString('utf8'));
    if (typeof claims === 'object' && claims !== null && !Array.isArray(claims)) return claims as Claims;
  } catch {
    // As below.
  }
  throw new InvalidToken('the claims of the token cannot be decoded');
}

function checkClaims(claims: Claims, { issuer, audience }: AuthorizerModel, now: number): void {
  const { iss, exp, nbf, iat } = claims;
  if (iss !== issuer) throw new InvalidToken('the token does not have a valid issuer');
  if (!audiencesOf(claims).some((one) => audience.includes(one))) {
    throw new InvalidToken('the token does not have a valid audience');
  }
  if (!(typeof exp === 'number' && exp * 1_000 > now)) throw new InvalidToken('the token has expired');
  if (!hasBegun(nbf, now)) throw new InvalidToken('the token is not valid yet');
  if (!hasBegun(iat, now)) throw new InvalidToken('the token was issued in the future');
}

/** `client_id` counts only where there is no `aud`: tokens of a Cognito user pool have none. */
function audiencesOf({ aud, client_id: clientId }: Claims): readonly string[] {
  const named = aud === undefined ? clientId : aud;
  return (Array.isArray(named) ? named : [named]).filter((one) => typeof one === 'string');
}

function hasBegun(seconds: unknown, now: number): boolean {
  return seconds === undefined || (typeof seconds === 'number' && seconds * 1_000 <= now);
}

function scoped(claims: Claims, authorizer: AuthorizerModel): Authorization {
  const printed = printedClaims(claims);
  if (authorizer.scopes.length === 0) return { kind: 'allowed', claims: printed, scopes: null };
  const scopes = [...scopesIn(claims['scope']), ...scopesIn(claims['scp'])];
  if (scopes.some((scope) => authorizer.scopes.includes(scope))) {
    return { kind: 'allowed', claims: printed, scopes };
  }
  const why = 'the token does not have any of the required scopes';
  const header = challenge(authorizer, 'insufficient_scope', why);
  return refused(403, header, `insufficient_scope: ${why}`);
}

/** A text with spaces between, or a list. */
function scopesIn(claim: unknown): readonly string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((scope) => scope !== '');
  return Array.isArray(claim) ? claim.filter((scope) => typeof scope === 'string') : [];
}
