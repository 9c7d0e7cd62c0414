import { randomBytes, randomUUID } from 'node:crypto';
import type { TransactWriteItem } from '@aws-sdk/client-dynamodb';
import { afterAll, describe, expect, it } from 'vitest';
import { jwtClaim } from '../../lib/http/tenant.ts';
import { type LedgerRole, ledgerAccess } from '../../lib/infra/access.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { idempotent } from '../../lib/middleware/idempotent.ts';
import { auditor } from '../../lib/reconcile/auditor.ts';
import { operator } from '../../lib/reconcile/operator.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
import { pkOf as payment, post } from '../middleware/stage.ts';
import { START } from '../reconcile/stage.ts';
import { bankWorld, type Fate, pkOf, type Route } from '../support/bank.ts';
import { useTable } from '../support/table.ts';

const table = useTable();

/** Every call on the wire, as the permissions that it takes, by who made it. */
const used = new Map<LedgerRole, Set<string>>();
let acting: LedgerRole = 'protected';
const client = table.newClient();
client.middlewareStack.add(
  (next, { commandName = '' }) =>
    async (args) => {
      const noted = used.get(acting) ?? new Set();
      used.set(acting, noted);
      for (const action of actionsOf(commandName, args.input as Input)) noted.add(action);
      return next(args);
    },
  { step: 'initialize' },
);
afterAll(() => client.destroy());

interface Input {
  readonly IndexName?: string;
  readonly TransactItems?: readonly TransactWriteItem[];
}

function actionsOf(command: string, { IndexName, TransactItems = [] }: Input): readonly string[] {
  if (command === 'TransactWriteItemsCommand') {
    const kinds = {
      Put: 'PutItem',
      Update: 'UpdateItem',
      Delete: 'DeleteItem',
      ConditionCheck: 'ConditionCheckItem',
    };
    return TransactItems.flatMap((item) => Object.keys(item)).map(
      (kind) => `dynamodb:${kinds[kind as keyof typeof kinds]}`,
    );
  }
  const action = `dynamodb:${command.replace(/Command$/, '')}`;
  return [IndexName === undefined ? action : `${action} on ${IndexName}`];
}

function allowed(role: LedgerRole): Set<string> {
  const { table: onTable, dueIndex } = ledgerAccess[role];
  return new Set([...onTable, ...dueIndex.map((action) => `${action} on due`)]);
}

async function as<T>(role: LedgerRole, work: () => Promise<T>): Promise<T> {
  acting = role;
  return work();
}

it('each role may do what the code in it does on the wire, and those that read no bodies nothing else', async () => {
  const world = bankWorld((clock) => dynamoDbLedger({ ...table, client, clock }) as Ledger<unknown>, START);
  const fates: readonly Fate[] = ['fine', 'charges and times out', 'dies after', 'declines', 'times out'];
  const routes: readonly Route[] = ['/opaque', '/effect', '/step', '/deferred', '/deduped'];
  const quota = { newKeysPerMinute: 1, openKeys: 1 };
  const quiet = { clock: world.clock, log: () => {}, metrics: () => {} };
  const counting = sentinel({ ledger: world.inner, quota, ...quiet });
  const context = { getRemainingTimeInMillis: () => 60_000 };
  const refs: string[] = [];
  for (const fate of fates) {
    for (const route of routes) {
      const key = randomUUID();
      refs.push(pkOf(route, key));
      world.plan.fate = fate;
      await as('protected', () => world.request(route, key, { note: 'x'.repeat(20_000) }));
      await as('protected', () => world.request(route, key, { note: 'x'.repeat(20_000) }));
    }
  }
  world.plan.fate = 'fine';
  await as('status', () => world.inner.read(refs[0] ?? ''));
  for (let round = 0; round < 6; round += 1) {
    const Records = world.stream.splice(0);
    await as('dispatch', () => world.dispatch(Records));
    if (round === 0) await as('backstop', () => world.search());
    await as('sentinel', () => counting({ Records }, context));
    for (const ref of refs) await as('webhook', () => world.tell(ref, `${round} ${ref}`));
    world.advance(round * 600_000);
    await as('sweep', () => world.sweep());
    while (world.invocations.length > 0) await as('protected', () => world.invokeNext());
  }
  for (const [role, actions] of used) {
    expect([role, [...actions].filter((action) => !allowed(role).has(action))]).toEqual([role, []]);
  }
  // The others may query as well: for long bodies, of which there are none here.
  for (const role of ['status', 'sentinel', 'backstop'] as const)
    expect([role, used.get(role)]).toEqual([role, allowed(role)]);
});

describe('beside the requests', () => {
  const stage = () => {
    const time = { now: START };
    const clock = () => time.now;
    return {
      time,
      clock,
      ledger: dynamoDbLedger({ ...table, client, clock }),
      log: () => {},
      metrics: () => {},
    };
  };
  const context = { getRemainingTimeInMillis: () => 60_000 };

  it('the audit may do what it does: it reads, looks through the table, and parks what does not agree', async () => {
    const { time, ...options } = stage();
    const key = randomUUID();
    const handler = idempotent(() => Promise.reject(new Error('no answer')), {
      ...options,
      tenant: jwtClaim('sub'),
      onUnknown: 'park',
    });
    await as('protected', () => handler(post({ key }), context as never)).catch(() => undefined);
    const record = await as('protected', () => options.ledger.read(payment(key)));
    const { pk: operationRef = '', operationId = '' } = record ?? {};
    const charge = (id: string) =>
      ({ id, at: START, state: 'succeeded', operationRef, operationId }) as const;
    const audit = auditor({
      ...options,
      operations: ['POST /payments'],
      provider: async function* () {
        yield* [charge('ch_1'), charge('ch_2')];
      },
    });
    time.now += 3_600_000;
    const window = { from: START - 60_000, to: START + 60_000 };
    expect(await as('audit', () => audit(window, context))).toMatchObject({ parked: 1 });
    expect(used.get('audit')).toEqual(allowed('audit'));
  });

  it('an operator may do what erasing takes, which is the most it does, and nothing else', async () => {
    const { time: _, ...options } = stage();
    const key = randomUUID();
    const body = JSON.stringify(randomBytes(20_000).toString('hex'));
    const handler = idempotent(async () => ({ statusCode: 201, body }), {
      ...{ ...options, tenant: jwtClaim('sub'), effects: 'transactional' },
    });
    await as('protected', () => handler(post({ key }), context as never));
    const { list, inspect, erase } = operator({ ledger: options.ledger, clock: options.clock });
    const by = { who: 'ann', why: 'asked to be forgotten' };
    await as('operator', () => list({ parked: true }));
    await as('operator', () => erase(payment(key), by));
    expect((await as('operator', () => inspect(payment(key)))).audits).toMatchObject([by]);
    expect(used.get('operator')).toEqual(allowed('operator'));
  });
});
