import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';

/** DynamoDB Local takes any credentials; real ones must never be sent to it by accident. */
export function localClientConfig(endpoint: string): DynamoDBClientConfig {
  return { endpoint, region: 'local', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
}
