import type { HttpRequest } from '../neutral.ts';
import { bodyOf, headersOf, isFields, pairsOf, type Received, textIn, valuesOf } from './fields.ts';
import { decoded } from './query.ts';

/**
 * A load balancer passes the query on as the client encoded it. Without multi-value headers it keeps only the last
 * value of a repeated header or parameter: the others are lost before they get here.
 *
 * It has no authorizer of ours: its OIDC headers can be forged by whoever reaches the function without passing the
 * load balancer, so a tenant from them is for a resolver that verifies their signature.
 */
export function readAlb(from: Received): HttpRequest {
  const query = valuesOf(from, 'queryStringParameters', 'multiValueQueryStringParameters');
  return {
    source: 'alb',
    method: textIn(from, 'httpMethod', from.event['httpMethod']),
    path: textIn(from, 'path', from.event['path']),
    route: undefined,
    query: pairsOf(query).map(([name, value]) => [decoded(name), decoded(value)]),
    headers: headersOf(from),
    body: bodyOf(from),
    authorizer: {},
    multiValueHeaders: isFields(from.event['multiValueHeaders']),
  };
}
