import { lowerCase } from './ascii.ts';
import { type Fields, isFields } from './events/fields.ts';
import { allowedHeaders } from './headers.ts';

/**
 * What is kept of an event, for a handler that is to be run again without its client: what was asked, and who asked as
 * the authorizer saw it. Left out are credentials, addresses, and everything that describes the moment.
 */
const EVENT = [
  ...['version', 'routeKey', 'resource', 'path', 'rawPath', 'httpMethod'],
  ...['rawQueryString', 'queryStringParameters', 'multiValueQueryStringParameters'],
  ...['pathParameters', 'stageVariables'],
];
const CONTEXT = [
  ...['accountId', 'apiId', 'domainName', 'stage', 'routeKey', 'resourcePath', 'httpMethod', 'path'],
  ...['authorizer', 'authentication', 'elb'],
];
const HTTP = ['method', 'path', 'protocol'];
/** Of the caller's key only its public name, which a tenant may be known by; format 2.0 has it in its authorizer. */
const IDENTITY = [
  ...['accountId', 'userArn', 'user', 'caller', 'accessKey', 'cognitoIdentityId', 'cognitoIdentityPoolId'],
];

/** Without these the body cannot be read. */
const ALWAYS = ['content-type', 'content-encoding', 'content-language', 'accept', 'accept-language'];

/**
 * The event as JSON, which any hook in front of the handler reads as it read the first one. Nothing, where that cannot be
 * promised: a parser has already taken the body apart, and it was no JSON.
 */
export function storableEvent(event: unknown, headers: readonly string[]): Uint8Array | undefined {
  const source = isFields(event) ? event : {};
  const body = textBody(source);
  if (!body) return undefined;
  const allowed = allowedHeaders([...ALWAYS, ...headers]);
  const context = isFields(source['requestContext']) ? source['requestContext'] : {};
  const { headers: single, multiValueHeaders: multi } = source;
  const stored = {
    ...picked(source, EVENT),
    ...body,
    ...(isFields(single) && { headers: allowedOf(single, allowed) }),
    ...(isFields(multi) && { multiValueHeaders: allowedOf(multi, allowed) }),
    requestContext: {
      ...picked(context, CONTEXT),
      ...(isFields(context['http']) && { http: picked(context['http'], HTTP) }),
      ...(isFields(context['identity']) && { identity: picked(context['identity'], IDENTITY) }),
    },
  };
  return new Uint8Array(Buffer.from(JSON.stringify(stored)));
}

/** A body parser that ran before us will run again, on text. */
function textBody({ body, isBase64Encoded, headers, multiValueHeaders }: Fields): Fields | undefined {
  if (body === undefined || body === null || typeof body === 'string') return { body, isBase64Encoded };
  const types = [headers, multiValueHeaders].flatMap((map) =>
    isFields(map) ? Object.entries(map).filter(([name]) => lowerCase(name) === 'content-type') : [],
  );
  const json = types.some(([, type]) => /^[^;]*\bjson\b/i.test(String(type)));
  return json ? { body: JSON.stringify(body), isBase64Encoded: false } : undefined;
}

function picked(source: Fields, names: readonly string[]): Fields {
  return Object.fromEntries(
    names.filter((name) => source[name] !== undefined).map((name) => [name, source[name]]),
  );
}

function allowedOf(headers: Fields, allowed: ReadonlySet<string>): Fields {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => allowed.has(lowerCase(name))));
}
