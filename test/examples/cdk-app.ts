import { App, Aspects, Duration, Stack } from 'aws-cdk-lib';
import { HttpApi, HttpMethod } from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpJwtAuthorizer } from 'aws-cdk-lib/aws-apigatewayv2-authorizers';
import { HttpLambdaIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import { Runtime } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';
import { IdempotencyLedger, Observability, ProtectedRoutes, Reconciliation } from 'oncekey/cdk';

/** An app as it was: an API, who may call it, and a function. */
export function ordersApp(app = new App()): App {
  const stack = new Stack(app, 'Orders');
  const orders = new NodejsFunction(stack, 'Order', {
    entry: 'test/examples/orders.ts',
    runtime: Runtime.NODEJS_24_X,
    timeout: Duration.seconds(20),
    environment: { STOCK_TABLE: 'stock', ORDERS_TABLE: 'orders' },
  });
  const tokens = new HttpJwtAuthorizer('Tokens', 'https://id.example.com', { jwtAudience: ['orders'] });
  new HttpApi(stack, 'Api', { defaultAuthorizer: tokens }).addRoutes({
    path: '/orders',
    methods: [HttpMethod.POST],
    integration: new HttpLambdaIntegration('Orders', orders),
  });

  // #region layer
  const ledger = new IdempotencyLedger(stack, 'Ledger');
  ledger.protect(orders, { clientRetryWindow: Duration.hours(12) });
  const reconciliation = new Reconciliation(stack, 'Reconciliation', { ledger });
  new Observability(stack, 'Observability', { reconciliation, functions: [orders] });
  Aspects.of(app).add(new ProtectedRoutes());
  // #endregion layer

  return app;
}
