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

const queue = resource('SQS::Queue', {});
const config = (properties: object) =>
  resource('Lambda::EventInvokeConfig', { FunctionName: ref('Pay'), Qualifier: '$LATEST', ...properties });

describe('a function', () => {
  it('is what its template says, its environment resolved', () => {
    const Environment = { Variables: { ROWS: ref('Rows'), COUNT: 3, OFF: ref('AWS::NoValue') } };
    const [pay] = modelWith({
      Pay: functionWith({ Timeout: 29, MemorySize: 512, Environment, Layers: [] }),
      Rows: tableWith(),
    }).functions;
    expect(pay).toEqual({
      name: 'pay',
      arn: 'arn:aws:lambda:us-east-1:000000000000:function:pay',
      codeDir: '/cdk.out/asset.code',
      handler: 'index.handler',
      timeoutMs: 29_000,
      memoryMb: 512,
      environment: { ROWS: 'Shop-Rows', COUNT: '3' },
      later: { retries: 2, maxAgeSeconds: 21_600 },
    });
  });

  it('has the time and the memory that Lambda gives, where its template says nothing', () => {
    expect(modelWith({ Pay: functionWith() }).functions).toMatchObject([
      { timeoutMs: 3_000, memoryMb: 128, environment: {} },
    ]);
  });

  it('has its code where its metadata says, where the assets do not', () => {
    const Metadata = { 'aws:asset:path': 'asset.of-the-metadata' };
    const Pay = functionWith({ Code: { S3Bucket: 'b', S3Key: 'other.zip' } }, { Metadata });
    expect(modelWith({ Pay }).functions[0]?.codeDir).toBe('/cdk.out/asset.of-the-metadata');
  });

  it.each<[string, object, RegExp]>([
    ['on another runtime', { Runtime: 'python3.13' }, /Runtime: it is python3.13; .* Node only/],
    ['from an image', { PackageType: 'Image' }, /PackageType: it is Image; the local cloud knows Zip/],
    [
      'with layers',
      { Layers: ['arn:aws:lambda:us-east-1:1:layer:x:1'] },
      /Layers: .* put it into the bundle/,
    ],
    ['with its code in the template', { Code: { ZipFile: 'exports.handler = 1' } }, /Code\.ZipFile: /],
    [
      'with code that is not here',
      { Code: { S3Bucket: 'b', S3Key: 'x.zip' } },
      /S3Key: it is x\.zip, which is no asset/,
    ],
    [
      'with dead letters',
      { DeadLetterConfig: { TargetArn: att('Letters') } },
      /DeadLetterConfig: .*onFailure/,
    ],
    ['with few environments', { ReservedConcurrentExecutions: 1 }, /ReservedConcurrentExecutions: /],
    ['with what nobody has heard of', { Teleport: true }, /Teleport: the local cloud would not honour it/],
    ['without a handler', { Handler: ref('AWS::NoValue') }, /Handler: it is missing; expected a text/],
    ['that takes a word for a time', { Timeout: 'long' }, /Timeout: it is "long"; expected a number/],
    [
      'with a list in its environment',
      { Environment: { Variables: { A: ['b'] } } },
      /Environment\.Variables\.A: it is \["b"\]/,
    ],
    [
      'that calls an API by its address on AWS',
      {
        Environment: {
          Variables: { API: { 'Fn::Sub': `https://x.execute-api.\${AWS::Region}.amazonaws.com` } },
        },
      },
      /Environment\.Variables\.API: .* is known when it runs/,
    ],
    [
      'that publishes to a topic',
      { Environment: { Variables: { TOPIC: ref('Topic') } } },
      /^Shop, Pay \(Shop\/Pay, AWS::Lambda::Function\), Environment\.Variables\.TOPIC: it refers to Topic/,
    ],
  ])('%s is not run', (_, properties, why) => {
    const problems = problemsWith({
      Pay: functionWith(properties),
      Letters: queue,
      Topic: resource('SNS::Topic', {}),
    });
    expect(problems).toEqual([expect.stringMatching(why)]);
  });

  it('of which an archive is given is not run: somebody would have to unpack it', () => {
    const assembly = assemblyOf({ Shop: { Resources: { Pay: functionWith() } } });
    const assets = new Map([['code.zip', { path: '/cdk.out/code.zip', packaging: 'file' }]]);
    expect(() => modelOf({ ...assembly, assets }, () => {})).toThrow(/it is the archive \/cdk.out\/code.zip/);
  });

  it('and another of the same name would be mistaken for each other', () => {
    const FunctionName = 'pay';
    expect(problemsWith({ A: functionWith({ FunctionName }), B: functionWith({ FunctionName }) })).toEqual([
      'two of the functions are named pay; give one of them another name.',
    ]);
  });
});

describe('what becomes of an asynchronous event', () => {
  it('is what the template says, whatever version it is said of', () => {
    const Config = config({
      MaximumRetryAttempts: 0,
      MaximumEventAgeInSeconds: 60,
      DestinationConfig: { OnFailure: { Destination: att('Letters') } },
    });
    expect(modelWith({ Pay: functionWith(), Letters: queue, Config }).functions[0]?.later).toEqual({
      retries: 0,
      maxAgeSeconds: 60,
      onFailure: { queue: 'Shop-Letters' },
    });
  });

  it.each<[object, RegExp]>([
    [
      { DestinationConfig: { OnFailure: { Destination: att('Objects') } } },
      /OnFailure\.Destination: it is arn:aws:s3:::shop-objects; expected a queue/,
    ],
    [{ DestinationConfig: { OnSuccess: { Destination: att('Letters') } } }, /OnSuccess: .* of a success/],
    [{ FunctionName: 'elsewhere' }, /FunctionName: it leads to elsewhere; expected a function/],
  ])('is a problem in %j', (properties, why) => {
    const Objects = resource('S3::Bucket', {});
    const problems = problemsWith({
      Pay: functionWith(),
      Letters: queue,
      Objects,
      Config: config(properties),
    });
    expect(problems).toEqual([expect.stringMatching(why)]);
  });

  it('is said once: a version has none of its own here', () => {
    const problems = problemsWith({ Pay: functionWith(), A: config({}), B: config({ Qualifier: 'live' }) });
    expect(problems).toEqual([expect.stringMatching(/pay has another EventInvokeConfig, A/)]);
  });
});

it('an alias that leads to two versions is a problem', () => {
  const problems = problemsWith({
    Pay: functionWith(),
    Live: resource('Lambda::Alias', {
      FunctionName: ref('Pay'),
      Name: 'live',
      RoutingConfig: { AdditionalVersionWeights: [{ FunctionVersion: '1', FunctionWeight: 0.1 }] },
    }),
  });
  expect(problems).toEqual([expect.stringMatching(/RoutingConfig: the local cloud has one version/)]);
});
