import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { BodySeals } from 'oncekey';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * AES-256-GCM under a key of 32 bytes. The operationRef is bound to the body as associated data: a body that somebody
 * copies to another record does not open there.
 */
export function aesSeals(key: Uint8Array): BodySeals {
  return {
    seal(body, operationRef) {
      const nonce = randomBytes(NONCE_BYTES); // A new one each time: a repeated nonce breaks GCM.
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(operationRef));
      return Buffer.concat([nonce, cipher.update(body), cipher.final(), cipher.getAuthTag()]);
    },
    open(sealed, operationRef) {
      const nonce = sealed.subarray(0, NONCE_BYTES);
      const options = { authTagLength: TAG_BYTES };
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, options).setAAD(Buffer.from(operationRef));
      decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
      return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
    },
  };
}
