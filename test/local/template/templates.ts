import type { Fields } from '../../../lib/local/fields.ts';
import { type Assembly, templateOf } from '../../../lib/local/template/assembly.ts';
import { modelOf } from '../../../lib/local/template/model-of.ts';
import { CannotRunHere } from '../../../lib/local/template/problem.ts';

type Resources = Readonly<Record<string, object>>;

export function assemblyOf(templates: Readonly<Record<string, object>>): Assembly {
  const stacks = Object.entries(templates).map(([name, template]) =>
    templateOf(name, template as Fields, '/cdk.out'),
  );
  return { stacks, assets: new Map([['code.zip', { path: '/cdk.out/asset.code', packaging: 'zip' }]]) };
}

export function modelWith(Resources: Resources, more: object = {}) {
  return modelOf(assemblyOf({ Shop: { ...more, Resources } }), () => {});
}

/** What is wrong with these, one line for each. */
export function problemsWith(Resources: Resources, more: object = {}): readonly string[] {
  try {
    modelWith(Resources, more);
  } catch (error) {
    if (error instanceof CannotRunHere) return error.problems;
    throw error;
  }
  return [];
}

export function resource(type: string, Properties: object, more: object = {}) {
  return { Type: `AWS::${type}`, Properties, ...more };
}

export const att = (id: string, attribute = 'Arn') => ({ 'Fn::GetAtt': [id, attribute] });
export const ref = (id: string) => ({ Ref: id });

export function functionWith(properties: object = {}, more: object = {}) {
  return resource(
    'Lambda::Function',
    {
      Code: { S3Bucket: 'assets', S3Key: 'code.zip' },
      Handler: 'index.handler',
      Runtime: 'nodejs24.x',
      ...properties,
    },
    more,
  );
}

export function tableWith(properties: object = {}) {
  return resource('DynamoDB::Table', {
    AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }],
    KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }],
    StreamSpecification: { StreamViewType: 'NEW_AND_OLD_IMAGES' },
    ...properties,
  });
}

/** An API with one route to the function `Pay`, and what a test changes of them. */
export function apiWith({ api = {}, stage = {}, route = {}, integration = {}, authorizer = {} } = {}) {
  const ApiId = ref('Api');
  return {
    Pay: functionWith(),
    Api: resource('ApiGatewayV2::Api', { Name: 'Api', ProtocolType: 'HTTP', ...api }),
    Stage: resource('ApiGatewayV2::Stage', { ApiId, StageName: '$default', AutoDeploy: true, ...stage }),
    Route: resource('ApiGatewayV2::Route', {
      ApiId,
      RouteKey: 'POST /payments',
      Target: { 'Fn::Join': ['/', ['integrations', ref('Integration')]] },
      AuthorizationType: 'JWT',
      AuthorizerId: ref('Authorizer'),
      ...route,
    }),
    Integration: resource('ApiGatewayV2::Integration', {
      ApiId,
      IntegrationType: 'AWS_PROXY',
      IntegrationUri: att('Pay'),
      PayloadFormatVersion: '2.0',
      ...integration,
    }),
    Authorizer: resource('ApiGatewayV2::Authorizer', {
      ApiId,
      Name: 'Tokens',
      AuthorizerType: 'JWT',
      IdentitySource: ['$request.header.Authorization'],
      JwtConfiguration: { Issuer: 'https://id.example.com', Audience: ['pay'] },
      ...authorizer,
    }),
  };
}
