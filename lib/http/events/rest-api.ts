import type { HttpRequest } from '../neutral.ts';
import {
  bodyOf,
  contextOf,
  headersOf,
  iamOf,
  isFields,
  pairsOf,
  type Received,
  templateOf,
  textIn,
  valuesOf,
} from './fields.ts';

/** Payload format 1.0: REST APIs, and HTTP APIs that ask for it. Its query arrives decoded. */
export function readRestApi(from: Received): HttpRequest {
  return {
    source: 'rest-api',
    method: textIn(from, 'httpMethod', from.event['httpMethod']),
    path: textIn(from, 'path', from.event['path']),
    route: templateOf(from.event['resource']),
    query: pairsOf(valuesOf(from, 'queryStringParameters', 'multiValueQueryStringParameters')),
    headers: headersOf(from),
    body: bodyOf(from),
    authorizer: { ...authorizerOf(from.context['authorizer']), ...iamIn(from.context['identity']) },
    multiValueHeaders: true,
  };
}

/** Cognito and JWT authorizers put their claims into an object; a Lambda authorizer's context lies open. */
function authorizerOf(authorizer: unknown): Pick<HttpRequest['authorizer'], 'jwt' | 'lambda'> {
  if (isFields(authorizer) && isFields(authorizer['claims'])) return contextOf('jwt', authorizer['claims']);
  return contextOf('lambda', authorizer);
}

function iamIn(identity: unknown): Pick<HttpRequest['authorizer'], 'iam'> {
  if (!isFields(identity)) return {};
  const { accountId, userArn, caller: callerId, accessKey, cognitoIdentityId } = identity;
  return iamOf({ accountId, userArn, callerId, accessKey, cognitoIdentityId });
}
