import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import type { HttpRequest, TenantResolver } from '../../lib/index.ts';
import { type ApiAnswer, json, problem, shown } from './answers.ts';
import type { Kind, Rows } from './rows.ts';

const ROUTES: ReadonlyMap<string, Kind> = new Map([
  ['GET /payments/{id}', 'payment'],
  ['GET /orders/{id}', 'order'],
  ['GET /transfers/{id}', 'transfer'],
]);

/** Longer than any id of ours. */
const ID_MAX_LENGTH = 64;

/**
 * GET /payments/{id} and its like. The tenant is part of the row's key, so another's row is not found, exactly as one that
 * never was.
 */
export function readsHandler(rows: Pick<Rows<unknown>, 'read'>, tenant: TenantResolver) {
  return async (event: APIGatewayProxyEventV2): Promise<ApiAnswer> => {
    const kind = ROUTES.get(event.routeKey);
    const id = event.pathParameters?.['id'] ?? '';
    const owner = tenant(callerOf(event));
    if (owner === undefined) {
      throw new TypeError(
        'The request names no tenant: put the JWT authorizer in front of this route, and the claim into TENANT_CLAIM.',
      );
    }
    if (!kind || id === '' || id.length > ID_MAX_LENGTH) return notFound();
    const row = await rows.read(kind, owner, id);
    if (!row) return notFound();
    return json(200, { ...shown(row), createdAt: new Date(row.createdAt).toISOString() });
  };
}

/** What a resolver of tenants looks at: who the authorizer says it is. */
function callerOf({ requestContext }: APIGatewayProxyEventV2): HttpRequest {
  const { authorizer } = requestContext as { authorizer?: { jwt?: { claims?: Record<string, unknown> } } };
  const claims = authorizer?.jwt?.claims;
  return { authorizer: claims ? { jwt: claims } : {} } as HttpRequest;
}

function notFound(): ApiAnswer {
  const detail = 'There is nothing of yours under this id.';
  return problem({ status: 404, code: 'not_found', title: 'Not found', detail });
}
