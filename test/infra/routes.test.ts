import { App, Aspects, Aws, CfnCondition, Fn, Stack } from 'aws-cdk-lib';
import { ApiDefinition, LambdaIntegration, RestApi, SpecRestApi } from 'aws-cdk-lib/aws-apigateway';
import {
  CfnApi,
  CfnIntegration,
  CfnRoute,
  HttpApi,
  HttpMethod,
  WebSocketApi,
} from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpLambdaIntegration, WebSocketLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import { Alias, type IFunction, type IVersion, Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { describe, expect, it } from 'vitest';
import { ProtectedRoutes } from '../../lib/infra/api-routes.ts';
import { IdempotencyLedger } from '../../lib/infra/ledger.ts';
import { newFunction, newStack, UNBUNDLED } from './stage.ts';

type Api = (stack: Stack, fn: IFunction, method: HttpMethod) => void;

const apis: Readonly<Record<string, Api>> = {
  'an HTTP API': (stack, fn, method) => {
    const integration = new HttpLambdaIntegration('Integration', fn);
    new HttpApi(stack, 'Api').addRoutes({ path: '/orders/{id}', methods: [method], integration });
  },
  'a REST API': (stack, fn, method) => {
    const root = new RestApi(stack, 'Api').root;
    root.addResource('orders').addResource('{id}').addMethod(method, new LambdaIntegration(fn));
  },
};

/** As `cdk synth` does it. */
const synth = ({ node }: Stack) => (node.root as App).synth();

describe.each(Object.entries(apis))('%s', (_, api) => {
  it.each([HttpMethod.POST, HttpMethod.PATCH, HttpMethod.ANY])(
    'fails by name where %s is not protected',
    (method) => {
      const stack = newStack();
      Aspects.of(stack).add(new ProtectedRoutes());
      api(stack, newFunction(stack, 'Orders'), method);
      expect(() => synth(stack)).toThrow(
        `The route ${method} /orders/{id} is not protected: behind it is Test/Orders/Resource. Call ledger.protect(fn) for it, or exempt('${method} /orders/{id}', 'why it is safe to repeat').`,
      );
    },
  );

  it.each([HttpMethod.GET, HttpMethod.PUT, HttpMethod.DELETE])('has nothing to protect in %s', (method) => {
    const stack = newStack();
    Aspects.of(stack).add(new ProtectedRoutes());
    api(stack, newFunction(stack, 'Orders'), method);
    expect(() => synth(stack)).not.toThrow();
  });

  const ways: Readonly<Record<string, (fn: LambdaFunction) => IFunction>> = {
    itself: (fn) => fn,
    'by a version': (fn) => fn.currentVersion as IFunction,
    'by an alias': (fn) =>
      new Alias(fn.stack, 'Live', { aliasName: 'live', version: fn.currentVersion as IVersion }) as IFunction,
  };
  describe.each(Object.entries(ways))('to a function, %s,', (_way, reached) => {
    it('is content where it is protected', () => {
      const stack = newStack();
      Aspects.of(stack).add(new ProtectedRoutes());
      const fn = newFunction(stack, 'Orders');
      new IdempotencyLedger(stack, 'Ledger').protect(fn);
      api(stack, reached(fn), HttpMethod.POST);
      expect(() => synth(stack)).not.toThrow();
    });

    it('fails where it is not', () => {
      const stack = newStack();
      Aspects.of(stack).add(new ProtectedRoutes());
      api(stack, reached(newFunction(stack, 'Orders')), HttpMethod.POST);
      expect(() => synth(stack)).toThrow(/behind it is Test\/Orders\/Resource/);
    });
  });

  it('finds the function in another stack', () => {
    const app = new App({ context: UNBUNDLED });
    const [state, service] = [new Stack(app, 'State'), new Stack(app, 'Service')];
    Aspects.of(app).add(new ProtectedRoutes());
    const fn = newFunction(state, 'Orders');
    new IdempotencyLedger(state, 'Ledger').protect(fn);
    api(service, fn, HttpMethod.POST);
    expect(() => synth(service)).not.toThrow();
  });

  it('lets pass what is exempt, for a reason', () => {
    const stack = newStack();
    Aspects.of(stack).add(new ProtectedRoutes().exempt('POST /orders/{id}', 'it only reads'));
    api(stack, newFunction(stack, 'Orders'), HttpMethod.POST);
    expect(() => synth(stack)).not.toThrow();
  });
});

it('an exemption without a reason is none', () => {
  expect(() => new ProtectedRoutes().exempt('POST /orders', ' ')).toThrow(
    /POST \/orders is exempt without a reason/,
  );
});

it('a route that leads here or there is protected where both are', () => {
  const leadsTo = (protectBoth: boolean) => {
    const stack = newStack();
    Aspects.of(stack).add(new ProtectedRoutes());
    const ledger = new IdempotencyLedger(stack, 'Ledger');
    const [here, there] = [newFunction(stack, 'Here'), newFunction(stack, 'There')];
    ledger.protect(here);
    if (protectBoth) ledger.protect(there);
    const isNew = new CfnCondition(stack, 'IsNew', {
      expression: Fn.conditionEquals(Aws.REGION, 'eu-west-1'),
    });
    const api = new CfnApi(stack, 'Api', { name: 'x', protocolType: 'HTTP' });
    const { ref } = new CfnIntegration(stack, 'Integration', {
      ...{ apiId: api.ref, integrationType: 'AWS_PROXY', payloadFormatVersion: '2.0' },
      integrationUri: Fn.conditionIf(isNew.logicalId, here.functionArn, there.functionArn).toString(),
    });
    new CfnRoute(stack, 'Route', { apiId: api.ref, routeKey: 'POST /x', target: `integrations/${ref}` });
    return () => synth(stack);
  };
  expect(leadsTo(true)).not.toThrow();
  expect(leadsTo(false)).toThrow(/behind it is Test\/Here\/Resource, Test\/There\/Resource/);
});

it('an HTTP API’s default route takes every method, so it is not forgotten either', () => {
  const stack = newStack();
  Aspects.of(stack).add(new ProtectedRoutes());
  const defaultIntegration = new HttpLambdaIntegration('Integration', newFunction(stack, 'Orders'));
  new HttpApi(stack, 'Api', { defaultIntegration });
  expect(() => synth(stack)).toThrow(/The route \$default is not protected: behind it is Test\/Orders/);
});

it('a web socket’s routes are no POSTs, whatever they are called', () => {
  const stack = newStack();
  Aspects.of(stack).add(new ProtectedRoutes());
  const integration = new WebSocketLambdaIntegration('Integration', newFunction(stack, 'Chat'));
  new WebSocketApi(stack, 'Api', { defaultRouteOptions: { integration } }).addRoute('POST', { integration });
  expect(() => synth(stack)).not.toThrow();
});

describe('an API whose routes are no constructs', () => {
  const document = { openapi: '3.0.1', info: { title: 'x', version: '1' }, paths: {} };
  const apis: Readonly<Record<string, (stack: Stack) => unknown>> = {
    'of a document, REST': (stack) =>
      new SpecRestApi(stack, 'Api', { apiDefinition: ApiDefinition.fromInline(document) }),
    'of a document, HTTP': (stack) => new CfnApi(stack, 'Api', { body: document }),
    'of one target': (stack) =>
      new CfnApi(stack, 'Api', { name: 'x', protocolType: 'HTTP', target: 'arn:of:it' }),
  };

  it.each(Object.entries(apis))('%s fails by name, unless it is exempt', (_, create) => {
    const stack = newStack();
    const routes = new ProtectedRoutes();
    Aspects.of(stack).add(routes);
    create(stack);
    expect(() => synth(stack)).toThrow(
      /The API (Test\/Api(\/Resource)?) is made of a document or of a single target/,
    );
    const other = newStack();
    Aspects.of(other).add(
      new ProtectedRoutes().exempt('Test/Api', 'a proxy').exempt('Test/Api/Resource', 'a proxy'),
    );
    create(other);
    expect(() => synth(other)).not.toThrow();
  });
});

it('a route to a function that nobody here knows is not protected', () => {
  const stack = newStack();
  Aspects.of(stack).add(new ProtectedRoutes());
  const arn = 'arn:aws:lambda:eu-central-1:123456789012:function:other';
  const fn = LambdaFunction.fromFunctionArn(stack, 'Other', arn);
  const integration = new HttpLambdaIntegration('Integration', fn);
  new HttpApi(stack, 'Api').addRoutes({ path: '/orders', methods: [HttpMethod.POST], integration });
  expect(() => synth(stack)).toThrow(/behind it is no function that is known here/);
});
