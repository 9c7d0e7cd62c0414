import type { PoolModel } from '../model.ts';
import { issuerOf } from './identities.ts';
import type { Found, Inventory } from './inventory.ts';

/** What else a pool has is for people, who cannot sign in here; a client of theirs is a problem of its own. */
export function readPool(found: Found, inventory: Inventory): PoolModel {
  const { properties } = found;
  if (properties.has('LambdaConfig')) {
    throw properties.problem('LambdaConfig', 'the local cloud calls no function when it issues a token.');
  }
  const clients = inventory
    .of('AWS::Cognito::UserPoolClient')
    .filter((client) => client.properties.text('UserPoolId') === found.ref());
  return {
    issuer: issuerOf(found.ref()),
    clients: clients.map((client) => ({ id: client.ref(), name: clientName(client) })),
  };
}

/** Of each client, also of one whose pool is not there. */
export function requireMachine({ properties }: Found, inventory: Inventory): void {
  const pool = properties.text('UserPoolId');
  if (!inventory.of('AWS::Cognito::UserPool').some((one) => one.ref() === pool)) {
    throw properties.problem('UserPoolId', `it is ${pool}; expected a user pool of the app.`);
  }
  const flows = properties.texts('AllowedOAuthFlows');
  if (flows.length === 1 && flows[0] === 'client_credentials') return;
  throw properties.problem(
    'AllowedOAuthFlows',
    `they are ${flows.length > 0 ? flows.join(', ') : 'none'}; people cannot sign in here, and the local cloud issues tokens for client_credentials only.`,
  );
}

/** A tenant's client is called as the tenant is. */
function clientName({ resource }: Found): string {
  const id = resource.path.slice(resource.path.lastIndexOf('/') + 1);
  return id.replace(/^Tenant-(?=.)/, '');
}
