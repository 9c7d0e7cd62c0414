import { money, notPositive } from './amounts.ts';
import { type Command, newEvent, type Scene, seconds } from './command.ts';
import type { Params } from './form.ts';
import { readParams } from './params.ts';
import type { Charge, Refund } from './records.ts';
import { invalidRequest, noSuch } from './refusal.ts';

const CREATING = ['amount', 'charge', 'metadata', 'payment_intent', 'reason'];
const NOT_COVERED = ['currency', 'customer', 'expand', 'instructions_email', 'origin'];
const MORE_NOT_COVERED = ['refund_application_fee', 'reverse_transfer'];
const REASONS = ['duplicate', 'fraudulent', 'requested_by_customer'];

/** POST /v1/refunds */
export function createRefund(params: Params): Command {
  const read = readParams(params, CREATING, [...NOT_COVERED, ...MORE_NOT_COVERED]);
  const of = { intent: read.text('payment_intent'), charge: read.text('charge') };
  if (of.intent === undefined && of.charge === undefined) {
    throw invalidRequest(
      'One of the following params should be provided for this request: payment_intent or charge.',
    );
  }
  if (of.intent !== undefined && of.charge !== undefined) {
    throw invalidRequest('You may only specify one of these parameters: charge, payment_intent.', {
      code: 'parameters_exclusive',
    });
  }
  const wanted = read.whole('amount');
  if (wanted !== undefined && wanted < 1) throw notPositive('amount');
  const reason = read.oneOf('reason', REASONS);
  const metadata = read.metadata();

  return {
    charges: false,
    run(scene) {
      const charge = of.intent === undefined ? chargeOf(scene, of.charge) : chargeOfIntent(scene, of.intent);
      const amount = requireUnrefunded(charge, wanted);
      const refund: Refund = {
        id: scene.newId('re'),
        ...{ version: 0, created: seconds(scene.now), intent: charge.intent, charge: charge.id },
        ...{ amount, currency: charge.currency, metadata },
        ...(reason !== undefined && { reason }),
      };
      const refunded: Charge = {
        ...charge,
        version: charge.version + 1,
        amountRefunded: charge.amountRefunded + amount,
      };
      const subject = { kind: 'charge', id: refunded.id, version: refunded.version } as const;
      const event = newEvent(scene, 'charge.refunded', subject, {
        amount_refunded: charge.amountRefunded,
        ...(refunded.amountRefunded === charge.amount && { refunded: false }),
      });
      const shown = { kind: 'refund', id: refund.id, version: 0 } as const;
      return { changes: { refund, charge: refunded, event }, answer: { status: 200, shown } };
    },
  };
}

function chargeOf({ books }: Scene, id = ''): Charge {
  const charge = books.charges.get(id);
  if (!charge) throw noSuch('charge', id, 'charge', 400);
  if (charge.failure) throw nothingToRefund(charge.intent);
  return charge;
}

function chargeOfIntent({ books }: Scene, id: string): Charge {
  const intent = books.intents.get(id);
  if (!intent) throw noSuch('payment_intent', id, 'payment_intent', 400);
  const charge = intent.charge === undefined ? undefined : books.charges.get(intent.charge);
  if (!charge || charge.failure) throw nothingToRefund(id);
  return charge;
}

function nothingToRefund(intent: string) {
  return invalidRequest(`This PaymentIntent (${intent}) does not have a successful charge to refund.`);
}

function requireUnrefunded(charge: Charge, wanted: number | undefined): number {
  const { id, amount, amountRefunded, currency } = charge;
  const left = amount - amountRefunded;
  if (left === 0) {
    throw invalidRequest(`Charge ${id} has already been refunded.`, { code: 'charge_already_refunded' });
  }
  if (wanted === undefined || wanted <= left) return wanted ?? left;
  const [than, most] = amountRefunded === 0 ? ['charge', amount] : ['unrefunded', left];
  throw invalidRequest(
    `Refund amount (${money(wanted, currency)}) is greater than ${than} amount${than === 'charge' ? '' : ' on charge'} (${money(most, currency)})`,
    { code: 'amount_too_large', param: 'amount' },
  );
}
