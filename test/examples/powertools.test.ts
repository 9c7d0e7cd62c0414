import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { memoryLedger } from 'oncekey/testing';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { post } from '../middleware/stage.ts';

vi.mock('./ledger.ts', () => ({ ledger: memoryLedger() }));

const KEY = 'very-secret-order-1842';
const TRACE = '1-5759e988-bd862e3fe1be46a994272793';

/** What X-Ray's daemon would get, what CloudWatch would get, and how the function answered. */
const traced: Record<string, unknown>[] = [];
const printed: string[] = [];
const answers: unknown[] = [];
let daemon: Socket;

beforeAll(async () => {
  daemon = createSocket('udp4', (datagram) => {
    const [, segment = ''] = datagram.toString().split('\n');
    traced.push(JSON.parse(segment));
  });
  daemon.bind(0, '127.0.0.1');
  await once(daemon, 'listening');
  // As in Lambda, before the tracer is loaded.
  vi.stubEnv('AWS_XRAY_DAEMON_ADDRESS', `127.0.0.1:${daemon.address().port}`);
  vi.stubEnv('AWS_EXECUTION_ENV', 'AWS_Lambda_nodejs24.x');
  vi.stubEnv('LAMBDA_TASK_ROOT', '/var/task');
  vi.stubEnv('_HANDLER', 'payments.handler');
  vi.stubEnv('_X_AMZN_TRACE_ID', `Root=${TRACE};Parent=557abcec3ee5a047;Sampled=1`);
  for (const stream of [process.stdout, process.stderr]) {
    vi.spyOn(stream, 'write').mockImplementation((line) => printed.push(String(line)) > 0);
  }
  const { handler } = await import('./powertools.ts');
  for (const amount of [500, 500, 900]) {
    const context = { getRemainingTimeInMillis: () => 10_000 } as never;
    answers.push(await handler(post({ key: KEY, body: { amount, card: '4242424242424242' } }), context));
  }
  vi.restoreAllMocks();
  await vi.waitFor(() => expect(traced).toHaveLength(3), { timeout: 30_000 });
});

afterAll(() => daemon.close());

const lines = () => printed.map((line): Record<string, unknown> => JSON.parse(line));

describe('Powertools', () => {
  it('are told of a request, its replay and a misuse of its key', () => {
    expect(answers).toMatchObject([
      { statusCode: 201 },
      { statusCode: 201, headers: { 'Idempotent-Replayed': 'true' } },
      { statusCode: 422 },
    ]);
  });

  it('Logger: each decision is a line with its operationRef', () => {
    const logged = lines().filter((line) => 'decision' in line);
    expect(logged.map(({ decision }) => decision)).toEqual(['created', 'completed', 'replay', 'misuse']);
    for (const line of logged) {
      expect(line).toMatchObject({
        service: 'payments',
        operation: 'POST /payments',
        operationRef: expect.stringMatching(/^[\w-]{12}$/),
      });
    }
  });

  it('Metrics: each sample is a line of the embedded metric format, under our names', () => {
    const measured = lines().filter((line) => '_aws' in line);
    expect(measured).toMatchObject([
      { 'api.idempotency.reserve.created.count': 1, operation: 'POST /payments', tenant: 'tenant-1' },
      { 'api.idempotency.execute.latency_ms': expect.any(Number) },
      { 'api.idempotency.reserve.replay.count': 1 },
      { 'api.idempotency.reserve.key_misuse.count': 1 },
    ]);
    for (const { _aws } of measured) {
      expect(_aws).toMatchObject({
        CloudWatchMetrics: [{ Namespace: 'shop', Dimensions: [['service', 'operation']] }],
      });
    }
  });

  it('Tracer: each request is annotated with its last decision, and a replay is no fault', () => {
    const annotations = traced.map((segment) => segment['annotations']);
    expect(annotations).toMatchObject([
      { idempotencyDecision: 'completed', operationRef: expect.stringMatching(/^[\w-]{12}$/) },
      { idempotencyDecision: 'replay' },
      { idempotencyDecision: 'misuse' },
    ]);
    for (const segment of traced) {
      expect(segment).toMatchObject({ trace_id: TRACE, name: '## payments.handler' });
      expect(segment).not.toHaveProperty('fault');
    }
  });

  it('never get the key or the body', () => {
    const said = JSON.stringify([printed, traced]);
    expect(said).not.toContain('very-secret');
    expect(said).not.toContain('4242');
  });
});
