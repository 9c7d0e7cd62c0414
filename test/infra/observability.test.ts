import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { IdempotencyLedger } from '../../lib/infra/ledger.ts';
import { Observability, type ObservabilityProps } from '../../lib/infra/observability.ts';
import { Reconciliation } from '../../lib/infra/reconciliation.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { idempotent } from '../../lib/middleware/idempotent.ts';
import { jsonLogSink } from '../../lib/observe/log.ts';
import { emfSink, metricUnits } from '../../lib/observe/metrics.ts';
import { post } from '../middleware/stage.ts';
import { newFunction, newStack, said } from './stage.ts';

const RUNBOOK = 'https://example.com/runbook';

/** A layer with a dispatch, and with an audit unless it is left out, that is watched. */
function watched(more: (stack: Stack) => Partial<ObservabilityProps> = () => ({}), audited = true) {
  const stack = newStack();
  const ledger = new IdempotencyLedger(stack, 'Ledger');
  const reconciliation = new Reconciliation(stack, 'Layer', {
    ledger,
    dispatch: newFunction(stack, 'Dispatch'),
    ...(audited && { audit: newFunction(stack, 'Audit') }),
  });
  const functions = [newFunction(stack, 'Payments')];
  new Observability(stack, 'Watch', { reconciliation, functions, runbook: RUNBOOK, ...more(stack) });
  const template = Template.fromStack(stack);
  const found = Object.entries(template.findResources('AWS::CloudWatch::Alarm'));
  const alarms = new Map(
    found.map(([name, { Properties }]) => [name.replace(/^Watch|[0-9A-F]{8}$/g, ''), Properties]),
  );
  return { template, alarms };
}

interface AlarmProperties {
  readonly Metrics?: readonly { readonly Expression: unknown; readonly Period: number }[];
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Statistic: string;
  readonly Dimensions: readonly { readonly Name: string; readonly Value: unknown }[];
}

/** An expression, or `namespace metric statistic dimension=value`. */
function looksAt({ Metrics, Namespace, MetricName, Statistic, Dimensions }: AlarmProperties): string {
  if (Metrics) return said(Metrics[0]?.Expression).replaceAll('"', "'");
  const at = Dimensions.map(({ Name, Value }) => `${Name}=${said(Value)}`);
  return `${Namespace} ${MetricName} ${Statistic} ${at.join()}`;
}

const ours = (statistic: string, name: string) =>
  `SELECT ${statistic}('api.idempotency.${name}') FROM SCHEMA('oncekey', operation)`;
const lambda = (metric: string, statistic: string, fn: string) =>
  `AWS/Lambda ${metric} ${statistic} FunctionName=<${fn}>`;

describe('who is told', () => {
  const { template, alarms } = watched();

  it.each<[string, string, number, string]>([
    ['StoreErrors', ours('SUM', 'store.error.count'), 10, 'the-store-fails'],
    ['KeyMisuse', ours('SUM', 'reserve.key_misuse.count'), 50, 'keys-are-misused'],
    ['ZombieKeys', ours('SUM', 'zombie_key.count'), 20, 'attempts-are-abandoned'],
    ['EvidenceRemoved', ours('SUM', 'evidence_removed'), 0, 'evidence-was-removed'],
    [
      'FunctionErrors',
      "SELECT SUM('Errors') FROM SCHEMA('AWS/Lambda', FunctionName) WHERE FunctionName = '<Payments>'",
      0,
      'attempts-are-abandoned',
    ],
    ['Parked', ours('MAX', 'parked.waiting'), 0, 'look-at-what-waits'],
    ['UnknownAge', ours('MAX', 'unknown.age_ms'), 3_600_000, 'settle-an-unknown-payment'],
    ['FailedBatches', 'AWS/Events MatchedEvents Sum RuleName=<LayerFailedBatches>', 0, 'on-failure-objects'],
    ['SweepMissing', ours('SUM', 'sweep.run'), 1, 'the-sweep-does-not-run'],
    ['SweepErrors', lambda('Errors', 'Sum', 'LayerSweep'), 0, 'the-sweep-does-not-run'],
    ['BackstopErrors', lambda('Errors', 'Sum', 'LayerBackstop'), 0, 'the-daily-search-or-the-audit-fails'],
    [
      'RedriveWaiting',
      'AWS/SQS ApproximateNumberOfMessagesVisible Maximum QueueName=<LayerRedriveWaiting>',
      0,
      'on-failure-objects',
    ],
    ['SentinelIsBehind', lambda('IteratorAge', 'Maximum', 'LayerSentinel'), 600_000, 'a-reader-is-behind'],
    ['DispatchIsBehind', lambda('IteratorAge', 'Maximum', 'Dispatch'), 600_000, 'a-reader-is-behind'],
    ['AuditErrors', lambda('Errors', 'Sum', 'Audit'), 0, 'the-daily-search-or-the-audit-fails'],
    ['AuditMismatch', ours('SUM', 'audit.mismatch'), 0, 'when-the-audit-finds-a-mismatch'],
    [
      'DuplicatesOfATenant',
      "INSIGHT_RULE_METRIC('<WatchDuplicatesByTenant>', 'MaxContributorValue')",
      1_000,
      'a-tenant-sends-duplicates',
    ],
  ])('%s is of what it says, and leads to the page to read', (name, metric, threshold, anchor) => {
    const alarm = alarms.get(name);
    expect([looksAt(alarm), alarm.Threshold]).toEqual([metric, threshold]);
    expect(alarm.AlarmDescription).toMatch(/^[A-Z].*\. Runbook: https:\/\/example\.com\/runbook#[a-z-]+$/);
    expect(alarm.AlarmDescription).toContain(`#${anchor}`);
  });

  it('are all there are: what has no row above is not looked at', () => {
    expect(alarms.size).toBe(17);
    const below = [...alarms].filter(
      ([, { ComparisonOperator }]) => ComparisonOperator !== 'GreaterThanThreshold',
    );
    expect(below.map(([name]) => name)).toEqual(['SweepMissing']);
  });

  it('hears of a sweep that does not run from its silence, and of nothing else', () => {
    const silent = [...alarms].filter(([, { TreatMissingData }]) => TreatMissingData !== 'notBreaching');
    expect(silent.map(([name, { TreatMissingData }]) => [name, TreatMissingData])).toEqual([
      ['SweepMissing', 'breaching'],
    ]);
  });

  it('goes on being told of an unknown outcome between two looks at it, which are up to an hour apart', () => {
    const { EvaluationPeriods, DatapointsToAlarm, Metrics } = alarms.get('UnknownAge');
    expect([EvaluationPeriods, DatapointsToAlarm, Metrics[0].Period]).toEqual([12, 1, 300]);
  });

  it('is led to headings that the runbook has', () => {
    const headings = readFileSync('docs/runbook.md', 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('#'))
      .map((line) => line.replace(/^#+ /, '').toLowerCase())
      .map((line) => line.replaceAll(/[^a-z0-9 -]/g, '').replaceAll(' ', '-'));
    for (const { AlarmDescription } of alarms.values()) {
      expect(headings).toContain(String(AlarmDescription).split('#')[1]);
    }
  });

  it('has none on an audit that does not run', () => {
    expect([...watched(undefined, false).alarms.keys()].filter((name) => name.includes('Audit'))).toEqual([]);
  });

  it('is told of every alarm, where somebody is named', () => {
    const { alarms: told } = watched((stack) => ({ actions: [new SnsAction(new Topic(stack, 'Night'))] }));
    for (const { AlarmActions } of told.values()) expect(JSON.stringify(AlarmActions)).toContain('Night');
  });

  it('looks at metrics as they are written: in that namespace, by that one dimension', () => {
    const lines: string[] = [];
    const sample = { at: 0, operation: 'POST /payments', tenant: 'shop-7', operationRef: 'abc' };
    const metrics = Object.fromEntries(Object.keys(metricUnits).map((name) => [name, 1]));
    emfSink((line) => void lines.push(line))({ ...sample, metrics });
    const [{ Namespace, Dimensions, Metrics }] = JSON.parse(lines[0] ?? '')._aws.CloudWatchMetrics;
    const written = new Set(Metrics.map(({ Name }: { Name: string }) => Name));
    const asked = [
      ...JSON.stringify(template.toJSON()).matchAll(
        /SELECT [A-Z]+\([\\"']+(api[^\\"']+)[\\"']+\) FROM SCHEMA\([\\"']+(\w+)[\\"']+, (\w+)\)/g,
      ),
    ];
    expect(asked.length).toBeGreaterThan(20);
    for (const [, name, namespace, dimension] of asked) {
      expect([written.has(name), namespace, [[dimension]]]).toEqual([true, Namespace, Dimensions]);
    }
  });

  it('is refused without functions: nothing of theirs would be seen', () => {
    expect(() => watched(() => ({ functions: [] }))).toThrow(/^Test\/Watch was given no functions/);
  });
});

describe('the rule about duplicates', () => {
  interface RuleBody {
    readonly LogGroupNames: readonly string[];
    readonly Contribution: {
      readonly Keys: readonly string[];
      readonly Filters: readonly { readonly Match: string; readonly In: readonly string[] }[];
    };
  }

  function ruleIn({ template }: ReturnType<typeof watched>) {
    const [rule] = Object.values(template.findResources('AWS::CloudWatch::InsightRule'));
    const { RuleBody, RuleName } = rule?.['Properties'] ?? {};
    return { body: JSON.parse(said(RuleBody)) as RuleBody, name: RuleName as string };
  }

  const valueAt = (line: string, path: string): string => JSON.parse(line)[path.replace('$.', '')];

  it('counts replays, duplicates in flight and misused keys by their tenant, and nothing else in the log', async () => {
    const lines: string[] = [];
    const held = Promise.withResolvers<void>();
    const handler = idempotent(
      async (event: ReturnType<typeof post>) => {
        if (event.body === '"slow"') await held.promise;
        return { statusCode: 201, body: '{}' };
      },
      {
        ...{ ledger: memoryLedger(), tenant: jwtClaim('sub'), effects: 'transactional', metrics: () => {} },
        log: jsonLogSink((line) => void lines.push(line)),
      },
    );
    const send = (key: string, body: string) =>
      handler(post({ key, body }), { getRemainingTimeInMillis: () => 10_000 } as never);
    const [key, slow] = [randomUUID(), randomUUID()];
    await send(key, '"a"');
    await send(key, '"a"');
    await send(key, '"b"');
    const running = send(slow, '"slow"');
    while (!lines.some((line) => line.includes('created'))) await new Promise(setImmediate);
    await send(slow, '"slow"');
    held.resolve();
    await running;

    const { Contribution } = ruleIn(watched()).body;
    const counted = lines.filter((line) =>
      Contribution.Filters.every(({ Match, In }) => In.includes(valueAt(line, Match))),
    );
    expect(counted.map((line) => valueAt(line, '$.decision')).toSorted()).toEqual([
      'in_progress',
      'misuse',
      'replay',
    ]);
    expect(Contribution.Keys).toEqual(['$.tenant']);
    const tenants = new Set(counted.map((line) => valueAt(line, '$.tenant')));
    expect([...tenants]).toEqual(['tenant-1']);
  });

  it('reads the logs of all protected functions, each once', () => {
    const { body } = ruleIn(
      watched((stack) => {
        const [orders, payments] = [newFunction(stack, 'Orders'), newFunction(stack, 'Pay')];
        return { functions: [orders, payments, payments] };
      }),
    );
    expect(body.LogGroupNames).toEqual(['<OrdersLogGroup>', '<PayLogGroup>']);
  });

  it('is named by its stack, so that one account can have the app twice', () => {
    expect(ruleIn(watched()).name).toMatch(/^Test-[0-9a-f]{8}-duplicates-by-tenant$/);
  });
});
