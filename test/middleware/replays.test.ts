import { createHash, randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import { memoryLedger } from '../../lib/ledger/memory.ts';
import { useTable } from '../support/table.ts';
import { post, type Result, stage } from './stage.ts';

const table = useTable();
const ledger = dynamoDbLedger(table);

/** Bytes that do not compress, the same on every run. */
function noise(length: number): Buffer {
  const blocks = Array.from({ length: Math.ceil(length / 32) }, (_, index) =>
    createHash('sha256').update(String(index)).digest(),
  );
  return Buffer.concat(blocks).subarray(0, length);
}

describe('a replay is byte-identical', () => {
  const responses: Readonly<Record<string, object>> = {
    JSON: { statusCode: 201, headers: { 'content-type': 'application/json' }, body: '{"a":1,  "b":[1e3]}' },
    unicode: { statusCode: 200, headers: {}, body: 'Zoë — 支払い 💳 \u0000' },
    'an empty body': { statusCode: 200, headers: {}, body: '' },
    '204': { statusCode: 204, headers: {} },
    binary: {
      statusCode: 200,
      headers: { 'content-type': 'application/pdf' },
      body: noise(4_000).toString('base64'),
      isBase64Encoded: true,
    },
    '4.4 MB of binary': {
      statusCode: 200,
      headers: {},
      body: noise(4_400_000).toString('base64'),
      isBase64Encoded: true,
    },
    '5 MB of text': { statusCode: 200, headers: {}, body: 'the same line again\n'.repeat(262_144) },
    'Location and ETag': { statusCode: 201, headers: { Location: '/payments/1', ETag: '"v1"' }, body: '{}' },
    'repeated headers': {
      statusCode: 200,
      headers: { link: '</a>; rel=next, </b>; rel=last' },
      multiValueHeaders: { vary: ['accept', 'origin'] },
      body: '',
    },
    'a stored decline': { statusCode: 402, headers: {}, body: '{"declined":true}' },
  };
  for (const [what, response] of Object.entries(responses)) {
    it(`for ${what}`, async () => {
      const { call } = stage(ledger, async () => response);
      const key = randomUUID();
      const first = await call(post({ key }), 60_000);
      const replay = await call(post({ key }), 60_000);
      expect(replay.headers['Idempotent-Replayed']).toBe('true');
      const { 'Idempotent-Replayed': _, ...headers } = replay.headers;
      expect(headers).toEqual(first.headers);
      expect(replay.statusCode).toBe(first.statusCode);
      expect(replay.isBase64Encoded).toBe(first.isBase64Encoded);
      expect(replay.body === first.body, 'the bodies differ').toBe(true);
    });
  }
});

describe('a key that is over', () => {
  const START = 1_900_000_000_000;
  const problemOf = ({ body }: Result): Record<string, unknown> => JSON.parse(body);

  it('is gone where the policy says so: 410, or 400 as Stripe does, until its tombstone ends', async () => {
    for (const [preset, status] of [
      ['ietf', 410],
      ['stripe', 400],
    ] as const) {
      let now = START;
      let runs = 0;
      const clock = () => now;
      const { call } = stage(
        memoryLedger({ clock }),
        async () => {
          runs += 1;
          return { statusCode: 201, headers: {}, body: '' };
        },
        { effects: 'transactional', afterExpiry: 'gone', goneSeconds: 86_400, preset, clock },
      );
      const key = randomUUID();
      await call(post({ key }));
      now = START + 86_400_000 + 1_001;
      const gone = await call(post({ key }));
      expect(gone.statusCode).toBe(status);
      expect(problemOf(gone)).toMatchObject({ code: 'key_expired', retry: 'never' });
      now = START + 2 * 86_400_000 + 3_000;
      expect((await call(post({ key }))).statusCode).toBe(201);
      expect(runs).toBe(2);
    }
  });

  it('runs as new after its expiry by default', async () => {
    let now = START;
    const clock = () => now;
    const { call } = stage(
      memoryLedger({ clock }),
      async () => ({ statusCode: 201, headers: {}, body: '' }),
      {
        effects: 'transactional',
        clock,
      },
    );
    const key = randomUUID();
    await call(post({ key }));
    now = START + 86_400_000 + 1_001;
    expect((await call(post({ key }))).headers).not.toHaveProperty('Idempotent-Replayed');
  });

  it('and parked is never to be sent again, and says so without a Retry-After', async () => {
    const memory = memoryLedger();
    const { call } = stage(memory, () => Promise.reject(new Error('timeout')), {
      effects: 'opaque',
      onUnknown: 'park',
    });
    const key = randomUUID();
    await call(post({ key })).catch(() => undefined);
    const ref = String(problemOf(await call(post({ key })))['operationRef']);
    const record = await memory.read(ref);
    if (record?.status !== 'unknown') throw new Error('expected an unknown record');
    await memory.watch(record, { shard: 'parked#0', at: START, parkedAt: START });
    const parked = await call(post({ key }));
    expect(parked.statusCode).toBe(409);
    expect(problemOf(parked)).toMatchObject({ code: 'outcome_unknown', retry: 'never' });
    expect(parked.headers).not.toHaveProperty('Retry-After');
  });
});
