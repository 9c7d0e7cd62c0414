import { Match, type Template } from 'aws-cdk-lib/assertions';
import { AwsSolutionsChecks } from 'cdk-nag';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { allowedTo, templates } from './stage.ts';

const { app, state, ofState, ofService } = templates();

/** What a function of the service is told by its deployment. */
function variablesOf(template: Template, name: string): Readonly<Record<string, unknown>> {
  const functions = Object.entries(template.findResources('AWS::Lambda::Function'));
  const [, fn] = functions.find(([id]) => new RegExp(`^${name}[0-9A-F]{8}$`).test(id)) ?? [];
  return fn?.['Properties'].Environment.Variables ?? {};
}

/** Without what changes with every edit of the code, and with nothing else. */
function masked(template: Template): unknown {
  return JSON.parse(
    JSON.stringify(template.toJSON())
      .replaceAll(/[0-9a-f]{64}/g, '<hash>')
      .replaceAll(/"S3Key":"[^"]*"/g, '"S3Key":"<asset>"'),
  );
}

describe('the stacks', () => {
  it('are synthesised without a finding of any validation', () => {
    expect(() => app.synth()).not.toThrow();
  });

  it('would not be with an open finding: the rules are looked at', () => {
    const checked = vi.spyOn(
      AwsSolutionsChecks.prototype as unknown as { checkResource(): void },
      'checkResource',
    );
    afterAll(() => checked.mockRestore());
    templates().app.synth();
    expect(checked.mock.calls.length).toBeGreaterThan(50);
  });

  it('keep the state where no mistake with the service can take it away', () => {
    expect(state.terminationProtection).toBe(true);
    for (const type of ['AWS::DynamoDB::GlobalTable', 'AWS::S3::Bucket', 'AWS::SecretsManager::Secret']) {
      ofState.allResources(type, { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
      ofService.resourceCountIs(type, 0);
    }
  });

  it('refer to each other weakly: the state can be moved or restored while the service is there', () => {
    expect(JSON.stringify(ofState.toJSON())).not.toContain('"Export"');
    expect(JSON.stringify(ofService.toJSON())).not.toContain('Fn::ImportValue');
    expect(JSON.stringify(ofService.toJSON())).toContain('Fn::GetStackOutput');
  });

  it('have what they had when somebody last looked', async () => {
    await expect(JSON.stringify(masked(ofState), null, 2)).toMatchFileSnapshot('snapshots/state.json');
    await expect(JSON.stringify(masked(ofService), null, 2)).toMatchFileSnapshot('snapshots/service.json');
  });
});

describe('each function of the service may do what its code does', () => {
  const traces = ['xray:PutTelemetryRecords on *', 'xray:PutTraceSegments on *'];
  const logs = (name: string) => [`logs:CreateLogStream on ${name}Logs`, `logs:PutLogEvents on ${name}Logs`];
  const ledger = (...actions: string[]) => actions.map((action) => `dynamodb:${action} on LedgerTable`);
  const rows = (...actions: string[]) => actions.map((action) => `dynamodb:${action} on Rows`);
  const protects = ledger('GetItem', 'PutItem', 'Query', 'UpdateItem');
  const stripe = ['secretsmanager:GetSecretValue on StripeKey'];

  it.each<[string, readonly string[]]>([
    ['payments', [...protects, ...rows('PutItem')]],
    ['orders', [...protects, ...rows('PutItem'), ...stripe]],
    ['transfers', [...protects, ...rows('GetItem', 'PutItem'), ...stripe]],
    ['reads', rows('GetItem')],
    ['operations', ledger('GetItem')],
    [
      'webhook',
      [
        ...protects,
        ...rows('GetItem', 'PutItem'),
        ...stripe,
        'secretsmanager:GetSecretValue on StripeWebhookSecret',
      ],
    ],
    ['health', []],
    ['audit', [...ledger('GetItem', 'Scan', 'UpdateItem'), ...stripe, 'lambda:InvokeFunction on audit']],
    [
      'dispatch',
      [
        ...[...protects, ...rows('GetItem', 'PutItem'), ...stripe, 'dynamodb:ListStreams on *'],
        ...['DescribeStream', 'GetRecords', 'GetShardIterator'].map(
          (action) => `dynamodb:${action} on LedgerTable.stream`,
        ),
        ...['s3:ListBucket on LedgerFailedBatches', 's3:PutObject on LedgerFailedBatches/*'],
      ],
    ],
    [
      'sweep',
      [
        ...[...protects, ...rows('GetItem', 'PutItem'), ...stripe],
        ...['dynamodb:Query on LedgerTable/index/due', 'lambda:InvokeFunction on orders'],
      ],
    ],
  ])('%s', (name, allowed) => {
    const all = [...allowed, ...logs(name), ...traces].toSorted();
    expect(allowedTo(ofService, new RegExp(`^${name}[0-9A-F]{8}$`))).toEqual(all);
  });

  it('and none has a wildcard but where AWS knows no resource, or nobody the name of an object', () => {
    const wild = Object.values(ofService.findResources('AWS::IAM::Policy'))
      .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
      .filter((one) => JSON.stringify([one.Action, one.Resource]).includes('*'))
      .flatMap(({ Action }) => Action);
    expect([...new Set(wild)].toSorted()).toEqual([
      'dynamodb:ListStreams',
      's3:GetObject',
      's3:GetObjectVersion',
      's3:PutObject',
      'xray:PutTelemetryRecords',
      'xray:PutTraceSegments',
    ]);
    expect(JSON.stringify(ofService.findResources('AWS::IAM::Role'))).not.toContain('ManagedPolicyArns":[{');
  });
});

describe('the API', () => {
  const routes = Object.values(ofService.findResources('AWS::ApiGatewayV2::Route')).map(({ Properties }) => ({
    key: Properties.RouteKey as string,
    auth: Properties.AuthorizationType as string,
  }));

  it('has the routes of the service, all behind a token but the two that say why not', () => {
    const byKey = Object.fromEntries(routes.map(({ key, auth }) => [key, auth]));
    expect(byKey).toEqual({
      'POST /payments': 'JWT',
      'POST /orders': 'JWT',
      'POST /transfers': 'JWT',
      'GET /payments/{id}': 'JWT',
      'GET /orders/{id}': 'JWT',
      'GET /transfers/{id}': 'JWT',
      'GET /operations/{key}': 'JWT',
      'POST /webhooks/stripe': 'NONE',
      'GET /health': 'NONE',
    });
  });

  it('logs the route and never the path, which has keys in it, and limits everybody together', () => {
    const [stage] = Object.values(ofService.findResources('AWS::ApiGatewayV2::Stage'));
    const { AccessLogSettings, DefaultRouteSettings } = stage?.['Properties'] ?? {};
    expect(AccessLogSettings.Format).toContain('$context.routeKey');
    expect(AccessLogSettings.Format).not.toMatch(/context\.path|rawPath|resourcePath|queryString/i);
    expect(DefaultRouteSettings).toEqual({ ThrottlingBurstLimit: 2_000, ThrottlingRateLimit: 1_000 });
  });

  it('makes a pool with a client for each tenant, where nobody names an issuer', () => {
    ofState.resourceCountIs('AWS::Cognito::UserPoolClient', 2);
    const named = templates({ tenants: 'acme,globex,initech' }).ofState;
    named.resourceCountIs('AWS::Cognito::UserPoolClient', 3);
    named.allResourcesProperties('AWS::Cognito::UserPoolClient', {
      AllowedOAuthFlows: ['client_credentials'],
      GenerateSecret: true,
    });
    // Who is made anew is another tenant, to whom all keys are new.
    named.allResources('AWS::Cognito::UserPoolClient', { DeletionPolicy: 'Retain' });
    ofService.resourceCountIs('AWS::Cognito::UserPoolClient', 0);
    for (const name of ['payments', 'orders', 'transfers', 'reads', 'operations']) {
      expect(variablesOf(ofService, name)['TENANT_CLAIM']).toBe('client_id'); // A machine's token has no other name.
    }
    const [authorizer] = Object.values(ofService.findResources('AWS::ApiGatewayV2::Authorizer'));
    expect(JSON.stringify(authorizer?.['Properties'].JwtConfiguration.Audience)).toMatch(
      /Tenantacme.*Tenantglobex/,
    );
  });

  it('takes the tokens of an issuer that is named, and the tenant from the claim that is named', () => {
    const named = templates({ issuer: 'https://id.example.com', audience: 'payments', tenantClaim: 'org' });
    named.ofState.resourceCountIs('AWS::Cognito::UserPool', 0);
    const own = named.ofService;
    own.hasResourceProperties('AWS::ApiGatewayV2::Authorizer', {
      JwtConfiguration: { Audience: ['payments'], Issuer: 'https://id.example.com' },
    });
    own.hasResourceProperties('AWS::Lambda::Function', {
      Environment: { Variables: { TENANT_CLAIM: 'org' } },
    });
  });

  it.each([
    [{ issuer: 'https://id.example.com' }, /issuer and audience belong together/],
    [{ audience: 'payments' }, /issuer and audience belong together/],
    [{ issuer: 'http://id.example.com', audience: 'a' }, /issuer is http:.*https:\/\/ URL/],
    [{ tenants: 'Acme Inc' }, /The tenant Acme Inc needs a name/],
    [{ tenants: 7 }, /tenants is 7; expected a list/],
    [{ tenantClaim: 'org' }, /tenantClaim is org, and no issuer is named/],
    [{ customerKey: 'yes' }, /customerKey is "yes"; expected true or false/],
    [{ alarmEmail: '' }, /alarmEmail is ""; expected a text/],
  ])('refuses %j with a sentence', (context, why) => {
    expect(() => templates(context)).toThrow(why);
  });
});

it('mails alarms to whom they are for', () => {
  const told = templates({ alarmEmail: 'night@example.com' });
  expect(() => told.app.synth()).not.toThrow();
  told.ofService.hasResourceProperties('AWS::SNS::Subscription', {
    Protocol: 'email',
    Endpoint: 'night@example.com',
  });
  ofService.resourceCountIs('AWS::SNS::Topic', 0);
});

it('lets the functions that ask the provider ask another one, and leads alarms to the team’s own runbook', () => {
  const own = templates({
    stripeBaseUrl: 'https://stripe.example.com',
    runbook: 'https://wiki/run',
  }).ofService;
  const functions = ['payments', 'orders', 'transfers', 'reads', 'webhook', 'dispatch', 'sweep', 'audit'];
  const asking = functions.filter((name) => 'STRIPE_BASE_URL' in variablesOf(own, name));
  expect(asking).toEqual(['orders', 'transfers', 'webhook', 'dispatch', 'sweep', 'audit']);
  expect(asking.filter((name) => 'STRIPE_KEY_SECRET' in variablesOf(own, name))).toEqual(asking);
  expect(variablesOf(own, 'audit')['STRIPE_BASE_URL']).toBe('https://stripe.example.com');
  for (const { Properties } of Object.values(own.findResources('AWS::CloudWatch::Alarm'))) {
    expect(Properties.AlarmDescription).toContain('Runbook: https://wiki/run#');
  }
});

it('looks for duplicates in the log of each of the three POSTs', () => {
  const [rule] = Object.values(ofService.findResources('AWS::CloudWatch::InsightRule'));
  const text = JSON.stringify(rule?.['Properties'].RuleBody);
  expect([...text.matchAll(/"Ref":"(\w+?)Logs/g)].map(([, name]) => name)).toEqual([
    'payments',
    'orders',
    'transfers',
  ]);
});

describe('secrets', () => {
  it('are named to the functions, and are in no template and no variable', () => {
    ofState.allResourcesProperties('AWS::SecretsManager::Secret', { GenerateSecretString: {} });
    for (const { Properties } of Object.values(ofService.findResources('AWS::Lambda::Function'))) {
      for (const [name, value] of Object.entries(Properties.Environment?.Variables ?? {})) {
        if (name.includes('SECRET')) expect(JSON.stringify(value)).toContain('Fn::GetStackOutput');
      }
    }
    expect(JSON.stringify(ofService.toJSON())).not.toMatch(/resolve:secretsmanager|sk_(test|live)_|whsec_/);
  });

  it('and all that is stored can be under a key of the account’s own', () => {
    const own = templates({ customerKey: 'true' }, { CDK_DEFAULT_REGION: 'eu-central-1' });
    expect(() => own.app.synth()).not.toThrow();
    own.ofState.hasResourceProperties('AWS::KMS::Key', { EnableKeyRotation: true });
    const key = { 'Fn::GetAtt': [Match.stringLikeRegexp('^Key'), 'Arn'] };
    own.ofState.allResourcesProperties('AWS::SecretsManager::Secret', { KmsKeyId: key });
    own.ofState.allResourcesProperties('AWS::DynamoDB::GlobalTable', {
      Replicas: [Match.objectLike({ SSESpecification: { KMSMasterKeyId: key } })],
    });
    // Whoever reads rows, records or secrets has to open them; health has none.
    const opens = [
      'payments',
      'orders',
      'transfers',
      'reads',
      'operations',
      'webhook',
      'dispatch',
      'sweep',
      'audit',
    ];
    for (const name of [...opens, 'health']) {
      const allowed = allowedTo(own.ofService, new RegExp(`^${name}[0-9A-F]{8}$`));
      expect([name, allowed.includes('kms:Decrypt on Key')]).toEqual([name, name !== 'health']);
    }
  });
});

it('every function is the same kind of function', () => {
  ofService.allResourcesProperties('AWS::Lambda::Function', {
    Runtime: 'nodejs24.x',
    Architectures: ['arm64'],
    TracingConfig: { Mode: 'Active' },
    Environment: { Variables: { NODE_OPTIONS: '--enable-source-maps' } },
  });
  const functions = Object.values(ofService.findResources('AWS::Lambda::Function'));
  ofService.resourceCountIs('AWS::Logs::LogGroup', functions.length + 1);
  ofService.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 30 });
});
