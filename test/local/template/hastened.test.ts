import { expect, it } from 'vitest';
import type { CloudModel, FunctionModel } from '../../../lib/local/model.ts';
import { hastened } from '../../../lib/local/template/hastened.ts';
import { apiWith, att, functionWith, modelWith, ref, resource, tableWith } from './templates.ts';

const schedule = (ScheduleExpression: string) =>
  resource('Scheduler::Schedule', { ScheduleExpression, Target: { Arn: att('Sweep') } });
const mapping = (MaximumBatchingWindowInSeconds: number) =>
  resource('Lambda::EventSourceMapping', {
    EventSourceArn: att('Rows', 'StreamArn'),
    FunctionName: ref('Sweep'),
    StartingPosition: 'LATEST',
    MaximumBatchingWindowInSeconds,
  });

const { Route, ...api } = apiWith();
const model = modelWith({
  ...api,
  Route,
  Pay: functionWith({ Timeout: 29, Environment: { Variables: { A: 'own', B: 'own' } } }),
  Sweep: functionWith({ Timeout: 29 }),
  Slow: functionWith({ Timeout: 300 }),
  SlowIntegration: resource('ApiGatewayV2::Integration', {
    ApiId: ref('Api'),
    IntegrationType: 'AWS_PROXY',
    IntegrationUri: att('Slow'),
    PayloadFormatVersion: '2.0',
  }),
  SlowRoute: resource('ApiGatewayV2::Route', {
    ApiId: ref('Api'),
    RouteKey: 'GET /slow',
    Target: { 'Fn::Sub': `integrations/\${SlowIntegration}` },
  }),
  Rows: tableWith(),
  AtOnce: mapping(0),
  Collected: mapping(60),
  Minutely: schedule('rate(1 minute)'),
  Hourly: schedule('rate(1 hour)'),
  Daily: schedule('rate(1 day)'),
});
const before = JSON.stringify(model);
const fast = hastened(model, { timeoutMsMax: 5_000, environment: { B: 'fast', C: 'fast' } });

const byName = ({ functions }: CloudModel, name: string): FunctionModel | undefined =>
  functions.find((one) => one.name === name);

it('what happens each minute happens each second, and what happens daily stays as it is', () => {
  expect(fast.schedules.map(({ name, everyMs }) => [name, everyMs])).toEqual([
    ['minutely', 1_000],
    ['hourly', 3_600_000],
    ['daily', 86_400_000],
  ]);
});

it('what a reader collects is collected for a second, and what it takes at once it takes at once', () => {
  expect(fast.mappings.map(({ name, windowMs }) => [name, windowMs])).toEqual([
    ['at-once', 0],
    ['collected', 1_000],
  ]);
});

it('only a function that an API waits for has less time, and none has more', () => {
  expect(byName(fast, 'pay')?.timeoutMs).toBe(5_000);
  expect(byName(fast, 'sweep')?.timeoutMs).toBe(29_000);
  expect(byName(fast, 'slow')?.timeoutMs).toBe(300_000);
  expect(byName(hastened(model, { timeoutMsMax: 60_000, environment: {} }), 'pay')?.timeoutMs).toBe(29_000);
});

it('all functions are told to make haste', () => {
  expect(byName(fast, 'pay')?.environment).toEqual({ A: 'own', B: 'fast', C: 'fast' });
  expect(byName(fast, 'sweep')?.environment).toEqual({ B: 'fast', C: 'fast' });
});

it('an event that nobody waits for is tried again as soon as a person who watches expects it', () => {
  expect(byName(fast, 'sweep')?.later).toEqual({
    ...byName(model, 'sweep')?.later,
    retryAfterMs: [1_000, 2_000],
  });
});

it('what it was made of stays as it was', () => {
  expect(JSON.stringify(model)).toBe(before);
});
