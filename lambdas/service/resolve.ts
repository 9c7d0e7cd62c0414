import {
  executed,
  notExecuted,
  type Resolver,
  type UnknownOperation,
  undetermined,
  type Verdict,
} from '../../lib/index.ts';
import { described, endedRow, finalAnswer } from './answers.ts';
import { KIND_OF, ORDERS } from './names.ts';
import type { Finding, Found } from './provider.ts';
import { type Row, rowId } from './rows.ts';
import type { Service } from './service.ts';

/** Stripe's clock against ours, with room to spare. */
const CLOCKS_MS = 5 * 60_000;

/** Charges of cards that are not decided at once are so within minutes; search catches up within one. */
const AGAIN_MS = 60_000;

/** Asks Stripe what became of an operation. The same for all three: what was charged is in the charge's own metadata. */
export function chargeResolver<W>(service: Pick<Service<W>, 'provider' | 'rows' | 'clock'>): Resolver {
  return async (operation) => {
    if (isCharged(operation)) return notExecuted();
    // Until now: a payment is charged by its delivery, which may come hours after the attempt that left it.
    const created = { from: operation.createdAt - CLOCKS_MS, to: service.clock() + CLOCKS_MS };
    return verdictOn(service, operation, await service.provider.find(operation, created));
  };
}

/** An order that was left behind its charge: no effect is in doubt, and it goes on from the recovery point it has. */
function isCharged({ operation, steps }: UnknownOperation): boolean {
  return operation === ORDERS && steps.has('charge');
}

export async function verdictOn<W>(
  service: Pick<Service<W>, 'rows'>,
  operation: UnknownOperation,
  finding: Finding,
): Promise<Verdict> {
  switch (finding.kind) {
    case 'ended':
      if (isCharged(operation)) return notExecuted();
      return operation.operation === ORDERS
        ? executed(finding.outcome, 'charge')
        : executed(finalAnswer(await rowFor(service, operation, finding)));
    case 'absent':
      return notExecuted();
    case 'pending':
    case 'unclear':
      return undetermined(AGAIN_MS);
    default:
      return finding satisfies never;
  }
}

/** The row first: whoever reads the answer looks for it next. A second verdict finds it as it is. */
async function rowFor<W>(
  { rows }: Pick<Service<W>, 'rows'>,
  { operation, operationId, operationRef, tenant }: UnknownOperation,
  { request, outcome, createdAt }: Found,
): Promise<Row> {
  const kind = KIND_OF.get(operation);
  if (!kind) throw new TypeError(`${operation} is no operation of this service.`);
  const id = rowId(kind, operationId);
  const known = await rows.read(kind, tenant, id);
  const pending: Row = known ?? {
    ...{ kind, tenant, id, operationRef, status: 'pending', createdAt },
    ...described(request),
  };
  const row = endedRow(pending, outcome);
  await rows.end(row);
  return row;
}
