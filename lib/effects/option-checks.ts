import { InvalidArgument } from '../core/errors.ts';

/* A mistake in the options stops the deployment, not a payment. Each says what was received and what to write instead. */

export function requireKnown(options: object, known: readonly string[], where: string): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    throw new InvalidArgument(`${where} has no option ${name}. ${suggestion(name, known)}`);
  }
}

/** Fewer letters are somewhere in too many words: `ttl` is in settling. */
const PART_MIN = 4;

function suggestion(name: string, known: readonly string[]): string {
  const close = known.find((option) => {
    const [longer, shorter] = option.length > name.length ? [option, name] : [name, option];
    const at = longer.toLowerCase().indexOf(shorter.toLowerCase().slice(0, 6));
    return at === 0 || (at > 0 && shorter.length >= PART_MIN);
  });
  return close ? `Did you mean ${close}?` : `It has ${known.join(', ')}.`;
}

export function requireOneOf(options: object, name: string, allowed: readonly unknown[]): void {
  const value: unknown = (options as Record<string, unknown>)[name];
  if (value !== undefined && !allowed.includes(value)) refuse(name, value, `one of ${allowed.join(', ')}`);
}

export function requireWhole(options: object, name: string, least: number, most?: number): void {
  const value: unknown = (options as Record<string, unknown>)[name];
  if (value === undefined) return;
  if (Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= (most ?? Infinity)) return;
  const range = most === undefined ? `of at least ${least}` : `from ${least} to ${most}`;
  refuse(name, value, `a whole number ${range}`);
}

export function requireBoolean(options: object, name: string): void {
  const value: unknown = (options as Record<string, unknown>)[name];
  if (value !== undefined && typeof value !== 'boolean') refuse(name, value, 'true or false');
}

export function requireList(options: object, name: string): void {
  const value: unknown = (options as Record<string, unknown>)[name];
  if (value !== undefined && !Array.isArray(value)) refuse(name, value, 'a list of names');
}

/** Anything but an object with members: a null, a list or a text would be asked for options it cannot have. */
export function requireOptions(options: unknown, where: string): asserts options is object {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return;
  throw new InvalidArgument(
    `${where} takes an object of options; received ${JSON.stringify(options) ?? typeof options}.`,
  );
}

/** By what it can do: a ledger may come from another copy of the package. */
export function requireLedger(
  ledger: unknown,
  where: string,
  needs: readonly string[] = ['reserve', 'complete', 'read'],
): void {
  const methods = (ledger ?? {}) as Readonly<Record<string, unknown>>;
  if (needs.every((name) => typeof methods[name] === 'function')) return;
  throw new InvalidArgument(
    `${where} needs ledger, for example ledger: dynamoDbLedger({ tableName, client }).`,
  );
}

/** Of the ledger as well: a ledger of one's own need not count anything. */
export function requireQuotas(ledger: unknown, where: string): void {
  const { quotas } = (ledger ?? {}) as { readonly quotas?: unknown };
  if (typeof quotas === 'object' && quotas !== null) return;
  throw new InvalidArgument(
    `${where}: quota needs a ledger that counts keys, as dynamoDbLedger() and memoryLedger() do; this one has no quotas. Give it one, as the interface Quotas describes, or leave quota out.`,
  );
}

export function requireFunctions(options: object, names: readonly string[]): void {
  for (const name of names) {
    const value: unknown = (options as Record<string, unknown>)[name];
    if (value !== undefined && typeof value !== 'function') refuse(name, value, 'a function');
  }
}

export function refuse(name: string, value: unknown, expected: string): never {
  throw new InvalidArgument(
    `The option ${name} is ${JSON.stringify(value) ?? typeof value}; expected ${expected}.`,
  );
}
