import type { HttpRequest } from '../neutral.ts';
import { type Received, textIn } from './fields.ts';
import { readPayload2 } from './payload-2.ts';

/** A function URL has one route, `$default`, and no stage. */
export function readFunctionUrl(from: Received): HttpRequest {
  const path = textIn(from, 'rawPath', from.event['rawPath']);
  return readPayload2(from, 'function-url', { path, route: undefined });
}
