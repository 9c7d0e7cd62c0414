import { randomUUID } from 'node:crypto';
import { decide, defaultPolicy, expiryAfter, fingerprintOf, readKey, scopePk } from 'oncekey';
import { memoryLedger } from 'oncekey/testing';

const ledger = memoryLedger(); // In AWS: dynamoDbLedger({ tableName, client: ledgerClient() })
const policy = { ...defaultPolicy, effects: 'transactional' } as const;
let charges = 0;

/** What an idempotent POST /payments does, by hand. */
async function pay(header: string, body: string): Promise<string> {
  const read = readKey([header], 'auto');
  if (!read.ok) return `400 ${read.code}`;

  const operation = 'POST /payments';
  const pk = scopePk({ tenant: 'tenant-1', operation, key: read.key });
  const fingerprint = fingerprintOf({
    method: 'POST',
    path: '/payments',
    query: [],
    contentType: 'application/json',
    headers: [],
    body: Buffer.from(body),
  });

  const now = Date.now();
  const reserved = await ledger.reserve(
    {
      pk,
      tenant: 'tenant-1',
      operation,
      fingerprint: fingerprint.current,
      effects: policy.effects,
      operationId: randomUUID(),
      owner: randomUUID(),
      now,
      leaseUntil: now + 30_000,
    },
    policy,
  );

  if (reserved.kind === 'held') {
    const decision = decide(reserved.record, { fingerprint, leaseUntil: now + 30_000 }, now, policy);
    if (decision.kind !== 'replay') return `refused: ${decision.kind}`;
    const stored = await ledger.reply(pk, decision.record.response);
    return `${stored.status} ${Buffer.from(stored.body)} (replayed)`;
  }

  charges += 1; // The effect. It happens once per key, whoever asks and however often.
  const reply = { status: 201, headers: [], body: Buffer.from(`{"charge":${charges}}`), base64: false };
  const done = await ledger.complete(reserved.record, {
    now,
    reply,
    outbox: [],
    ...expiryAfter(policy, now),
  });
  return done.kind === 'moved' ? `201 {"charge":${charges}}` : 'another attempt answered';
}

const answers = await Promise.all([
  pay('"order-1842"', '{"amount": 500, "currency": "EUR"}'),
  pay('"order-1842"', '{"amount": 500, "currency": "EUR"}'),
]);
console.log(answers.join('\n'));
console.log(await pay('order-1842', '{ "currency":"EUR","amount":500 }'));
console.log(await pay('order-1842', '{"amount": 900, "currency": "EUR"}'));
console.log(`charges: ${charges}`);
