import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import { scopePk } from '../../lib/core/scope.ts';
import { jwtClaim } from '../../lib/http/tenant.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { idempotency, type OnceContext } from '../../lib/middleware/idempotency.ts';
import type { IdempotencyOptions } from '../../lib/middleware/options.ts';
import type { LogEntry } from '../../lib/observe/log.ts';
import type { Sample } from '../../lib/observe/metrics.ts';

export interface Result {
  statusCode: number;
  headers: Record<string, string>;
  body: string;
  isBase64Encoded?: boolean;
}

export type TestHandler<W> = (event: PaymentEvent, context: Context & OnceContext<W>) => Promise<unknown>;

type PaymentEvent = ReturnType<typeof post>;

interface Request {
  readonly key?: string;
  readonly body?: unknown;
  readonly method?: string;
  readonly path?: string;
  readonly sub?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An HTTP API event of payload format 2.0, as the gateway sends it. */
export function post({
  key,
  body = { amount: 500 },
  method = 'POST',
  path = '/payments',
  sub,
  headers,
}: Request) {
  return {
    version: '2.0',
    routeKey: `${method} ${path}`,
    rawPath: path,
    rawQueryString: '',
    headers: {
      'content-type': 'application/json',
      ...(key !== undefined && { 'idempotency-key': key }),
      ...headers,
    },
    requestContext: {
      stage: '$default',
      domainName: 'abc.execute-api.eu-central-1.amazonaws.com',
      http: { method, path, protocol: 'HTTP/1.1', sourceIp: '192.0.2.1', userAgent: 'test' },
      authorizer: { jwt: { claims: { sub: sub ?? 'tenant-1' }, scopes: null } },
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    isBase64Encoded: false,
  };
}

/** The record of `post({ key })`. */
export function pkOf(key: string): string {
  return scopePk({ tenant: 'tenant-1', operation: 'POST /payments', key });
}

export interface Stage<W> {
  call(event: unknown, remainingMs?: number): Promise<Result>;
  readonly logged: LogEntry[];
  readonly measured: Sample[];
  readonly middy: ReturnType<typeof middy>;
  readonly ledger: Ledger<W>;
}

/** A function behind the middleware, with everything it says written down. */
export function stage<W>(
  ledger: Ledger<W>,
  handler: TestHandler<W>,
  options: Partial<IdempotencyOptions<W>> = { effects: 'transactional' },
  outer: readonly middy.MiddlewareObj[] = [],
): Stage<W> {
  const logged: LogEntry[] = [];
  const measured: Sample[] = [];
  const lambda = middy<unknown, unknown, Error, Context & OnceContext<W>>();
  for (const middleware of outer) lambda.use(middleware as middy.MiddlewareObj<unknown, unknown>);
  lambda
    .use(
      idempotency<W>({
        ledger,
        tenant: jwtClaim('sub'),
        log: (entry) => logged.push(entry),
        metrics: (sample) => measured.push(sample),
        ...options,
      }),
    )
    .handler(handler as never);
  return {
    logged,
    measured,
    ledger,
    middy: lambda as never,
    async call(event, remainingMs = 10_000) {
      const context = { getRemainingTimeInMillis: () => remainingMs };
      return (await lambda(event, context as never)) as Result;
    },
  };
}
