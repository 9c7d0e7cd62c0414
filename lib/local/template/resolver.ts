import { fieldsOf, isFields } from '../fields.ts';
import type { Assembly, TemplateResource } from './assembly.ts';
import { createConditions } from './conditions.ts';
import { createOutputs } from './outputs.ts';
import { Complaint, placed } from './problem.ts';
import { createReferences } from './references.ts';
import { createOnce, deeper, type Resolve, type Scope } from './scope.ts';
import {
  callIn,
  joined,
  listOf,
  requireNoDynamicReference,
  selected,
  splitted,
  textOf,
} from './text-functions.ts';

/** The value of what a template says, in the one account and Region that are here. */
export interface Resolver {
  /** With nothing left in it to resolve. Undefined: AWS::NoValue, as if it had not been said. */
  readonly resolve: Resolve;
  /** Only so far that one sees what it is: what lies inside may be of no matter, and without a value here. */
  readonly open: Resolve;
  nameOf(resource: TemplateResource): string;
  refOf(resource: TemplateResource): string;
  isMade(resource: TemplateResource): boolean;
}

export function createResolver({ stacks }: Assembly): Resolver {
  const once = createOnce();
  const holds = createConditions(resolve, once);
  const outputs = createOutputs(stacks, resolve, holds, once);
  const { nameOf, refOf, isMade, reference, attribute } = createReferences(stacks, resolve, holds, once);

  const functions: Readonly<Record<string, Resolve>> = {
    Ref: (argument, scope) => reference(textOf('Ref', argument), scope),
    'Fn::GetAtt': (argument, scope) => attribute(resolve(argument, scope), scope),
    'Fn::Join': (argument, scope) => joined(resolve(argument, scope)),
    'Fn::Split': (argument, scope) => splitted(resolve(argument, scope)),
    'Fn::Select': (argument, scope) => selected(resolve(argument, scope)),
    'Fn::Sub': substituted,
    'Fn::If': chosen,
    'Fn::FindInMap': (argument, scope) => mapped(resolve(argument, scope), scope),
    'Fn::ImportValue': (argument, scope) =>
      outputs.exported(textOf('Fn::ImportValue', resolve(argument, scope))),
    'Fn::GetStackOutput': (argument, scope) => outputs.ofStack(fieldsOf(resolve(argument, scope))),
  };

  function resolve(value: unknown, scope: Scope): unknown {
    const opened = open(value, scope);
    if (Array.isArray(opened)) {
      return opened
        .map((item, index) => resolve(item, deeper(scope, index)))
        .filter((item) => item !== undefined);
    }
    if (!isFields(opened)) return opened;
    const entries = Object.entries(opened)
      .map(([key, item]) => [key, resolve(item, deeper(scope, key))] as const)
      .filter(([, item]) => item !== undefined);
    return Object.fromEntries(entries);
  }

  function open(value: unknown, scope: Scope): unknown {
    return placed(scope.place, () => {
      const call = callIn(value);
      const opened = call ? called(...call, { ...scope, inCall: true }) : value;
      if (typeof opened === 'string') requireNoDynamicReference(opened);
      return opened;
    });
  }

  function called(name: string, argument: unknown, scope: Scope): unknown {
    const run = Object.hasOwn(functions, name) ? functions[name] : undefined;
    if (run) return run(argument, scope);
    throw new Complaint(
      `the local cloud does not know ${name}; it knows ${Object.keys(functions).join(', ')}.`,
    );
  }

  /** What is not chosen is not looked at: it may name what is not made. */
  function chosen(argument: unknown, scope: Scope): unknown {
    const [condition, yes, no] = listOf('Fn::If', argument, 3);
    return open(holds(textOf('The condition of Fn::If', condition), scope.stack) ? yes : no, scope);
  }

  function substituted(argument: unknown, scope: Scope): string {
    const [template, given] = typeof argument === 'string' ? [argument] : listOf('Fn::Sub', argument, 2);
    const variables = fieldsOf(given);
    const variable = (name: string): unknown => {
      if (Object.hasOwn(variables, name)) return resolve(variables[name], scope);
      return name.includes('.') ? attribute(name, scope) : reference(name, scope);
    };
    return textOf('The text of Fn::Sub', template).replaceAll(
      /\$\{(!?)([^}]*)\}/g,
      (_, literal: string, name: string) =>
        literal === '!' ? `\${${name}}` : textOf(`\${${name}} in Fn::Sub`, variable(name.trim())),
    );
  }

  return { resolve, open, nameOf, refOf, isMade };
}

function mapped(argument: unknown, { stack }: Scope): unknown {
  const keys = listOf('Fn::FindInMap', argument, 3).map((key) => textOf('A key of Fn::FindInMap', key));
  const found = keys.reduce<unknown>((map, key) => fieldsOf(map)[key], stack.mappings);
  if (found !== undefined) return found;
  throw new Complaint(`Fn::FindInMap finds nothing at ${keys.join(', ')}; expected it among the Mappings.`);
}
