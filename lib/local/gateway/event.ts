import { LOCAL_ACCOUNT } from '../model.ts';
import type { Authorization } from './authorization.ts';
import { queryParameters } from './query.ts';
import type { Received } from './received.ts';
import { eventBody } from './request-body.ts';
import type { RequestedPath } from './requested-path.ts';
import type { MatchedRoute } from './routes.ts';

/** One stage, which has no name in the path. */
export const STAGE = '$default';

interface Invocation {
  readonly apiId: string;
  readonly received: Received;
  readonly path: RequestedPath;
  readonly matched: MatchedRoute;
  readonly body: Buffer;
  readonly allowed: Extract<Authorization, { kind: 'allowed' }> | undefined;
}

/** Payload format 2.0. A field without a value is not there. */
export function eventOf({ apiId, received, path, matched, body, allowed }: Invocation): object {
  const { routeKey } = matched.route;
  const { rawPath, rawQueryString } = path;
  const { method, protocol, sourceIp, cookies, at } = received;
  const headers = headersFor(received, body);
  return {
    version: '2.0',
    routeKey,
    rawPath,
    rawQueryString,
    cookies: cookies.length > 0 ? cookies : undefined,
    headers,
    queryStringParameters: queryParameters(rawQueryString),
    requestContext: {
      accountId: LOCAL_ACCOUNT,
      apiId,
      authorizer: allowed && { jwt: { claims: allowed.claims, scopes: allowed.scopes } },
      domainName: received.host,
      domainPrefix: domainPrefix(received),
      http: { method, path: rawPath, protocol, sourceIp, userAgent: headers['user-agent'] ?? '' },
      requestId: received.requestId,
      routeKey,
      stage: STAGE,
      time: logTime(at),
      timeEpoch: at,
    },
    ...eventBody(body, headers['content-type']),
    pathParameters: Object.keys(matched.pathParameters).length > 0 ? matched.pathParameters : undefined,
  };
}

export function domainPrefix({ host }: Pick<Received, 'host'>): string {
  return host.split('.')[0] ?? '';
}

/** `13/Mar/2024:15:09:22 +0000`, as in the logs of web servers. */
export function logTime(at: number): string {
  const [, day, month, year, time] = new Date(at).toUTCString().split(' ');
  return `${day}/${month}/${year}:${time} +0000`;
}

/** What the client sent, and what the gateway knows better: where it came from, and how long it is. */
function headersFor(received: Received, body: Buffer): Readonly<Record<string, string>> {
  const { forwarded, sourceIp, port, traceId } = received;
  const passedBy = forwarded.get('x-forwarded-for');
  return {
    ...(saysEmpty(received) && { 'content-type': 'text/plain; charset=utf-8' }),
    ...Object.fromEntries(forwarded),
    'content-length': String(body.length),
    'x-amzn-trace-id': traceId,
    'x-forwarded-for': passedBy === undefined ? sourceIp : `${passedBy}, ${sourceIp}`,
    'x-forwarded-port': String(port),
    'x-forwarded-proto': 'http',
  };
}

/** API Gateway names a type for a body that the client itself says is empty. */
function saysEmpty({ forwarded }: Received): boolean {
  return forwarded.get('content-length') === '0';
}
