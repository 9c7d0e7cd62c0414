import { upperCase } from './ascii.ts';
import type { HttpRequest } from './neutral.ts';

/** `POST /payments/{id}/refund`; without a template, the concrete path, since nothing else names the operation. */
export function operationOf({ method, route, path }: Pick<HttpRequest, 'method' | 'route' | 'path'>): string {
  return `${upperCase(method)} ${route ?? path}`;
}

/**
 * The methods that HTTP does not make idempotent by itself. In any case: an ALB passes `post` on as it is, and a
 * router that takes it for POST must not run unprotected.
 */
export function isProtected(method: string): boolean {
  return ['POST', 'PATCH'].includes(upperCase(method));
}
