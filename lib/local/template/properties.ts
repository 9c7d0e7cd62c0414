import { type Fields, isFields } from '../fields.ts';
import { placed, shown, TemplateProblem } from './problem.ts';
import type { Resolver } from './resolver.ts';
import { deeper, type Scope } from './scope.ts';
import { textOf } from './text-functions.ts';

/** The properties of a resource, or of a group inside them, each read as what it has to be. Nobody's value is looked for before. */
export class Properties {
  readonly #resolver: Resolver;
  readonly #scope: Scope;
  readonly #fields: Fields;

  constructor(resolver: Resolver, scope: Scope, fields: Fields) {
    this.#resolver = resolver;
    this.#scope = scope;
    this.#fields = fields;
  }

  /** What changes how something behaves, and is not among these, is a problem: it would be left out in silence. */
  requireOnly(known: readonly string[], reasons: Readonly<Record<string, string>> = {}): void {
    for (const name of Object.keys(this.#fields)) {
      if (known.includes(name) || isEmpty(this.#open(name))) continue;
      const reason = Object.hasOwn(reasons, name) ? reasons[name] : 'the local cloud would not honour it.';
      throw this.problem(name, reason ?? '');
    }
  }

  problem(name: string, message: string): TemplateProblem {
    return new TemplateProblem(deeper(this.#scope, name).place, message);
  }

  /** Says of which property a complaint is that somebody else makes about its value. */
  about<T>(name: string, find: () => T): T {
    return placed(deeper(this.#scope, name).place, find);
  }

  has(name: string): boolean {
    return this.#open(name) !== undefined;
  }

  any(name: string): unknown {
    return this.#resolver.resolve(this.#fields[name], deeper(this.#scope, name));
  }

  text(name: string): string {
    return this.optionalText(name) ?? this.#missing(name, 'a text');
  }

  optionalText(name: string): string | undefined {
    const value = this.any(name);
    return value === undefined ? undefined : this.about(name, () => textOf('it', value));
  }

  oneOf<const T extends string>(name: string, allowed: readonly T[], otherwise?: T): T {
    const value = this.optionalText(name) ?? otherwise;
    const found = allowed.find((one) => one === value);
    if (found !== undefined) return found;
    const expected = allowed.join(' or ');
    if (value === undefined) return this.#missing(name, expected);
    throw this.problem(name, `it is ${value}; the local cloud knows ${expected}.`);
  }

  number(name: string, otherwise: number): number {
    const value = this.any(name);
    if (value === undefined) return otherwise;
    const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
    if (typeof number === 'number' && Number.isFinite(number)) return number;
    throw this.problem(name, `it is ${shown(value)}; expected a number.`);
  }

  flag(name: string): boolean {
    const value = this.any(name);
    if (value === undefined || value === false || value === 'false') return false;
    if (value === true || value === 'true') return true;
    throw this.problem(name, `it is ${shown(value)}; expected true or false.`);
  }

  texts(name: string): string[] {
    return this.#list(name, this.any(name)).map((item) =>
      this.about(name, () => textOf('an item of it', item)),
    );
  }

  /** Each of a map of texts, such as the variables of an environment. */
  textsByName(name: string): Record<string, string> {
    const value = this.any(name) ?? {};
    if (!isFields(value)) throw this.problem(name, `it is ${shown(value)}; expected texts by their names.`);
    const entries = Object.entries(value).map(
      ([key, item]) => [key, this.about(`${name}.${key}`, () => textOf('it', item))] as const,
    );
    return Object.fromEntries(entries);
  }

  group(name: string): Properties {
    return this.#group(name, this.#open(name) ?? {}, deeper(this.#scope, name));
  }

  groups(name: string): Properties[] {
    const scope = deeper(this.#scope, name);
    return this.#list(name, this.#open(name)).flatMap((item, index) => {
      const opened = this.#resolver.open(item, deeper(scope, index));
      return opened === undefined ? [] : [this.#group(name, opened, deeper(scope, index))];
    });
  }

  #open(name: string): unknown {
    return this.#resolver.open(this.#fields[name], deeper(this.#scope, name));
  }

  #group(name: string, value: unknown, scope: Scope): Properties {
    if (isFields(value)) return new Properties(this.#resolver, scope, value);
    throw this.problem(name, `it is ${shown(value)}; expected a group of properties.`);
  }

  #list(name: string, value: unknown): readonly unknown[] {
    if (value === undefined) return [];
    if (Array.isArray(value)) return value;
    throw this.problem(name, `it is ${shown(value)}; expected a list.`);
  }

  #missing(name: string, expected: string): never {
    throw this.problem(name, `it is missing; expected ${expected}.`);
  }
}

/** What is given, but says nothing. */
function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  return value === undefined || value === null || (isFields(value) && Object.keys(value).length === 0);
}
