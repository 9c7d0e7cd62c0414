import { createHash } from 'node:crypto';
import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { InvalidArgument, RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Reply, StoredResponse } from '../core/record.ts';

/** A reply ready to be stored: all of it on the record, or with chunks to be written first. */
export interface PackedReply {
  readonly response: StoredResponse;
  readonly set: string;
  readonly chunks: readonly Uint8Array[];
}

/** A body as it is stored: compressed where that pays, and sealed where the caller wants it. */
export interface StoredBytes {
  readonly encoding: StoredResponse['encoding'];
  readonly bytes: Uint8Array;
  readonly sealed?: true;
}

export function compressed({ body }: Reply): StoredBytes {
  if (body.byteLength > limits.bodyMaxBytes) {
    throw new InvalidArgument(
      `The response body has ${body.byteLength} bytes; at most ${limits.bodyMaxBytes} can be stored, which is all that Lambda can return.`,
    );
  }
  if (body.byteLength >= limits.compressFromBytes) {
    const bytes = zstdCompressSync(body);
    if (bytes.byteLength < body.byteLength) return { encoding: 'zstd', bytes: new Uint8Array(bytes) };
  }
  return { encoding: 'identity', bytes: new Uint8Array(body) }; // A copy: the caller may reuse its buffer.
}

/**
 * Chunks are put if absent, so their name must tell one body from another: those of two attempts, and those of one
 * attempt whose first answer was refused by the caller's own writes. Hence the writer, the bytes, and how long they stay.
 */
export function packReply(
  reply: Reply,
  owner: string,
  openEnded: boolean,
  stored: StoredBytes = compressed(reply),
): PackedReply {
  const { encoding, bytes, sealed } = stored;
  const chunks = bytes.byteLength > limits.inlineBodyMaxBytes ? slices(bytes, limits.chunkMaxBytes) : [];
  const set = chunks.length > 0 ? `${owner}.${openEnded ? 'o' : 't'}${digestOf(bytes)}` : owner;
  const response: StoredResponse = {
    schemaVersion: 1,
    status: reply.status,
    headers: reply.headers,
    base64: reply.base64,
    encoding,
    ...(sealed && { sealed }),
    length: reply.body.byteLength,
    crc: crc32(sealed ? bytes : reply.body), // Of a sealed body even a checksum would tell something.
    body: chunks.length > 0 ? { set, chunks: chunks.length } : { inline: bytes },
  };
  return { response, set, chunks };
}

/** The bytes as they were stored, all of them. */
export function storedBytes(pk: string, response: StoredResponse, chunks: readonly Uint8Array[]): Uint8Array {
  const { body: stored } = response;
  const missing = 'inline' in stored ? 0 : stored.chunks - chunks.length;
  if (missing !== 0) throw unreadable(pk, `${missing} of its chunks are missing`);
  const bytes = 'inline' in stored ? stored.inline : Buffer.concat(chunks);
  if (response.sealed && crc32(bytes) !== response.crc)
    throw unreadable(pk, 'its sealed form has been changed');
  return bytes;
}

/** The reply, from its bytes as they were stored or, if they were sealed, as they were opened. */
export function unpackReply(pk: string, response: StoredResponse, bytes: Uint8Array): Reply {
  const { status, headers, base64, sealed, length } = response;
  const body = response.encoding === 'zstd' ? decompress(pk, bytes) : bytes;
  if (body.byteLength !== length || (!sealed && crc32(body) !== response.crc)) {
    throw unreadable(pk, `it has ${body.byteLength} bytes that do not match the checksum of ${length}`);
  }
  return { status, headers, base64, body: new Uint8Array(body) };
}

function digestOf(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url').slice(0, 16);
}

function decompress(pk: string, bytes: Uint8Array): Uint8Array {
  try {
    return zstdDecompressSync(bytes, { maxOutputLength: limits.bodyMaxBytes });
  } catch (cause) {
    throw unreadable(pk, 'it does not decompress', cause);
  }
}

function slices(bytes: Uint8Array, size: number): Uint8Array[] {
  const count = Math.ceil(bytes.byteLength / size);
  return Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size));
}

export function unreadable(pk: string, why: string, cause?: unknown): RecordUnreadable {
  return new RecordUnreadable(
    `The stored body of record ${pk} cannot be replayed: ${why}. The operation is complete and is not run again.`,
    cause,
  );
}
