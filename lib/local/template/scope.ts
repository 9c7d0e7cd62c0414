import type { StackTemplate, TemplateResource } from './assembly.ts';
import { Complaint, inside, type Place } from './problem.ts';

/** A place, and the stack whose names are meant there. */
export interface Scope {
  readonly stack: StackTemplate;
  readonly place: Place;
  /** Among the arguments of a function: which of them it is would tell nobody anything. */
  readonly inCall?: boolean;
}

export type Resolve = (value: unknown, scope: Scope) => unknown;

export function deeper(scope: Scope, key: string | number): Scope {
  return scope.inCall ? scope : { ...scope, place: inside(scope.place, key) };
}

export function scopeOf(stack: StackTemplate, resource: TemplateResource): Scope {
  const { logicalId, path, type } = resource;
  return { stack, place: { stack: stack.name, what: `${logicalId} (${path}, ${type})` } };
}

/** What is looked for while it is being looked for would never be found. */
export type Once = <T>(what: string, find: () => T) => T;

export function createOnce(): Once {
  const underWay = new Set<string>();
  return (what, find) => {
    if (underWay.has(what)) throw new Complaint(`${what} depends on itself.`);
    underWay.add(what);
    try {
      return find();
    } finally {
      underWay.delete(what);
    }
  };
}
