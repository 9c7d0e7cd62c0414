import type { IncomingHttpHeaders } from 'node:http';
import { AwsError } from './answers.ts';

const LINE_END = '\r\n';

/**
 * What the SDK sends of a stream: chunks, each with its length in hexadecimal before it and perhaps a signature, and a
 * checksum behind the last.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
 */
export function withoutChunks(body: Buffer, headers: IncomingHttpHeaders): Buffer {
  const encodings = (headers['content-encoding'] ?? '').split(',').map((encoding) => encoding.trim());
  if (!encodings.includes('aws-chunked')) return body;
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = body.indexOf(LINE_END, at);
    const bytes = lineEnd < 0 ? Number.NaN : Number.parseInt(body.toString('latin1', at, lineEnd), 16);
    const start = lineEnd + LINE_END.length;
    const end = start + bytes;
    if (Number.isNaN(bytes) || end > body.length) {
      throw new AwsError(400, 'IncompleteBody', 'The body ends before its chunks do.');
    }
    if (bytes === 0) return Buffer.concat(chunks);
    chunks.push(body.subarray(start, end));
    at = end + LINE_END.length;
  }
}
