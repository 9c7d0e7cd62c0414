import { Duration, RemovalPolicy, Stack, Token } from 'aws-cdk-lib';
import {
  AttributeType,
  Billing,
  ContributorInsightsMode,
  ProjectionType,
  StreamViewType,
  TableEncryptionV2,
  TableV2,
} from 'aws-cdk-lib/aws-dynamodb';
import type { IGrantable, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { BlockPublicAccess, Bucket, BucketEncryption, type CfnBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { InvalidArgument } from '../core/errors.ts';
import { defaultPolicy, schedule } from '../core/policy.ts';
import { ledgerTable } from '../ledger/schema.ts';
import { type LedgerRole, ledgerAccess } from './access.ts';
import { acknowledge } from './acknowledge.ts';
import { markProtected } from './protection.ts';
import { statement } from './statement.ts';
import { requireTwoReaders } from './stream-readers.ts';

export interface IdempotencyLedgerProps {
  /** Default: made up by CloudFormation, so that a replacement never collides. */
  readonly tableName?: string;
  /** A key of your own for table and bucket. Default: DynamoDB's and S3's own encryption. */
  readonly encryptionKey?: IKey;
  /** Where spending ends. A fresh request costs two write units and more. Default 8,000 each: some 4,000 requests a second. */
  readonly maxWriteUnitsPerSecond?: number;
  readonly maxReadUnitsPerSecond?: number;
  /** Default `RETAIN`, with deletion protection: whoever deletes the ledger forgets what was charged. */
  readonly removalPolicy?: RemovalPolicy;
}

/** What a protected function promises its clients; checked when the stack is synthesised. */
export interface Protection {
  /** How long results are replayed; handed to the function as `RETENTION_SECONDS`. Default 24 hours. */
  readonly retention?: Duration;
  /** For how long your clients retry. Results must be kept at least as long. */
  readonly clientRetryWindow?: Duration;
}

const UNITS_PER_SECOND = 8_000;

/** Long enough for a weekend and the week after it; the daily search finds what was in them anyhow. */
const FAILED_BATCH_DAYS = 30;

/** The table that remembers every key, and the bucket for what its stream's readers gave up on. */
export class IdempotencyLedger extends Construct {
  readonly table: TableV2;
  /** Batches that a reader of the stream failed on for good; `redrive` does them again. */
  readonly failedBatches: Bucket;

  constructor(scope: Construct, id: string, props: IdempotencyLedgerProps = {}) {
    super(scope, id);
    if (props.encryptionKey) requireRegion(this);
    this.table = this.createTable(props);
    this.failedBatches = this.createBucket(props);
    requireTwoReaders(this, this.table);
  }

  /** Gives a function the ledger: the table's name as `LEDGER_TABLE`, and exactly the actions that protecting needs. */
  protect(fn: LambdaFunction, { retention, clientRetryWindow }: Protection = {}): this {
    requireTimeout(fn);
    const seconds = retention?.toSeconds() ?? defaultPolicy.retentionSeconds;
    requireRetention(fn, seconds, clientRetryWindow);
    if (retention) fn.addEnvironment('RETENTION_SECONDS', String(seconds));
    markProtected(fn);
    return this.connect(fn, 'protected');
  }

  /** The same for a function around the requests' path, by what it does. */
  connect(fn: LambdaFunction, role: LedgerRole): this {
    fn.addEnvironment('LEDGER_TABLE', this.table.tableName);
    this.grant(fn, role);
    return this;
  }

  /** Only the actions, for a principal that is no function: an operator's role, with `'operator'`, or another deployment's. */
  grant(grantee: IGrantable, role: LedgerRole): void {
    for (const one of this.statements(role)) grantee.grantPrincipal.addToPrincipalPolicy(one);
  }

  /** The same as statements, for policies of your own. */
  statements(role: LedgerRole): PolicyStatement[] {
    const { table, dueIndex } = ledgerAccess[role];
    const { tableArn, encryptionKey } = this.table;
    const index = `${tableArn}/index/${ledgerTable.dueIndex.name}`;
    return [
      statement(table, [tableArn]),
      ...(dueIndex.length > 0 ? [statement(dueIndex, [index])] : []),
      ...(encryptionKey ? [statement(['kms:Decrypt', 'kms:DescribeKey'], [encryptionKey.keyArn])] : []),
    ];
  }

  private createTable({
    tableName,
    encryptionKey,
    maxReadUnitsPerSecond = UNITS_PER_SECOND,
    maxWriteUnitsPerSecond = UNITS_PER_SECOND,
    removalPolicy = RemovalPolicy.RETAIN,
  }: IdempotencyLedgerProps): TableV2 {
    const { partitionKey, sortKey, ttlAttribute, streamViewType, dueIndex } = ledgerTable;
    return new TableV2(this, 'Table', {
      ...(tableName !== undefined && { tableName }),
      partitionKey: { name: partitionKey, type: AttributeType.STRING },
      sortKey: { name: sortKey, type: AttributeType.STRING },
      timeToLiveAttribute: ttlAttribute,
      dynamoStream: StreamViewType[streamViewType],
      globalSecondaryIndexes: [
        {
          indexName: dueIndex.name,
          partitionKey: { name: dueIndex.partitionKey, type: AttributeType.STRING },
          sortKey: { name: dueIndex.sortKey, type: AttributeType.NUMBER },
          projectionType: ProjectionType[dueIndex.projection],
        },
      ],
      billing: Billing.onDemand({
        maxReadRequestUnits: maxReadUnitsPerSecond,
        maxWriteRequestUnits: maxWriteUnitsPerSecond,
      }),
      encryption: encryptionKey
        ? TableEncryptionV2.customerManagedKey(encryptionKey)
        : TableEncryptionV2.dynamoOwnedKey(),
      pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
      contributorInsightsSpecification: { enabled: true, mode: ContributorInsightsMode.THROTTLED_KEYS },
      deletionProtection: removalPolicy === RemovalPolicy.RETAIN,
      removalPolicy,
    });
  }

  private createBucket({
    encryptionKey,
    removalPolicy = RemovalPolicy.RETAIN,
  }: IdempotencyLedgerProps): Bucket {
    const bucket = new Bucket(this, 'FailedBatches', {
      encryption: encryptionKey ? BucketEncryption.KMS : BucketEncryption.S3_MANAGED,
      ...(encryptionKey && { encryptionKey, bucketKeyEnabled: true }),
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      enforceSSL: true,
      versioned: true,
      lifecycleRules: [
        {
          expiration: Duration.days(FAILED_BATCH_DAYS),
          noncurrentVersionExpiration: Duration.days(1),
          abortIncompleteMultipartUploadAfter: Duration.days(1),
        },
      ],
      removalPolicy,
    });
    // Bucket's own option for this deploys a function that sets it; CloudFormation can set it by itself.
    (bucket.node.defaultChild as CfnBucket).notificationConfiguration = {
      eventBridgeConfiguration: { eventBridgeEnabled: true },
    };
    acknowledge(
      bucket,
      'AwsSolutions-S1',
      'Lambda alone writes here, a few objects in a bad year; CloudTrail data events tell who read them.',
    );
    return bucket;
  }
}

/** A table of CloudFormation's global kind names its key for each Region. */
function requireRegion(scope: Construct): void {
  if (!Token.isUnresolved(Stack.of(scope).region)) return;
  throw new InvalidArgument(
    `${scope.node.path} has a key of its own, so its stack has to say in which Region it will be: new Stack(app, id, { env: { region: 'eu-central-1' } }).`,
  );
}

/** Lambda's own default is three seconds: nobody chose it, and it ends a charge in the middle. */
function requireTimeout(fn: LambdaFunction): void {
  if (fn.timeout !== undefined) return;
  throw new InvalidArgument(
    `${fn.node.path} is protected but has no timeout, so Lambda would stop it after 3 seconds, in the middle of a payment. Give it one, as in timeout: Duration.seconds(29).`,
  );
}

function requireRetention(fn: LambdaFunction, seconds: number, window: Duration | undefined): void {
  const { retentionMinSeconds } = schedule;
  if (!Token.isUnresolved(seconds) && seconds < retentionMinSeconds) {
    throw new InvalidArgument(
      `${fn.node.path} keeps results for ${seconds} seconds; expected at least ${retentionMinSeconds}. A client that comes back later would be charged again.`,
    );
  }
  if (window === undefined || seconds >= window.toSeconds()) return;
  throw new InvalidArgument(
    `${fn.node.path} keeps results for ${seconds} seconds, but its clients retry for ${window.toSeconds()}: a late retry would run again. Raise retention to at least clientRetryWindow.`,
  );
}
