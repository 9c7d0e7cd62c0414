import type { CloudModel } from '../model.ts';
import { readApi, readAuthorizer, requireApi } from './apis.ts';
import type { Assembly } from './assembly.ts';
import type { RequireKnownPattern } from './event-patterns.ts';
import { readFunction, readInvokeConfig } from './functions.ts';
import { createInventory, type Found, type Inventory, TABLES } from './inventory.ts';
import { readPool, requireMachine } from './pools.ts';
import { CannotRunHere, TemplateProblem } from './problem.ts';
import { QUIET_TYPES, requireOneVersion, requirePerson } from './quiet-types.ts';
import { readRule, readSchedule, readScheduledRule } from './schedules.ts';
import { readBucket, readQueue, readSecret } from './stores.ts';
import { readStreamMapping } from './stream-mappings.ts';
import { readTable } from './tables.ts';

/** Types that have no part of the model of their own, and what has to be true of each. */
const REQUIREMENTS: Readonly<Record<string, readonly ((found: Found, inventory: Inventory) => unknown)[]>> = {
  'AWS::ApiGatewayV2::Authorizer': [requireApi, readAuthorizer],
  'AWS::ApiGatewayV2::Integration': [requireApi],
  'AWS::ApiGatewayV2::Route': [requireApi],
  'AWS::ApiGatewayV2::Stage': [requireApi],
  'AWS::Cognito::UserPoolClient': [requireMachine],
  'AWS::Cognito::UserPoolDomain': [],
  'AWS::Cognito::UserPoolResourceServer': [],
  'AWS::Lambda::Alias': [requireOneVersion],
  'AWS::Lambda::EventInvokeConfig': [readInvokeConfig],
  'AWS::Lambda::Version': [],
  'AWS::SNS::Subscription': [requirePerson],
};

const MODELLED: ReadonlySet<string> = new Set([
  ...TABLES,
  'AWS::ApiGatewayV2::Api',
  'AWS::Cognito::UserPool',
  'AWS::Events::Rule',
  'AWS::Lambda::EventSourceMapping',
  'AWS::Lambda::Function',
  'AWS::S3::Bucket',
  'AWS::SQS::Queue',
  'AWS::Scheduler::Schedule',
  'AWS::SecretsManager::Secret',
]);

export function isKnownType(type: string): boolean {
  return MODELLED.has(type) || Object.hasOwn(REQUIREMENTS, type) || QUIET_TYPES.has(type);
}

/** What the local cloud runs of an app. Throws `CannotRunHere`, with all that it cannot run, as it would behave on AWS. */
export function modelOf(assembly: Assembly, requireKnown: RequireKnownPattern): CloudModel {
  const problems = new Set<string>();
  /** What of these can be read; what cannot is a problem, and the next one is read all the same. */
  function read<T, M>(all: readonly T[], one: (item: T) => M): M[] {
    return all.flatMap((item) => {
      try {
        return [one(item)];
      } catch (error) {
        if (!(error instanceof TemplateProblem)) throw error;
        problems.add(error.message);
        return [];
      }
    });
  }

  const [inventory] = read([assembly], createInventory);
  if (!inventory) throw new CannotRunHere([...problems]);
  const { all, of } = inventory;
  read(assembly.stacks, requireNoMacro);
  read(all, requireKnownType);
  for (const [type, requirements] of Object.entries(REQUIREMENTS)) {
    for (const requirement of requirements) read(of(type), (one) => requirement(one, inventory));
  }
  const rules = of('AWS::Events::Rule');
  const model: CloudModel = {
    tables: read(of(...TABLES), readTable),
    functions: read(of('AWS::Lambda::Function'), (one) => readFunction(one, inventory)),
    apis: read(of('AWS::ApiGatewayV2::Api'), (one) => readApi(one, inventory)),
    mappings: read(of('AWS::Lambda::EventSourceMapping'), (one) =>
      readStreamMapping(one, inventory, requireKnown),
    ).flat(),
    schedules: [
      ...read(of('AWS::Scheduler::Schedule'), (one) => readSchedule(one, inventory)),
      ...read(rules, (one) => readScheduledRule(one, inventory)),
    ].flat(),
    rules: read(rules, (one) => readRule(one, inventory, requireKnown)).flat(),
    buckets: read(of('AWS::S3::Bucket'), readBucket),
    queues: read(of('AWS::SQS::Queue'), readQueue),
    secrets: read(of('AWS::SecretsManager::Secret'), readSecret),
    pools: read(of('AWS::Cognito::UserPool'), (one) => readPool(one, inventory)),
  };
  for (const twice of namedTwice(model)) problems.add(twice);
  if (problems.size > 0) throw new CannotRunHere([...problems]);
  return model;
}

function requireNoMacro({ name, transform }: Assembly['stacks'][number]): void {
  if (transform === undefined) return;
  throw new TemplateProblem(
    { stack: name, what: 'Transform' },
    `it is ${JSON.stringify(transform)}; the local cloud runs no macros of CloudFormation.`,
  );
}

function requireKnownType({ resource }: Found): void {
  const { type, stack, logicalId, path } = resource;
  if (isKnownType(type)) return;
  throw new TemplateProblem({ stack, what: `${logicalId} (${path})` }, `the local cloud cannot run ${type}.`);
}

/** Whatever is called by its name must be the only one that has it. */
function namedTwice(model: CloudModel): string[] {
  return Object.entries(model).flatMap(([kind, all]: [string, readonly object[]]) => {
    const names = all.flatMap((one) => ('name' in one ? [String(one.name)] : []));
    const twice = new Set(names.filter((name, at) => names.indexOf(name) !== at));
    return [...twice].map((name) => `two of the ${kind} are named ${name}; give one of them another name.`);
  });
}
