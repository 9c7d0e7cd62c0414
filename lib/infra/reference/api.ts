import { RemovalPolicy } from 'aws-cdk-lib';
import { AccessLogFormat } from 'aws-cdk-lib/aws-apigateway';
import {
  HttpApi,
  type HttpMethod,
  HttpNoneAuthorizer,
  HttpStage,
  LogGroupLogDestination,
} from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { acknowledge } from '../acknowledge.ts';
import type { Tenancy } from './tenants.ts';

export interface Route {
  readonly method: HttpMethod;
  readonly path: string;
  readonly fn: IFunction;
  /** Why anybody may call it. Without a reason it needs a token. */
  readonly publicBecause?: string;
}

/** For all callers together; one more than this a second is answered by API Gateway with 429, before any function starts. */
const THROTTLE = { rateLimit: 1_000, burstLimit: 2_000 };

/** Never the path: `/operations/{key}` has the key in it. */
const LOGGED = {
  requestId: '$context.requestId',
  time: '$context.requestTime',
  route: '$context.routeKey',
  status: '$context.status',
  latencyMs: '$context.responseLatency',
  integrationError: '$context.integrationErrorMessage',
  authorizerError: '$context.authorizer.error',
};

export function createApi(scope: Construct, { authorizer }: Tenancy, routes: readonly Route[]): HttpApi {
  const api = new HttpApi(scope, 'Api', { createDefaultStage: false, defaultAuthorizer: authorizer });
  const integrations = new Map<IFunction, HttpLambdaIntegration>();
  for (const { method, path, fn, publicBecause } of routes) {
    const integration = integrations.get(fn) ?? new HttpLambdaIntegration(fn.node.id, fn);
    integrations.set(fn, integration);
    const added = api.addRoutes({
      methods: [method],
      path,
      integration,
      ...(publicBecause !== undefined && { authorizer: new HttpNoneAuthorizer() }),
    });
    if (publicBecause !== undefined)
      for (const route of added) acknowledge(route, 'AwsSolutions-APIG4', publicBecause);
  }
  const logs = new LogGroup(scope, 'AccessLogs', {
    retention: RetentionDays.ONE_MONTH,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  new HttpStage(scope, 'Stage', {
    httpApi: api,
    stageName: '$default',
    autoDeploy: true,
    throttle: THROTTLE,
    accessLogSettings: {
      destination: new LogGroupLogDestination(logs),
      format: AccessLogFormat.custom(JSON.stringify(LOGGED)),
    },
  });
  return api;
}
