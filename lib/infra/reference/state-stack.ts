import { type App, RemovalPolicy, Stack, type StackProps } from 'aws-cdk-lib';
import { AttributeType, Billing, TableEncryptionV2, TableV2 } from 'aws-cdk-lib/aws-dynamodb';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { acknowledge } from '../acknowledge.ts';
import { IdempotencyLedger } from '../ledger.ts';
import type { Settings } from './settings.ts';
import { createTenants, type Tenants } from './tenants.ts';

export interface StateStackProps extends StackProps {
  readonly settings: Settings;
}

/** As many as the ledger takes: each request writes a row or two. */
const UNITS_PER_SECOND = 8_000;

/** What must survive the service: the ledger, the service's rows, its provider's secrets. */
export class StateStack extends Stack {
  readonly ledger: IdempotencyLedger;
  readonly rows: TableV2;
  /** The provider's API key. Its value is put there by a person; nothing in a template ever has it. */
  readonly stripeKey: Secret;
  readonly webhookSecret: Secret;
  /** Where no issuer is named. */
  readonly tenants: Tenants | undefined;

  constructor(app: App, id: string, { settings, ...props }: StateStackProps) {
    super(app, id, { ...props, terminationProtection: true });
    const encryptionKey = settings.customerKey
      ? new Key(this, 'Key', { enableKeyRotation: true, removalPolicy: RemovalPolicy.RETAIN })
      : undefined;
    this.ledger = new IdempotencyLedger(this, 'Ledger', encryptionKey && { encryptionKey });
    this.rows = new TableV2(this, 'Rows', {
      partitionKey: { name: 'pk', type: AttributeType.STRING },
      billing: Billing.onDemand({
        maxReadRequestUnits: UNITS_PER_SECOND,
        maxWriteRequestUnits: UNITS_PER_SECOND,
      }),
      encryption: encryptionKey
        ? TableEncryptionV2.customerManagedKey(encryptionKey)
        : TableEncryptionV2.dynamoOwnedKey(),
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      deletionProtection: true,
      removalPolicy: RemovalPolicy.RETAIN,
    });
    const secret = (name: string, description: string) =>
      new Secret(this, name, {
        description,
        ...(encryptionKey && { encryptionKey }),
        removalPolicy: RemovalPolicy.RETAIN,
      });
    this.stripeKey = secret('StripeKey', 'The API key of Stripe, as text.');
    this.webhookSecret = secret(
      'StripeWebhookSecret',
      'The signing secret of the webhook; two in a JSON array while it is rotated.',
    );
    this.tenants = settings.issuer ? undefined : createTenants(this, settings.tenants);
    for (const one of [this.stripeKey, this.webhookSecret]) {
      acknowledge(
        one,
        'AwsSolutions-SMG4',
        'Stripe issues this value; nobody but a person at Stripe can rotate it.',
      );
    }
  }
}
