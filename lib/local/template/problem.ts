import { OncekeyError } from '../../core/errors.ts';

/** Where in the templates something is, as a person finds it. */
export interface Place {
  readonly stack: string;
  /** A resource by its logical id and its path, or an output, or a condition. */
  readonly what: string;
  /** From the outside to the inside: `Environment.Variables.LEDGER_TABLE`. */
  readonly property?: string;
}

export function inside(place: Place, key: string | number): Place {
  const { property } = place;
  return { ...place, property: property === undefined ? String(key) : `${property}.${key}` };
}

/** What is wrong, by somebody who does not know where. Never leaves this folder without its place. */
export class Complaint extends Error {}

/** One thing that is wrong with a template, or that this machine cannot do. */
export class TemplateProblem extends OncekeyError {
  override readonly remedy = 'fix-deployment';

  constructor({ stack, what, property }: Place, message: string, cause?: unknown) {
    super(`${stack}, ${what}${property === undefined ? '' : `, ${property}`}: ${message}`, cause);
  }
}

/** Says where, of what says only what. The innermost place is the one that has to be repaired. */
export function placed<T>(place: Place, find: () => T): T {
  try {
    return find();
  } catch (error) {
    if (!(error instanceof Complaint)) throw error;
    throw new TemplateProblem(place, error.message, error);
  }
}

/** All problems at once: whoever is told of one at a time starts the cloud ten times. */
export class CannotRunHere extends OncekeyError {
  override readonly remedy = 'fix-deployment';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    const lines = problems.map((problem) => `  - ${problem}`).join('\n');
    super(
      `The local cloud cannot run this app as AWS would:\n${lines}\nRepair these, or leave them out of the app when it runs here, for instance by a context value that the app looks at.`,
    );
    this.problems = problems;
  }
}

/** As it is shown to a person: short, whatever it is. */
export function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
