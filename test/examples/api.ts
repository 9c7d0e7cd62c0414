import type { APIGatewayProxyEventV2 } from 'aws-lambda';
import { defaultStoredHeaders, type Fault, type HttpRequest, idempotent, jwtClaim } from 'oncekey';
import { ledger } from './ledger.ts';

const HOUR = 3_600;
const DAY = 24 * HOUR;

// #region operations
export const handler = idempotent(route, {
  ledger,
  tenant: jwtClaim('sub'),
  effects: 'transactional', // Of all that do not say otherwise.
  operations: {
    'POST /payments': {
      validate: versionIsNamed,
      inFlight: 'wait',
      waitMs: 3_000,
      retentionSeconds: 7 * DAY,
      afterExpiry: 'gone',
      goneSeconds: 60 * DAY,
    },
    'POST /reports': {
      inFlight: 'accept',
      retentionSeconds: ({ status }) => (status < 400 ? 2 * DAY : HOUR),
    },
    'POST /payouts': { effects: 'opaque', onUnknown: 'park' },
    'PATCH /profile': { effects: 'opaque', onUnknown: 'park', required: false },
  },
  // For all operations:
  minKeyLength: 16,
  fingerprintHeaders: ['api-version'], // Another version is another request.
  storedHeaders: [...defaultStoredHeaders, 'x-request-cost'],
  docsBase: 'https://docs.shop.example/problems/',
});
// #endregion operations

// #region validate
/** Lists every fault there is; none is a valid request. */
function versionIsNamed({ headers }: HttpRequest): readonly Fault[] {
  if (headers.has('api-version')) return [];
  return [{ path: 'header.api-version', detail: 'Name the version of the API.' }];
}
// #endregion validate

/** Your router. */
async function route({ routeKey, body }: APIGatewayProxyEventV2) {
  if (body === '{"amount":666}') throw new Error('no answer');
  const headers = { 'x-request-cost': '3', 'x-trace': 'abc' };
  return { statusCode: routeKey === 'POST /reports' ? 404 : 201, headers, body: routeKey };
}
