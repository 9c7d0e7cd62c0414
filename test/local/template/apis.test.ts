import { describe, expect, it } from 'vitest';
import { apiWith, att, functionWith, modelWith, problemsWith, ref, resource } from './templates.ts';

describe('an API', () => {
  it('has its routes, each with its function and who may call it', () => {
    const model = modelWith(
      apiWith({
        route: { AuthorizationScopes: ['write'] },
        stage: {
          AccessLogSettings: { DestinationArn: att('Logs'), Format: '$context.status' },
          DefaultRouteSettings: { ThrottlingRateLimit: 10, ThrottlingBurstLimit: 20 },
        },
      }),
    );
    expect(model.apis).toEqual([
      {
        name: 'api',
        routes: [
          {
            routeKey: 'POST /payments',
            functionName: 'pay',
            authorizer: {
              name: 'Tokens',
              issuer: 'https://id.example.com',
              audience: ['pay'],
              header: 'Authorization',
              scopes: ['write'],
            },
          },
        ],
        throttle: { ratePerSecond: 10, burst: 20 },
        accessLogFormat: '$context.status',
      },
    ]);
  });

  it('may be open to anybody, without a limit and without a log', () => {
    const route = { AuthorizationType: 'NONE', AuthorizerId: ref('AWS::NoValue') };
    expect(modelWith(apiWith({ route })).apis).toEqual([
      { name: 'api', routes: [{ routeKey: 'POST /payments', functionName: 'pay' }] },
    ]);
  });

  it('has what an account has, where it is limited in one thing only', () => {
    const stage = { DefaultRouteSettings: { ThrottlingRateLimit: 10 } };
    expect(modelWith(apiWith({ stage })).apis[0]?.throttle).toEqual({ ratePerSecond: 10, burst: 5_000 });
  });

  it.each([
    ['an alias', ref('Live')],
    ['a version', ref('Version')],
    ['the address of its invocation', { 'Fn::Sub': uriOf(`\${Pay.Arn}`) }],
    ['its address by an alias', { 'Fn::Sub': uriOf(`\${Live}`) }],
  ])('leads to a function by %s', (_, IntegrationUri) => {
    const model = modelWith({
      ...apiWith({ integration: { IntegrationUri } }),
      Version: resource('Lambda::Version', { FunctionName: ref('Pay') }),
      Live: resource('Lambda::Alias', { FunctionName: ref('Pay'), Name: 'live' }),
    });
    expect(model.apis[0]?.routes[0]?.functionName).toBe('pay');
  });

  it('keeps its routes apart from those of another', () => {
    const other = {
      Public: resource('ApiGatewayV2::Api', { Name: 'Api', ProtocolType: 'HTTP' }),
      PublicStage: resource('ApiGatewayV2::Stage', { ApiId: ref('Public'), StageName: '$default' }),
    };
    expect(modelWith({ ...apiWith(), ...other }).apis).toMatchObject([
      { name: 'api', routes: [{ routeKey: 'POST /payments' }] },
      { name: 'public', routes: [] },
    ]);
  });

  it.each<[Parameters<typeof apiWith>[0], RegExp]>([
    [{ api: { ProtocolType: 'WEBSOCKET' } }, /ProtocolType: it is WEBSOCKET; the local cloud knows HTTP/],
    [{ api: { CorsConfiguration: { AllowOrigins: ['*'] } } }, /CorsConfiguration: .* no preflight/],
    [{ api: { Body: { openapi: '3.0.1' } } }, /Body: .* no OpenAPI/],
    [{ stage: { StageName: 'v1' } }, /StageName: it is v1; the local cloud knows \$default/],
    [{ stage: { StageVariables: { a: 'b' } } }, /StageVariables: /],
    [{ stage: { RouteSettings: { 'POST /x': { ThrottlingRateLimit: 1 } } } }, /RouteSettings: .* all routes/],
    [{ route: { AuthorizationType: 'AWS_IAM' } }, /AuthorizationType: it is AWS_IAM; .* NONE or JWT/],
    [{ route: { AuthorizerId: 'x' } }, /AuthorizerId: it is x; expected an authorizer/],
    [{ route: { Target: 'integrations/x' } }, /Target: it is integrations\/x; expected an integration/],
    [{ route: { RequestParameters: { a: {} } } }, /RequestParameters: the local cloud would not honour it/],
    [{ integration: { IntegrationType: 'HTTP_PROXY' } }, /IntegrationType: it is HTTP_PROXY; .* AWS_PROXY/],
    [{ integration: { PayloadFormatVersion: '1.0' } }, /PayloadFormatVersion: it is 1.0; .* 2.0/],
    [{ integration: { TimeoutInMillis: 5_000 } }, /TimeoutInMillis: it is 5000; the local API waits 30000/],
    [{ integration: { ConnectionType: 'VPC_LINK' } }, /ConnectionType: it is VPC_LINK/],
    [{ integration: { IntegrationSubtype: 'SQS-SendMessage' } }, /IntegrationSubtype: /],
    [
      { integration: { IntegrationUri: 'arn:aws:lambda:eu-west-1:999999999999:function:pay' } },
      /IntegrationUri: it leads to arn:aws:lambda:eu-west-1:999999999999:function:pay; expected a function/,
    ],
    [
      { integration: { IntegrationUri: att('Gone') } },
      /IntegrationUri: the stack Shop has no resource .* Gone/,
    ],
    [
      { authorizer: { AuthorizerType: 'REQUEST' } },
      /AuthorizerType: it is REQUEST; the local cloud knows JWT/,
    ],
    [
      { authorizer: { IdentitySource: ['$request.querystring.t'] } },
      /IdentitySource: it is \$request.querystring/,
    ],
    [{ authorizer: { JwtConfiguration: { Audience: ['a'] } } }, /JwtConfiguration.Issuer: it is missing/],
    [{ authorizer: { ApiId: 'gone' } }, /ApiId: it is gone; expected an API/],
    [{ route: { ApiId: 'gone' } }, /ApiId: it is gone; expected an API/],
  ])('with %j is not run', (change, why) => {
    expect(problemsWith(apiWith(change))).toEqual([expect.stringMatching(why)]);
  });

  it('that nobody could call is not run', () => {
    const { Api } = apiWith();
    expect(problemsWith({ Api })).toEqual([expect.stringMatching(/the API has no stage/)]);
  });

  it('with two stages is not run: each would be another API', () => {
    const Second = resource('ApiGatewayV2::Stage', { ApiId: ref('Api'), StageName: 'next' });
    expect(problemsWith({ ...apiWith(), Second })).toEqual([
      expect.stringMatching(/^Shop, Second .* another stage/),
    ]);
  });
});

it('an address of a function is nobody’s address of another', () => {
  const integration = { IntegrationUri: { 'Fn::Sub': uriOf(`\${Pay.Arn}-2`) } };
  expect(problemsWith({ ...apiWith({ integration }), Other: functionWith() })).toEqual([
    expect.stringMatching(/it leads to arn:aws:lambda:us-east-1:000000000000:function:pay-2/),
  ]);
});

function uriOf(arn: string): string {
  return `arn:aws:apigateway:us-east-1:lambda:path/2015-03-31/functions/${arn}/invocations`;
}
