import { describe, expect, it } from 'vitest';
import { modelOf } from '../../../lib/local/template/model-of.ts';
import {
  assemblyOf,
  att,
  functionWith,
  modelWith,
  problemsWith,
  ref,
  resource,
  tableWith,
} from './templates.ts';

const found = { Pay: functionWith(), Rows: tableWith(), Objects: resource('S3::Bucket', {}) };

describe('a reader of a stream', () => {
  const mapping = (properties: object = {}) =>
    resource('Lambda::EventSourceMapping', {
      EventSourceArn: att('Rows', 'StreamArn'),
      FunctionName: ref('Pay'),
      StartingPosition: 'LATEST',
      ...properties,
    });

  it('reads as Lambda does, where its template says nothing', () => {
    expect(modelWith({ ...found, Reader: mapping({ TumblingWindowInSeconds: 0 }) }).mappings).toEqual([
      {
        name: 'reader',
        tableName: 'Shop-Rows',
        functionName: 'pay',
        batchSize: 100,
        windowMs: 0,
        parallelBatches: 1,
        bisects: false,
        reportsItemFailures: false,
        retries: Number.POSITIVE_INFINITY,
        maxAgeMs: Number.POSITIVE_INFINITY,
        filters: [],
        startAt: 'LATEST',
      },
    ]);
  });

  it('reads as its template says', () => {
    const Reader = mapping({
      FunctionName: { 'Fn::Sub': `\${Pay}:live` },
      BatchSize: 10,
      MaximumBatchingWindowInSeconds: 5,
      ParallelizationFactor: 2,
      BisectBatchOnFunctionError: true,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      MaximumRetryAttempts: 0,
      MaximumRecordAgeInSeconds: 60,
      StartingPosition: 'TRIM_HORIZON',
      FilterCriteria: { Filters: [{ Pattern: '{"eventName":["INSERT",{"prefix":"MOD"}]}' }] },
      DestinationConfig: { OnFailure: { Destination: att('Objects') } },
    });
    expect(modelWith({ ...found, Reader }).mappings).toEqual([
      {
        name: 'reader',
        tableName: 'Shop-Rows',
        functionName: 'pay',
        batchSize: 10,
        windowMs: 5_000,
        parallelBatches: 2,
        bisects: true,
        reportsItemFailures: true,
        retries: 0,
        maxAgeMs: 60_000,
        filters: [{ eventName: ['INSERT', { prefix: 'MOD' }] }],
        startAt: 'TRIM_HORIZON',
        onFailure: { bucket: 'shop-objects' },
      },
    ]);
  });

  it('that is not enabled reads nothing', () => {
    expect(modelWith({ ...found, Reader: mapping({ Enabled: false }) }).mappings).toEqual([]);
  });

  it.each<[object, RegExp]>([
    [
      { EventSourceArn: att('Letters') },
      /EventSourceArn: it is arn:aws:sqs.*; expected the stream of a DynamoDB table/,
    ],
    [{ EventSourceArn: att('Still', 'StreamArn') }, /EventSourceArn: the table Shop-Still has no stream/],
    [{ FunctionName: 'gone' }, /FunctionName: it leads to gone/],
    [{ TumblingWindowInSeconds: 30 }, /TumblingWindowInSeconds: .* no tumbling windows/],
    [{ StartingPosition: 'AT_TIMESTAMP' }, /StartingPosition: it is AT_TIMESTAMP/],
    [
      { DestinationConfig: { OnFailure: { Destination: att('Letters') } } },
      /OnFailure\.Destination: it is arn:aws:sqs.*; expected a bucket/,
    ],
    [
      { FilterCriteria: { Filters: [{ Pattern: '{' }] } },
      /Filters\.0\.Pattern: it is \{; expected an event pattern/,
    ],
    [
      { FilterCriteria: { Filters: [{ Pattern: '{"a":1}' }] } },
      /Pattern: the event pattern has 1 at a; expected/,
    ],
    [
      { FilterCriteria: { Filters: [{ Pattern: '{"a":[[1]]}' }] } },
      /Pattern: the event pattern has \[1\] at a/,
    ],
    [{ ProvisionedPollerConfig: { MinimumPollers: 1 } }, /ProvisionedPollerConfig: .* not honour/],
  ])('with %j is not run', (properties, why) => {
    const problems = problemsWith({
      ...found,
      Letters: resource('SQS::Queue', {}),
      Still: tableWith({ StreamSpecification: ref('AWS::NoValue') }),
      Reader: mapping(properties),
    });
    expect(problems).toEqual([expect.stringMatching(why)]);
  });

  it('with a comparison that nobody here can make is not run, and neither is such a rule', () => {
    const patterns: unknown[] = [];
    const assembly = assemblyOf({
      Shop: {
        Resources: {
          ...found,
          Reader: mapping({ FilterCriteria: { Filters: [{ Pattern: '{"a":[{"cidr":"10.0.0.0/8"}]}' }] } }),
          Rule: resource('Events::Rule', {
            EventPattern: { b: [1] },
            Targets: [{ Id: 'a', Arn: att('Pay') }],
          }),
        },
      },
    });
    const read = () =>
      modelOf(assembly, (pattern) => {
        patterns.push(pattern);
        throw new Error('nobody compares that.');
      });
    expect(read).toThrow(
      /Reader \(.*\), FilterCriteria\.Filters\.0\.Pattern: nobody compares that\.\n.*Rule \(.*\), EventPattern: nobody compares that\./,
    );
    expect(patterns).toEqual([{ a: [{ cidr: '10.0.0.0/8' }] }, { b: [1] }]);
  });
});

describe('a schedule', () => {
  const schedule = (properties: object = {}, target: object = {}) =>
    resource('Scheduler::Schedule', {
      FlexibleTimeWindow: { Mode: 'OFF' },
      ScheduleExpression: 'rate(1 minute)',
      Target: { Arn: att('Pay'), RoleArn: att('Role'), ...target },
      ...properties,
    });

  it.each([
    ['rate(1 minute)', 60_000],
    ['rate(5 minutes)', 300_000],
    ['rate(1 hour)', 3_600_000],
    ['rate(7 days)', 604_800_000],
  ])('%s', (ScheduleExpression, everyMs) => {
    expect(modelWith({ ...found, Tick: schedule({ ScheduleExpression }) }).schedules).toEqual([
      { name: 'tick', everyMs, functionName: 'pay', retries: 185, maxAgeMs: 86_400_000 },
    ]);
  });

  it('says what it says, and how often it tries', () => {
    const RetryPolicy = { MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 300 };
    expect(
      modelWith({ ...found, Tick: schedule({}, { Input: '{"a":1}', RetryPolicy }) }).schedules,
    ).toMatchObject([{ input: '{"a":1}', retries: 0, maxAgeMs: 300_000 }]);
  });

  it('that is disabled never comes', () => {
    expect(modelWith({ ...found, Tick: schedule({ State: 'DISABLED' }) }).schedules).toEqual([]);
  });

  it.each<[object, object, RegExp]>([
    [
      { ScheduleExpression: 'cron(0 3 * * ? *)' },
      {},
      /ScheduleExpression: it is cron.*; .* neither cron\(\) nor at\(\)/,
    ],
    [{ ScheduleExpression: 'rate(0 minutes)' }, {}, /ScheduleExpression: it is rate\(0 minutes\)/],
    [{ ScheduleExpression: 'rate(1 fortnight)' }, {}, /ScheduleExpression: /],
    [{ StartDate: '2030-01-01' }, {}, /StartDate: /],
    [
      {},
      { Arn: 'arn:aws:scheduler:::aws-sdk:sqs:sendMessage' },
      /Target\.Arn: it leads to .*; expected a function/,
    ],
    [
      {},
      { DeadLetterConfig: { Arn: att('Pay') } },
      /Target\.DeadLetterConfig: .*no dead letters of schedules/,
    ],
  ])('with %j to %j is not run', (properties, target, why) => {
    expect(problemsWith({ ...found, Tick: schedule(properties, target) })).toEqual([
      expect.stringMatching(why),
    ]);
  });
});

describe('a rule', () => {
  const rule = (properties: object, target: object = {}) =>
    resource('Events::Rule', {
      State: 'ENABLED',
      Targets: [{ Id: 'Target0', Arn: att('Pay'), ...target }],
      ...properties,
    });
  const EventPattern = { source: ['aws.s3'], detail: { bucket: { name: [ref('Objects')] } } };

  it('tells its functions of events that match', () => {
    expect(modelWith({ ...found, Failed: rule({ EventPattern }) }).rules).toEqual([
      {
        name: 'failed',
        pattern: { source: ['aws.s3'], detail: { bucket: { name: ['shop-objects'] } } },
        functionNames: ['pay'],
      },
    ]);
  });

  it('with a rate is a schedule, one for each target', () => {
    const Tick = rule({
      ScheduleExpression: 'rate(1 hour)',
      Targets: [
        { Id: 'A', Arn: att('Pay'), Input: '{}' },
        { Id: 'B', Arn: att('Pay') },
      ],
    });
    const model = modelWith({ ...found, Tick, Tock: rule({ ScheduleExpression: 'rate(1 day)' }) });
    const every = { functionName: 'pay', retries: 185, maxAgeMs: 86_400_000 };
    expect(model.rules).toEqual([]);
    expect(model.schedules).toEqual([
      { name: 'tick-A', everyMs: 3_600_000, input: '{}', ...every },
      { name: 'tick-B', everyMs: 3_600_000, ...every },
      { name: 'tock', everyMs: 86_400_000, ...every },
    ]);
  });

  it('that is disabled hears nothing', () => {
    expect(modelWith({ ...found, Failed: rule({ EventPattern, State: 'DISABLED' }) }).rules).toEqual([]);
  });

  it.each<[object, object, RegExp]>([
    [{ EventPattern, EventBusName: 'own' }, {}, /EventBusName: it is own; the local cloud knows default/],
    [{ EventPattern }, { InputTransformer: { InputTemplate: 'x' } }, /Targets\.0\.InputTransformer: /],
    [
      { EventPattern },
      { Arn: att('Letters') },
      /Targets\.0\.Arn: it leads to arn:aws:sqs.*; expected a function/,
    ],
    [{ EventPattern: { source: 'aws.s3' } }, {}, /EventPattern: the event pattern has "aws.s3" at source/],
    [{ ScheduleExpression: 'cron(0 3 * * ? *)' }, {}, /ScheduleExpression: it is cron/],
  ])('with %j to %j is not run', (properties, target, why) => {
    const Letters = resource('SQS::Queue', {});
    const problems = problemsWith({ ...found, Letters, Failed: rule(properties, target) });
    expect(problems).toEqual([expect.stringMatching(why)]);
  });
});
