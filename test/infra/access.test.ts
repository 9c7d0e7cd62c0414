import { randomUUID } from 'node:crypto';
import type { TransactWriteItem } from '@aws-sdk/client-dynamodb';
import { afterAll, expect, it } from 'vitest';
import { type LedgerRole, ledgerAccess } from '../../lib/infra/access.ts';
import { dynamoDbLedger } from '../../lib/ledger/dynamodb.ts';
import type { Ledger } from '../../lib/ledger/ledger.ts';
import { sentinel } from '../../lib/reconcile/sentinel.ts';
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
  await as('audit', () => world.inner.completedIn({ from: 0, to: START * 2 }, ['POST /opaque'], 10));
  for (const [role, actions] of used) {
    expect([role, [...actions].filter((action) => !allowed(role).has(action))]).toEqual([role, []]);
  }
  // The others may query as well: for long bodies, of which there are none here.
  for (const role of ['status', 'sentinel', 'backstop'] as const)
    expect([role, used.get(role)]).toEqual([role, allowed(role)]);
});
