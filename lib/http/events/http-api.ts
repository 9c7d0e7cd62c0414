import type { HttpRequest } from '../neutral.ts';
import { type Received, templateOf, textIn } from './fields.ts';
import { readPayload2 } from './payload-2.ts';

export function readHttpApi(from: Received): HttpRequest {
  return readPayload2(from, 'http-api', { path: pathOf(from), route: routeOf(from.event['routeKey']) });
}

/** `rawPath` begins with the name of the stage, also behind a custom domain, where no client sent it. */
function pathOf(from: Received): string {
  const path = textIn(from, 'rawPath', from.event['rawPath']);
  const { stage } = from.context;
  if (typeof stage !== 'string' || stage === '$default') return path;
  if (path === `/${stage}`) return '/';
  return path.startsWith(`/${stage}/`) ? path.slice(stage.length + 1) : path;
}

/** `POST /payments/{id}`, `ANY /payments/{id}` or `$default`. */
function routeOf(routeKey: unknown): string | undefined {
  return typeof routeKey === 'string' ? templateOf(routeKey.slice(routeKey.indexOf(' ') + 1)) : undefined;
}
