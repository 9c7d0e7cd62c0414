/** What a function is told by its deployment. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Stops a function at its start: a deployment that is wrong should fail before the first payment, not with it. */
class VariableUnusable extends Error {
  override readonly name = 'VariableUnusable';
}

export function variable(environment: Environment, name: string, what: string): string {
  const value = environment[name];
  if (value !== undefined && value.trim() !== '') return value;
  const found = value === undefined ? 'is not set' : 'is empty';
  throw new VariableUnusable(`The environment variable ${name} ${found}; set it to ${what}.`);
}

/** Nothing, where it is empty: a template that has no value for it writes an empty text. */
export function optionalVariable(environment: Environment, name: string): string | undefined {
  const value = environment[name]?.trim();
  return value === '' ? undefined : value;
}

/** A whole number above zero, such as of milliseconds. */
export function optionalNumber(environment: Environment, name: string, of: string): number | undefined {
  const text = optionalVariable(environment, name);
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new VariableUnusable(
    `The environment variable ${name} is ${text}; expected a whole number of ${of}.`,
  );
}
