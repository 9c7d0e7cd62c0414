import { Duration } from 'aws-cdk-lib';
import { type IMetric, MathExpression, Metric, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { FIVE_MINUTES, overall } from './metrics.ts';
import type { Reconciliation } from './reconciliation.ts';

/** What a person has to know, and from when on. */
export interface Watch {
  readonly id: string;
  readonly metric: IMetric;
  readonly over: number;
  /** What it means; the runbook has what to do. */
  readonly means: string;
  /** Its heading in the runbook. */
  readonly anchor: string;
  readonly periods?: number;
  /** Of the periods, so many have to be over. Default all of them. */
  readonly periodsOver?: number;
  readonly missing?: TreatMissingData;
  readonly below?: boolean;
}

export function ledgerWatches(functions: readonly LambdaFunction[]): Watch[] {
  const sum = (name: Parameters<typeof overall>[0]) => overall(name, 'SUM', FIVE_MINUTES);
  return [
    {
      id: 'StoreErrors',
      metric: sum('store.error.count'),
      over: 10,
      means: 'The table does not answer, or refuses: requests get 503, and nothing runs unprotected.',
      anchor: 'the-store-fails',
    },
    {
      id: 'KeyMisuse',
      metric: sum('reserve.key_misuse.count'),
      over: 50,
      means: 'Keys come back with other requests than their first: a client makes them badly.',
      anchor: 'keys-are-misused',
    },
    {
      id: 'ZombieKeys',
      metric: sum('zombie_key.count'),
      over: 20,
      means: 'Attempts are abandoned: functions crash, or are killed at their timeout.',
      anchor: 'attempts-are-abandoned',
    },
    {
      id: 'EvidenceRemoved',
      metric: sum('evidence_removed'),
      over: 0,
      means: 'Somebody deleted a record whose outcome was open. Its key would run again.',
      anchor: 'evidence-was-removed',
    },
    {
      id: 'FunctionErrors',
      metric: errorsOf(functions),
      over: 0,
      means: 'A protected function has thrown, or was killed: its caller was told 500.',
      anchor: 'attempts-are-abandoned',
    },
  ];
}

export function reconciliationWatches(reconciliation: Reconciliation): Watch[] {
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
      // An age is told whenever the outcome is asked for, at last once an hour: in between it has not become known.
      periods: 12,
      periodsOver: 1,
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
      anchor: 'on-failure-objects',
    },
    {
      id: 'SweepMissing',
      metric: overall('sweep.run', 'SUM', FIVE_MINUTES),
      over: 1,
      below: true,
      periods: 2,
      missing: TreatMissingData.BREACHING,
      means: 'For ten minutes no sweep has come through: what is open stays open.',
      anchor: 'the-sweep-does-not-run',
    },
    failures('SweepErrors', sweep, 'The sweep runs and fails.', 'the-sweep-does-not-run', 2),
    failures(
      'BackstopErrors',
      backstop,
      'The daily search fails, or has stopped before its end.',
      'the-daily-search-or-the-audit-fails',
    ),
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
      anchor: 'a-reader-is-behind',
    })),
    ...(audit ? auditWatches(audit) : []),
  ];
}

function auditWatches(audit: LambdaFunction): Watch[] {
  return [
    failures(
      'AuditErrors',
      audit,
      'The audit fails, and nobody compares the provider with the ledger.',
      'the-daily-search-or-the-audit-fails',
    ),
    {
      id: 'AuditMismatch',
      metric: overall('audit.mismatch', 'SUM', FIVE_MINUTES),
      over: 0,
      means: 'The provider and the ledger do not agree about what was charged.',
      anchor: 'when-the-audit-finds-a-mismatch',
    },
  ];
}

function failures(id: string, fn: LambdaFunction, means: string, anchor: string, periods = 1): Watch {
  const metric = fn.metricErrors({ period: FIVE_MINUTES, statistic: 'Sum' });
  return { id, metric, over: 0, means, anchor, periods };
}

/** Of however many functions, in one alarm. */
function errorsOf(functions: readonly LambdaFunction[]): IMetric {
  const names = functions.map(({ functionName }) => `FunctionName = '${functionName}'`);
  return new MathExpression({
    expression: `SELECT SUM("Errors") FROM SCHEMA("AWS/Lambda", FunctionName) WHERE ${names.join(' OR ')}`,
    label: 'errors of the protected functions',
    period: FIVE_MINUTES,
    usingMetrics: {},
  });
}

export function iteratorAge(fn: LambdaFunction): Metric {
  return fn.metric('IteratorAge', { statistic: 'Maximum', period: FIVE_MINUTES });
}
