import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { SecretsManager } from '@aws-sdk/client-secrets-manager';
import { jwtClaim, type TenantResolver, type TransactWrite } from '../../lib/index.ts';
import { type Environment, variable } from '../runtime/environment.ts';
import { dynamoDbRows, type Rows } from './rows.ts';
import type { ReadSecret } from './secrets.ts';

/** AWS answers in milliseconds; a client that waits for a lost packet would wait until the function is killed. */
const requestHandler = { connectionTimeout: 1_000, requestTimeout: 3_000, throwOnRequestTimeout: true };

export function openRows(environment: Environment): Rows<TransactWrite> {
  const tableName = variable(environment, 'SERVICE_TABLE', "the name of the service's own table");
  return dynamoDbRows(tableName, new DynamoDBClient({ requestHandler }));
}

export function openTenant(environment: Environment): TenantResolver {
  return jwtClaim(
    variable(environment, 'TENANT_CLAIM', 'the claim of the JWT that names the tenant, such as client_id'),
  );
}

/** The variable names the secret; its text is read when it is first needed, and never at the start. */
export function secretOf(environment: Environment, name: string): ReadSecret {
  const SecretId = variable(environment, name, 'the name or ARN of a secret in Secrets Manager');
  const secrets = new SecretsManager({ requestHandler });
  return async () => {
    const { SecretString } = await secrets.getSecretValue({ SecretId });
    if (SecretString !== undefined && SecretString.trim() !== '') return SecretString.trim();
    throw new TypeError(`The secret that ${name} names has no text.`);
  };
}
