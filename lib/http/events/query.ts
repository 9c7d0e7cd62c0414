/** Every pair of a query string as it stood in the URL. Never throws: whatever a client sent identifies its request. */
export function queryOf(text: string): [string, string][] {
  return text
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const equals = part.indexOf('=');
      if (equals === -1) return [decoded(part), ''];
      return [decoded(part.slice(0, equals)), decoded(part.slice(equals + 1))];
    });
}

/** An escape that is not UTF-8, or not an escape, stays as it is. */
export function decoded(text: string): string {
  return text.replaceAll('+', ' ').replace(/(?:%[0-9A-Fa-f]{2})+/g, (escapes) => {
    try {
      return decodeURIComponent(escapes);
    } catch {
      return escapes;
    }
  });
}
