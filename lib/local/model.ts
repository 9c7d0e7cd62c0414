import type { CreateTableCommandInput } from '@aws-sdk/client-dynamodb';

/*
 * What the local cloud runs, as it was found in the synthesised templates: everything that matters at run time, resolved to
 * names and numbers. Whatever runs something is given its part of this and nothing else of the template.
 */

export interface CloudModel {
  readonly tables: readonly TableModel[];
  readonly functions: readonly FunctionModel[];
  readonly apis: readonly ApiModel[];
  readonly mappings: readonly StreamMappingModel[];
  readonly schedules: readonly ScheduleModel[];
  readonly rules: readonly RuleModel[];
  readonly buckets: readonly BucketModel[];
  readonly queues: readonly QueueModel[];
  readonly secrets: readonly SecretModel[];
  readonly pools: readonly PoolModel[];
}

/** Of all stacks together: the local cloud is one account in one Region. */
export const LOCAL_ACCOUNT = '000000000000';
export const LOCAL_REGION = 'us-east-1';

export interface TableModel {
  readonly name: string;
  readonly arn: string;
  /** As DynamoDB takes it: keys, indexes, stream. */
  readonly input: CreateTableCommandInput & { readonly TableName: string };
  readonly ttlAttribute?: string;
}

export interface FunctionModel {
  /** A short one, such as `payments`: in paths of the control plane, in logs and in the ARN. */
  readonly name: string;
  readonly arn: string;
  /** The folder of its bundle. */
  readonly codeDir: string;
  /** As Lambda writes it: `index.handler`. */
  readonly handler: string;
  readonly timeoutMs: number;
  readonly memoryMb: number;
  readonly environment: Readonly<Record<string, string>>;
  /** Of asynchronous invocations. */
  readonly later: LaterModel;
}

/** What becomes of an asynchronous event that the function fails on. */
export interface LaterModel {
  readonly retries: number;
  readonly maxAgeSeconds: number;
  /** After the first failure, the second and so on. Left out: as long as Lambda waits. */
  readonly retryAfterMs?: readonly number[];
  readonly onFailure?: { readonly queue: string };
}

export interface ApiModel {
  readonly name: string;
  readonly routes: readonly RouteModel[];
  readonly throttle?: { readonly ratePerSecond: number; readonly burst: number };
  /** The access log's line, with `$context.…` in it. */
  readonly accessLogFormat?: string;
}

export interface RouteModel {
  /** `POST /payments`, `GET /payments/{id}`, `ANY /{proxy+}`, `$default`. */
  readonly routeKey: string;
  readonly functionName: string;
  readonly authorizer?: AuthorizerModel;
}

export interface AuthorizerModel {
  readonly name: string;
  readonly issuer: string;
  readonly audience: readonly string[];
  /** The header that carries the token. */
  readonly header: string;
  readonly scopes: readonly string[];
}

export interface StreamMappingModel {
  readonly name: string;
  readonly tableName: string;
  readonly functionName: string;
  readonly batchSize: number;
  readonly windowMs: number;
  readonly parallelBatches: number;
  readonly bisects: boolean;
  readonly reportsItemFailures: boolean;
  /** Infinity: until the records expire. */
  readonly retries: number;
  readonly maxAgeMs: number;
  /** Event patterns; a record that matches one is wanted. None: all are. */
  readonly filters: readonly EventPattern[];
  readonly startAt: 'TRIM_HORIZON' | 'LATEST';
  readonly onFailure?: { readonly bucket: string };
}

/** Of EventBridge: objects down to arrays of what a value may be. */
export interface EventPattern {
  readonly [field: string]: EventPattern | readonly PatternRule[];
}

/** A plain value, or a comparison such as `{ exists: false }`. */
export type PatternRule = string | number | boolean | null | Readonly<Record<string, unknown>>;

export interface ScheduleModel {
  readonly name: string;
  readonly functionName: string;
  readonly everyMs: number;
  readonly retries: number;
  readonly maxAgeMs: number;
  /** The event, as JSON; without one, the scheduler sends its own. */
  readonly input?: string;
}

/** Of the default event bus. */
export interface RuleModel {
  readonly name: string;
  readonly pattern: EventPattern;
  readonly functionNames: readonly string[];
}

export interface BucketModel {
  readonly name: string;
  readonly arn: string;
  /** Whether it tells the event bus of new objects. */
  readonly tellsEventBus: boolean;
  readonly versioned: boolean;
}

export interface QueueModel {
  readonly name: string;
  readonly arn: string;
}

export interface SecretModel {
  readonly arn: string;
  /** The construct's, such as `OncekeyState/StripeKey`; what it holds is given by this when the cloud is started. */
  readonly path: string;
}

/** A user pool with machine clients. */
export interface PoolModel {
  readonly issuer: string;
  readonly clients: readonly { readonly id: string; readonly name: string }[];
}
