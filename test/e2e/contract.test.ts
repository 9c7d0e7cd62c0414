import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Accounts } from './accounts.ts';
import { useAssembly } from './assembly.ts';
import {
  type Answer,
  eventually,
  newRequest,
  OPERATIONS,
  type Request,
  send,
  sendUntilFinal,
} from './client.ts';
import { loadUnderKills } from './kills.ts';
import { type LocalCloud, startLocalCloud } from './local-cloud.ts';

const assembly = useAssembly();
let cloud: LocalCloud;
let accounts: Accounts;

beforeAll(async () => {
  cloud = await startLocalCloud(...assembly.options);
  accounts = new Accounts(cloud);
});

afterAll(async () => {
  await cloud.stop();
});

/** What a replay has to have of the first answer. */
function essence({ status, headers, text }: Answer) {
  return [status, text, headers.get('content-type'), headers.get('location'), headers.get('cache-control')];
}

async function final(request: ReturnType<typeof newRequest>): Promise<Answer> {
  return accounts.told(request, await sendUntilFinal(cloud, request));
}

async function get(path: string, tenant = 'acme'): Promise<Response> {
  return fetch(`${cloud.url}${path}`, { headers: { authorization: `Bearer ${await cloud.token(tenant)}` } });
}

describe.concurrent.each(OPERATIONS)('POST %s on the local cloud', (path) => {
  it('charges once and is replayed byte for byte, however often it is sent', async () => {
    const request = newRequest(path);
    const first = await final(request);
    expect([first.status, first.body['status'], first.body['amount']]).toEqual([201, 'succeeded', 500]);
    for (const key of [request.key, `"${request.key}"`]) {
      const replay = await send(cloud, { ...request, key });
      expect(essence(replay)).toEqual(essence(first));
      expect(replay.headers.get('idempotent-replayed')).toBe('true');
      expect(Date.parse(replay.headers.get('idempotency-expires') ?? '')).toBeGreaterThan(Date.now());
    }
    expect(await accounts.chargesOf(request)).toBe(1);
    const row = await get(first.headers.get('location') ?? '');
    expect(await row.json()).toMatchObject({ id: first.body['id'], status: 'succeeded', amount: 500 });
  });

  it('is one charge when twenty of it arrive at once', async () => {
    const request = newRequest(path, { amount: 700 });
    const answers = await Promise.all(Array.from({ length: 20 }, () => sendUntilFinal(cloud, request)));
    for (const answer of answers) accounts.told(request, answer);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
    expect(await accounts.chargesOf(request)).toBe(1);
  });

  it('refuses another body under the same key, and charges nothing for it', async () => {
    const request = newRequest(path);
    await final(request);
    const other = await send(cloud, { ...request, body: newRequest(path, { amount: 501 }).body });
    expect([other.status, other.body['code'], other.body['retry']]).toEqual([
      422,
      'key_reused',
      'fix-request',
    ]);
    expect(other.headers.get('content-type')).toBe('application/problem+json');
    expect(await accounts.chargesOf(request)).toBe(1);
  });

  it('lists every fault of a body, and leaves its key unused', async () => {
    const request = newRequest(path);
    const wrong = await send(cloud, { ...request, body: '{"amount":0,"currency":"euro"}' });
    expect(wrong.status).toBe(400);
    expect(JSON.stringify(wrong.body)).toMatch(/customerId.*amount.*currency/s);
    expect((await final(request)).status).toBe(201);
  });

  it('asks for a key, and for one that is well-formed', async () => {
    const authorization = `Bearer ${await cloud.token('acme')}`;
    const bare = await fetch(`${cloud.url}${path}`, {
      method: 'POST',
      headers: { authorization },
      body: '{}',
    });
    expect([bare.status, await bare.json()]).toMatchObject([400, { code: 'key_missing' }]);
    const malformed = await send(cloud, { ...newRequest(path), key: '"half' });
    expect([malformed.status, malformed.body['code']]).toEqual([400, 'key_malformed']);
  });

  it('keeps a decline, and charges nothing', async () => {
    const request = newRequest(path, { paymentMethod: 'pm_card_chargeDeclined' });
    const declined = await final(request);
    expect([declined.status, declined.body['code']]).toEqual([402, 'card_declined']);
    expect(essence(await send(cloud, request))).toEqual(essence(declined));
    expect(await accounts.chargesOf(request)).toBe(0);
  });

  it("takes another tenant's request under the same key for another one", async () => {
    const mine = newRequest(path);
    const theirs = { ...mine, tenant: 'globex' };
    const [first, second] = [await final(mine), await final(theirs)];
    expect(second.body['id']).not.toBe(first.body['id']);
    expect((await get(first.headers.get('location') ?? '', 'globex')).status).toBe(404);
    expect([await accounts.chargesOf(mine), await accounts.chargesOf(theirs)]).toEqual([1, 1]);
  });

  it('tells where an operation stands, to its own tenant', async () => {
    const request = newRequest(path);
    await final(request);
    const status = `/operations/${request.key}?operation=${encodeURIComponent(`POST ${path}`)}`;
    expect(await (await get(status)).json()).toMatchObject({ state: 'completed' });
    expect((await get(status, 'globex')).status).toBe(404);
  });
});

describe('each operation', () => {
  const requestsOf = () => OPERATIONS.map((path) => newRequest(path));
  const all = async (requests: readonly Request[], look: (request: Request) => Promise<unknown>) =>
    void (await Promise.all(requests.map(look)));

  it('is not lost when its client goes away in the middle, and is found by the retry', async () => {
    await cloud.control('PUT', '/provider/faults', { mode: 'slow', latencyMs: 1_000 });
    const requests = requestsOf();
    await all(requests, async (request) => {
      const gone = new AbortController();
      const sent = send(cloud, request, { signal: gone.signal }).catch(() => undefined);
      await eventually(
        () => accounts.recordOf(request),
        (record) => record !== undefined,
      );
      gone.abort();
      await sent;
    });
    await cloud.control('PUT', '/provider/faults', { mode: 'none' });
    await all(requests, async (request) => {
      expect((await final(request)).status).toBe(201);
      expect(await accounts.chargesOf(request)).toBe(1);
    });
  });

  it.each([
    ['timeout-after-charge', 201],
    ['timeout-before-charge', 201],
    ['error', 201],
    ['decline', 402],
    ['slow', 201],
  ])('ends right where the provider fails with %s', async (mode, status) => {
    await cloud.control('PUT', '/provider/faults', { mode, latencyMs: 800 });
    const requests = requestsOf();
    await all(requests, async (request) => {
      await send(cloud, request);
      // It has ended, or it was tried in vain and is to be looked at again.
      await eventually(
        () => accounts.recordOf(request),
        (record) => record?.open === false || record?.dueAt !== undefined,
      );
    });
    await cloud.control('PUT', '/provider/faults', { mode: 'none' });
    await all(requests, async (request) => {
      expect((await final(request)).status).toBe(status);
      expect(await accounts.chargesOf(request)).toBe(status === 201 ? 1 : 0);
    });
  });
});

describe('a transfer whose function is killed while the provider works on it', () => {
  it('is settled within half a minute without any help of its client, and replayed to it then', async () => {
    const request = newRequest('/transfers', { amount: 900 });
    await cloud.control('PUT', '/provider/faults', { mode: 'slow', latencyMs: 1_500 });
    const sent = send(cloud, request);
    await eventually(
      () => accounts.recordOf(request),
      (record) => record?.status === 'in_progress',
    );
    await eventually(
      () => cloud.control<{ signalled: number }>('POST', '/functions/transfers/kill'),
      ({ signalled }) => signalled > 0,
    );
    expect((await sent).status).toBe(500);
    await cloud.control('PUT', '/provider/faults', { mode: 'none' });
    const record = await eventually(
      () => accounts.recordOf(request),
      (seen) => seen?.open === false,
    );
    expect(['completed', 'failed_retryable']).toContain(record?.status);
    const answer = await final(request);
    expect(answer.status).toBe(201);
    expect(await accounts.chargesOf(request)).toBe(1);
  });
});

describe('the network to the store', () => {
  it.each(['drop-request', 'drop-response', 'throttle', 'error', 'conflict', 'delay'])(
    'may fail with %s every fifth time: every request still ends, charged once',
    async (mode) => {
      await cloud.control('PUT', '/store/faults', { mode, probability: 0.2, latencyMs: 1_200 });
      const requests = OPERATIONS.flatMap((path) => [newRequest(path), newRequest(path)]);
      const answers = await Promise.all(requests.map((request) => sendUntilFinal(cloud, request)));
      await cloud.control('PUT', '/store/faults', { mode: 'none' });
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201));
      for (const [index, request] of requests.entries()) accounts.told(request, answers[index] as Answer);
    },
  );

  it('may be down: nothing runs unprotected, and everything goes on when it is back', async () => {
    await cloud.control('PUT', '/store/faults', { mode: 'down' });
    const before = (await accounts.charges()).length;
    const requests = OPERATIONS.map((path) => newRequest(path));
    for (const refused of await Promise.all(requests.map((request) => send(cloud, request)))) {
      expect([refused.status, refused.body['code'], refused.body['retry']]).toEqual([
        503,
        'store_unavailable',
        'same-key',
      ]);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(await accounts.charges()).toHaveLength(before);
    await cloud.control('PUT', '/store/faults', { mode: 'none' });
    for (const request of requests) expect((await final(request)).status).toBe(201);
  });
});

describe('whoever has no token', () => {
  it('is turned away by the authorizer, before any function starts', async () => {
    const url = `${cloud.url}/payments`;
    const token = await cloud.token('acme');
    const [head, claims, signature] = token.split('.');
    const other = Buffer.from(
      JSON.stringify({ ...JSON.parse(Buffer.from(claims ?? '', 'base64url').toString()), sub: 'globex' }),
    );
    for (const authorization of [
      undefined,
      'Bearer nonsense',
      `Bearer ${head}.${other.toString('base64url')}.${signature}`,
    ]) {
      const response = await fetch(url, {
        method: 'POST',
        ...(authorization && { headers: { authorization } }),
      });
      expect([response.status, await response.json()]).toEqual([401, { message: 'Unauthorized' }]);
    }
    const unknown = await fetch(`${cloud.url}/nothing`, { method: 'POST' });
    expect([unknown.status, await unknown.json()]).toEqual([404, { message: 'Not Found' }]);
    expect((await fetch(`${cloud.url}/health`)).status).toBe(200);
  });

  it('cannot tell of a charge: an event that is not signed by the provider is refused', async () => {
    const body = JSON.stringify({
      id: 'evt_1',
      type: 'payment_intent.succeeded',
      data: { object: { id: 'pi_1' } },
    });
    for (const signature of ['', 't=1,v1=00', `t=${Math.floor(Date.now() / 1_000)},v1=${'0'.repeat(64)}`]) {
      const headers = { 'content-type': 'application/json', 'stripe-signature': signature };
      const response = await fetch(`${cloud.url}/webhooks/stripe`, { method: 'POST', headers, body });
      expect(response.status).toBe(400);
    }
  });
});

describe('under load, with functions killed at random and a provider that fails at random', () => {
  it('every key ends, charged once if it was told so', async () => {
    await loadUnderKills(cloud, accounts);
  });
});

describe('at the end of all this', () => {
  it('there is one charge for each success, none for anything else, and nothing is left open', async () => {
    await accounts.balance();
  });
});
