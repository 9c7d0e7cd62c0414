import { Duration } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { describe, expect, it } from 'vitest';
import { IdempotencyLedger } from '../../lib/infra/ledger.ts';
import { Reconciliation, type ReconciliationProps } from '../../lib/infra/reconciliation.ts';
import { allowedTo, newFunction, newStack } from './stage.ts';

const MAPPING = 'AWS::Lambda::EventSourceMapping';

function synthesised(
  more: (scope: ReturnType<typeof newStack>) => Partial<ReconciliationProps> = () => ({}),
) {
  const stack = newStack();
  const ledger = new IdempotencyLedger(stack, 'Ledger');
  const reconciliation = new Reconciliation(stack, 'Layer', { ledger, ...more(stack) });
  return { stack, reconciliation, template: Template.fromStack(stack) };
}

const withAll = (stack: ReturnType<typeof newStack>) => ({
  dispatch: newFunction(stack, 'Dispatch'),
  audit: newFunction(stack, 'Audit'),
  completes: [newFunction(stack, 'Orders')],
});

const patternsOf = (
  mapping: Readonly<Record<string, { FilterCriteria: { Filters: { Pattern: string }[] } }>>,
) => mapping['Properties']?.FilterCriteria.Filters.map(({ Pattern }) => JSON.parse(Pattern));

describe('a reader of the stream', () => {
  it.each([
    [
      'sentinel',
      /LayerSentinel[0-9A-F]/,
      { BatchSize: 1_000, MaximumBatchingWindowInSeconds: 60, MaximumRetryAttempts: 10 },
    ],
    ['dispatch', /Dispatch/, { BatchSize: 10, ParallelizationFactor: 10, MaximumRetryAttempts: 3 }],
  ])(
    '%s splits, retries for a while, reports what failed, and then leaves it in the bucket',
    (_, name, own) => {
      const { template } = synthesised(withAll);
      template.hasResourceProperties(MAPPING, {
        FunctionName: { Ref: Match.stringLikeRegexp(name.source) },
        EventSourceArn: { 'Fn::GetAtt': [Match.stringLikeRegexp('LedgerTable'), 'StreamArn'] },
        StartingPosition: 'TRIM_HORIZON',
        BisectBatchOnFunctionError: true,
        FunctionResponseTypes: ['ReportBatchItemFailures'],
        MaximumRecordAgeInSeconds: 82_800,
        DestinationConfig: {
          OnFailure: { Destination: { 'Fn::GetAtt': [Match.stringLikeRegexp('FailedBatches'), 'Arn'] } },
        },
        TumblingWindowInSeconds: Match.absent(),
        ...own,
      });
    },
  );

  it('is woken for records, and dispatch only for events that are not delivered', () => {
    const mappings = Object.values(synthesised(withAll).template.findResources(MAPPING));
    const record = { Keys: { sk: { S: ['record'] } } };
    expect(mappings.map((mapping) => patternsOf(mapping))).toEqual([
      [{ dynamodb: record }],
      [
        { dynamodb: { ...record, NewImage: { status: { S: ['accepted'] } } } },
        {
          dynamodb: {
            ...record,
            NewImage: { status: { S: ['completed'] }, ttl: { N: [{ exists: false }] } },
          },
        },
      ],
    ]);
  });

  it('is the sentinel alone where nothing is emitted', () => {
    synthesised().template.resourceCountIs(MAPPING, 1);
  });

  it('waits as long as one wants it to', () => {
    const { template } = synthesised(() => ({ sentinelWindow: Duration.seconds(5) }));
    template.hasResourceProperties(MAPPING, { MaximumBatchingWindowInSeconds: 5 });
  });
});

describe('each function may do what its code does', () => {
  const { template } = synthesised(withAll);
  const traces = ['xray:PutTelemetryRecords on *', 'xray:PutTraceSegments on *'];
  const logs = (name: string) => [`logs:CreateLogStream on ${name}`, `logs:PutLogEvents on ${name}`];
  const stream = [
    'dynamodb:DescribeStream on LedgerTable.stream',
    'dynamodb:GetRecords on LedgerTable.stream',
    'dynamodb:GetShardIterator on LedgerTable.stream',
    'dynamodb:ListStreams on *',
    's3:ListBucket on LedgerFailedBatches',
    's3:PutObject on LedgerFailedBatches/*',
  ];

  it.each([
    [
      'the sentinel',
      /^LayerSentinel[0-9A-F]{8}/,
      [
        ...stream,
        ...logs('LayerSentinelLogs'),
        ...traces,
        'dynamodb:GetItem on LedgerTable',
        'dynamodb:UpdateItem on LedgerTable',
      ],
    ],
    [
      'dispatch',
      /^Dispatch/,
      [
        ...stream,
        ...['GetItem', 'PutItem', 'Query', 'UpdateItem'].map((action) => `dynamodb:${action} on LedgerTable`),
      ],
    ],
    [
      'the sweep',
      /^LayerSweep[0-9A-F]{8}/,
      [
        ...logs('LayerSweepLogs'),
        ...traces,
        ...['GetItem', 'PutItem', 'Query', 'UpdateItem'].map((action) => `dynamodb:${action} on LedgerTable`),
        'dynamodb:Query on LedgerTable/index/due',
        'lambda:InvokeFunction on Orders',
      ],
    ],
    [
      'the backstop',
      /^LayerBackstop[0-9A-F]{8}/,
      [
        ...logs('LayerBackstopLogs'),
        ...traces,
        ...['GetItem', 'Scan', 'UpdateItem'].map((action) => `dynamodb:${action} on LedgerTable`),
        'lambda:InvokeFunction on LayerBackstop',
      ],
    ],
    [
      'the audit',
      /^Audit/,
      [
        ...['GetItem', 'Scan', 'UpdateItem'].map((action) => `dynamodb:${action} on LedgerTable`),
        'lambda:InvokeFunction on Audit',
      ],
    ],
    [
      'redrive',
      /^LayerRedrive[0-9A-F]{8}/,
      [
        ...logs('LayerRedriveLogs'),
        ...traces,
        'lambda:InvokeFunction on Dispatch',
        'lambda:InvokeFunction on LayerSentinel',
        's3:GetObject on LedgerFailedBatches/*',
        's3:GetObjectVersion on LedgerFailedBatches/*',
        ...['GetQueueAttributes', 'GetQueueUrl', 'SendMessage'].map(
          (action) => `sqs:${action} on LayerRedriveWaiting`,
        ),
      ],
    ],
  ])('%s', (_, name, allowed) => {
    expect(allowedTo(template, name)).toEqual(allowed.toSorted());
  });
});

describe('schedules', () => {
  it('run the sweep every minute, the search and the audit every day', () => {
    const schedules = Object.values(synthesised(withAll).template.findResources('AWS::Scheduler::Schedule'));
    const run = schedules.map(({ Properties: { ScheduleExpression, Target } }) => [
      Target.Arn['Fn::GetAtt'][0].replace(/[0-9A-F]{8}$/, ''),
      ScheduleExpression,
    ]);
    expect(run).toEqual([
      ['LayerSweep', 'rate(1 minute)'],
      ['LayerBackstop', 'rate(1 day)'],
      ['Audit', 'rate(1 day)'],
    ]);
  });

  it('let the search and the audit invoke themselves as often as the table is large, and nobody else', () => {
    const { template } = synthesised(withAll);
    const looping = Object.entries(template.findResources('AWS::Lambda::Function'))
      .filter(([, { Properties }]) => Properties.RecursiveLoop === 'Allow')
      .map(([name]) => name.replace(/[0-9A-F]{8}$/, ''));
    expect(looping.toSorted()).toEqual(['Audit', 'LayerBackstop']);
    template.hasResourceProperties('AWS::Lambda::Function', { RecursiveLoop: 'Allow', Timeout: 900 });
  });

  it('are AWS’s to start for this account alone', () => {
    const { template } = synthesised(withAll);
    const roles = Object.entries(template.findResources('AWS::IAM::Role'))
      .filter(([name]) => name.includes('Schedule'))
      .map(([, { Properties }]) => Properties.AssumeRolePolicyDocument.Statement);
    expect(roles).toHaveLength(3);
    for (const statements of roles) {
      expect(statements).toEqual([
        {
          Action: 'sts:AssumeRole',
          Condition: { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
          Effect: 'Allow',
          Principal: { Service: 'scheduler.amazonaws.com' },
        },
      ]);
    }
  });
});

it('the sentinel is told how many keys a tenant may take, and only where somebody says so', () => {
  const told = (template: Template) =>
    Object.entries(template.findResources('AWS::Lambda::Function'))
      .filter(([name]) => name.startsWith('LayerSentinel'))
      .map(([, { Properties }]) => Properties.Environment.Variables)[0];
  const { template } = synthesised(() => ({ quota: { newKeysPerMinute: 600, openKeys: 50 } }));
  expect(told(template)).toMatchObject({ NEW_KEYS_PER_MINUTE: '600', OPEN_KEYS: '50' });
  expect(Object.keys(told(synthesised().template))).toEqual(['NODE_OPTIONS', 'LEDGER_TABLE']);
});

it('what a reader gave up on is done again as soon as its object is there', () => {
  synthesised().template.hasResourceProperties('AWS::Events::Rule', {
    EventPattern: {
      source: ['aws.s3'],
      'detail-type': ['Object Created'],
      detail: { bucket: { name: [{ Ref: Match.stringLikeRegexp('FailedBatches') }] } },
    },
    Targets: [Match.objectLike({ Arn: { 'Fn::GetAtt': [Match.stringLikeRegexp('Redrive'), 'Arn'] } })],
  });
});

it('and what fails then, too, waits for a person instead of being dropped', () => {
  synthesised().template.hasResourceProperties('AWS::Lambda::EventInvokeConfig', {
    MaximumRetryAttempts: 2,
    DestinationConfig: {
      OnFailure: { Destination: { 'Fn::GetAtt': [Match.stringLikeRegexp('RedriveWaiting'), 'Arn'] } },
    },
  });
});

describe('where all is under a key of the account’s own', () => {
  const stack = newStack({ region: 'eu-central-1' });
  const ledger = new IdempotencyLedger(stack, 'Ledger', { encryptionKey: new Key(stack, 'Key') });
  new Reconciliation(stack, 'Layer', { ledger, ...withAll(stack) });
  const template = Template.fromStack(stack);

  it.each([
    // Who reads the stream also puts what it gives up on into the bucket, and that takes a data key.
    ['the sentinel', /^LayerSentinel[0-9A-F]{8}/, ['Decrypt', 'DescribeKey', 'GenerateDataKey']],
    ['dispatch', /^Dispatch/, ['Decrypt', 'DescribeKey', 'GenerateDataKey']],
    ['the sweep', /^LayerSweep[0-9A-F]{8}/, ['Decrypt', 'DescribeKey']],
    ['the backstop', /^LayerBackstop[0-9A-F]{8}/, ['Decrypt', 'DescribeKey']],
    ['the audit', /^Audit/, ['Decrypt', 'DescribeKey']],
    ['redrive, which reads objects alone,', /^LayerRedrive[0-9A-F]{8}/, ['Decrypt']],
  ])('%s may use it for what it does', (_, name, allowed) => {
    const onKey = new Set(allowedTo(template, name).filter((one) => one.startsWith('kms:')));
    expect([...onKey]).toEqual(allowed.map((action) => `kms:${action} on Key`));
  });

  it('the bucket is, too', () => {
    template.hasResourceProperties('AWS::S3::Bucket', {
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [
          {
            BucketKeyEnabled: true,
            ServerSideEncryptionByDefault: {
              KMSMasterKeyID: { 'Fn::GetAtt': [Match.stringLikeRegexp('^Key'), 'Arn'] },
              SSEAlgorithm: 'aws:kms',
            },
          },
        ],
      },
    });
  });
});
