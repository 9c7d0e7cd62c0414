import { isFields } from '../fields.ts';
import { Complaint, shown } from './problem.ts';

/* The functions of CloudFormation that need nothing but their arguments, and what arguments have to be. */

export function joined(argument: unknown): string {
  const [separator, parts] = listOf('Fn::Join', argument, 2);
  return listOf('The second argument of Fn::Join', parts)
    .map((part) => textOf('A part of Fn::Join', part))
    .join(textOf('The separator of Fn::Join', separator));
}

export function splitted(argument: unknown): string[] {
  const [separator, text] = listOf('Fn::Split', argument, 2);
  return textOf('The text of Fn::Split', text).split(textOf('The separator of Fn::Split', separator));
}

export function selected(argument: unknown): unknown {
  const [index, list] = listOf('Fn::Select', argument, 2);
  const values = listOf('The second argument of Fn::Select', list);
  const at = Number(index);
  if (Number.isInteger(at) && at >= 0 && at < values.length) return values[at];
  throw new Complaint(
    `Fn::Select takes number ${shown(index)} of ${values.length}; expected one that is there.`,
  );
}

/** `{{resolve:ssm:…}}` is replaced by CloudFormation with what an account holds. */
export function requireNoDynamicReference(text: string): void {
  const [reference] = /\{\{resolve:[^}]*\}\}/.exec(text) ?? [];
  if (reference === undefined) return;
  throw new Complaint(
    `${reference} is looked up in an AWS account, and there is none here. Pass the name to the function and read the value when it starts.`,
  );
}

export function textOf(what: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  throw new Complaint(`${what} is ${shown(value)}; expected a text.`);
}

export function listOf(what: string, value: unknown, length?: number): readonly unknown[] {
  if (Array.isArray(value) && (length === undefined || value.length === length)) return value;
  const expected = length === undefined ? 'a list' : `a list of ${length}`;
  throw new Complaint(`${what} is ${shown(value)}; expected ${expected}.`);
}

/** The function's name and its argument, where a value is the call of one. */
export function callIn(value: unknown): readonly [string, unknown] | undefined {
  if (!isFields(value)) return undefined;
  const [entry, ...more] = Object.entries(value);
  if (!entry || more.length > 0) return undefined;
  return entry[0] === 'Ref' || entry[0].startsWith('Fn::') ? entry : undefined;
}
