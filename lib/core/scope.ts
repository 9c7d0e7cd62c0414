import { createHash } from 'node:crypto';

export interface Scope {
  tenant: string;
  operation: string;
  key: string;
}

const LENGTH_BYTES = 4;

/** Separates these digests from every other use of `frame`, and from a future pk of another shape. */
const DOMAIN = 'oncekey/scope/1';

/** The partition key: the raw key stays out of the table, and no two scopes share a record. */
export function scopePk({ tenant, operation, key }: Scope): string {
  return createHash('sha256')
    .update(frame([DOMAIN, tenant, operation, key]))
    .digest('base64url');
}

/** What records of a provider's events begin their operation with. No operation of a user's own may. */
export const EVENT_OPERATION = 'WEBHOOK ';

/** Of the events that one endpoint is sent; the endpoint's name is their tenant as well. */
export function eventOperation(name: string): string {
  return `${EVENT_OPERATION}${name}`;
}

/** As above, for what is counted of a tenant: its name stays out of the key, and no tenant is another's. */
const QUOTA_DOMAIN = 'oncekey/quota/1';

/** No record is kept under it: the digest of a scope has no `#`. */
export function quotaPk(tenant: string): string {
  const digest = createHash('sha256').update(frame([QUOTA_DOMAIN, tenant]));
  return `quota#${digest.digest('base64url')}`;
}

/**
 * Joins strings so that they can be taken apart again, whatever they contain: a delimiter could occur in a part,
 * a length before each part cannot be forged. Parts are UTF-16 code units because UTF-8 would encode every lone
 * surrogate as U+FFFD, and two tenants that differ there would share their keys.
 */
export function frame(parts: readonly string[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const units = Buffer.from(part, 'utf16le');
      const length = Buffer.alloc(LENGTH_BYTES);
      length.writeUInt32BE(units.length);
      return [length, units];
    }),
  );
}
