import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';

export type ReadBody =
  | { readonly kind: 'whole'; readonly bytes: Buffer }
  | { readonly kind: 'too-large' }
  /** The client went away before it had sent everything. */
  | { readonly kind: 'broken' };

/** Not by iteration: leaving a loop over a request closes its socket, and then nobody reads the answer. */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<ReadBody> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      // What is too much is read on and dropped, so that the client comes to read its answer.
      if (bytes > maxBytes) {
        chunks.length = 0;
        resolve({ kind: 'too-large' });
      } else {
        chunks.push(chunk);
      }
    });
    request.on('end', () => resolve({ kind: 'whole', bytes: Buffer.concat(chunks) }));
    request.on('error', () => resolve({ kind: 'broken' }));
    request.on('close', () => resolve({ kind: 'broken' }));
  });
}

/** Everything else is binary: forms, `application/problem+json`, and a body whose type nobody names. */
const TEXT_TYPE = /^(?:text\/.+|application\/(?:json|xml|javascript))$/;

/** As the event has it. Bytes that are no text would arrive as other bytes, whatever their type says. */
export function eventBody(
  bytes: Buffer,
  contentType: string | undefined,
): { readonly body?: string; readonly isBase64Encoded: boolean } {
  if (bytes.length === 0) return { isBase64Encoded: false };
  const type = (contentType ?? '').split(';')[0]?.trim().toLowerCase() ?? '';
  const isText = TEXT_TYPE.test(type) && isUtf8(bytes);
  return { body: bytes.toString(isText ? 'utf8' : 'base64'), isBase64Encoded: !isText };
}
