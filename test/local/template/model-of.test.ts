import { describe, expect, it } from 'vitest';
import { functionWith, modelWith, problemsWith, resource } from './templates.ts';

describe('an app', () => {
  it('is told of everything that cannot be run at once', () => {
    const problems = problemsWith({
      Pay: functionWith({ Runtime: 'python3.13' }),
      Stream: resource(
        'Kinesis::Stream',
        {},
        { Metadata: { 'aws:cdk:path': 'Shop/Clicks/Stream/Resource' } },
      ),
      Machine: resource('StepFunctions::StateMachine', {}),
      Letters: resource('SQS::Queue', { FifoQueue: true }),
    });
    expect(problems).toEqual([
      'Shop, Stream (Shop/Clicks/Stream): the local cloud cannot run AWS::Kinesis::Stream.',
      'Shop, Machine (Shop/Machine): the local cloud cannot run AWS::StepFunctions::StateMachine.',
      expect.stringContaining('Runtime: it is python3.13'),
      expect.stringContaining('FifoQueue: '),
    ]);
  });

  it('may have what is of no matter here, whatever it says', () => {
    const model = modelWith({
      Role: resource('IAM::Role', { AssumeRolePolicyDocument: { Fn: 'x' } }),
      Alarm: resource('CloudWatch::Alarm', { AlarmActions: [{ 'Fn::Cidr': [] }] }),
      Topic: resource('SNS::Topic', {}),
      Emptied: { Type: 'Custom::S3AutoDeleteObjects', Properties: { BucketName: 'x' } },
      Mail: resource('SNS::Subscription', { Protocol: 'email', Endpoint: 'night@example.com' }),
    });
    expect(Object.values(model).flat()).toEqual([]);
  });

  it('may not have a topic that invokes a function', () => {
    const Told = resource('SNS::Subscription', { Protocol: 'lambda' });
    expect(problemsWith({ Told })).toEqual([
      expect.stringMatching(/Protocol: it is lambda; nothing is published/),
    ]);
  });

  it('may not have a macro, which would make something else of it', () => {
    expect(problemsWith({}, { Transform: 'AWS::Serverless-2016-10-31' })).toEqual([
      expect.stringMatching(/^Shop, Transform: it is "AWS::Serverless.* runs no macros/),
    ]);
  });
});
