import { CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import type { IHttpRouteAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpJwtAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import {
  FeaturePlan,
  OAuthScope,
  ResourceServerScope,
  UserPool,
  type UserPoolClient,
} from 'aws-cdk-lib/aws-cognito';
import type { Construct } from 'constructs';
import { InvalidArgument } from '../../core/errors.ts';
import { acknowledge } from '../acknowledge.ts';
import type { Settings } from './settings.ts';

export interface Tenancy {
  readonly authorizer: IHttpRouteAuthorizer;
  /** The claim that says whose keys they are. */
  readonly tenantClaim: string;
}

/** An issuer of the user's own, or the pool that was made for the tenants. */
export function tenancy({ issuer }: Settings, tenants: Tenants | undefined): Tenancy {
  if (issuer) {
    const { url, audience, tenantClaim } = issuer;
    return { authorizer: new HttpJwtAuthorizer('Tokens', url, { jwtAudience: [...audience] }), tenantClaim };
  }
  if (!tenants)
    throw new InvalidArgument('There is neither an issuer nor a pool, so nobody could call the API.');
  const { pool, clients } = tenants;
  const jwtAudience = clients.map(({ userPoolClientId }) => userPoolClientId);
  const authorizer = new HttpJwtAuthorizer('Tokens', pool.userPoolProviderUrl, { jwtAudience });
  return { authorizer, tenantClaim: 'client_id' };
}

/** Machines only: each tenant is a client with a secret, and its tokens carry its id. */
export interface Tenants {
  readonly pool: UserPool;
  readonly clients: readonly UserPoolClient[];
}

/**
 * Part of the state, and retained: a tenant is told by its client's id, and one that is made anew is another tenant, to whom
 * all keys of the old one are new.
 */
export function createTenants(scope: Construct, names: readonly string[]): Tenants {
  const pool = new UserPool(scope, 'Tenants', {
    selfSignUpEnabled: false,
    featurePlan: FeaturePlan.ESSENTIALS,
    passwordPolicy: {
      minLength: 16,
      requireDigits: true,
      requireLowercase: true,
      requireSymbols: true,
      requireUppercase: true,
    },
    deletionProtection: true,
    removalPolicy: RemovalPolicy.RETAIN,
  });
  const people = 'The pool has no people in it, only machine clients with secrets; nobody can sign up.';
  for (const rule of ['COG2', 'COG3', 'COG8']) acknowledge(pool, `AwsSolutions-${rule}`, people);
  const write = new ResourceServerScope({ scopeName: 'write', scopeDescription: 'Pay, order and transfer.' });
  const server = pool.addResourceServer('Api', { identifier: 'oncekey', scopes: [write] });
  const domain = pool.addDomain('Domain', {
    cognitoDomain: { domainPrefix: `oncekey-${Stack.of(scope).account}-${pool.node.addr.slice(-6)}` },
  });
  new CfnOutput(scope, 'TokenUrl', { value: `${domain.baseUrl()}/oauth2/token` });
  new CfnOutput(scope, 'TenantsPool', { value: pool.userPoolId });
  const clients = names.map((name) => {
    const client = pool.addClient(`Tenant-${name}`, {
      generateSecret: true,
      authFlows: {},
      oAuth: { flows: { clientCredentials: true }, scopes: [OAuthScope.resourceServer(server, write)] },
      accessTokenValidity: Duration.hours(1),
    });
    client.applyRemovalPolicy(RemovalPolicy.RETAIN);
    new CfnOutput(scope, `Tenant-${name}-client`, { value: client.userPoolClientId });
    return client;
  });
  return { pool, clients };
}
