import type { APIGatewayProxyEventV2, Context } from 'aws-lambda';
import { idempotent, NotExecuted, type Once, type TenantResolver } from '../../lib/index.ts';
import { type ApiAnswer, problem } from './answers.ts';
import { protection } from './operations.ts';
import { OutcomeUncertain } from './provider.ts';
import type { Service } from './service.ts';

type Post<W> = (event: APIGatewayProxyEventV2, once: Once<W>) => Promise<ApiAnswer>;

/** As long as the reconciliation waits before its first look, where the service has no pace of its own. */
const FIRST_LOOK_MS = 30_000;

/**
 * One of the service's POSTs, protected. What it throws has by then moved its record; the caller is told what is true of
 * every such failure: the same key is safe to send again. Without this an HTTP API answers 500 and says nothing.
 */
export function post<W>(service: Service<W>, tenant: TenantResolver, name: string, run: Post<W>) {
  const handler = idempotent(
    (event: APIGatewayProxyEventV2, { once }) => run(event, once),
    protection(service, tenant, name),
  );
  return async (event: APIGatewayProxyEventV2, context: Context): Promise<ApiAnswer> => {
    try {
      return await handler(event, context);
    } catch (error) {
      const told = failed(error, service.pace?.reconcileBaseMs ?? FIRST_LOOK_MS);
      if (!told) throw error; // A fault of ours: Lambda counts it, and the alarm on errors tells of it.
      return told;
    }
  };
}

function failed(error: unknown, firstLookMs: number): ApiAnswer | undefined {
  const title = 'The payment provider cannot be reached';
  if (error instanceof NotExecuted) {
    const detail = 'Nothing was charged. Send the same request with the same key again later.';
    return unavailable(title, detail, 1);
  }
  if (!(error instanceof OutcomeUncertain)) return undefined;
  const detail =
    'It is being found out whether the charge was made. Send the same request with the same key again later.';
  return unavailable(title, detail, Math.ceil(firstLookMs / 1_000));
}

function unavailable(title: string, detail: string, retryAfter: number): ApiAnswer {
  const members = { status: 503, code: 'provider_unavailable', title, detail, retry: 'same-key', retryAfter };
  return problem(members, { 'retry-after': String(retryAfter) });
}
