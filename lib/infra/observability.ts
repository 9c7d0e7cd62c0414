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
  Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { byOperation, FIVE_MINUTES, overall } from './metrics.ts';
import type { Reconciliation } from './reconciliation.ts';

export interface ObservabilityProps {
  readonly reconciliation: Reconciliation;
  /** The protected functions, whose logs name the tenant of every duplicate. */
  readonly functions: readonly LambdaFunction[];
  /** Who is told, as `new SnsAction(topic)`. */
  readonly actions?: readonly IAlarmAction[];
  /** Where your copy of the runbook is, as a URL. Default: its place in this repository. */
  readonly runbook?: string;
  /** Duplicates of one tenant in five minutes that are no longer retries. Default 1,000. */
  readonly duplicatesPerTenant?: number;
}

const RUNBOOK = 'docs/runbook.md';

interface Watch {
  readonly id: string;
  readonly metric: IMetric;
  readonly over: number;
  /** What it means; the runbook has what to do. */
  readonly means: string;
  /** Its heading in the runbook. */
  readonly anchor?: string;
  readonly periods?: number;
  readonly missing?: TreatMissingData;
  readonly below?: boolean;
}

/** A dashboard, and an alarm for everything that a person has to know. Each says what it means and where to read on. */
export class Observability extends Construct {
  readonly alarms: readonly Alarm[];
  readonly dashboard: Dashboard;

  constructor(scope: Construct, id: string, props: ObservabilityProps) {
    super(scope, id);
    const { reconciliation, functions, actions = [], runbook = RUNBOOK, duplicatesPerTenant = 1_000 } = props;
    const duplicates = this.duplicatesByTenant(functions);
    const watches = [
      ...ledgerWatches(),
      ...reconciliationWatches(reconciliation),
      {
        id: 'DuplicatesOfATenant',
        metric: largestContributor(duplicates),
        over: duplicatesPerTenant,
        means:
          'One tenant sends far more duplicates than retries make: its client loops, or its keys are not new.',
      },
    ];
    this.alarms = watches.map((watch) => this.alarm(watch, runbook, actions));
    this.dashboard = this.createDashboard(reconciliation, duplicates);
  }

  private alarm(watch: Watch, runbook: string, actions: readonly IAlarmAction[]): Alarm {
    const { id, metric, over, means, anchor = 'what-each-alarm-means', periods = 1, missing, below } = watch;
    const alarm = new Alarm(this, id, {
      metric,
      threshold: over,
      evaluationPeriods: periods,
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
      LogGroupNames: functions.map(({ logGroup }) => logGroup.logGroupName),
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
      ruleName: `${this.node.addr.slice(-8)}-duplicates-by-tenant`,
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

function ledgerWatches(): Watch[] {
  const sum = (name: Parameters<typeof overall>[0]) => overall(name, 'SUM', FIVE_MINUTES);
  return [
    {
      id: 'StoreErrors',
      metric: sum('store.error.count'),
      over: 10,
      means: 'The table does not answer, or refuses: requests get 503, and nothing runs unprotected.',
    },
    {
      id: 'KeyMisuse',
      metric: sum('reserve.key_misuse.count'),
      over: 50,
      means: 'Keys come back with other requests than their first: a client makes them badly.',
    },
    {
      id: 'ZombieKeys',
      metric: sum('zombie_key.count'),
      over: 20,
      means: 'Attempts are abandoned: functions crash, or are killed at their timeout.',
    },
    {
      id: 'EvidenceRemoved',
      metric: sum('evidence_removed'),
      over: 0,
      means: 'Somebody deleted a record whose outcome was open. Its key would run again.',
    },
  ];
}

function reconciliationWatches(reconciliation: Reconciliation): Watch[] {
  const { sweep, readers, failedBatchRule, audit, backstop, redriveWaiting } = reconciliation;
  return [
    {
      id: 'Parked',
      metric: overall('parked.waiting', 'MAX', FIVE_MINUTES),
      over: 0,
      means: 'An operation waits for a person: reconciliation has given up on it.',
      anchor: 'look-at-what-waits',
    },
    {
      id: 'UnknownAge',
      metric: overall('unknown.age_ms', 'MAX', FIVE_MINUTES),
      over: Duration.hours(1).toMilliseconds(),
      means: 'For more than an hour nobody has found out whether an operation ran.',
      anchor: 'settle-an-unknown-payment',
    },
    {
      id: 'FailedBatches',
      metric: new Metric({
        namespace: 'AWS/Events',
        metricName: 'MatchedEvents',
        dimensionsMap: { RuleName: failedBatchRule.ruleName },
        statistic: 'Sum',
        period: FIVE_MINUTES,
      }),
      over: 0,
      means:
        'A reader of the stream has given up on a batch. It is done again from its object; see that it was.',
    },
    {
      id: 'SweepMissing',
      metric: overall('sweep.run', 'SUM', FIVE_MINUTES),
      over: 1,
      below: true,
      periods: 2,
      missing: TreatMissingData.BREACHING,
      means: 'For ten minutes no sweep has come through: what is open stays open.',
    },
    failures('SweepErrors', sweep, 'The sweep runs and fails.', 2),
    failures('BackstopErrors', backstop, 'The daily search fails, or has stopped before its end.'),
    {
      id: 'RedriveWaiting',
      metric: redriveWaiting.metricApproximateNumberOfMessagesVisible({
        period: FIVE_MINUTES,
        statistic: 'Maximum',
      }),
      over: 0,
      means:
        'A batch that was given up on could not be done again either. The daily search finds what is open in it.',
      anchor: 'on-failure-objects',
    },
    ...readers.map(({ fn }, index) => ({
      id: index === 0 ? 'SentinelIsBehind' : 'DispatchIsBehind',
      metric: iteratorAge(fn),
      over: Duration.minutes(10).toMilliseconds(),
      means: `${index === 0 ? 'The sentinel' : 'Dispatch'} reads what happened ten minutes ago; after a day it would be lost to it.`,
    })),
    ...(audit
      ? [
          failures(
            'AuditErrors',
            audit,
            'The audit fails, and nobody compares the provider with the ledger.',
          ),
          {
            id: 'AuditMismatch',
            metric: overall('audit.mismatch', 'SUM', FIVE_MINUTES),
            over: 0,
            means: 'The provider and the ledger do not agree about what was charged.',
          },
        ]
      : []),
  ];
}

function failures(id: string, fn: LambdaFunction, means: string, periods = 1): Watch {
  return { id, metric: fn.metricErrors({ period: FIVE_MINUTES, statistic: 'Sum' }), over: 0, means, periods };
}

function iteratorAge(fn: LambdaFunction): Metric {
  return fn.metric('IteratorAge', { statistic: 'Maximum', period: FIVE_MINUTES });
}

function largestContributor({ attrRuleName, ruleName }: CfnInsightRule & { attrRuleName?: string }): IMetric {
  return new MathExpression({
    expression: `INSIGHT_RULE_METRIC("${attrRuleName ?? ruleName}", "MaxContributorValue")`,
    label: 'most duplicates of one tenant',
    period: FIVE_MINUTES,
    usingMetrics: {},
  });
}
