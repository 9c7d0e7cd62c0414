import type { IncomingHttpHeaders } from 'node:http';

export interface AwsRequest {
  readonly method: string;
  /** As it was sent: a name in it may have an encoded slash. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly requestId: string;
}

export interface AwsAnswer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export type Serve = (request: AwsRequest) => Promise<AwsAnswer>;

/** What a service answers when it does not do what was asked. */
export class AwsError extends Error {
  readonly status: number;
  readonly code: string;
  /** More of it, as the service adds. */
  readonly details: Readonly<Record<string, string>>;

  constructor(status: number, code: string, message: string, details: Readonly<Record<string, string>> = {}) {
    super(message);
    this.name = code;
    this.status = status;
    this.code = code;
    this.details = details;
  }
}

/** 501 is the one failure that the SDK does not try again. */
const NOT_IMPLEMENTED = 501;

/** Something of AWS that is not here. It is answered and reported; to a client it must not look like success. */
export class NotRunHere extends AwsError {
  constructor(what: string) {
    super(
      NOT_IMPLEMENTED,
      'NotImplemented',
      `The local cloud does not run ${what}. It runs Invoke of Lambda, GetSecretValue of Secrets Manager, GetObject and PutObject of S3.`,
    );
  }
}

/** How a service writes an error: S3 and the older ones in XML, the others in JSON, with the code in a header or in the body. */
export type Dialect = 's3' | 'query' | 'json' | 'rest-json';

export function errorAnswer(dialect: Dialect, error: AwsError, requestId: string): AwsAnswer {
  const { status, code, message, details } = error;
  switch (dialect) {
    case 's3':
      return xml(
        status,
        element('Error', { Code: code, Message: message, ...details, RequestId: requestId }),
      );
    case 'query': {
      const inner = element('Error', { Type: 'Sender', Code: code, Message: message });
      return xml(status, `<ErrorResponse>${inner}<RequestId>${requestId}</RequestId></ErrorResponse>`);
    }
    case 'json':
      return json(status, { __type: code, message, ...details }, 'application/x-amz-json-1.1');
    case 'rest-json':
      return {
        ...json(status, { Type: status < 500 ? 'User' : 'Service', Message: message, ...details }),
        headers: { 'content-type': 'application/json', 'x-amzn-errortype': code },
      };
    default:
      return dialect satisfies never;
  }
}

export function json(status: number, value: object, type = 'application/json'): AwsAnswer {
  return { status, headers: { 'content-type': type }, body: JSON.stringify(value) };
}

function xml(status: number, body: string): AwsAnswer {
  const headers = { 'content-type': 'application/xml' };
  return { status, headers, body: `<?xml version="1.0" encoding="UTF-8"?>\n${body}` };
}

function element(name: string, members: Readonly<Record<string, string>>): string {
  const inner = Object.entries(members).map(([member, text]) => `<${member}>${escaped(text)}</${member}>`);
  return `<${name}>${inner.join('')}</${name}>`;
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
