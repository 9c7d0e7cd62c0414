export type EventSource = 'http-api' | 'rest-api' | 'alb' | 'function-url';

/** A claim set or a context as the authorizer gave it. */
type Context = Readonly<Record<string, unknown>>;

export interface IamIdentity {
  readonly accountId?: string;
  readonly userArn?: string;
  readonly callerId?: string;
  readonly accessKey?: string;
  /** Callers of one Cognito identity pool share their role and even its session name; this tells them apart. */
  readonly cognitoIdentityId?: string;
}

interface Authorizer {
  readonly jwt?: Context;
  readonly lambda?: Context;
  readonly iam?: IamIdentity;
}

/** A request free of any event format. It shares nothing with the event that a handler could change. */
export interface HttpRequest {
  readonly source: EventSource;
  /** As received. */
  readonly method: string;
  /** The concrete path, without the stage where the event shows it. */
  readonly path: string;
  /** The template, `/payments/{id}/refund`. A greedy or default route says nothing about the operation: undefined. */
  readonly route: string | undefined;
  /** Decoded, every value. */
  readonly query: readonly (readonly [name: string, value: string])[];
  /** Names in lower case, every value. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
  readonly body: Uint8Array;
  readonly authorizer: Authorizer;
  /** Whether the answer may carry `multiValueHeaders`; an ALB that sent them reads nothing else. */
  readonly multiValueHeaders: boolean;
}
