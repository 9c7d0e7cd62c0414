import type { BucketModel, QueueModel, SecretModel } from '../model.ts';
import { bucketArn, queueArn, secretArn } from './identities.ts';
import type { Found } from './inventory.ts';

/** How they are kept safe, who may use them, how long things are kept: longer than anything runs here. */
const BUCKET = [
  ...['BucketName', 'NotificationConfiguration', 'VersioningConfiguration'],
  ...['AccessControl', 'AnalyticsConfigurations', 'BucketEncryption', 'IntelligentTieringConfigurations'],
  ...['InventoryConfigurations', 'LifecycleConfiguration', 'LoggingConfiguration', 'MetricsConfigurations'],
  ...['ObjectLockConfiguration', 'ObjectLockEnabled', 'OwnershipControls', 'PublicAccessBlockConfiguration'],
  ...['AbacStatus', 'Tags'],
];

export function readBucket(found: Found): BucketModel {
  const { properties } = found;
  properties.requireOnly(BUCKET);
  const notifications = properties.group('NotificationConfiguration');
  notifications.requireOnly(['EventBridgeConfiguration'], {
    LambdaConfigurations: 'the local cloud tells of new objects by EventBridge only.',
    QueueConfigurations: 'the local cloud tells of new objects by EventBridge only.',
    TopicConfigurations: 'the local cloud tells of new objects by EventBridge only.',
  });
  const bridge = notifications.group('EventBridgeConfiguration');
  const name = found.name();
  return {
    name,
    arn: bucketArn(name),
    tellsEventBus:
      notifications.has('EventBridgeConfiguration') &&
      (!bridge.has('EventBridgeEnabled') || bridge.flag('EventBridgeEnabled')),
    versioned: properties.group('VersioningConfiguration').optionalText('Status') === 'Enabled',
  };
}

/** Nobody receives from a queue here, so it is of no matter how. */
const QUEUE = [
  ...['QueueName', 'FifoQueue', 'DelaySeconds'],
  ...['KmsDataKeyReusePeriodSeconds', 'KmsMasterKeyId', 'SqsManagedSseEnabled', 'Tags'],
  ...['MaximumMessageSize', 'MessageRetentionPeriod', 'ReceiveMessageWaitTimeSeconds', 'VisibilityTimeout'],
  ...['RedriveAllowPolicy', 'RedrivePolicy'],
];

export function readQueue(found: Found): QueueModel {
  const { properties } = found;
  properties.requireOnly(QUEUE);
  if (properties.flag('FifoQueue'))
    throw properties.problem('FifoQueue', 'the local cloud has standard queues only.');
  if (properties.number('DelaySeconds', 0) > 0)
    throw properties.problem('DelaySeconds', 'the local cloud delivers to a queue at once.');
  const name = found.name();
  return { name, arn: queueArn(name) };
}

/** What a secret holds is said when the cloud is started; a generated value would open nothing. */
export function readSecret(found: Found): SecretModel {
  found.properties.requireOnly([
    ...['Name', 'Description', 'GenerateSecretString', 'KmsKeyId', 'ReplicaRegions', 'SecretString'],
    ...['Tags', 'Type'],
  ]);
  return { arn: secretArn(found.name()), path: found.resource.path };
}
