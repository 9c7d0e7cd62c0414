import type { ApiModel, AuthorizerModel, RouteModel } from '../model.ts';
import type { Found, Inventory } from './inventory.ts';
import type { Properties } from './properties.ts';

const API = [
  ...['Name', 'ProtocolType'],
  ...['Description', 'DisableExecuteApiEndpoint', 'FailOnWarnings', 'IpAddressType', 'Tags', 'Version'],
];

const API_REASONS = {
  Body: 'the local cloud reads routes from the template, and no OpenAPI document.',
  BodyS3Location: 'the local cloud reads routes from the template, and no OpenAPI document.',
  CorsConfiguration: 'the local cloud answers no preflight requests; nothing but a browser needs them.',
};

const STAGE = [
  ...['ApiId', 'StageName', 'AccessLogSettings', 'DefaultRouteSettings'],
  ...['AutoDeploy', 'DeploymentId', 'Description', 'Tags'],
];

/** What an account has, where a stage says only one of them. https://docs.aws.amazon.com/apigateway/latest/developerguide/limits.html */
const ACCOUNT_RATE_PER_SECOND = 10_000;
const ACCOUNT_BURST = 5_000;

const FUNCTION_URI = /^arn:[^:]*:apigateway:[^:]*:lambda:path\/[^/]*\/functions\/(?<arn>.*)\/invocations$/;

/** API Gateway answers 503 after this, and so does the local one. */
const INTEGRATION_TIMEOUT_MS = 30_000;

export function readApi(found: Found, inventory: Inventory): ApiModel {
  const { properties } = found;
  properties.oneOf('ProtocolType', ['HTTP']);
  properties.requireOnly(API, API_REASONS);
  const stages = ofApi('AWS::ApiGatewayV2::Stage', found, inventory);
  const [stage, second] = stages;
  if (!stage) throw properties.problem('Name', 'the API has no stage, so nobody could call it.');
  if (second) {
    throw second.properties.problem('StageName', 'the API has another stage; the local cloud knows one.');
  }
  return {
    name: found.name(),
    routes: ofApi('AWS::ApiGatewayV2::Route', found, inventory).map((route) => routeOf(route, inventory)),
    ...stageOf(stage.properties),
  };
}

function ofApi(type: string, api: Found, inventory: Inventory): Found[] {
  return inventory.of(type).filter(({ properties }) => properties.text('ApiId') === api.ref());
}

/** Of each part of an API, also of those whose API is not there. */
export function requireApi({ properties }: Found, inventory: Inventory): void {
  const id = properties.text('ApiId');
  if (inventory.of('AWS::ApiGatewayV2::Api').some((api) => api.ref() === id)) return;
  throw properties.problem('ApiId', `it is ${id}; expected an API of the app.`);
}

function stageOf(properties: Properties): Pick<ApiModel, 'throttle' | 'accessLogFormat'> {
  properties.requireOnly(STAGE, {
    RouteSettings: 'the local cloud limits all routes of an API together.',
    StageVariables: 'the local cloud passes no stage variables.',
  });
  properties.oneOf('StageName', ['$default']);
  const limits = properties.group('DefaultRouteSettings');
  const isLimited = limits.has('ThrottlingRateLimit') || limits.has('ThrottlingBurstLimit');
  const format = properties.group('AccessLogSettings').optionalText('Format');
  return {
    ...(isLimited && {
      throttle: {
        ratePerSecond: limits.number('ThrottlingRateLimit', ACCOUNT_RATE_PER_SECOND),
        burst: limits.number('ThrottlingBurstLimit', ACCOUNT_BURST),
      },
    }),
    ...(format !== undefined && { accessLogFormat: format }),
  };
}

function routeOf({ properties }: Found, inventory: Inventory): RouteModel {
  properties.requireOnly([
    ...['ApiId', 'AuthorizationScopes', 'AuthorizationType', 'AuthorizerId', 'RouteKey', 'Target'],
    'OperationName',
  ]);
  const authorizer = authorizerOf(properties, inventory);
  return {
    routeKey: properties.text('RouteKey'),
    functionName: functionOf(properties, inventory),
    ...(authorizer && { authorizer }),
  };
}

function functionOf(route: Properties, inventory: Inventory): string {
  const target = route.text('Target');
  const integration = inventory
    .of('AWS::ApiGatewayV2::Integration')
    .find((one) => `integrations/${one.ref()}` === target);
  if (integration) return integratedFunction(integration.properties, inventory);
  throw route.problem('Target', `it is ${target}; expected an integration of the app.`);
}

function integratedFunction(properties: Properties, inventory: Inventory): string {
  properties.oneOf('IntegrationType', ['AWS_PROXY']);
  properties.oneOf('PayloadFormatVersion', ['2.0']);
  properties.oneOf('ConnectionType', ['INTERNET'], 'INTERNET');
  properties.requireOnly(
    [
      ...['ApiId', 'IntegrationType', 'IntegrationUri', 'PayloadFormatVersion', 'TimeoutInMillis'],
      ...['ConnectionType', 'CredentialsArn', 'Description', 'IntegrationMethod'],
    ],
    { IntegrationSubtype: 'the local cloud integrates functions, and no other services.' },
  );
  const timeoutMs = properties.number('TimeoutInMillis', INTEGRATION_TIMEOUT_MS);
  if (timeoutMs !== INTEGRATION_TIMEOUT_MS) {
    throw properties.problem(
      'TimeoutInMillis',
      `it is ${timeoutMs}; the local API waits ${INTEGRATION_TIMEOUT_MS}, as API Gateway does by itself.`,
    );
  }
  const uri = properties.text('IntegrationUri');
  const reference = FUNCTION_URI.exec(uri)?.groups?.['arn'] ?? uri;
  return properties.about('IntegrationUri', () => inventory.functionAt(reference));
}

function authorizerOf(route: Properties, inventory: Inventory): AuthorizerModel | undefined {
  if (route.oneOf('AuthorizationType', ['NONE', 'JWT'], 'NONE') === 'NONE') return undefined;
  const id = route.text('AuthorizerId');
  const authorizer = inventory.of('AWS::ApiGatewayV2::Authorizer').find((one) => one.ref() === id);
  if (!authorizer) throw route.problem('AuthorizerId', `it is ${id}; expected an authorizer of the app.`);
  return { ...readAuthorizer(authorizer), scopes: route.texts('AuthorizationScopes') };
}

/** Also of one that no route has. */
export function readAuthorizer({ properties }: Found): Omit<AuthorizerModel, 'scopes'> {
  properties.oneOf('AuthorizerType', ['JWT']);
  properties.requireOnly(['ApiId', 'AuthorizerType', 'IdentitySource', 'JwtConfiguration', 'Name']);
  const sources = properties.texts('IdentitySource');
  const [, header] = /^\$request\.header\.([A-Za-z0-9-]+)$/.exec(sources.join()) ?? [];
  if (header === undefined) {
    throw properties.problem(
      'IdentitySource',
      `it is ${sources.join(', ')}; the local cloud takes a token from one header, as in $request.header.Authorization.`,
    );
  }
  const tokens = properties.group('JwtConfiguration');
  return {
    name: properties.text('Name'),
    issuer: tokens.text('Issuer'),
    audience: tokens.texts('Audience'),
    header,
  };
}
