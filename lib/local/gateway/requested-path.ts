/** What a request names: the path that routes are compared with, the path that functions are told, and the query. */
export interface RequestedPath {
  readonly segments: readonly string[];
  readonly rawPath: string;
  readonly rawQueryString: string;
}

/** `http://host/path` is how a request to a proxy begins, and servers must take it. */
const AUTHORITY = /^https?:\/\/[^/?#]*/i;

/**
 * HTTP APIs decode a path twice. What is decoded once is read as a path again: an encoded slash parts segments, and
 * what follows an encoded question mark is lost. What is decoded twice is what `rawPath` says, against its name, and
 * the path variables. An escape that cannot be decoded, in either round, is a bad request: `undefined`.
 */
export function requestedPath(target: string): RequestedPath | undefined {
  const [sent = '', rawQueryString = ''] = parted(target.replace(AUTHORITY, ''));
  try {
    const [path = ''] = parted(decodedOnce(sent));
    const rawPath = decodedOnce(path) || '/';
    return { segments: path.replace(/^\//, '').split('/'), rawPath, rawQueryString };
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

/** Throws a `URIError` for an escape that is none, or is no UTF-8. */
export function decodedOnce(text: string): string {
  return decodeURIComponent(text);
}

function parted(text: string): readonly [string, string?] {
  const mark = text.indexOf('?');
  return mark === -1 ? [text] : [text.slice(0, mark), text.slice(mark + 1)];
}
