import { Duration } from 'aws-cdk-lib';
import { type IMetric, MathExpression } from 'aws-cdk-lib/aws-cloudwatch';
import type { MetricName } from '../observe/metrics.ts';

/** As `emfSink()` writes them. */
const NAMESPACE = 'oncekey';
const PREFIX = 'api.idempotency.';

/**
 * One of our metrics over all operations. They carry the operation as their dimension, and a sum over all of them is a
 * query: a second, dimensionless copy of each would be paid for as a metric of its own.
 */
export function overall(name: MetricName, statistic: 'SUM' | 'MAX' | 'AVG', period: Duration): IMetric {
  return new MathExpression({
    expression: `SELECT ${statistic}("${PREFIX}${name}") FROM SCHEMA("${NAMESPACE}", operation)`,
    label: name,
    period,
    usingMetrics: {},
  });
}

/** The same, a line for each operation. */
export function byOperation(name: MetricName, statistic: 'SUM' | 'MAX' | 'AVG', period: Duration): IMetric {
  return new MathExpression({
    expression: `SELECT ${statistic}("${PREFIX}${name}") FROM SCHEMA("${NAMESPACE}", operation) GROUP BY operation`,
    label: '',
    period,
    usingMetrics: {},
  });
}

export const FIVE_MINUTES: Duration = Duration.minutes(5);
