import { createHash } from 'node:crypto';
import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { InvalidArgument, RecordUnreadable } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import type { Reply, StoredBody, StoredResponse } from '../core/record.ts';

/** A body ready to be stored: all of it on the record, or with chunks to be written first. */
export interface PackedBody {
  readonly stored: StoredBody;
  readonly set: string;
  readonly chunks: readonly Uint8Array[];
}

/** A body as it is stored: compressed where that pays, and sealed where the caller wants it. */
export type StoredBytes = Omit<StoredBody, 'body'> & { readonly bytes: Uint8Array };

function compressed(body: Uint8Array, what: string, maxBytes: number): StoredBytes {
  if (body.byteLength > maxBytes) {
    throw new InvalidArgument(`${what} has ${body.byteLength} bytes; at most ${maxBytes} can be stored.`);
  }
  const kept = { length: body.byteLength, crc: crc32(body) };
  if (body.byteLength >= limits.compressFromBytes) {
    const bytes = zstdCompressSync(body);
    if (bytes.byteLength < body.byteLength)
      return { ...kept, encoding: 'zstd', bytes: new Uint8Array(bytes) };
  }
  return { ...kept, encoding: 'identity', bytes: new Uint8Array(body) }; // A copy: the caller may reuse its buffer.
}

/** All that Lambda can return can be stored. */
export function compressedReply({ body }: Reply): StoredBytes {
  return compressed(body, 'The response body', limits.bodyMaxBytes);
}

export function compressedResult(name: string, text: string): StoredBytes {
  return compressed(Buffer.from(text), `The result of step ${name}`, limits.stepResultMaxBytes);
}

/** Nothing, if it is too long to be kept: then only its client can finish the operation. */
export function compressedEvent(event: Uint8Array): StoredBytes | undefined {
  if (event.byteLength > limits.eventMaxBytes) return undefined;
  const stored = compressed(event, 'The event', limits.eventMaxBytes);
  return stored.bytes.byteLength > limits.requestMaxBytes ? undefined : stored;
}

/** Of a sealed body even a checksum would tell something, so it is of the seal. */
export function sealed(plain: StoredBytes, seal: Uint8Array): StoredBytes {
  return { ...plain, bytes: new Uint8Array(seal), sealed: true, crc: crc32(seal) };
}

/**
 * Chunks are put if absent, so their name must tell one body from another: those of two attempts, and those of one
 * attempt whose first answer was refused by the caller's own writes. Hence the writer, the bytes, and how long they stay.
 */
export function packBody(
  { bytes, ...kept }: StoredBytes,
  owner: string,
  openEnded: boolean,
  inlineMaxBytes: number = limits.inlineBodyMaxBytes,
): PackedBody {
  const chunks = bytes.byteLength > inlineMaxBytes ? slices(bytes, limits.chunkMaxBytes) : [];
  const set = chunks.length > 0 ? `${owner}.${openEnded ? 'o' : 't'}${digestOf(bytes)}` : owner;
  const body = chunks.length > 0 ? { set, chunks: chunks.length } : { inline: bytes };
  return { stored: { ...kept, body }, set, chunks };
}

export function responseOf(reply: Reply, stored: StoredBody): StoredResponse {
  const { status, headers, base64 } = reply;
  return { schemaVersion: 1, status, headers, base64, ...stored };
}

/** The bytes as they were stored, all of them. */
export function storedBytes(pk: string, stored: StoredBody, chunks: readonly Uint8Array[]): Uint8Array {
  const { body } = stored;
  const missing = 'inline' in body ? 0 : body.chunks - chunks.length;
  if (missing !== 0) throw unreadable(pk, `${missing} of its chunks are missing`);
  const bytes = 'inline' in body ? body.inline : Buffer.concat(chunks);
  if (stored.sealed && crc32(bytes) !== stored.crc) throw unreadable(pk, 'its sealed form has been changed');
  return bytes;
}

/** The body, from its bytes as they were stored or, if they were sealed, as they were opened. */
export function unpackBody(pk: string, stored: StoredBody, bytes: Uint8Array): Uint8Array {
  const body = stored.encoding === 'zstd' ? decompress(pk, bytes) : bytes;
  if (body.byteLength !== stored.length || (!stored.sealed && crc32(body) !== stored.crc)) {
    throw unreadable(
      pk,
      `it has ${body.byteLength} bytes that do not match the checksum of ${stored.length}`,
    );
  }
  return new Uint8Array(body);
}

export function replyOf({ status, headers, base64 }: StoredResponse, body: Uint8Array): Reply {
  return { status, headers, base64, body };
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
    `A stored body of record ${pk} cannot be read: ${why}. Nothing is run again because of it; inspect the item.`,
    cause,
  );
}
