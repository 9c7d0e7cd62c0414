import type { RuleModel, ScheduleModel } from '../model.ts';
import { eventPattern, type RequireKnownPattern } from './event-patterns.ts';
import type { Found, Inventory } from './inventory.ts';
import type { Properties } from './properties.ts';

const UNIT_MS: Readonly<Record<string, number>> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/** As EventBridge and its Scheduler have it, where a template says nothing. */
const RETRIES = 185;
const MAX_AGE_SECONDS = 86_400;

const NO_DEAD_LETTERS = {
  DeadLetterConfig:
    'the local cloud keeps no dead letters of schedules; an onFailure destination of the function is kept.',
};

/** None, where it is disabled. */
export function readSchedule(found: Found, inventory: Inventory): ScheduleModel[] {
  const { properties } = found;
  // When in its flexible window it is due is nobody's business, and a rate has no time zone.
  properties.requireOnly(
    [
      ...['Name', 'ScheduleExpression', 'State', 'Target'],
      ...['Description', 'FlexibleTimeWindow', 'GroupName', 'KmsKeyArn', 'ScheduleExpressionTimezone'],
    ],
    {
      StartDate: 'the local cloud starts schedules when it starts.',
      EndDate: 'the local cloud ends schedules when it ends.',
    },
  );
  if (isDisabled(properties)) return [];
  const target = properties.group('Target');
  target.requireOnly(['Arn', 'Input', 'RetryPolicy', 'RoleArn'], NO_DEAD_LETTERS);
  return [{ name: found.name(), everyMs: rateOf(properties), ...invocationOf(target, inventory) }];
}

/** The rules that fire by the clock, one schedule for each target. */
export function readScheduledRule(found: Found, inventory: Inventory): ScheduleModel[] {
  const { properties } = found;
  if (!properties.has('ScheduleExpression') || isDisabled(properties)) return [];
  requireKnownRule(properties);
  const everyMs = rateOf(properties);
  const targets = properties.groups('Targets');
  return targets.map((target) => {
    target.requireOnly(['Arn', 'Id', 'Input', 'RetryPolicy', 'RoleArn'], NO_DEAD_LETTERS);
    const name = targets.length > 1 ? `${found.name()}-${target.text('Id')}` : found.name();
    return { name, everyMs, ...invocationOf(target, inventory) };
  });
}

/** The rules that wait for events. */
export function readRule(found: Found, inventory: Inventory, requireKnown: RequireKnownPattern): RuleModel[] {
  const { properties } = found;
  if (!properties.has('EventPattern') || isDisabled(properties)) return [];
  requireKnownRule(properties);
  const pattern = properties.any('EventPattern');
  const functionNames = properties.groups('Targets').map((target) => {
    // A retry, and the letters of what could not be retried, are of the way to the function's own queue. It is short here.
    target.requireOnly(['Arn', 'Id', 'RoleArn', 'RetryPolicy', 'DeadLetterConfig']);
    return functionOf(target, inventory);
  });
  return [
    {
      name: found.name(),
      pattern: properties.about('EventPattern', () => eventPattern(pattern, requireKnown)),
      functionNames,
    },
  ];
}

function requireKnownRule(properties: Properties): void {
  properties.requireOnly([
    ...['Name', 'EventBusName', 'EventPattern', 'ScheduleExpression', 'State', 'Targets'],
    ...['Description', 'RoleArn', 'Tags'],
  ]);
  properties.oneOf('EventBusName', ['default'], 'default');
}

function isDisabled(properties: Properties): boolean {
  return properties.optionalText('State') === 'DISABLED';
}

function rateOf(properties: Properties): number {
  const expression = properties.text('ScheduleExpression');
  const [, count, unit = ''] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(expression.trim()) ?? [];
  const everyMs = Number(count) * (UNIT_MS[unit] ?? 0);
  if (everyMs > 0) return everyMs;
  throw properties.problem(
    'ScheduleExpression',
    `it is ${expression}; the local cloud knows rates, such as rate(1 minute), and neither cron() nor at().`,
  );
}

function invocationOf(target: Properties, inventory: Inventory) {
  const retry = target.group('RetryPolicy');
  const input = target.optionalText('Input');
  return {
    functionName: functionOf(target, inventory),
    retries: retry.number('MaximumRetryAttempts', RETRIES),
    maxAgeMs: retry.number('MaximumEventAgeInSeconds', MAX_AGE_SECONDS) * 1_000,
    ...(input !== undefined && { input }),
  };
}

function functionOf(target: Properties, inventory: Inventory): string {
  const arn = target.text('Arn');
  return target.about('Arn', () => inventory.functionAt(arn));
}
