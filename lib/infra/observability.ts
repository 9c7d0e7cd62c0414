import { Duration, Stack } from 'aws-cdk-lib';
import {
  Alarm,
  CfnInsightRule,
  ComparisonOperator,
  Dashboard,
  GraphWidget,
  type IAlarmAction,
  type IMetric,
  MathExpression,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { InvalidArgument } from '../core/errors.ts';
import { byOperation, FIVE_MINUTES, overall } from './metrics.ts';
import type { Reconciliation } from './reconciliation.ts';
import { iteratorAge, ledgerWatches, reconciliationWatches, type Watch } from './watches.ts';

export interface ObservabilityProps {
  readonly reconciliation: Reconciliation;
  /** The protected functions, whose logs name the tenant of every duplicate. */
  readonly functions: readonly LambdaFunction[];
  /** Who is told, as `new SnsAction(topic)`. */
  readonly actions?: readonly IAlarmAction[];
  /** Where your copy of the runbook is, as a URL. Default: its path in oncekey's repository, which nobody can click. */
  readonly runbook?: string;
  /** Duplicates of one tenant in five minutes that are no longer retries. Default 1,000. */
  readonly duplicatesPerTenant?: number;
}

const RUNBOOK = 'docs/runbook.md';

/** A dashboard, and an alarm for everything that a person has to know. Each says what it means and where to read on. */
export class Observability extends Construct {
  readonly alarms: readonly Alarm[];
  readonly dashboard: Dashboard;

  constructor(scope: Construct, id: string, props: ObservabilityProps) {
    super(scope, id);
    const { reconciliation, functions, actions = [], runbook = RUNBOOK, duplicatesPerTenant = 1_000 } = props;
    requireFunctions(this, functions);
    const duplicates = this.duplicatesByTenant(functions);
    const watches = [
      ...ledgerWatches(functions),
      ...reconciliationWatches(reconciliation),
      {
        id: 'DuplicatesOfATenant',
        metric: largestContributor(duplicates),
        over: duplicatesPerTenant,
        means:
          'One tenant sends far more duplicates than retries make: its client loops, or its keys are not new.',
        anchor: 'a-tenant-sends-duplicates',
      },
    ];
    this.alarms = watches.map((watch) => this.alarm(watch, runbook, actions));
    this.dashboard = this.createDashboard(reconciliation, duplicates);
  }

  private alarm(watch: Watch, runbook: string, actions: readonly IAlarmAction[]): Alarm {
    const { id, metric, over, means, anchor, periods = 1, periodsOver, missing, below } = watch;
    const alarm = new Alarm(this, id, {
      metric,
      threshold: over,
      evaluationPeriods: periods,
      ...(periodsOver !== undefined && { datapointsToAlarm: periodsOver }),
      comparisonOperator: below
        ? ComparisonOperator.LESS_THAN_THRESHOLD
        : ComparisonOperator.GREATER_THAN_THRESHOLD,
      treatMissingData: missing ?? TreatMissingData.NOT_BREACHING,
      alarmDescription: `${means} Runbook: ${runbook}#${anchor}`,
    });
    if (actions.length > 0) alarm.addAlarmAction(...actions);
    return alarm;
  }

  /** Who repeats, by tenant: a dimension per tenant would be a metric per tenant, and paid for as one. */
  private duplicatesByTenant(functions: readonly LambdaFunction[]): CfnInsightRule {
    const rule = {
      Schema: { Name: 'CloudWatchLogRule', Version: 1 },
      LogGroupNames: [...new Set(functions.map(({ logGroup }) => logGroup.logGroupName))],
      LogFormat: 'JSON',
      Contribution: {
        Keys: ['$.tenant'],
        Filters: [
          { Match: '$.logger', In: ['oncekey'] },
          { Match: '$.decision', In: ['replay', 'pending', 'in_progress', 'misuse'] },
        ],
      },
      AggregateOn: 'Count',
    };
    return new CfnInsightRule(this, 'DuplicatesByTenant', {
      // Its names are the account's: with the stack's, an app that is there twice has two rules.
      ruleName: `${Stack.of(this).stackName}-${this.node.addr.slice(-8)}-duplicates-by-tenant`,
      ruleState: 'ENABLED',
      ruleBody: Stack.of(this).toJsonString(rule),
    });
  }

  private createDashboard({ readers }: Reconciliation, duplicates: CfnInsightRule): Dashboard {
    const graph = (title: string, ...left: IMetric[]) => new GraphWidget({ title, left, width: 12 });
    const sums = (...names: Parameters<typeof overall>[0][]) =>
      names.map((name) => overall(name, 'SUM', FIVE_MINUTES));
    return new Dashboard(this, 'Dashboard', {
      defaultInterval: Duration.hours(24),
      widgets: [
        [
          graph(
            'What requests got',
            ...sums('reserve.created.count', 'reserve.replay.count', 'reserve.in_progress.count'),
            ...sums('reserve.failed_retry.count', 'reserve.unknown.count', 'reserve.key_misuse.count'),
          ),
          graph('Executions by operation', byOperation('reserve.created.count', 'SUM', FIVE_MINUTES)),
        ],
        [
          graph(
            'Reconciliation',
            ...sums(
              'reconcile.scheduled.count',
              'reconcile.resolved.count',
              'reconcile.failed.count',
              'parked',
            ),
          ),
          graph('Outbox', ...sums('outbox.delivered', 'outbox.failed')),
        ],
        [
          graph(
            'Latency, average of all operations (ms)',
            ...(['reserve.latency_ms', 'execute.latency_ms', 'complete.latency_ms'] as const).map((name) =>
              overall(name, 'AVG', FIVE_MINUTES),
            ),
          ),
          graph(
            'Reservations that did not end within their batch',
            overall('leftover_ratio', 'AVG', FIVE_MINUTES),
          ),
        ],
        [
          graph('Age of the stream where it is read', ...readers.map(({ fn }) => iteratorAge(fn))),
          graph('Most duplicates of one tenant', largestContributor(duplicates)),
        ],
      ],
    });
  }
}

function requireFunctions({ node }: Construct, functions: readonly LambdaFunction[]): void {
  if (functions.length > 0) return;
  throw new InvalidArgument(
    `${node.path} was given no functions, so nobody's duplicates and errors would be seen. Name the protected ones: functions: [payments].`,
  );
}

function largestContributor({ attrRuleName, ruleName }: CfnInsightRule & { attrRuleName?: string }): IMetric {
  return new MathExpression({
    expression: `INSIGHT_RULE_METRIC("${attrRuleName ?? ruleName}", "MaxContributorValue")`,
    label: 'most duplicates of one tenant',
    period: FIVE_MINUTES,
    usingMetrics: {},
  });
}
