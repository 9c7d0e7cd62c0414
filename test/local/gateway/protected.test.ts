import { beforeAll, describe, expect, it } from 'vitest';
import { jwtClaim } from '../../../lib/http/tenant.ts';
import { memoryLedger } from '../../../lib/ledger/memory.ts';
import { jwtAuthorizer } from '../../../lib/local/gateway/jwt-authorizer.ts';
import { type LocalIssuer, localIssuer } from '../../../lib/local/gateway/local-issuer.ts';
import { idempotent } from '../../../lib/middleware/idempotent.ts';
import { statusHandler } from '../../../lib/middleware/status-handler.ts';
import { type Answered, type Event, type Gateway, gateway, NOW, signal } from './stage.ts';

const ISSUER = 'https://issuer.oncekey.test';
const context = { getRemainingTimeInMillis: () => 10_000 } as never;

type Handler = (event: Event) => Promise<unknown>;

let issuer: LocalIssuer;

beforeAll(async () => {
  issuer = await localIssuer({ issuer: ISSUER, clock: () => NOW });
});

/** The product behind the gateway: POST /payments protected, and GET /operations/{key} beside it. */
async function service(handler: Handler): Promise<Gateway> {
  const ledger = memoryLedger({ clock: () => NOW });
  const tenant = jwtClaim('sub');
  const quiet = { log: () => {}, metrics: () => {}, clock: () => NOW, ledger, tenant };
  const payments = idempotent(handler, { ...quiet, effects: 'transactional' });
  const operations = statusHandler({ ledger, tenant, clock: () => NOW });
  const authorizer = { name: 'T', issuer: ISSUER, audience: ['api'], header: 'Authorization', scopes: [] };
  return gateway({
    api: {
      routes: [
        { routeKey: 'POST /payments', functionName: 'payments', authorizer },
        { routeKey: 'GET /operations/{key}', functionName: 'operations', authorizer },
      ],
    },
    authorize: jwtAuthorizer({ keys: () => issuer.keys, clock: () => NOW }),
    fn: (event, name) => (name === 'payments' ? payments(event, context) : operations(event)),
  });
}

interface Paid {
  readonly key: string;
  readonly tenant?: string;
  readonly body?: string | Uint8Array;
  readonly type?: string;
}

async function pay(
  api: Gateway,
  { key, tenant = 'acme', body = '{"amount":1250}', type = 'application/json' }: Paid,
) {
  const token = await issuer.token({ subject: tenant, audience: 'api' });
  const headers = [
    ['Authorization', `Bearer ${token}`],
    ['Idempotency-Key', key],
    ['Content-Type', type],
  ] as const;
  return api.send({ method: 'POST', path: '/payments', headers, body });
}

/** Without what belongs to one exchange: its id, its time, its connection, and whether it is a replay. */
function lasting({ status, lines, body }: Answered) {
  const passing = ['apigw-requestid', 'date', 'connection', 'keep-alive', 'idempotent-replayed'];
  return { status, body, headers: lines.filter(([name]) => !passing.includes(name)) };
}

describe('a protected operation behind the gateway', () => {
  it.each<[string, object]>([
    [
      'JSON',
      {
        statusCode: 201,
        headers: { 'content-type': 'application/json' },
        body: '{ "id": "pay_1", "note": "λ" }',
      },
    ],
    [
      'bytes',
      {
        statusCode: 200,
        headers: { 'content-type': 'application/pdf', 'content-disposition': 'attachment; filename="a.pdf"' },
        body: Buffer.from(Array.from({ length: 1_024 }, (_, byte) => byte % 256)).toString('base64'),
        isBase64Encoded: true,
      },
    ],
    ['nothing', { statusCode: 204, headers: { etag: '"1"' } }],
    [
      'a failure',
      {
        statusCode: 402,
        headers: { 'content-type': 'application/problem+json' },
        body: '{"code":"declined"}',
      },
    ],
    [
      'headers',
      {
        statusCode: 201,
        headers: { Location: '/payments/pay_1', Link: '<a>; rel="b"', Vary: 'Accept, Origin' },
        body: 'x',
      },
    ],
    ['a result without a status', { id: 'pay_1' }],
  ])('replays %s byte for byte', async (_, result) => {
    let runs = 0;
    const api = await service(async () => {
      runs += 1;
      return result;
    });
    const first = await pay(api, { key: '"k-1"' });
    const second = await pay(api, { key: '"k-1"' });
    expect(runs).toBe(1);
    expect(first.header('idempotent-replayed')).toBeUndefined();
    expect(second.header('idempotent-replayed')).toBe('true');
    expect(lasting(second)).toEqual(lasting(first));
  });

  it('gives a cookie to whoever asked first, and to nobody later', async () => {
    const api = await service(async () => ({
      statusCode: 201,
      cookies: ['session=abc', 'theme=dark'],
      body: '{}',
    }));
    const cookies = ({ lines }: Answered) =>
      lines.filter(([name]) => name === 'set-cookie').map(([, value]) => value);
    expect(cookies(await pay(api, { key: 'k-1' }))).toEqual(['session=abc', 'theme=dark']);
    expect(cookies(await pay(api, { key: 'k-1' }))).toEqual([]);
  });

  it('knows a request by its bytes, whatever they are', async () => {
    const api = await service(async (event) => ({ statusCode: 201, body: String(event.body) }));
    const sent = { key: 'k-1', type: 'application/octet-stream' };
    const first = await pay(api, { ...sent, body: Uint8Array.of(0, 1, 255) });
    expect(first.status).toBe(201);
    expect((await pay(api, { ...sent, body: Uint8Array.of(0, 1, 255) })).header('idempotent-replayed')).toBe(
      'true',
    );
    expect((await pay(api, { ...sent, body: Uint8Array.of(0, 1, 254) })).status).toBe(422);
  });

  it('keeps tenants apart by their tokens', async () => {
    let runs = 0;
    const api = await service(async () => {
      runs += 1;
      return { statusCode: 201, body: String(runs) };
    });
    expect((await pay(api, { key: 'k-1', tenant: 'acme' })).body.toString()).toBe('1');
    expect((await pay(api, { key: 'k-1', tenant: 'globex' })).body.toString()).toBe('2');
    expect(runs).toBe(2);
  });

  it('refuses a key that is sent twice', async () => {
    const api = await service(async () => ({ statusCode: 201 }));
    const token = await issuer.token({ subject: 'acme', audience: 'api' });
    const answer = await api.send({
      method: 'POST',
      path: '/payments',
      headers: [
        ['Authorization', `Bearer ${token}`],
        ['Idempotency-Key', '"a"'],
        ['Idempotency-Key', '"b"'],
      ],
      body: '{}',
    });
    expect(answer.status).toBe(400);
    expect(answer.header('content-type')).toBe('application/problem+json');
  });

  it('runs once for a client that was cut off by the gateway and asks again', async () => {
    const [begun, finish, done] = [signal(), signal(), signal()];
    let runs = 0;
    const api = await service(async () => {
      runs += 1;
      begun.give();
      await finish.given;
      done.give();
      return { statusCode: 201, body: '{"id":"pay_1"}' };
    });
    const asked = pay(api, { key: 'k-1' });
    await begun.given;
    api.timers.elapse();
    expect((await asked).status).toBe(503);
    expect((await pay(api, { key: 'k-1' })).status).toBe(409);
    finish.give();
    await done.given;
    const replay = await pay(api, { key: 'k-1' });
    expect(replay).toMatchObject({ status: 201 });
    expect(replay.body.toString()).toBe('{"id":"pay_1"}');
    expect(runs).toBe(1);
  });

  it.each(['k-1', '"k-1"', '"k#1"', '"k+1&b=c"'])('is found by its key in the path, as %s', async (key) => {
    const api = await service(async () => ({ statusCode: 201 }));
    await pay(api, { key });
    const token = await issuer.token({ subject: 'acme', audience: 'api' });
    const path = `/operations/${encodeURIComponent(key)}?operation=POST%20/payments`;
    const answer = await api.send({ path, headers: [['Authorization', token]] });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.body.toString())).toMatchObject({
      operation: 'POST /payments',
      state: 'completed',
    });
  });

  it.each(['"a/b"', '"a?b"', '"50%"'])(
    'is found by %s, which fits into no path, in the header',
    async (key) => {
      const api = await service(async () => ({ statusCode: 201 }));
      await pay(api, { key });
      const token = await issuer.token({ subject: 'acme', audience: 'api' });
      const ask = async (path: string, headers: readonly (readonly [string, string])[] = []) => {
        const query = '?operation=POST%20/payments';
        return (await api.send({ path: `${path}${query}`, headers: [['Authorization', token], ...headers] }))
          .status;
      };
      expect(await ask(`/operations/${encodeURIComponent(key)}`)).not.toBe(200);
      expect(await ask('/operations/by-header', [['Idempotency-Key', key]])).toBe(200);
    },
  );
});
