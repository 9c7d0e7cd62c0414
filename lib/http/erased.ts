import type { EpochMs, Reply } from '../core/record.ts';
import { lowerCase } from './ascii.ts';

type Headers = Reply['headers'];

const ERASED = 'Idempotency-Erased';

/**
 * What says something about the body that is gone: how to read it, what it is called, a digest by which a guess at it could
 * be confirmed. An empty body under `Content-Encoding: gzip` would not even be readable.
 */
const OF_THE_BODY: ReadonlySet<string> = new Set([
  ...['content-type', 'content-encoding', 'content-language', 'content-disposition', 'content-range'],
  ...['content-md5', 'content-digest', 'repr-digest', 'digest', 'etag', 'last-modified'],
]);

/** What is left of an answer's headers: where the thing is that it made, and since when its body is gone. */
export function erasedHeaders(headers: Headers, at: EpochMs): Headers {
  const left = headers.filter(([name]) => !OF_THE_BODY.has(lowerCase(name)) && !isMark(name));
  return [...left, [ERASED, new Date(at).toUTCString()]];
}

/** Tells an answer whose body was erased from one that never had any. */
export function isErasedReply({ headers }: Pick<Reply, 'headers'>): boolean {
  return headers.some(([name]) => isMark(name));
}

function isMark(name: string): boolean {
  return lowerCase(name) === lowerCase(ERASED);
}
