export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What has no fields has none of those that are looked for. */
export function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {};
}

/** Nothing, where it is no JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
