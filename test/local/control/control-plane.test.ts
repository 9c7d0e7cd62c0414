import { request } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { InvalidArgument } from '../../../lib/core/errors.ts';
import { type ControlPorts, controlPlane, isControl } from '../../../lib/local/control/control-plane.ts';
import { parseFaults } from '../../../lib/local/faults.ts';
import { FunctionUnknown } from '../../../lib/local/functions/errors.ts';
import { type Listening, listen } from '../../../lib/local/gateway/listen.ts';

const MODES = ['none', 'slow'] as const;

/** Somewhere that faults are set, held to the same rules as the real ones. */
function faultsOf() {
  let current: object = { mode: 'none', probability: 1 };
  return {
    get: () => current,
    set(value: unknown) {
      current = parseFaults(MODES, value);
    },
  };
}

let ports: ControlPorts & { isReady: boolean; readonly signalled: [string, string][] };
let server: Listening;

beforeEach(() => {
  const signalled: [string, string][] = [];
  ports = {
    isReady: true,
    signalled,
    health: () => ({ ready: ports.isReady, functions: ['payments'] }),
    async token(tenant) {
      if (tenant === 'nobody')
        throw new InvalidArgument('The user pool has no client for the tenant nobody.');
      return `token-of-${tenant}`;
    },
    charges: () => [{ id: 'pi_1' }],
    providerFaults: faultsOf(),
    storeFaults: faultsOf(),
    signal(name, signal) {
      if (name !== 'payments') throw new FunctionUnknown(name, ['payments'].values());
      signalled.push([name, signal]);
      return 2;
    },
    records: async () => [{ operationRef: 'ref' }],
  };
});

beforeAll(async () => {
  server = await listen({
    port: 0,
    listener: (incoming, response) => void controlPlane(ports)(incoming, response),
  });
});
afterAll(() => server.close());

interface Asked {
  readonly body?: string;
  readonly headers?: Record<string, string>;
}

async function ask(method: string, path: string, { body, headers = {} }: Asked = {}) {
  const response = await fetch(`${server.url}/_local${path}`, { method, body: body ?? null, headers });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text === '' ? undefined : JSON.parse(text),
  };
}

/** With whatever headers: `fetch` would not send another host. */
function statusOf(headers: Record<string, string>): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const { port } = server;
    request({ host: '127.0.0.1', port, path: '/_local/health', headers, setHost: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    })
      .on('error', reject)
      .end();
  });
}

describe('the control plane shows', () => {
  it('what there is at it', async () => {
    for (const path of ['', '/', '?x']) {
      const { status, body } = await ask('GET', path);
      expect([status, body.paths.length]).toEqual([200, 7]);
    }
  });

  it('whether all is up, and which functions there are', async () => {
    expect(await ask('GET', '/health')).toMatchObject({
      status: 200,
      body: { ready: true, functions: ['payments'] },
    });
    ports.isReady = false;
    expect(await ask('GET', '/health')).toMatchObject({ status: 503, body: { ready: false } });
  });

  it('every charge and every record, and no cache keeps them', async () => {
    const charges = await ask('GET', '/provider/charges?again');
    expect([charges.status, charges.body]).toEqual([200, [{ id: 'pi_1' }]]);
    expect(charges.headers.get('content-type')).toBe('application/json');
    expect(charges.headers.get('cache-control')).toBe('no-store');
    expect((await ask('GET', '/records')).body).toEqual([{ operationRef: 'ref' }]);
  });
});

describe('the control plane gives a token', () => {
  it('to a tenant, whatever type the body says it has', async () => {
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    const given = await ask('POST', '/token', { body: '{"tenant":"acme"}', headers });
    expect([given.status, given.body]).toEqual([200, { token: 'token-of-acme' }]);
  });

  it.each([
    '',
    '{}',
    '[]',
    'null',
    '"acme"',
    '{"tenant":""}',
    '{"tenant":" "}',
    '{"tenant":7}',
    '{"tenant":{}}',
  ])('to nobody for %j', async (body) => {
    const { status, body: said } = await ask('POST', '/token', { body });
    expect(status).toBe(400);
    expect(said.message).toContain('expected a text of 1 to 128 characters, as in {"tenant": "acme"}');
  });

  it('to no name that is longer than any tenant has, and to no tenant that nobody knows', async () => {
    const asked = (tenant: string) => ask('POST', '/token', { body: JSON.stringify({ tenant }) });
    expect((await asked('a'.repeat(128))).status).toBe(200);
    expect((await asked('a'.repeat(129))).status).toBe(400);
    expect(await asked('nobody')).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('no client') },
    });
  });
});

describe.each(['/provider/faults', '/store/faults'])('%s', (path) => {
  it('is set as a whole, and shown', async () => {
    const body = '{"mode":"slow","probability":0.5,"latencyMs":10}';
    expect(await ask('PUT', path, { body })).toMatchObject({ status: 200, body: JSON.parse(body) });
    expect((await ask('GET', path)).body).toEqual(JSON.parse(body));
  });

  it.each([
    ['{"mode":"fast"}', 'mode is "fast"; expected one of none, slow'],
    ['{"mode":"slow","probability":2}', 'probability is 2; expected a number from 0 to 1'],
    ['{"mode":"slow","latency":2}', 'Faults have no "latency"'],
    ['', 'The faults are not given'],
    ['[]', 'The faults are []'],
    ['{mode: slow}', 'The body is no JSON'],
  ])('refuses %s in a sentence, and stays as it was', async (body, why) => {
    const { status, body: said } = await ask('PUT', path, { body });
    expect([status, said.message]).toEqual([400, expect.stringContaining(why)]);
    expect((await ask('GET', path)).body).toEqual({ mode: 'none', probability: 1 });
  });
});

it('the faults of the provider and of the store are two things', async () => {
  await ask('PUT', '/store/faults', { body: '{"mode":"slow"}' });
  expect((await ask('GET', '/provider/faults')).body).toMatchObject({ mode: 'none' });
});

describe('a function', () => {
  const kill = (name: string, body?: string) =>
    ask('POST', `/functions/${name}/kill`, body === undefined ? {} : { body });

  it('is killed, unless another signal is named', async () => {
    expect((await kill('payments')).body).toEqual({ signalled: 2 });
    for (const signal of ['SIGSTOP', 'SIGCONT', 'SIGKILL'])
      await kill('payments', JSON.stringify({ signal }));
    expect(ports.signalled.map(([, signal]) => signal)).toEqual(['SIGKILL', 'SIGSTOP', 'SIGCONT', 'SIGKILL']);
  });

  it('gets no signal that is not meant for this', async () => {
    for (const signal of ['SIGTERM', 9, null, '']) {
      const { status, body } = await kill('payments', JSON.stringify({ signal }));
      expect([signal, status]).toEqual([signal, signal === null ? 200 : 400]);
      if (status === 400) expect(body.message).toContain('expected one of SIGKILL, SIGSTOP, SIGCONT');
    }
  });

  it('that is not there is not found, and those that are there are named', async () => {
    for (const name of ['nope', 'constructor', '..%2f', 'a%20b']) {
      const { status, body } = await kill(name);
      expect([status, body.message]).toEqual([404, expect.stringContaining('payments')]);
    }
    expect((await kill('%zz')).status).toBe(400);
  });
});

describe('the control plane refuses', () => {
  it('what it does not have, and methods that a path does not take', async () => {
    expect((await ask('GET', '/nope')).body.message).toContain('GET /_local lists what there is');
    for (const [method, path, takes] of [
      ['POST', '/health', 'GET'],
      ['GET', '/token', 'POST'],
      ['DELETE', '/store/faults', 'GET and PUT'],
      ['GET', '/functions/payments/kill', 'POST'],
    ] as const) {
      const { status, body } = await ask(method, path);
      expect([status, body.message]).toEqual([405, `/_local${path} takes ${takes}.`]);
    }
  });

  it('a body that is larger than it needs, and reads it to its end first', async () => {
    for (const bytes of [16_385, 10_000_000]) {
      const { status, body } = await ask('POST', '/token', { body: 'x'.repeat(bytes) });
      expect([status, body.message]).toEqual([413, 'The body has more than 16384 bytes.']);
    }
  });

  it('hosts other than this machine, by whatever name they lead here', async () => {
    const refused = [
      'evil.example',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      'localhost@evil.example',
    ];
    for (const host of refused) expect([host, await statusOf({ host })]).toEqual([host, 403]);
    for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1:9', '[::1]:80']) {
      expect([host, await statusOf({ host })]).toEqual([host, 200]);
    }
  });

  it('pages of anywhere but itself', async () => {
    const host = `localhost:${server.port}`;
    for (const origin of ['http://evil.example', 'null', 'http://localhost:1', `https://${host}`]) {
      expect([origin, await statusOf({ host, origin })]).toEqual([origin, 403]);
    }
    expect(await statusOf({ host, origin: `http://${host}` })).toBe(200);
  });

  it('nothing that goes wrong in it without an answer', async () => {
    ports = { ...ports, records: () => Promise.reject(new Error('The store has ended.')) };
    expect(await ask('GET', '/records')).toMatchObject({
      status: 500,
      body: { message: 'The store has ended.' },
    });
  });
});

it('what begins like its path is not for the control plane', () => {
  const isFor = (url: string) => isControl({ url });
  expect(['/_local', '/_local/', '/_local/x', '/_local?x'].map(isFor)).toEqual([true, true, true, true]);
  expect(['/', '/_locals', '/payments/_local', '//_local'].map(isFor)).toEqual([false, false, false, false]);
});
