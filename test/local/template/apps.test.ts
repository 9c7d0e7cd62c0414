import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, CfnResource, Duration, Stack } from 'aws-cdk-lib';
import { HttpApi, HttpMethod } from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import { Schedule as Rate, Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import { Alias, Code, Function as Fn, type IFunction, type IVersion, Runtime } from 'aws-cdk-lib/aws-lambda';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { referenceApp } from '../../../lib/infra/reference/app.ts';
import type { CloudModel } from '../../../lib/local/model.ts';
import { type Assembly, readAssembly } from '../../../lib/local/template/assembly.ts';
import { isKnownType, modelOf } from '../../../lib/local/template/model-of.ts';
import { ordersApp } from '../../examples/cdk-app.ts';
import { UNBUNDLED } from '../../infra/stage.ts';

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

/** What the CLI says, but for the bundling. */
const CONTEXT = {
  ...UNBUNDLED,
  'aws:cdk:enable-path-metadata': true,
  'aws:cdk:enable-asset-metadata': true,
};

function props(context: Readonly<Record<string, unknown>> = {}) {
  const outdir = mkdtempSync(join(tmpdir(), 'oncekey-app-'));
  folders.push(outdir);
  return { context: { ...CONTEXT, ...context }, analyticsReporting: false, outdir };
}

const assemblyOf = (app: App): Assembly => readAssembly(app.synth().directory);
const modelOfApp = (app: App): CloudModel => modelOf(assemblyOf(app), () => {});

describe('the reference app', () => {
  let model: CloudModel;
  beforeAll(() => {
    model = modelOfApp(referenceApp({}, props()));
  });

  const named = (name: string) => model.functions.find((one) => one.name === name);

  it('has its thirteen functions, by the names that everybody calls them', () => {
    expect(model.functions.map(({ name }) => name).toSorted()).toEqual([
      'audit',
      'backstop',
      'dispatch',
      'health',
      'operations',
      'orders',
      'payments',
      'reads',
      'redrive',
      'sentinel',
      'sweep',
      'transfers',
      'webhook',
    ]);
    expect(named('payments')).toEqual({
      name: 'payments',
      arn: 'arn:aws:lambda:us-east-1:000000000000:function:payments',
      codeDir: process.cwd(), // Nothing was bundled.
      handler: 'index.handler',
      timeoutMs: 29_000,
      memoryMb: 512,
      environment: {
        NODE_OPTIONS: '--enable-source-maps',
        TENANT_CLAIM: 'client_id',
        SERVICE_TABLE: 'OncekeyState-Rows',
        LEDGER_TABLE: 'OncekeyState-Ledger-Table',
      },
      later: { retries: 2, maxAgeSeconds: 21_600 },
    });
    expect(named('sweep')?.timeoutMs).toBe(300_000);
    expect(named('audit')?.timeoutMs).toBe(900_000);
  });

  it('has the ledger’s table, with its index, its stream and its end of items, and the rows of the service', () => {
    expect(model.tables.map(({ name, ttlAttribute }) => [name, ttlAttribute])).toEqual([
      ['OncekeyState-Ledger-Table', 'ttl'],
      ['OncekeyState-Rows', undefined],
    ]);
    const [ledger, rows] = model.tables;
    expect(ledger?.input.StreamSpecification).toEqual({
      StreamEnabled: true,
      StreamViewType: 'NEW_AND_OLD_IMAGES',
    });
    expect(ledger?.input.GlobalSecondaryIndexes).toEqual([
      {
        IndexName: 'due',
        KeySchema: [
          { AttributeName: 'dueShard', KeyType: 'HASH' },
          { AttributeName: 'dueAt', KeyType: 'RANGE' },
        ],
        Projection: { ProjectionType: 'KEYS_ONLY' },
      },
    ]);
    expect(rows?.input.KeySchema).toEqual([{ AttributeName: 'pk', KeyType: 'HASH' }]);
    expect(rows?.input.StreamSpecification).toBeUndefined();
  });

  it('has its nine routes, behind tokens of its own pool but for the two that are open', () => {
    expect(model.apis).toHaveLength(1);
    const [api] = model.apis;
    expect(
      api?.routes.map(({ routeKey, functionName, authorizer }) => [routeKey, functionName, !!authorizer]),
    ).toEqual([
      ['POST /payments', 'payments', true],
      ['POST /orders', 'orders', true],
      ['POST /transfers', 'transfers', true],
      ['GET /payments/{id}', 'reads', true],
      ['GET /orders/{id}', 'reads', true],
      ['GET /transfers/{id}', 'reads', true],
      ['GET /operations/{key}', 'operations', true],
      ['POST /webhooks/stripe', 'webhook', false],
      ['GET /health', 'health', false],
    ]);
    expect(api?.throttle).toEqual({ ratePerSecond: 1_000, burst: 2_000 });
    expect(api?.accessLogFormat).toContain('"route":"$context.routeKey"');
    const [pool] = model.pools;
    expect(pool?.clients.map(({ name }) => name)).toEqual(['acme', 'globex']);
    expect(api?.routes[0]?.authorizer).toEqual({
      name: 'Tokens',
      issuer: pool?.issuer,
      audience: pool?.clients.map(({ id }) => id),
      header: 'Authorization',
      scopes: [],
    });
  });

  it('has both readers of the ledger’s stream, each with what it wants of it', () => {
    const keys = { Keys: { sk: { S: ['record'] } } };
    const both = {
      tableName: 'OncekeyState-Ledger-Table',
      bisects: true,
      reportsItemFailures: true,
      maxAgeMs: 82_800_000,
      startAt: 'TRIM_HORIZON',
      onFailure: { bucket: 'oncekeystate-ledger-failedbatches' },
    };
    expect(model.mappings).toEqual([
      {
        ...both,
        name: 'sentinel-stream',
        functionName: 'sentinel',
        batchSize: 1_000,
        windowMs: 60_000,
        parallelBatches: 1,
        retries: 10,
        filters: [{ dynamodb: keys }],
      },
      {
        ...both,
        name: 'dispatch-stream',
        functionName: 'dispatch',
        batchSize: 10,
        windowMs: 0,
        parallelBatches: 10,
        retries: 3,
        filters: [
          { dynamodb: { ...keys, NewImage: { status: { S: ['accepted'] } } } },
          {
            dynamodb: {
              ...keys,
              NewImage: { status: { S: ['completed'] }, ttl: { N: [{ exists: false }] } },
            },
          },
        ],
      },
    ]);
  });

  it('has its schedules, the rule that redrives failed batches, and the queue for what that fails on', () => {
    const tries = { retries: 2, maxAgeMs: 300_000 };
    expect(model.schedules).toEqual([
      { name: 'sweep-schedule', functionName: 'sweep', everyMs: 60_000, ...tries },
      { name: 'backstop-schedule', functionName: 'backstop', everyMs: 86_400_000, ...tries },
      { name: 'audit-schedule', functionName: 'audit', everyMs: 86_400_000, ...tries },
    ]);
    const [bucket] = model.buckets;
    expect(bucket).toMatchObject({ tellsEventBus: true, versioned: true });
    expect(model.rules).toEqual([
      {
        name: 'failed-batches',
        pattern: {
          source: ['aws.s3'],
          'detail-type': ['Object Created'],
          detail: { bucket: { name: [bucket?.name] } },
        },
        functionNames: ['redrive'],
      },
    ]);
    expect(named('redrive')?.later).toEqual({
      retries: 2,
      maxAgeSeconds: 21_600,
      onFailure: { queue: model.queues[0]?.name },
    });
    expect(model.queues.map(({ name }) => name)).toEqual(['OncekeyService-Reconciliation-RedriveWaiting']);
  });

  it('has its secrets, which its functions are given the ARNs of', () => {
    expect(model.secrets.map(({ path }) => path)).toEqual([
      'OncekeyState/StripeKey',
      'OncekeyState/StripeWebhookSecret',
    ]);
    const [stripe, webhook] = model.secrets.map(({ arn }) => arn);
    expect(named('orders')?.environment['STRIPE_KEY_SECRET']).toBe(stripe);
    expect(named('webhook')?.environment['STRIPE_WEBHOOK_SECRET']).toBe(webhook);
  });

  it('takes the tokens of an issuer that is named, and needs no pool then', () => {
    const own = modelOfApp(
      referenceApp({}, props({ issuer: 'https://id.example.com', audience: 'pay,shop', tenantClaim: 'org' })),
    );
    expect(own.pools).toEqual([]);
    expect(own.apis[0]?.routes[0]?.authorizer).toEqual({
      name: 'Tokens',
      issuer: 'https://id.example.com',
      audience: ['pay', 'shop'],
      header: 'Authorization',
      scopes: [],
    });
    expect(own.functions.find(({ name }) => name === 'payments')?.environment['TENANT_CLAIM']).toBe('org');
  });

  it('is the same for the account and the Region that are here, and for any', () => {
    const here = { CDK_DEFAULT_ACCOUNT: '000000000000', CDK_DEFAULT_REGION: 'us-east-1' };
    expect(modelOfApp(referenceApp(here, props()))).toEqual(model);
  });

  it('runs also with a key of its own and somebody who is mailed', () => {
    const here = { CDK_DEFAULT_ACCOUNT: '000000000000', CDK_DEFAULT_REGION: 'us-east-1' };
    const context = { customerKey: 'true', alarmEmail: 'night@example.com' };
    expect(modelOfApp(referenceApp(here, props(context)))).toEqual(model);
  });

  it('with something in it that nothing here can run is refused, with all of it', () => {
    const app = referenceApp({}, props());
    const service = app.node.findChild('OncekeyService');
    new CfnResource(service, 'Clicks', { type: 'AWS::Kinesis::Stream', properties: { ShardCount: 1 } });
    new CfnResource(service, 'Refunds', {
      type: 'AWS::StepFunctions::StateMachine',
      properties: {
        RoleArn: 'arn:aws:iam::000000000000:role/refunds',
        Definition: { StartAt: 'Refund', States: { Refund: { Type: 'Pass', End: true } } },
      },
    });
    expect(() => modelOfApp(app)).toThrow(
      /^The local cloud cannot run this app as AWS would:\n {2}- OncekeyService, Clicks \(OncekeyService\/Clicks\): the local cloud cannot run AWS::Kinesis::Stream\.\n {2}- OncekeyService, Refunds \(OncekeyService\/Refunds\): the local cloud cannot run AWS::StepFunctions::StateMachine\.\nRepair these, or leave/,
    );
  });
});

it('every type of the real templates is modelled, or known to be of no matter', () => {
  const apps = [referenceApp({}, props({ alarmEmail: 'night@example.com' })), ordersApp(new App(props()))];
  const types = apps
    .flatMap((app) => assemblyOf(app).stacks)
    .flatMap(({ resources }) => [...resources.values()])
    .map(({ type }) => type);
  expect(new Set(types).size).toBeGreaterThan(20);
  expect([...new Set(types)].filter((type) => !isKnownType(type))).toEqual([]);
});

describe('an app of a user', () => {
  it('is run with the layer around it', () => {
    const model = modelOfApp(ordersApp(new App(props())));
    expect(model.functions.map(({ name }) => name).toSorted()).toEqual([
      'backstop',
      'order',
      'redrive',
      'sentinel',
      'sweep',
    ]);
    expect(model.apis).toEqual([
      {
        name: 'api',
        routes: [
          {
            routeKey: 'POST /orders',
            functionName: 'order',
            authorizer: {
              name: 'Tokens',
              issuer: 'https://id.example.com',
              audience: ['orders'],
              header: 'Authorization',
              scopes: [],
            },
          },
        ],
      },
    ]);
    expect(model.functions.find(({ name }) => name === 'order')?.environment['LEDGER_TABLE']).toBe(
      model.tables[0]?.name,
    );
    expect(model.mappings.map(({ functionName }) => functionName)).toEqual(['sentinel']);
    expect(model.schedules.map(({ functionName }) => functionName)).toEqual(['sweep', 'backstop']);
  });

  it('may call its functions by aliases, and have more than one stack', () => {
    const app = new App(props());
    const functions = new Stack(app, 'Functions');
    const pay = new Fn(functions, 'Pay', {
      code: Code.fromAsset('test/examples'),
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
      currentVersionOptions: { retryAttempts: 1 },
    });
    // The classes have an undefined in their types that the interfaces do not allow.
    const live = new Alias(functions, 'Live', { aliasName: 'live', version: pay.currentVersion as IVersion });
    const shop = new Stack(app, 'Shop');
    const integration = new HttpLambdaIntegration('Pay', live as IFunction);
    new HttpApi(shop, 'Api').addRoutes({ path: '/pay', methods: [HttpMethod.ANY], integration });
    new Rule(shop, 'Daily', {
      schedule: Rate.rate(Duration.days(1)),
      targets: [new LambdaFunction(live as IFunction)],
    });
    const model = modelOfApp(app);
    expect(model.functions).toMatchObject([{ name: 'pay', later: { retries: 1 } }]);
    expect(model.apis[0]?.routes).toEqual([{ routeKey: 'ANY /pay', functionName: 'pay' }]);
    expect(model.schedules).toMatchObject([{ name: 'daily', functionName: 'pay', everyMs: 86_400_000 }]);
  });
});
