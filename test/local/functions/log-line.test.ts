import { describe, expect, it } from 'vitest';
import { told } from '../../../lib/local/functions/log-line.ts';
import { jsonLogSink } from '../../../lib/observe/log.ts';
import { emfSink } from '../../../lib/observe/metrics.ts';

describe('a line of a function', () => {
  it('in the embedded metric format is a metric, with its dimensions and properties apart', () => {
    const lines: string[] = [];
    emfSink((line) => lines.push(line))({
      at: 1,
      operation: 'POST /payments',
      tenant: 'acme',
      operationRef: 'ref',
      metrics: { 'reserve.created.count': 1, 'reserve.latency_ms': 7 },
    });
    expect(lines.map((line) => told(line, 'info'))).toEqual([
      {
        kind: 'metric',
        level: 'info',
        message: 'api.idempotency.reserve.created.count=1 api.idempotency.reserve.latency_ms=7',
        fields: {
          namespace: 'oncekey',
          metrics: {
            'api.idempotency.reserve.created.count': 1,
            'api.idempotency.reserve.latency_ms': 7,
          },
          dimensions: { operation: 'POST /payments' },
          properties: { tenant: 'acme', operationRef: 'ref' },
        },
      },
    ]);
  });

  it('of the layer is an entry by its decision', () => {
    const lines: string[] = [];
    const entry = { at: 1, operation: 'o', tenant: 't', operationRef: 'r', decision: 'replay' } as const;
    jsonLogSink((line) => lines.push(line))({ ...entry, level: 'warn' });
    const [entered] = lines.map((line) => told(line, 'info'));
    expect(entered).toMatchObject({ kind: 'log', level: 'warn', message: 'replay', fields: { tenant: 't' } });
  });

  it('with a metric that is no number has none, and keeps the text as a property', () => {
    const _aws = {
      CloudWatchMetrics: [{ Dimensions: [['toString']], Metrics: [{ Name: 'a' }, { Name: 'b' }] }],
    };
    const { kind, fields } = told(JSON.stringify({ _aws, a: [1, 2], b: 'much', constructor: 'c' }), 'info');
    expect(kind).toBe('metric');
    expect(fields).toMatchObject({ metrics: { a: [1, 2] }, dimensions: {} });
    expect(fields?.['properties']).toEqual({ b: 'much', constructor: 'c' });
  });

  it.each([
    ['{"level":"ERROR","message":"no","code":7}', 'error', 'no'],
    ['{"level":"warning","msg":"careful"}', 'warn', 'careful'],
    ['{"level":"odd","message":"so"}', 'info', 'so'],
    ['{"level":30,"message":5}', 'info', '{"level":30,"message":5}'],
    ['{"_aws":{"CloudWatchMetrics":[{"Metrics":[null,{"Name":"gone"}],"Dimensions":5}]}}', 'info', undefined],
    ['{"_aws":{"CloudWatchMetrics":"none"}}', 'info', undefined],
    ['{"_aws":null}', 'info', undefined],
    ['{not json', 'info', undefined],
    ['[1]', 'info', undefined],
    ['null', 'info', undefined],
    ['{}', 'info', undefined],
    ['plain text', 'info', undefined],
  ])('%s is a log line at %s', (line, level, message = line) => {
    expect(told(line, 'info')).toMatchObject({ kind: 'log', level, message });
  });

  it('that names no level has that of where it was written', () => {
    expect(told('plain', 'warn').level).toBe('warn');
    expect(told('{"message":"so"}', 'warn').level).toBe('warn');
  });
});
