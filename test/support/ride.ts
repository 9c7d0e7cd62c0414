import type { TransactWrite } from '../../lib/ledger/table.ts';
import type { TestHandler } from '../middleware/stage.ts';
import type { Passing } from './points.ts';

/*
 * A ride in three steps, one of each kind: a row of our own, a charge at a provider that dedupes, a receipt through one
 * that does not. And the points at which the process that runs it can end.
 */

/** What is outside of the process, and outlives it. */
export interface Providers {
  /** Charges once per key, however often it is asked. */
  charge(key: string): Promise<string>;
  /** Sends whenever it is asked. */
  send(key: string): Promise<string>;
}

function pointedProviders({ charge, send }: Providers, at: Passing): Providers {
  const between = (name: string, ask: (key: string) => Promise<string>) => async (key: string) => {
    await at(`before ${name}`);
    const answer = await ask(key);
    await at(`after ${name}`);
    return answer;
  };
  return { charge: between('the charge', charge), send: between('the receipt', send) };
}

const rideRow = (tableName: string, id: string): TransactWrite => ({
  Put: {
    TableName: tableName,
    Item: { pk: id, sk: 'ride' },
    ConditionExpression: 'attribute_not_exists(pk)', // A second row would be noticed.
  },
});

/** `ran` gets the name of every step whose function is called. */
export function rideHandler(
  tableName: string,
  providers: Providers,
  at: Passing,
  ran: (step: string) => void,
): TestHandler<TransactWrite> {
  const { charge, send } = pointedProviders(providers, at);
  return async (_, { once }) => {
    const ride = await once.step('ride', () => {
      ran('ride');
      const id = `ride-${once.operationId}`;
      once.write(rideRow(tableName, id));
      return { id };
    });
    const charged = await once.step('charge', async ({ key }) => {
      ran('charge');
      return { id: await charge(key) };
    });
    const receipt = await once.effect('receipt', ({ key }) => {
      ran('receipt');
      return send(key);
    });
    const body = JSON.stringify({ ride: ride.id, charge: charged.id, receipt });
    return { statusCode: 201, headers: { 'content-type': 'application/json' }, body };
  };
}
