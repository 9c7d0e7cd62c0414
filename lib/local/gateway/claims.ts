/**
 * The claims as a function gets them: all as text. Lists and objects are printed as Go prints them, `[a b]` and
 * `map[a:b]`, from which nobody can read them back; what is null is left out.
 */
export function printedClaims(claims: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(claims)
      .filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => [name, printed(value)]),
  );
}

function printed(value: unknown): string {
  if (value === null) return '<nil>';
  if (Array.isArray(value)) return `[${value.map(printed).join(' ')}]`;
  if (typeof value !== 'object') return String(value);
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `map[${members.map(([name, member]) => `${name}:${printed(member)}`).join(' ')}]`;
}
