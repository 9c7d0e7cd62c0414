import type { EventSource, HttpRequest } from '../neutral.ts';
import {
  bodyOf,
  contextOf,
  type Fields,
  headersOf,
  iamOf,
  isFields,
  type Received,
  textIn,
} from './fields.ts';
import { queryOf } from './query.ts';

/** What HTTP APIs and function URLs have in common: payload format 2.0. */
export function readPayload2(
  from: Received,
  source: Extract<EventSource, 'http-api' | 'function-url'>,
  own: Pick<HttpRequest, 'path' | 'route'>,
): HttpRequest {
  const http = isFields(from.context['http']) ? from.context['http'] : {};
  return {
    source,
    method: textIn(from, 'requestContext.http.method', http['method']),
    ...own,
    query: queryOf(textIn(from, 'rawQueryString', from.event['rawQueryString'])),
    headers: headersWithCookies(from),
    body: bodyOf(from),
    authorizer: authorizerOf(from.context['authorizer']),
    multiValueHeaders: false,
  };
}

/** The format takes the cookies out of the headers; here they are a header again, as in every other event. */
function headersWithCookies(from: Received): Map<string, string[]> {
  const headers = headersOf(from);
  const { cookies } = from.event;
  if (Array.isArray(cookies) && cookies.length > 0 && !headers.has('cookie')) {
    headers.set('cookie', [cookies.map((cookie) => textIn(from, 'a value in cookies', cookie)).join('; ')]);
  }
  return headers;
}

function authorizerOf(authorizer: unknown): HttpRequest['authorizer'] {
  if (!isFields(authorizer)) return {};
  const { jwt, lambda, iam } = authorizer;
  return {
    ...contextOf('jwt', isFields(jwt) ? jwt['claims'] : undefined),
    ...contextOf('lambda', lambda),
    ...(isFields(iam) ? iamIn(iam) : {}),
  };
}

function iamIn(iam: Fields) {
  const { accountId, userArn, callerId, accessKey, cognitoIdentity } = iam;
  const cognitoIdentityId = isFields(cognitoIdentity) ? cognitoIdentity['identityId'] : undefined;
  return iamOf({ accountId, userArn, callerId, accessKey, cognitoIdentityId });
}
