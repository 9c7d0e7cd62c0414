import type { EventPattern, StreamMappingModel } from '../model.ts';
import { eventPattern, type RequireKnownPattern } from './event-patterns.ts';
import type { Found, Inventory } from './inventory.ts';
import { Complaint } from './problem.ts';
import type { Properties } from './properties.ts';

const KNOWN = [
  'BatchSize',
  'BisectBatchOnFunctionError',
  'DestinationConfig',
  'Enabled',
  'EventSourceArn',
  'FilterCriteria',
  'FunctionName',
  'FunctionResponseTypes',
  'MaximumBatchingWindowInSeconds',
  'MaximumRecordAgeInSeconds',
  'MaximumRetryAttempts',
  'ParallelizationFactor',
  'StartingPosition',
  'TumblingWindowInSeconds',
  // Who may read it, and what is counted of it.
  'KmsKeyArn',
  'LoggingConfig',
  'MetricsConfig',
  'Tags',
];

/** None, where it is not enabled. */
export function readStreamMapping(
  found: Found,
  inventory: Inventory,
  requireKnown: RequireKnownPattern,
): StreamMappingModel[] {
  const { properties } = found;
  properties.requireOnly(KNOWN);
  if (properties.has('Enabled') && !properties.flag('Enabled')) return [];
  if (properties.number('TumblingWindowInSeconds', 0) > 0) {
    throw properties.problem('TumblingWindowInSeconds', 'the local cloud knows no tumbling windows.');
  }
  const source = properties.text('EventSourceArn');
  const target = properties.text('FunctionName');
  const types = properties.texts('FunctionResponseTypes');
  const bucket = failuresOf(properties.group('DestinationConfig'), inventory);
  return [
    {
      name: found.name(),
      tableName: properties.about('EventSourceArn', () => inventory.tableOf(source)),
      functionName: properties.about('FunctionName', () => inventory.functionAt(target)),
      // As Lambda has them where a template says nothing.
      batchSize: properties.number('BatchSize', 100),
      windowMs: properties.number('MaximumBatchingWindowInSeconds', 0) * 1_000,
      parallelBatches: properties.number('ParallelizationFactor', 1),
      bisects: properties.flag('BisectBatchOnFunctionError'),
      reportsItemFailures: types.includes('ReportBatchItemFailures'),
      retries: unlessEndless(properties.number('MaximumRetryAttempts', -1)),
      maxAgeMs: unlessEndless(properties.number('MaximumRecordAgeInSeconds', -1)) * 1_000,
      filters: filtersOf(properties, requireKnown),
      startAt: properties.oneOf('StartingPosition', ['TRIM_HORIZON', 'LATEST']),
      ...(bucket !== undefined && { onFailure: { bucket } }),
    },
  ];
}

/** -1 means as long as the stream has the record. */
function unlessEndless(value: number): number {
  return value === -1 ? Number.POSITIVE_INFINITY : value;
}

function failuresOf(destinations: Properties, inventory: Inventory): string | undefined {
  const failure = destinations.group('OnFailure');
  const arn = failure.optionalText('Destination');
  return arn === undefined ? undefined : failure.about('Destination', () => inventory.bucketAt(arn));
}

function filtersOf(properties: Properties, requireKnown: RequireKnownPattern): EventPattern[] {
  return properties
    .group('FilterCriteria')
    .groups('Filters')
    .map((filter) => {
      const text = filter.text('Pattern');
      return filter.about('Pattern', () => eventPattern(json(text), requireKnown));
    });
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Complaint(`it is ${text}; expected an event pattern in JSON.`, { cause });
  }
}
