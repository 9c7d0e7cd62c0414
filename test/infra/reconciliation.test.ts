import { readFileSync } from 'node:fs';
import { Duration } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import { IdempotencyLedger } from '../../lib/infra/ledger.ts';
import { Observability } from '../../lib/infra/observability.ts';
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

  it('let the search invoke itself as often as the table is large', () => {
    synthesised().template.hasResourceProperties('AWS::Lambda::Function', {
      RecursiveLoop: 'Allow',
      Timeout: 900,
    });
  });
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

describe('who is told', () => {
  function alarms(audited: boolean) {
    const stack = newStack();
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    const { dispatch, audit } = withAll(stack);
    const reconciliation = new Reconciliation(stack, 'Layer', {
      ledger,
      dispatch,
      ...(audited && { audit }),
    });
    const functions = [newFunction(stack, 'Payments')];
    new Observability(stack, 'Watch', { reconciliation, functions, runbook: 'https://example.com/runbook' });
    const template = Template.fromStack(stack);
    return { template, alarms: template.findResources('AWS::CloudWatch::Alarm') };
  }

  it('has an alarm for everything that a person has to know, and the page to read', () => {
    const { alarms: found } = alarms(true);
    const names = Object.keys(found).map((name) => name.replace(/^Watch|[0-9A-F]{8}$/g, ''));
    expect(names.toSorted()).toEqual(
      [
        ...['AuditMismatch', 'DispatchIsBehind', 'DuplicatesOfATenant', 'EvidenceRemoved', 'FailedBatches'],
        ...[
          'KeyMisuse',
          'Parked',
          'SentinelIsBehind',
          'StoreErrors',
          'SweepErrors',
          'SweepMissing',
          'UnknownAge',
        ],
        ...['AuditErrors', 'BackstopErrors', 'RedriveWaiting', 'ZombieKeys'],
      ].toSorted(),
    );
    for (const { Properties } of Object.values(found)) {
      expect(Properties.AlarmDescription).toMatch(/\. Runbook: https:\/\/example\.com\/runbook#[a-z-]+$/);
    }
  });

  it('is told, where somebody is named', () => {
    const stack = newStack();
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    const reconciliation = new Reconciliation(stack, 'Layer', { ledger });
    const actions = [new SnsAction(new Topic(stack, 'Night'))];
    new Observability(stack, 'Watch', {
      reconciliation,
      functions: [newFunction(stack, 'Payments')],
      actions,
    });
    const found = Object.values(Template.fromStack(stack).findResources('AWS::CloudWatch::Alarm'));
    expect(found.length).toBeGreaterThan(10);
    for (const { Properties } of found) expect(JSON.stringify(Properties.AlarmActions)).toContain('Night');
  });

  it('leads to headings that the runbook has', () => {
    const headings = readFileSync('docs/runbook.md', 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('#'))
      .map((line) =>
        line
          .replace(/^#+ /, '')
          .toLowerCase()
          .replaceAll(/[^a-z0-9 -]/g, '')
          .replaceAll(' ', '-'),
      );
    for (const { Properties } of Object.values(alarms(true).alarms)) {
      expect(headings).toContain(String(Properties.AlarmDescription).split('#')[1]);
    }
  });

  it('has none on an audit that does not run', () => {
    expect(Object.keys(alarms(false).alarms).filter((name) => name.includes('Audit'))).toEqual([]);
  });

  it.each([
    ['Parked', 'SELECT MAX("api.idempotency.parked.waiting") FROM SCHEMA("oncekey", operation)', 0],
    [
      'EvidenceRemoved',
      'SELECT SUM("api.idempotency.evidence_removed") FROM SCHEMA("oncekey", operation)',
      0,
    ],
    [
      'UnknownAge',
      'SELECT MAX("api.idempotency.unknown.age_ms") FROM SCHEMA("oncekey", operation)',
      3_600_000,
    ],
    ['AuditMismatch', 'SELECT SUM("api.idempotency.audit.mismatch") FROM SCHEMA("oncekey", operation)', 0],
  ])('%s is over all operations', (name, expression, threshold) => {
    const [, alarm] = Object.entries(alarms(true).alarms).find(([id]) => id.startsWith(`Watch${name}`)) ?? [];
    const { Metrics, Threshold, ComparisonOperator, TreatMissingData } = alarm?.['Properties'] ?? {};
    expect(Metrics[0].Expression).toBe(expression);
    expect([Threshold, ComparisonOperator, TreatMissingData]).toEqual([
      threshold,
      'GreaterThanThreshold',
      'notBreaching',
    ]);
  });

  it('hears of a sweep that does not run from its silence', () => {
    alarms(true).template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      TreatMissingData: 'breaching',
      ComparisonOperator: 'LessThanThreshold',
      Threshold: 1,
    });
  });

  it('knows which tenant sends duplicates, from the log and not from a metric for each', () => {
    const { template } = alarms(true);
    const [rule] = Object.values(template.findResources('AWS::CloudWatch::InsightRule'));
    const body = JSON.stringify(rule?.['Properties'].RuleBody);
    for (const part of ['$.tenant', '$.logger', 'replay', 'pending', 'in_progress', 'misuse'])
      expect(body).toContain(part);
  });
});
