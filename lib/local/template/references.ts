import { type Fields, fieldsOf } from '../fields.ts';
import { LOCAL_ACCOUNT, LOCAL_REGION } from '../model.ts';
import type { StackTemplate, TemplateResource } from './assembly.ts';
import type { Holds } from './conditions.ts';
import { IDENTITIES, type Identity, type Self } from './identities.ts';
import { shortNames } from './names.ts';
import { Complaint, placed } from './problem.ts';
import { deeper, type Once, type Resolve, type Scope, scopeOf } from './scope.ts';
import { listOf, textOf } from './text-functions.ts';

/** What resources and parameters are called here. */
export interface References {
  nameOf(resource: TemplateResource): string;
  refOf(resource: TemplateResource): string;
  /** Not, where its condition is false. */
  isMade(resource: TemplateResource): boolean;
  /** Ref. */
  reference(id: string, scope: Scope): unknown;
  /** Fn::GetAtt. */
  attribute(argument: unknown, scope: Scope): string;
}

const PSEUDO_PARAMETERS: Readonly<Record<string, (stack: string) => unknown>> = {
  'AWS::Region': () => LOCAL_REGION,
  'AWS::AccountId': () => LOCAL_ACCOUNT,
  'AWS::Partition': () => 'aws',
  'AWS::URLSuffix': () => 'amazonaws.com',
  'AWS::StackName': (stack) => stack,
  'AWS::StackId': (stack) =>
    `arn:aws:cloudformation:${LOCAL_REGION}:${LOCAL_ACCOUNT}:stack/${stack}/00000000-0000-0000-0000-000000000000`,
  'AWS::NotificationARNs': () => [],
  'AWS::NoValue': () => undefined,
};

export function createReferences(
  stacks: readonly StackTemplate[],
  resolve: Resolve,
  holds: Holds,
  once: Once,
): References {
  const friendly = friendlyNames(stacks);

  function nameOf(resource: TemplateResource): string {
    const { named } = identityOf(resource);
    const chosen = named === undefined ? undefined : property(resource, named);
    return named === undefined || chosen === undefined ? friendly(resource) : textOf(named, chosen);
  }

  function property(resource: TemplateResource, name: string): unknown {
    const scope = deeper(scopeOf(stackOf(resource), resource), name);
    return once(`${name} of ${described(resource)}`, () => resolve(resource.properties[name], scope));
  }

  function refOf(resource: TemplateResource): string {
    return identityOf(resource).ref(selfOf(resource));
  }

  function selfOf(resource: TemplateResource): Self {
    return { name: nameOf(resource), text: (name) => textOf(name, property(resource, name)) };
  }

  function stackOf(resource: TemplateResource): StackTemplate {
    const stack = stacks.find(({ name }) => name === resource.stack);
    if (stack) return stack;
    throw new Complaint(`there is no stack ${resource.stack} in the app.`);
  }

  function isMade(resource: TemplateResource): boolean {
    const { condition } = resource;
    if (condition === undefined) return true;
    const scope = deeper(scopeOf(stackOf(resource), resource), 'Condition');
    return placed(scope.place, () => holds(condition, scope.stack));
  }

  function resourceIn(stack: StackTemplate, id: string): TemplateResource {
    const resource = stack.resources.get(id);
    if (!resource) throw new Complaint(`the stack ${stack.name} has no resource or parameter ${id}.`);
    if (isMade(resource)) return resource;
    throw new Complaint(`${described(resource)} is not made: its condition ${resource.condition} is false.`);
  }

  return {
    nameOf,
    refOf,
    isMade,
    reference(id, { stack }) {
      if (Object.hasOwn(PSEUDO_PARAMETERS, id)) return PSEUDO_PARAMETERS[id]?.(stack.name);
      if (Object.hasOwn(stack.parameters, id)) return parameter(id, fieldsOf(stack.parameters[id]));
      return refOf(resourceIn(stack, id));
    },
    attribute(argument, { stack }) {
      const words = typeof argument === 'string' ? argument.split('.') : listOf('Fn::GetAtt', argument);
      const [id = '', ...rest] = words.map((word) => textOf('A part of Fn::GetAtt', word));
      const resource = resourceIn(stack, id);
      const name = rest.join('.');
      const { attributes } = identityOf(resource);
      const told = Object.hasOwn(attributes, name) ? attributes[name] : undefined;
      if (told) return told(selfOf(resource));
      throw new Complaint(`the local cloud has no value for ${name} of ${described(resource)}.`);
    },
  };
}

function described({ logicalId, type }: TemplateResource): string {
  return `${logicalId} (${type})`;
}

function identityOf(resource: TemplateResource): Identity {
  const identity = Object.hasOwn(IDENTITIES, resource.type) ? IDENTITIES[resource.type] : undefined;
  if (identity) return identity;
  throw new Complaint(`it refers to ${described(resource)}, which is not there in the local cloud.`);
}

function friendlyNames(stacks: readonly StackTemplate[]): (resource: TemplateResource) => string {
  const resources = stacks.flatMap((stack) => [...stack.resources.values()]);
  const byType = Map.groupBy(resources, ({ type }) => type);
  const short = new Map([...byType.values()].flatMap((alike) => [...shortNames(alike)]));
  return (resource) => {
    const { friendly } = identityOf(resource);
    return friendly === 'short' ? (short.get(resource) ?? resource.logicalId) : friendly(resource.path);
  };
}

function parameter(id: string, { Type, Default }: Fields): unknown {
  const type = String(Type);
  if (type.startsWith('AWS::SSM::Parameter')) {
    throw new Complaint(
      `the parameter ${id} is read from the Parameter Store of an AWS account; there is none here.`,
    );
  }
  if (Default === undefined) {
    throw new Complaint(`the parameter ${id} has no default, and nobody is asked for its value here.`);
  }
  const isList = type === 'CommaDelimitedList' || type.startsWith('List<');
  return isList
    ? String(Default)
        .split(',')
        .map((item) => item.trim())
    : Default;
}
