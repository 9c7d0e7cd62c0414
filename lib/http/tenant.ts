import { InvalidArgument } from '../core/errors.ts';
import type { HttpRequest } from './neutral.ts';

/** Whose keys these are. `undefined` means that the request does not say, and then it must not run. */
export type TenantResolver = (request: HttpRequest) => string | undefined;

/** A claim of a JWT (HTTP API) or Cognito (REST API) authorizer: `jwtClaim('sub')`. */
export function jwtClaim(name: string): TenantResolver {
  const claim = named('jwtClaim', name);
  return ({ authorizer }) => {
    const value = identifier(authorizer.jwt, claim);
    return value !== undefined && PRINTED_COLLECTION.test(value) ? undefined : value;
  };
}

/** A value from a Lambda authorizer's context: `lambdaAuthorizer('tenantId')`. */
export function lambdaAuthorizer(name: string): TenantResolver {
  const key = named('lambdaAuthorizer', name);
  return ({ authorizer }) => identifier(authorizer.lambda, key);
}

/**
 * The IAM user or role that signed the request, or the identity in a Cognito identity pool, whose members all share
 * one role. Without the name of the role's session: a client that restarts has another one, and its retry must find
 * its key. Where sessions of one role are different tenants, write `(request) => request.authorizer.iam?.userArn`.
 */
export function iamPrincipal(): TenantResolver {
  return ({ authorizer: { iam } }) =>
    iam?.cognitoIdentityId ?? iam?.userArn?.replace(/(:assumed-role\/[^/]+)\/.*$/s, '$1');
}

/** All of them, for a scope such as tenant and subject. As a JSON array, so that no two lists look alike. */
export function allOf(...resolvers: readonly TenantResolver[]): TenantResolver {
  if (resolvers.length === 0) throw new InvalidArgument('allOf() needs at least one resolver to combine.');
  return (request) => {
    const parts = resolvers.map((resolve) => resolve(request));
    return parts.every((part) => typeof part === 'string' && part !== '') ? JSON.stringify(parts) : undefined;
  };
}

/** What a resolver of anybody's found; without a value of its own, callers would share their keys. */
export function requiredTenant(found: unknown): string {
  if (typeof found === 'string' && found.trim() !== '' && !PRINTED_NOTHING.includes(found)) return found;
  throw new InvalidArgument(
    'The tenant resolver found no tenant in this request. Put an authorizer in front of the route, or name the claim that it sets: without a tenant, callers would share their keys.',
  );
}

function named(resolver: string, name: unknown): string {
  if (typeof name === 'string' && name !== '') return name;
  throw new InvalidArgument(`${resolver}() needs a name, as in ${resolver}('tenantId').`);
}

/** HTTP APIs hand over every claim as text: a list as `[a b]`, an object as `map[a:b]`, and neither can be undone. */
const PRINTED_COLLECTION = /^(?:map)?\[.*\]$/s;

/** What a template makes of a value that is not there. As a tenant it would be shared by all who have none. */
const PRINTED_NOTHING = ['undefined', 'null', 'NaN', '[object Object]'];

/** Integers that a double holds exactly: beyond them two tenants could be one number. */
function identifier(
  context: Readonly<Record<string, unknown>> | undefined,
  name: string,
): string | undefined {
  const value = context && Object.hasOwn(context, name) ? context[name] : undefined;
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined;
  if (typeof value !== 'string' || value.trim() === '') return undefined;
  return PRINTED_NOTHING.includes(value) ? undefined : value;
}
