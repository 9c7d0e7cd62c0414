/** Decoded, where a plus is a space. A name that is there several times has its values joined by commas. */
export function queryParameters(rawQueryString: string): Readonly<Record<string, string>> | undefined {
  const joined = new Map<string, string>();
  for (const pair of rawQueryString.split('&')) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = decoded(equals === -1 ? pair : pair.slice(0, equals));
    const value = equals === -1 ? '' : decoded(pair.slice(equals + 1));
    const known = joined.get(name);
    joined.set(name, known === undefined ? value : `${known},${value}`);
  }
  return joined.size > 0 ? Object.fromEntries(joined) : undefined;
}

/** What is no escape stays as it was sent. */
function decoded(text: string): string {
  const spaced = text.replaceAll('+', ' ');
  try {
    return decodeURIComponent(spaced);
  } catch {
    return spaced;
  }
}
