import { describe, expect, it } from 'vitest';
import { modelWith, problemsWith, ref, resource, tableWith } from './templates.ts';

describe('a table', () => {
  it('is as DynamoDB makes one, with what it streams and when its items end', () => {
    const index = (IndexName: string, Projection: object) => ({
      IndexName,
      KeySchema: [{ AttributeName: 'at', KeyType: 'HASH' }],
      Projection,
      ProvisionedThroughput: { ReadCapacityUnits: 1, WriteCapacityUnits: 1 },
    });
    const Rows = tableWith({
      AttributeDefinitions: [
        { AttributeName: 'pk', AttributeType: 'S' },
        { AttributeName: 'at', AttributeType: 'N' },
      ],
      GlobalSecondaryIndexes: [index('due', { ProjectionType: 'INCLUDE', NonKeyAttributes: ['a'] })],
      LocalSecondaryIndexes: [index('near', { ProjectionType: 'ALL' })],
      TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true },
      ProvisionedThroughput: { ReadCapacityUnits: 1, WriteCapacityUnits: 1 },
      SSESpecification: { SSEEnabled: true },
    });
    const KeySchema = [{ AttributeName: 'at', KeyType: 'HASH' }];
    expect(modelWith({ Rows }).tables).toEqual([
      {
        name: 'Shop-Rows',
        arn: 'arn:aws:dynamodb:us-east-1:000000000000:table/Shop-Rows',
        input: {
          TableName: 'Shop-Rows',
          BillingMode: 'PAY_PER_REQUEST',
          AttributeDefinitions: [
            { AttributeName: 'pk', AttributeType: 'S' },
            { AttributeName: 'at', AttributeType: 'N' },
          ],
          KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
          GlobalSecondaryIndexes: [
            {
              IndexName: 'due',
              KeySchema,
              Projection: { ProjectionType: 'INCLUDE', NonKeyAttributes: ['a'] },
            },
          ],
          LocalSecondaryIndexes: [{ IndexName: 'near', KeySchema, Projection: { ProjectionType: 'ALL' } }],
          StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' },
        },
        ttlAttribute: 'ttl',
      },
    ]);
  });

  it('streams nothing and keeps everything, where nothing else is said', () => {
    const Rows = tableWith({
      TableName: 'rows',
      StreamSpecification: ref('AWS::NoValue'),
      TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: false },
    });
    const [table] = modelWith({ Rows }).tables;
    expect(table?.name).toBe('rows');
    expect(table?.input.StreamSpecification).toBeUndefined();
    expect(table?.ttlAttribute).toBeUndefined();
  });

  it('is not made of a condition that is false', () => {
    const conditions = { Conditions: { Never: { 'Fn::Equals': ['a', 'b'] } } };
    expect(modelWith({ Rows: { ...tableWith(), Condition: 'Never' } }, conditions).tables).toEqual([]);
  });

  it('of a condition that is nowhere is a problem', () => {
    expect(problemsWith({ Rows: { ...tableWith(), Condition: 'Never' } })).toEqual([
      'Shop, Rows (Shop/Rows, AWS::DynamoDB::Table), Condition: the stack Shop has no condition Never.',
    ]);
  });

  it.each<[object, RegExp]>([
    [{ KinesisStreamSpecification: { StreamArn: 'x' } }, /KinesisStreamSpecification: there is no Kinesis/],
    [
      { Replicas: [{ Region: 'us-east-1', KinesisStreamSpecification: { StreamArn: 'x' } }] },
      /Replicas\.0\.KinesisStreamSpecification: there is no Kinesis/,
    ],
    [{ ImportSourceSpecification: { InputFormat: 'CSV' } }, /ImportSourceSpecification: .* imports nothing/],
    [
      { StreamSpecification: { StreamViewType: 'SOME' } },
      /StreamViewType: it is SOME; .* NEW_AND_OLD_IMAGES or/,
    ],
    [{ KeySchema: 'pk' }, /KeySchema: it is "pk"; expected a list/],
    [{ KeySchema: ['pk'] }, /KeySchema: it is "pk"; expected a group of properties/],
  ])('with %j is not run', (properties, why) => {
    expect(problemsWith({ Rows: tableWith(properties) })).toEqual([expect.stringMatching(why)]);
  });
});

describe('a bucket', () => {
  it('is told by its name, and tells the event bus where it should', () => {
    const told = (EventBridgeConfiguration: object) => ({
      NotificationConfiguration: { EventBridgeConfiguration },
    });
    const model = modelWith({
      Plain: resource('S3::Bucket', { BucketName: 'plain' }),
      Telling: resource('S3::Bucket', {
        ...told({ EventBridgeEnabled: true }),
        VersioningConfiguration: { Status: 'Enabled' },
      }),
      Always: resource('S3::Bucket', told({})),
      Never: resource('S3::Bucket', {
        ...told({ EventBridgeEnabled: false }),
        VersioningConfiguration: { Status: 'Suspended' },
      }),
    });
    expect(model.buckets).toEqual([
      { name: 'plain', arn: 'arn:aws:s3:::plain', tellsEventBus: false, versioned: false },
      { name: 'shop-telling', arn: 'arn:aws:s3:::shop-telling', tellsEventBus: true, versioned: true },
      { name: 'shop-always', arn: 'arn:aws:s3:::shop-always', tellsEventBus: true, versioned: false },
      { name: 'shop-never', arn: 'arn:aws:s3:::shop-never', tellsEventBus: false, versioned: false },
    ]);
  });

  it.each<[object, RegExp]>([
    [
      { NotificationConfiguration: { QueueConfigurations: [{}] } },
      /QueueConfigurations: .* EventBridge only/,
    ],
    [
      { ReplicationConfiguration: { Role: 'x' } },
      /ReplicationConfiguration: the local cloud would not honour/,
    ],
  ])('with %j is not run', (properties, why) => {
    expect(problemsWith({ Objects: resource('S3::Bucket', properties) })).toEqual([
      expect.stringMatching(why),
    ]);
  });
});

describe('a queue', () => {
  it('is told by its name', () => {
    const Letters = resource('SQS::Queue', { MessageRetentionPeriod: 60, DelaySeconds: 0 });
    expect(modelWith({ Letters }).queues).toEqual([
      { name: 'Shop-Letters', arn: 'arn:aws:sqs:us-east-1:000000000000:Shop-Letters' },
    ]);
  });

  it.each<[object, RegExp]>([
    [{ FifoQueue: true }, /FifoQueue: .* standard queues only/],
    [{ DelaySeconds: 5 }, /DelaySeconds: .* at once/],
  ])('with %j is not run', (properties, why) => {
    expect(problemsWith({ Letters: resource('SQS::Queue', properties) })).toEqual([
      expect.stringMatching(why),
    ]);
  });
});

it('a secret is told by its path, and asked for by its ARN', () => {
  const Metadata = { 'aws:cdk:path': 'Shop/Stripe/Key/Resource' };
  expect(
    modelWith({ Key: resource('SecretsManager::Secret', { Name: 'stripe' }, { Metadata }) }).secrets,
  ).toEqual([
    { arn: 'arn:aws:secretsmanager:us-east-1:000000000000:secret:stripe-000000', path: 'Shop/Stripe/Key' },
  ]);
});

describe('a user pool', () => {
  const client = (properties: object, path: string) =>
    resource(
      'Cognito::UserPoolClient',
      { UserPoolId: ref('Pool'), AllowedOAuthFlows: ['client_credentials'], ...properties },
      { Metadata: { 'aws:cdk:path': path } },
    );

  it('has its own clients, each by the tenant that it is of', () => {
    const model = modelWith({
      Pool: resource('Cognito::UserPool', { MfaConfiguration: 'OFF' }),
      Domain: resource('Cognito::UserPoolDomain', { UserPoolId: ref('Pool'), Domain: 'd' }),
      A: client({}, 'Shop/Pool/Tenant-acme'),
      B: client({}, 'Shop/Pool/Batch/Resource'),
      Other: resource('Cognito::UserPool', {}),
      C: client({ UserPoolId: ref('Other') }, 'Shop/Other/Tenant-acme'),
    });
    const issuer = 'https://cognito-idp.us-east-1.amazonaws.com/us-east-1_Shop';
    expect(model.pools).toEqual([
      {
        issuer: `${issuer}Pool`,
        clients: [
          { id: 'pool-tenant-acme', name: 'acme' },
          { id: 'batch', name: 'Batch' },
        ],
      },
      { issuer: `${issuer}Other`, clients: [{ id: 'other-tenant-acme', name: 'acme' }] },
    ]);
  });

  it.each<[object, object, RegExp]>([
    [
      { LambdaConfig: { PreTokenGeneration: 'x' } },
      {},
      /LambdaConfig: .* no function when it issues a token/,
    ],
    [{}, { AllowedOAuthFlows: ['code'] }, /AllowedOAuthFlows: they are code; people cannot sign in here/],
    [{}, { AllowedOAuthFlows: [] }, /AllowedOAuthFlows: they are none/],
    [{}, { UserPoolId: 'us-east-1_else' }, /UserPoolId: it is us-east-1_else; expected a user pool/],
  ])('with %j and a client with %j is not run', (pool, properties, why) => {
    const problems = problemsWith({
      Pool: resource('Cognito::UserPool', pool),
      A: client(properties, 'Shop/Pool/A'),
    });
    expect(problems).toEqual([expect.stringMatching(why)]);
  });
});
