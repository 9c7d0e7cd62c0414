import { allOf, type HttpRequest, iamPrincipal, jwtClaim, lambdaAuthorizer } from 'oncekey';

// #region tenants
export const tenants = {
  jwt: jwtClaim('sub'), // JWT authorizer of an HTTP API, Cognito authorizer of a REST API
  lambda: lambdaAuthorizer('tenantId'), // what your Lambda authorizer puts into its context
  iam: iamPrincipal(), // the user or role that signed the request, whatever its session
  account: ({ authorizer }: HttpRequest) => authorizer.iam?.accountId, // a function of your own
  person: allOf(jwtClaim('tenant_id'), jwtClaim('sub')), // a key belongs to one person of one tenant
};
// #endregion tenants

// #region operation
/** For a load balancer, a function URL or a {proxy+} route, where nothing else tells an id from a name. */
export function operation({ method, path }: HttpRequest): string {
  return `${method.toUpperCase()} ${path.replace(/^\/orders\/[^/]+\//, '/orders/{id}/')}`;
}
// #endregion operation
