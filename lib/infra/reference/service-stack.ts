import { fileURLToPath } from 'node:url';
import {
  type App,
  CfnOutput,
  CrossStackReferences,
  Duration,
  ReferenceStrength,
  Stack,
  type StackProps,
} from 'aws-cdk-lib';
import { HttpMethod } from 'aws-cdk-lib/aws-apigatewayv2';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import { IdempotentFunction } from '../function.ts';
import { Observability } from '../observability.ts';
import { Reconciliation } from '../reconciliation.ts';
import { statement } from '../statement.ts';
import { createApi, type Route } from './api.ts';
import type { Settings } from './settings.ts';
import type { StateStack } from './state-stack.ts';
import { tenancy } from './tenants.ts';

export interface ServiceStackProps extends StackProps {
  readonly state: StateStack;
  readonly settings: Settings;
}

/** What a function does to the service's own rows; none, where it only has to name their table. */
type Rows = readonly ('GetItem' | 'PutItem')[];

interface Needs {
  readonly timeout?: Duration;
  readonly rows?: Rows;
  readonly stripe?: boolean;
  readonly environment?: Readonly<Record<string, string>>;
}

/** The reference service, and all of the layer around it. */
export class ServiceStack extends Stack {
  readonly #state: StateStack;
  readonly #stripeBaseUrl: string | undefined;

  constructor(app: App, id: string, { state, settings, ...props }: ServiceStackProps) {
    super(app, id, props);
    this.#state = state;
    this.#stripeBaseUrl = settings.stripeBaseUrl;
    // The state must be free to move or to be restored while the service is there; a hard export would hold on to it.
    CrossStackReferences.of(this).consume(ReferenceStrength.WEAK);
    const { authorizer, tenantClaim } = tenancy(settings, state.tenants);
    const tenant = { TENANT_CLAIM: tenantClaim };
    const { ledger } = state;

    const payments = this.fn('payments', { rows: ['PutItem'], environment: tenant });
    const orders = this.fn('orders', { rows: ['PutItem'], stripe: true, environment: tenant });
    const transfers = this.fn('transfers', {
      rows: ['GetItem', 'PutItem'],
      stripe: true,
      environment: tenant,
    });
    const protectedFunctions = [payments, orders, transfers];
    for (const fn of protectedFunctions) ledger.protect(fn);
    const reads = this.fn('reads', { rows: ['GetItem'], environment: tenant });
    const operations = this.fn('operations', { environment: tenant });
    ledger.connect(operations, 'status');
    const webhook = this.fn('webhook', { rows: ['GetItem', 'PutItem'], stripe: true });
    ledger.connect(webhook, 'webhook');
    this.reads(webhook, state.webhookSecret, 'STRIPE_WEBHOOK_SECRET');
    const health = this.fn('health');

    const background = { rows: ['GetItem', 'PutItem'], stripe: true, timeout: Duration.minutes(5) } as const;
    const reconciliation = new Reconciliation(this, 'Reconciliation', {
      ledger,
      dispatch: this.fn('dispatch', background),
      sweep: this.fn('sweep', background),
      audit: this.fn('audit', { rows: [], stripe: true, timeout: Duration.minutes(15) }),
      completes: [orders],
    });
    const { runbook, alarmEmail } = settings;
    new Observability(this, 'Observability', {
      reconciliation,
      functions: protectedFunctions,
      ...(runbook !== undefined && { runbook }),
      ...(alarmEmail !== undefined && { actions: [this.mailTo(alarmEmail)] }),
    });

    const signed =
      'Stripe signs what it sends, and the function verifies that over the raw body before anything else.';
    const routes: readonly Route[] = [
      { method: HttpMethod.POST, path: '/payments', fn: payments },
      { method: HttpMethod.POST, path: '/orders', fn: orders },
      { method: HttpMethod.POST, path: '/transfers', fn: transfers },
      ...['payments', 'orders', 'transfers'].map((kind) => ({
        method: HttpMethod.GET,
        path: `/${kind}/{id}`,
        fn: reads,
      })),
      { method: HttpMethod.GET, path: '/operations/{key}', fn: operations },
      { method: HttpMethod.POST, path: '/webhooks/stripe', fn: webhook, publicBecause: signed },
      {
        method: HttpMethod.GET,
        path: '/health',
        fn: health,
        publicBecause: 'It says that the API answers, and nothing else.',
      },
    ];
    const api = createApi(this, { authorizer, tenantClaim }, routes);
    new CfnOutput(this, 'Url', { value: api.apiEndpoint });
  }

  private mailTo(address: string): SnsAction {
    const topic = new Topic(this, 'Alarms', { enforceSSL: true });
    topic.addSubscription(new EmailSubscription(address));
    return new SnsAction(topic);
  }

  private fn(name: string, needs: Needs = {}): LambdaFunction {
    const { timeout, rows, stripe = false, environment } = needs;
    const { rows: table, stripeKey } = this.#state;
    const fn = new IdempotentFunction(this, name, {
      entry: fileURLToPath(new URL(`../../../lambdas/${name}/index.ts`, import.meta.url)),
      ...(timeout && { timeout }),
      ...(environment && { environment }),
    });
    if (rows) fn.addEnvironment('SERVICE_TABLE', table.tableName);
    if (rows && rows.length > 0) {
      fn.addToRolePolicy(
        statement(
          rows.map((action) => `dynamodb:${action}`),
          [table.tableArn],
        ),
      );
      table.encryptionKey?.grant(fn, 'kms:Decrypt', 'kms:DescribeKey');
    }
    if (stripe) {
      this.reads(fn, stripeKey, 'STRIPE_KEY_SECRET');
      if (this.#stripeBaseUrl !== undefined) fn.addEnvironment('STRIPE_BASE_URL', this.#stripeBaseUrl);
    }
    return fn;
  }

  /** By its ARN: the value is read when it is first needed, and is in no template and no variable. */
  private reads(fn: LambdaFunction, secret: Secret, variable: string): void {
    fn.addEnvironment(variable, secret.secretArn);
    fn.addToRolePolicy(statement(['secretsmanager:GetSecretValue'], [secret.secretArn]));
    secret.encryptionKey?.grant(fn, 'kms:Decrypt');
  }
}
