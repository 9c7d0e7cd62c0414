import { Duration } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import { Policy } from 'aws-cdk-lib/aws-iam';
import {
  type CfnEventSourceMapping,
  CfnFunction,
  type IFunction,
  type Function as LambdaFunction,
  RecursiveLoop,
} from 'aws-cdk-lib/aws-lambda';
import { SqsDestination } from 'aws-cdk-lib/aws-lambda-destinations';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { acknowledge } from './acknowledge.ts';
import { entryOf, type ShippedFunction } from './entries.ts';
import { IdempotentFunction } from './function.ts';
import type { IdempotencyLedger } from './ledger.ts';
import { every } from './schedule.ts';
import { onObjects, statement } from './statement.ts';
import { dispatchReading, readStream, sentinelReading } from './stream-reader.ts';

export interface ReconciliationProps {
  readonly ledger: IdempotencyLedger;
  /**
   * Settles what is due. Default: one that frees, resumes and parks; resolvers, and deliveries that are to be tried again, need
   * a function of your own with `sweeper()`.
   */
  readonly sweep?: LambdaFunction;
  /** Delivers what handlers emit, with `dispatcher()`. Needed as soon as one of them uses `once.emit`. */
  readonly dispatch?: LambdaFunction;
  /** Compares the ledger with the provider, with `auditor()`, once a day. */
  readonly audit?: LambdaFunction;
  /** Functions with `complete: 'auto'`, which the sweep invokes again when an operation of theirs was abandoned. */
  readonly completes?: readonly IFunction[];
  /** How long the sentinel waits for the end of what it saw begin. Longer is cheaper, and later. Default 60 seconds. */
  readonly sentinelWindow?: Duration;
  /** How many keys one tenant may take. Off by default; functions obey it with `quota: true`. */
  readonly quota?: { readonly newKeysPerMinute?: number; readonly openKeys?: number };
}

/** Whatever a crash leaves open is found and settled by these, without any client's help. */
export class Reconciliation extends Construct {
  readonly sentinel: LambdaFunction;
  readonly sweep: LambdaFunction;
  readonly dispatch: LambdaFunction | undefined;
  readonly backstop: LambdaFunction;
  readonly redrive: LambdaFunction;
  readonly audit: LambdaFunction | undefined;
  /** By what they read: their iterators' age is watched. */
  readonly readers: readonly { readonly fn: LambdaFunction; readonly mapping: CfnEventSourceMapping }[];
  /** What could not be done again either. */
  readonly redriveWaiting: Queue;
  /** Matches every batch that was given up on. */
  readonly failedBatchRule: Rule;

  constructor(scope: Construct, id: string, props: ReconciliationProps) {
    super(scope, id);
    const { ledger, dispatch, audit, completes = [], quota = {} } = props;
    this.sentinel = this.shipped('Sentinel', 'sentinel', Duration.minutes(2));
    ledger.connect(this.sentinel, 'sentinel');
    const { newKeysPerMinute, openKeys } = quota;
    if (newKeysPerMinute !== undefined)
      this.sentinel.addEnvironment('NEW_KEYS_PER_MINUTE', String(newKeysPerMinute));
    if (openKeys !== undefined) this.sentinel.addEnvironment('OPEN_KEYS', String(openKeys));
    const window = props.sentinelWindow ?? sentinelReading.window;
    const watching = readStream(this, 'SentinelStream', ledger, this.sentinel, {
      ...sentinelReading,
      window,
    });
    this.dispatch = dispatch;
    this.readers = [{ fn: this.sentinel, mapping: watching }, ...this.dispatching(ledger, dispatch)];

    this.sweep = props.sweep ?? this.shipped('Sweep', 'default-sweep', Duration.minutes(5));
    ledger.connect(this.sweep, 'sweep');
    if (completes.length > 0) {
      const arns = completes.map(({ functionArn }) => functionArn);
      this.sweep.addToRolePolicy(statement(['lambda:InvokeFunction'], arns));
    }
    every(this, 'SweepSchedule', this.sweep.functionArn, 'rate(1 minute)');

    this.backstop = this.shipped('Backstop', 'backstop', Duration.minutes(15));
    ledger.connect(this.backstop, 'backstop');
    this.goesOn('BackstopGoesOn', this.backstop);
    every(this, 'BackstopSchedule', this.backstop.functionArn, 'rate(1 day)');

    this.audit = audit;
    if (audit) {
      ledger.connect(audit, 'audit');
      this.goesOn('AuditGoesOn', audit);
      every(this, 'AuditSchedule', audit.functionArn, 'rate(1 day)');
    }
    this.redrive = this.shipped('Redrive', 'redrive', Duration.minutes(5));
    this.redriveWaiting = this.waiting();
    this.failedBatchRule = this.redriving(ledger);
  }

  private dispatching(ledger: IdempotencyLedger, dispatch: LambdaFunction | undefined) {
    if (!dispatch) return [];
    ledger.connect(dispatch, 'dispatch');
    const mapping = readStream(this, 'DispatchStream', ledger, dispatch, dispatchReading);
    return [{ fn: dispatch, mapping }];
  }

  /** Lambda tries an event three times, within minutes; what is left then waits here until a person sends it again. */
  private waiting(): Queue {
    const queue = new Queue(this, 'RedriveWaiting', {
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      retentionPeriod: Duration.days(14),
    });
    acknowledge(
      queue,
      'AwsSolutions-SQS3',
      'It is where events go that failed; nobody receives from it by itself.',
    );
    this.redrive.configureAsyncInvoke({ retryAttempts: 2, onFailure: new SqsDestination(queue) });
    return queue;
  }

  /** The failed function itself is asked again, with what it failed on. */
  private redriving({ failedBatches, table }: IdempotencyLedger): Rule {
    const readers = this.readers.map(({ fn }) => fn.functionArn);
    const objects = [failedBatches.arnForObjects('*')];
    onObjects(this, 'RedriveObjects', this.redrive, [
      statement(['s3:GetObject', 's3:GetObjectVersion'], objects),
    ]);
    this.redrive.addToRolePolicy(statement(['lambda:InvokeFunction'], readers));
    table.encryptionKey?.grant(this.redrive, 'kms:Decrypt');
    return new Rule(this, 'FailedBatches', {
      description: 'A batch of the ledger’s stream was given up on; it is done again from its object.',
      eventPattern: {
        source: ['aws.s3'],
        detailType: ['Object Created'],
        detail: { bucket: { name: [failedBatches.bucketName] } },
      },
      targets: [new LambdaTarget(this.redrive)],
    });
  }

  /**
   * What is not done in one invocation is gone on with in the next, as often as the table is large; Lambda would take that for
   * a mistake. In a policy of its own: its role's would depend on itself.
   */
  private goesOn(id: string, { functionArn, role, node }: LambdaFunction): void {
    const { defaultChild: fn } = node;
    if (fn instanceof CfnFunction) fn.recursiveLoop = RecursiveLoop.ALLOW;
    const statements = [statement(['lambda:InvokeFunction'], [functionArn])];
    new Policy(this, id, { statements, roles: role ? [role] : [] });
  }

  private shipped(id: string, name: ShippedFunction, timeout: Duration) {
    return new IdempotentFunction(this, id, { entry: entryOf(name), timeout });
  }
}
