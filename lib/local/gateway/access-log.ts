import { isFields, jsonIn } from '../fields.ts';
import { LOCAL_ACCOUNT } from '../model.ts';
import type { Report } from '../ports.ts';
import type { Authorization } from './authorization.ts';
import { domainPrefix, logTime, STAGE } from './event.ts';
import type { Received } from './received.ts';

/** A request and what became of it. */
export interface Access {
  readonly apiId: string;
  readonly received: Received;
  readonly routeKey: string | undefined;
  readonly authorization: Authorization | undefined;
  readonly integration: Integration | undefined;
  readonly status: number;
  readonly responseBytes: number;
  readonly requestBytes: number;
  /** The gateway's own words, where it did not pass on a function's. */
  readonly ownMessage: string | undefined;
  readonly latencyMs: number;
}

export interface Integration {
  /** Of Lambda, and not of the response in what it returned. */
  readonly lambdaStatus: number;
  readonly functionStatus: number | undefined;
  readonly error: string | undefined;
  readonly latencyMs: number;
}

type Variables = ReadonlyMap<string, string | number | undefined>;

const VARIABLE = /\$context((?:\.[A-Za-z0-9_:-]+)+)/g;

/** The line of the access log, as the format of the stage has it, and what is in it, if that is JSON. */
export function accessReport(format: string, access: Access): Report {
  const message = filledIn(format, access);
  const fields = jsonIn(message);
  const { received, status, latencyMs } = access;
  const level = status >= 500 ? 'error' : status >= 400 ? 'warn' : 'info';
  const at = received.at + latencyMs;
  return { at, source: 'api', level, kind: 'access', message, ...(isFields(fields) && { fields }) };
}

/** What a request does not have is a hyphen. In JSON, a value is one, whatever quotes are in it. */
function filledIn(format: string, access: Access): string {
  const variables = variablesOf(access);
  const isJson = format.trimStart().startsWith('{');
  return format.replace(VARIABLE, (_, dotted: string) => {
    const value = valueFor(dotted.slice(1), access, variables);
    return isJson ? JSON.stringify(value).slice(1, -1) : value;
  });
}

function valueFor(name: string, { authorization }: Access, variables: Variables): string {
  const claim = /^authorizer\.claims\.(.+)$/.exec(name)?.[1];
  if (claim !== undefined && authorization?.kind === 'allowed') return authorization.claims[claim] ?? '-';
  return String(variables.get(name) ?? '-');
}

/** There is no `path`: `/operations/{key}` has a key in it, and what is reported is shown and kept. */
function variablesOf(access: Access): Variables {
  const { received, integration, authorization, ownMessage } = access;
  const { method, protocol, sourceIp, requestId, at, host, forwarded } = received;
  return new Map<string, string | number | undefined>([
    ['accountId', LOCAL_ACCOUNT],
    ['apiId', access.apiId],
    ['authorizer.error', authorization?.kind === 'refused' ? authorization.error : undefined],
    ['dataProcessed', access.requestBytes + access.responseBytes],
    ['domainName', host],
    ['domainPrefix', domainPrefix(received)],
    ['error.message', ownMessage],
    ['error.messageString', ownMessage && JSON.stringify(ownMessage)],
    ['extendedRequestId', requestId],
    ['httpMethod', method],
    ['identity.sourceIp', sourceIp],
    ['identity.userAgent', forwarded.get('user-agent')],
    ['integration.error', integration?.error],
    ['integration.integrationStatus', integration?.lambdaStatus],
    ['integration.latency', integration?.latencyMs],
    ['integration.status', integration?.functionStatus],
    ['integrationErrorMessage', integration?.error],
    ['integrationLatency', integration?.latencyMs],
    ['integrationStatus', integration?.lambdaStatus],
    ['protocol', protocol],
    ['requestId', requestId],
    ['requestTime', logTime(at)],
    ['requestTimeEpoch', at],
    ['responseLatency', access.latencyMs],
    ['responseLength', access.responseBytes],
    ['routeKey', access.routeKey],
    ['stage', STAGE],
    ['status', access.status],
  ]);
}
