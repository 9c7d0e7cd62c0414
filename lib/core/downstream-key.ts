import { createHash } from 'node:crypto';
import { frame } from './scope.ts';

const DOMAIN = 'oncekey/downstream/1';

/**
 * The key under which a provider sees one effect of an operation: the same in every attempt, another for every effect,
 * and another when an expired key starts a new operation. 43 characters, which every provider that we know takes
 * (Square: 45).
 */
export function stepKey(operationId: string, name: string): string {
  return digest(operationId, 'step', name);
}

export function eventKey(operationId: string, index: number): string {
  return digest(operationId, 'event', String(index));
}

function digest(...parts: readonly string[]): string {
  return createHash('sha256')
    .update(frame([DOMAIN, ...parts]))
    .digest('base64url');
}
