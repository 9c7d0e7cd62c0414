import { App, Aspects, Stack } from 'aws-cdk-lib';
import { LambdaIntegration, RestApi } from 'aws-cdk-lib/aws-apigateway';
import { HttpApi, HttpMethod } from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import { Alias, type IFunction, type IVersion } from 'aws-cdk-lib/aws-lambda';
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

  it.each(['itself', 'by an alias'])('is content with a protected function, %s', (how) => {
    const stack = newStack();
    Aspects.of(stack).add(new ProtectedRoutes());
    const fn = newFunction(stack, 'Orders');
    new IdempotencyLedger(stack, 'Ledger').protect(fn);
    const live = new Alias(stack, 'Live', { aliasName: 'live', version: fn.currentVersion as IVersion });
    api(stack, how === 'itself' ? fn : (live as IFunction), HttpMethod.POST);
    expect(() => synth(stack)).not.toThrow();
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
