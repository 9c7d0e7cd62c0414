import { readAlb } from './events/alb.ts';
import { type Fields, isFields, received } from './events/fields.ts';
import { readFunctionUrl } from './events/function-url.ts';
import { readHttpApi } from './events/http-api.ts';
import { readRestApi } from './events/rest-api.ts';
import { directInvocation, unsupportedKind } from './events/unsupported.ts';
import type { HttpRequest } from './neutral.ts';

export type { EventSource, HttpRequest } from './neutral.ts';

/** The one place that tells events apart. Neither the event nor anything in it is changed or kept. */
export function readEvent(event: unknown): HttpRequest {
  if (!isFields(event)) throw directInvocation(event);
  const unsupported = unsupportedKind(event);
  if (unsupported) throw unsupported;
  const request = readHttp(event);
  if (!request) throw directInvocation(event);
  return Object.freeze(request);
}

function readHttp(event: Fields): HttpRequest | undefined {
  const { version, rawPath, httpMethod, requestContext } = event;
  const { http, elb, domainName } = isFields(requestContext) ? requestContext : {};
  if (version === '2.0' && (typeof rawPath === 'string' || isFields(http))) {
    return typeof domainName === 'string' && domainName.includes('.lambda-url.')
      ? readFunctionUrl(received('function URL', event))
      : readHttpApi(received('HTTP API', event));
  }
  if (isFields(elb)) return readAlb(received('ALB', event));
  return typeof httpMethod === 'string' ? readRestApi(received('REST API', event)) : undefined;
}
