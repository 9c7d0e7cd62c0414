import { Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { CfnEventSourceMapping, StartingPosition } from 'aws-cdk-lib/aws-lambda';
import { DynamoEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { CfnPipe } from 'aws-cdk-lib/aws-pipes';
import { describe, expect, it } from 'vitest';
import { IdempotencyLedger } from '../../lib/infra/ledger.ts';
import { Reconciliation } from '../../lib/infra/reconciliation.ts';
import { createTableInput } from '../../lib/ledger/schema.ts';
import { allowedTo, newFunction, newStack } from './stage.ts';

const TABLE = 'AWS::DynamoDB::GlobalTable';

describe('the ledger', () => {
  it('is the table that the code is written for', () => {
    const stack = newStack();
    new IdempotencyLedger(stack, 'Ledger');
    const { AttributeDefinitions, KeySchema, GlobalSecondaryIndexes = [] } = createTableInput('any');
    Template.fromStack(stack).hasResourceProperties(TABLE, {
      AttributeDefinitions,
      KeySchema,
      GlobalSecondaryIndexes: GlobalSecondaryIndexes.map((index) => Match.objectLike({ ...index })),
      BillingMode: 'PAY_PER_REQUEST',
      TimeToLiveSpecification: { AttributeName: 'ttl', Enabled: true },
      StreamSpecification: { StreamViewType: 'NEW_AND_OLD_IMAGES' },
      WriteOnDemandThroughputSettings: { MaxWriteRequestUnits: 8_000 },
    });
  });

  it('has no index but the sparse one of what is due: nothing on the requests’ path pays for one', () => {
    const stack = newStack();
    new IdempotencyLedger(stack, 'Ledger');
    const [table] = Object.values(Template.fromStack(stack).findResources(TABLE));
    const indexes: { IndexName: string; Projection: object }[] = table?.['Properties'].GlobalSecondaryIndexes;
    expect(indexes.map(({ IndexName, Projection }) => [IndexName, Projection])).toEqual([
      ['due', { ProjectionType: 'KEYS_ONLY' }],
    ]);
    expect(table?.['Properties'].LocalSecondaryIndexes).toBeUndefined();
  });

  it('outlives its stack, and can be restored', () => {
    const stack = newStack();
    new IdempotencyLedger(stack, 'Ledger');
    const template = Template.fromStack(stack);
    template.hasResource(TABLE, { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
    template.hasResourceProperties(TABLE, {
      Replicas: [
        Match.objectLike({
          DeletionProtectionEnabled: true,
          PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true },
          ContributorInsightsSpecification: { Enabled: true, Mode: 'THROTTLED_KEYS' },
          ReadOnDemandThroughputSettings: { MaxReadRequestUnits: 8_000 },
        }),
      ],
    });
    template.hasResource('AWS::S3::Bucket', { DeletionPolicy: 'Retain' });
  });

  it('keeps failed batches private, encrypted, for a month, and tells EventBridge of each', () => {
    const stack = newStack();
    new IdempotencyLedger(stack, 'Ledger');
    const template = Template.fromStack(stack);
    template.hasResourceProperties('AWS::S3::Bucket', {
      BucketEncryption: Match.anyValue(),
      PublicAccessBlockConfiguration: {
        BlockPublicAcls: true,
        BlockPublicPolicy: true,
        IgnorePublicAcls: true,
        RestrictPublicBuckets: true,
      },
      LifecycleConfiguration: { Rules: [Match.objectLike({ ExpirationInDays: 30, Status: 'Enabled' })] },
      NotificationConfiguration: { EventBridgeConfiguration: { EventBridgeEnabled: true } },
    });
    template.hasResourceProperties('AWS::S3::Bucket', { VersioningConfiguration: { Status: 'Enabled' } });
    template.hasResourceProperties('AWS::S3::BucketPolicy', {
      PolicyDocument: {
        Statement: [
          Match.objectLike({
            Action: 's3:*',
            Condition: { Bool: { 'aws:SecureTransport': 'false' } },
            Effect: 'Deny',
            Principal: { AWS: '*' },
          }),
        ],
      },
    });
    template.resourceCountIs('AWS::Lambda::Function', 0);
  });

  it('is encrypted with a key of the account’s own where one is given, and its users may use that key', () => {
    const stack = newStack({ region: 'eu-central-1' });
    const encryptionKey = new Key(stack, 'Key');
    const ledger = new IdempotencyLedger(stack, 'Ledger', { encryptionKey });
    ledger.protect(newFunction(stack, 'Payments'));
    const template = Template.fromStack(stack);
    template.hasResourceProperties(TABLE, { SSESpecification: { SSEEnabled: true, SSEType: 'KMS' } });
    const onKey = allowedTo(template, /^Payments/).filter((one) => one.startsWith('kms:'));
    expect(onKey).toEqual(['kms:Decrypt on Key', 'kms:DescribeKey on Key']);
  });

  it('refuses a key of one’s own where nobody says in which Region it will be', () => {
    const stack = newStack();
    const encryptionKey = new Key(stack, 'Key');
    expect(() => new IdempotencyLedger(stack, 'Ledger', { encryptionKey })).toThrow(
      /env: \{ region: 'eu-central-1' \}/,
    );
  });

  it('can be thrown away only by who says so', () => {
    const stack = newStack();
    new IdempotencyLedger(stack, 'Ledger', { removalPolicy: RemovalPolicy.DESTROY });
    const template = Template.fromStack(stack);
    template.hasResource(TABLE, { DeletionPolicy: 'Delete' });
    template.hasResourceProperties(TABLE, {
      Replicas: [Match.objectLike({ DeletionProtectionEnabled: false })],
    });
  });
});

describe('protecting a function', () => {
  it('allows what the code does to the table, and nothing else: no delete, no scan, no index', () => {
    const stack = newStack();
    new IdempotencyLedger(stack, 'Ledger').protect(newFunction(stack, 'Payments'));
    expect(allowedTo(Template.fromStack(stack), /^Payments/)).toEqual([
      'dynamodb:GetItem on LedgerTable',
      'dynamodb:PutItem on LedgerTable',
      'dynamodb:Query on LedgerTable',
      'dynamodb:UpdateItem on LedgerTable',
    ]);
  });

  it('tells it the table, and how long results are kept', () => {
    const stack = newStack();
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    ledger.protect(newFunction(stack, 'Payments'), {
      retention: Duration.days(7),
      clientRetryWindow: Duration.days(3),
    });
    Template.fromStack(stack).hasResourceProperties('AWS::Lambda::Function', {
      Environment: { Variables: { LEDGER_TABLE: { Ref: Match.anyValue() }, RETENTION_SECONDS: '604800' } },
    });
  });

  it('is refused without a timeout: Lambda’s three seconds are nobody’s choice', () => {
    const stack = newStack();
    const fn = newFunction(stack, 'Payments', null as never);
    expect(() => new IdempotencyLedger(stack, 'Ledger').protect(fn)).toThrow(
      /^Test\/Payments is protected but has no timeout.*timeout: Duration\.seconds\(29\)/,
    );
  });

  it.each([
    [
      'below an hour',
      { retention: Duration.minutes(59) },
      /keeps results for 3540 seconds; expected at least 3600/,
    ],
    [
      'below what clients retry for',
      { retention: Duration.hours(2), clientRetryWindow: Duration.days(1) },
      /for 7200 seconds, but its clients retry for 86400.*Raise retention/,
    ],
    ['of a day, below that', { clientRetryWindow: Duration.days(3) }, /for 86400 seconds.*retry for 259200/],
  ])('is refused with a retention %s', (_, protection, why) => {
    const stack = newStack();
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    expect(() => ledger.protect(newFunction(stack, 'Payments'), protection)).toThrow(why);
  });
});

describe('the stream', () => {
  const synth = (stack: Stack) => () => Template.fromStack(stack);

  it('takes two readers', () => {
    const stack = newStack();
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    new Reconciliation(stack, 'Reconciliation', { ledger, dispatch: newFunction(stack, 'Dispatch') });
    expect(synth(stack)).not.toThrow();
  });

  const thirds: Readonly<Record<string, (ledger: IdempotencyLedger, other: Stack) => void>> = {
    'by its table'({ table }) {
      const source = new DynamoEventSource(table as never, { startingPosition: StartingPosition.LATEST });
      newFunction(table.stack, 'Third').addEventSource(source);
    },
    'by its ARN'({ table }, other) {
      const { functionName } = newFunction(other, 'Third');
      const eventSourceArn = String(table.tableStreamArn);
      new CfnEventSourceMapping(other, 'Mapping', { functionName, eventSourceArn });
    },
    'as a pipe'({ table }, other) {
      const [source, roleArn] = [String(table.tableStreamArn), 'arn:aws:iam::111122223333:role/pipe'];
      new CfnPipe(other, 'Pipe', { source, roleArn, target: 'arn:aws:sqs:eu-central-1:111122223333:queue' });
    },
  };
  it.each(Object.entries(thirds))('refuses a third, added %s anywhere in the app', (_, addTo) => {
    const stack = newStack();
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    new Reconciliation(stack, 'Reconciliation', { ledger, dispatch: newFunction(stack, 'Dispatch') });
    addTo(ledger, new Stack(stack.node.root as never, 'Other'));
    expect(synth(stack)).toThrow(/Test\/Ledger\/Table has 3 readers \(.*DynamoDB allows 2/);
  });
});
