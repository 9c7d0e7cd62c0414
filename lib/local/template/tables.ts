import type { Projection } from '@aws-sdk/client-dynamodb';
import type { TableModel } from '../model.ts';
import { tableArn } from './identities.ts';
import type { Found } from './inventory.ts';
import type { Properties } from './properties.ts';

const KNOWN = [
  'TableName',
  'AttributeDefinitions',
  'KeySchema',
  'GlobalSecondaryIndexes',
  'LocalSecondaryIndexes',
  'StreamSpecification',
  'TimeToLiveSpecification',
  // How much it may take, how it is kept safe, and where else it is: there is one Region, and DynamoDB Local never throttles.
  'BillingMode',
  'ContributorInsightsSpecification',
  'DeletionProtectionEnabled',
  'GlobalTableSettingsReplicationMode',
  'GlobalTableWitnesses',
  'MultiRegionConsistency',
  'OnDemandThroughput',
  'PointInTimeRecoverySpecification',
  'ProvisionedThroughput',
  'ReadOnDemandThroughputSettings',
  'ReadProvisionedThroughputSettings',
  'Replicas',
  'ResourcePolicy',
  'SSESpecification',
  'TableClass',
  'Tags',
  'WarmThroughput',
  'WriteOnDemandThroughputSettings',
  'WriteProvisionedThroughputSettings',
];

const REASONS = {
  ImportSourceSpecification:
    'the local cloud imports nothing from a bucket; a table is empty when it is made.',
  KinesisStreamSpecification: 'there is no Kinesis in the local cloud.',
};

const VIEWS = ['NEW_AND_OLD_IMAGES', 'NEW_IMAGE', 'OLD_IMAGE', 'KEYS_ONLY'] as const;

export function readTable(found: Found): TableModel {
  const { properties } = found;
  properties.requireOnly(KNOWN, REASONS);
  for (const replica of properties.groups('Replicas')) {
    if (replica.has('KinesisStreamSpecification'))
      throw replica.problem('KinesisStreamSpecification', REASONS.KinesisStreamSpecification);
  }
  const name = found.name();
  const globals = properties.groups('GlobalSecondaryIndexes').map(indexOf);
  const locals = properties.groups('LocalSecondaryIndexes').map(indexOf);
  const ttl = properties.group('TimeToLiveSpecification');
  const view = properties.has('StreamSpecification')
    ? properties.group('StreamSpecification').oneOf('StreamViewType', VIEWS)
    : undefined;
  return {
    name,
    arn: tableArn(name),
    input: {
      TableName: name,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: properties.groups('AttributeDefinitions').map((one) => ({
        AttributeName: one.text('AttributeName'),
        AttributeType: one.oneOf('AttributeType', ['S', 'N', 'B']),
      })),
      KeySchema: keysOf(properties),
      ...(globals.length > 0 && { GlobalSecondaryIndexes: globals }),
      ...(locals.length > 0 && { LocalSecondaryIndexes: locals }),
      ...(view && { StreamSpecification: { StreamEnabled: true, StreamViewType: view } }),
    },
    ...(ttl.flag('Enabled') && { ttlAttribute: ttl.text('AttributeName') }),
  };
}

function keysOf(properties: Properties) {
  return properties.groups('KeySchema').map((one) => ({
    AttributeName: one.text('AttributeName'),
    KeyType: one.oneOf('KeyType', ['HASH', 'RANGE']),
  }));
}

function indexOf(index: Properties) {
  const projected = index.group('Projection');
  const attributes = projected.texts('NonKeyAttributes');
  const projection: Projection = {
    ProjectionType: projected.oneOf('ProjectionType', ['ALL', 'KEYS_ONLY', 'INCLUDE']),
    ...(attributes.length > 0 && { NonKeyAttributes: attributes }),
  };
  return { IndexName: index.text('IndexName'), KeySchema: keysOf(index), Projection: projection };
}
