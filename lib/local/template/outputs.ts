import { type Fields, fieldsOf } from '../fields.ts';
import type { StackTemplate } from './assembly.ts';
import type { Holds } from './conditions.ts';
import { Complaint } from './problem.ts';
import type { Once, Resolve, Scope } from './scope.ts';
import { textOf } from './text-functions.ts';

/** What one stack takes of another, by either way that CDK has for it. */
export interface Outputs {
  /** Fn::ImportValue, the strong reference: by the name of an export. */
  exported(name: string): unknown;
  /** Fn::GetStackOutput, the weak one. Its Region is not looked at: there is one. */
  ofStack(argument: Fields): unknown;
}

export function createOutputs(
  stacks: readonly StackTemplate[],
  resolve: Resolve,
  holds: Holds,
  once: Once,
): Outputs {
  function given(stack: StackTemplate, id: string): unknown {
    const { Value } = made(stack, id) ?? {};
    if (Value === undefined) throw new Complaint(`the stack ${stack.name} has no output ${id}.`);
    return once(`the output ${id} of ${stack.name}`, () => resolve(Value, scopeOf(stack, id, 'Value')));
  }

  function exportName(stack: StackTemplate, id: string): unknown {
    const { Name } = fieldsOf(made(stack, id)?.['Export']);
    return Name === undefined ? undefined : resolve(Name, scopeOf(stack, id, 'Export.Name'));
  }

  function made(stack: StackTemplate, id: string): Fields | undefined {
    if (!Object.hasOwn(stack.outputs, id)) return undefined;
    const output = fieldsOf(stack.outputs[id]);
    const { Condition: condition } = output;
    return condition === undefined || holds(textOf('Condition', condition), stack) ? output : undefined;
  }

  return {
    exported(name) {
      for (const stack of stacks) {
        const id = Object.keys(stack.outputs).find((one) => exportName(stack, one) === name);
        if (id !== undefined) return given(stack, id);
      }
      throw new Complaint(
        `no stack of the app exports ${name}; what another app has deployed is not there for the local cloud.`,
      );
    },
    ofStack({ StackName, OutputName }) {
      const wanted = textOf('StackName of Fn::GetStackOutput', StackName);
      const stack = stacks.find(({ name }) => name === wanted);
      if (stack) return given(stack, textOf('OutputName of Fn::GetStackOutput', OutputName));
      const names = stacks.map(({ name }) => name).join(', ');
      throw new Complaint(`there is no stack ${wanted} in the app; it has ${names}.`);
    },
  };
}

function scopeOf(stack: StackTemplate, id: string, property: string): Scope {
  return { stack, place: { stack: stack.name, what: `output ${id}`, property } };
}
