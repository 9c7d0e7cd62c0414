import type { AttributeValue } from '@aws-sdk/client-dynamodb';
import { unmarshall } from '@aws-sdk/util-dynamodb';
import type { LedgerRecord } from '../core/record.ts';
import { decode, type ItemVersions, itemVersions } from './item.ts';

/** A record as the table's stream shows it to a Lambda function, where bytes are base64 text. */
export function recordOfImage(image: unknown, versions: ItemVersions = itemVersions): LedgerRecord {
  return decode(unmarshall(withBytes(image) as Record<string, AttributeValue>), versions);
}

function withBytes(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBytes);
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const entries = Object.entries(value);
  const [[type, inner] = []] = entries;
  if (entries.length === 1 && type === 'B' && typeof inner === 'string') {
    return { B: new Uint8Array(Buffer.from(inner, 'base64')) };
  }
  return Object.fromEntries(entries.map(([name, member]) => [name, withBytes(member)]));
}
