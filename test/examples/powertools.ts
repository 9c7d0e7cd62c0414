import { Logger } from '@aws-lambda-powertools/logger';
import { injectLambdaContext } from '@aws-lambda-powertools/logger/middleware';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import { Tracer } from '@aws-lambda-powertools/tracer';
import { captureLambdaHandler } from '@aws-lambda-powertools/tracer/middleware';
import middy from '@middy/core';
import { idempotent, jwtClaim, type LogSink, type MetricSink } from 'oncekey';
import { ledger } from './ledger.ts';

const serviceName = 'payments';
const logger = new Logger({ serviceName });
const tracer = new Tracer({ serviceName });
/** An instance of its own: what it publishes carries the dimension of one operation. */
const metrics = new Metrics({ namespace: 'shop', serviceName });

// #region logger
const toLogger: LogSink = ({ level, decision, at: _, ...entry }) => {
  logger[level](`idempotency: ${decision}`, { decision, ...entry });
};
// #endregion logger

// #region tracer
/** The last decision about a request is the one that stays: `completed` after `created`. */
const toTracer: LogSink = ({ decision, operation, operationRef, attempt = 0 }) => {
  tracer.putAnnotation('idempotencyDecision', decision);
  tracer.putAnnotation('operationRef', operationRef);
  tracer.putMetadata('idempotency', { operation, attempt });
};
// #endregion tracer

// #region metrics
const toMetrics: MetricSink = ({ operation, tenant, operationRef, metrics: measured }) => {
  const values = Object.entries(measured);
  if (values.length === 0) return;
  metrics.addDimension('operation', operation);
  metrics.addMetadata('tenant', tenant).addMetadata('operationRef', operationRef);
  for (const [name, value] of values) {
    const unit = name.endsWith('_ms') ? MetricUnit.Milliseconds : MetricUnit.Count;
    metrics.addMetric(`api.idempotency.${name}`, unit, value);
  }
  metrics.publishStoredMetrics();
};
// #endregion metrics

// #region handler
export const handler = middy()
  .use(captureLambdaHandler(tracer, { captureResponse: false })) // A trace is no place for a customer's body.
  .use(injectLambdaContext(logger))
  .handler(
    idempotent(async () => ({ statusCode: 201, body: '{"paid":true}' }), {
      ledger,
      tenant: jwtClaim('sub'),
      effects: 'transactional',
      metrics: toMetrics,
      log(entry) {
        toLogger(entry);
        toTracer(entry);
      },
    }),
  );
// #endregion handler
