import { fieldsOf } from '../fields.ts';
import { Complaint, placed, shown } from './problem.ts';
import type { Once, Resolve, Scope } from './scope.ts';
import { listOf, textOf } from './text-functions.ts';

/** Whether a condition of a stack is true. */
export type Holds = (name: string, stack: Scope['stack']) => boolean;

export function createConditions(resolve: Resolve, once: Once): Holds {
  const holds: Holds = (name, stack) => {
    if (!Object.hasOwn(stack.conditions, name)) {
      throw new Complaint(`the stack ${stack.name} has no condition ${name}.`);
    }
    const scope = { stack, place: { stack: stack.name, what: `condition ${name}` }, inCall: true };
    return placed(scope.place, () =>
      once(`the condition ${name}`, () => tested(stack.conditions[name], scope)),
    );
  };

  function tested(rule: unknown, scope: Scope): boolean {
    const [[name, argument] = ['', undefined], ...more] = Object.entries(fieldsOf(rule));
    const each = () => listOf(name, argument).map((one) => tested(one, scope));
    switch (more.length > 0 ? 'several functions' : name) {
      case 'Condition':
        return holds(textOf(name, argument), scope.stack);
      case 'Fn::Equals':
        return equal(resolve(argument, scope));
      case 'Fn::And':
        return each().every(Boolean);
      case 'Fn::Or':
        return each().some(Boolean);
      case 'Fn::Not':
        return !each().every(Boolean);
    }
    throw new Complaint(
      `it is ${shown(rule)}; the local cloud knows one of Fn::Equals, Fn::And, Fn::Or, Fn::Not and Condition.`,
    );
  }

  return holds;
}

function equal(argument: unknown): boolean {
  const [left, right] = listOf('Fn::Equals', argument, 2).map((side) => textOf('A side of Fn::Equals', side));
  return left === right;
}
