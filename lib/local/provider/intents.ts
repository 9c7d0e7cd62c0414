import { requireAmount, requireCurrency } from './amounts.ts';
import { attempt } from './attempt.ts';
import { requireCard } from './cards.ts';
import { type Command, newEvent, type Outcome, type Scene, seconds, shownIntent } from './command.ts';
import type { Params } from './form.ts';
import { type ParamReader, readParams } from './params.ts';
import type { Intent, UsedCard } from './records.ts';
import { invalidRequest, noSuch, unexpectedState } from './refusal.ts';

/** Of one confirmation, whether it comes with the intent or later. */
const CONFIRMING = ['error_on_requires_action', 'off_session', 'use_stripe_sdk'];

const WITH_EITHER = [
  ...['payment_method', 'return_url', 'receipt_email', 'capture_method', 'allowed_payment_method_types'],
  ...CONFIRMING,
];

const CREATING = [
  ...['amount', 'currency', 'confirm', 'description', 'metadata', 'payment_method_types', 'customer'],
  ...['automatic_payment_methods', 'confirmation_method', 'statement_descriptor'],
  ...['statement_descriptor_suffix', 'transfer_group', ...WITH_EITHER],
];

const NOT_COVERED = [
  ...['amount_details', 'application_fee_amount', 'confirmation_token', 'customer_account', 'expand'],
  ...['excluded_payment_method_types', 'hooks', 'mandate', 'mandate_data', 'on_behalf_of', 'payment_details'],
  ...['payment_method_configuration', 'payment_method_data', 'payment_method_options', 'radar_options'],
  ...['setup_future_usage', 'shipping', 'transfer_data', 'amount_to_confirm'],
];

/** Of an account that takes whatever its dashboard says. */
const AUTOMATIC_TYPES = ['card', 'link'];
const REASONS = ['duplicate', 'fraudulent', 'requested_by_customer', 'abandoned'];
const OPEN: readonly string[] = ['requires_payment_method', 'requires_confirmation', 'requires_action'];

/** POST /v1/payment_intents */
export function createIntent(params: Params): Command {
  const read = readParams(params, CREATING, NOT_COVERED);
  const amount = read.requireWhole('amount');
  const currency = requireCurrency(read.requireText('currency'));
  requireAmount(amount, currency);
  const confirms = read.flag('confirm') ?? false;
  const [lonely] = confirms ? [] : CONFIRMING.filter((name) => read.has(name));
  if (lonely !== undefined) {
    throw invalidRequest(`The parameter \`${lonely}\` can only be passed when \`confirm\` is set to true.`, {
      param: lonely,
    });
  }
  const card = read.text('payment_method');
  if (confirms && card === undefined) {
    throw invalidRequest(
      "You cannot confirm this PaymentIntent because it's missing a payment method. Supply a payment_method with confirm.",
      { code: 'parameter_missing', param: 'payment_method' },
    );
  }
  const automatic = readAutomatic(read);
  const confirming = readConfirming(read);
  const fixed = {
    ...{ amount, currency, metadata: read.metadata(), version: 0 },
    methodTypes: readTypes(read, 'payment_method_types') ?? confirming.methodTypes ?? automatic,
    ...texts(read, {
      description: 'description',
      receiptEmail: 'receipt_email',
      returnUrl: 'return_url',
      statementDescriptor: 'statement_descriptor',
      statementDescriptorSuffix: 'statement_descriptor_suffix',
      transferGroup: 'transfer_group',
    }),
  } as const;
  read.oneOf('confirmation_method', ['automatic']);
  const customer = read.text('customer');

  return {
    charges: confirms,
    run(scene) {
      if (customer !== undefined) throw noSuch('customer', customer, 'customer', 400);
      const intent: Intent = {
        id: scene.newId('pi'),
        created: seconds(scene.now),
        changedAt: scene.now,
        status: card === undefined ? 'requires_payment_method' : 'requires_confirmation',
        clientSecret: '',
        ...fixed,
        ...(card !== undefined && { card: newCard(scene, card) }),
      };
      const named = { ...intent, clientSecret: `${intent.id}_secret_${scene.newSecret()}` };
      if (confirms && named.card) return attempt(scene, { ...named, card: named.card }, confirming);
      return { changes: { intent: named }, answer: { status: 200, shown: shownIntent(named) } };
    },
  };
}

/** POST /v1/payment_intents/{id}/confirm */
export function confirmIntent(params: Params, id: string): Command {
  const read = readParams(params, WITH_EITHER, NOT_COVERED);
  const chosen = read.text('payment_method');
  const confirming = readConfirming(read);
  const changed = texts(read, { receiptEmail: 'receipt_email', returnUrl: 'return_url' });
  return {
    charges: true,
    run(scene) {
      const intent = requireIntent(scene, id);
      if (!OPEN.includes(intent.status)) {
        const why =
          intent.status === 'succeeded'
            ? 'it has already succeeded after being previously confirmed.'
            : `it has a status of ${intent.status}. Only a PaymentIntent with one of the following statuses may be confirmed: ${OPEN.join(', ')}.`;
        throw unexpectedState(`You cannot confirm this PaymentIntent because ${why}`, id);
      }
      const card = chosen === undefined ? intent.card : newCard(scene, chosen);
      if (!card) {
        throw unexpectedState(
          "You cannot confirm this PaymentIntent because it's missing a payment method. Update the PaymentIntent with a payment method and then confirm it again, or confirm it again directly with a payment method.",
          id,
        );
      }
      const { failure: _, ...rest } = intent;
      const { methodTypes = intent.methodTypes } = confirming;
      const next = { ...rest, ...changed, methodTypes, card, version: intent.version + 1 };
      return attempt(scene, { ...next, changedAt: scene.now }, confirming);
    },
  };
}

/** POST /v1/payment_intents/{id}/cancel */
export function cancelIntent(params: Params, id: string): Command {
  const read = readParams(params, ['cancellation_reason'], ['expand']);
  const reason = read.oneOf('cancellation_reason', REASONS);
  return {
    charges: false,
    run(scene): Outcome {
      const intent = requireIntent(scene, id);
      if (!OPEN.includes(intent.status)) {
        throw unexpectedState(
          `You cannot cancel this PaymentIntent because it has a status of ${intent.status}. Only a PaymentIntent with one of the following statuses may be canceled: requires_payment_method, requires_capture, requires_confirmation, requires_action, processing.`,
          id,
        );
      }
      const canceled: Intent = {
        ...intent,
        ...{ version: intent.version + 1, changedAt: scene.now, status: 'canceled' },
        canceledAt: seconds(scene.now),
        ...(reason !== undefined && { cancellationReason: reason }),
      };
      const shown = shownIntent(canceled);
      const event = newEvent(scene, 'payment_intent.canceled', shown);
      return { changes: { intent: canceled, event }, answer: { status: 200, shown } };
    },
  };
}

function requireIntent({ books }: Scene, id: string): Intent {
  const intent = books.intents.get(id);
  if (intent) return intent;
  throw noSuch('payment_intent', id, 'intent', 404);
}

function newCard(scene: Scene, name: string): UsedCard {
  requireCard(name);
  return { id: scene.newId('pm'), name };
}

function readConfirming(read: ParamReader) {
  read.oneOf('capture_method', ['automatic', 'automatic_async']);
  read.flag('use_stripe_sdk');
  const methodTypes = readTypes(read, 'allowed_payment_method_types');
  const nobodyToAsk = read.flag('error_on_requires_action') ?? false;
  const isOffSession = read.flag('off_session') ?? false;
  return {
    ...(methodTypes && { methodTypes }),
    ...(nobodyToAsk && { asksNobody: 'authentication_not_handled' as const }),
    ...(isOffSession && { asksNobody: 'authentication_required' as const }),
  };
}

/** All that can be paid with here is cards. */
function readTypes(read: ParamReader, name: string): readonly string[] | undefined {
  const types = read.list(name);
  if (!types || types.includes('card')) return types;
  throw invalidRequest(
    `${name} is ${types.join(', ')}; the local payment provider has cards only, so card must be among them.`,
    { param: name },
  );
}

function readAutomatic(read: ParamReader): readonly string[] {
  const automatic = read.object('automatic_payment_methods');
  if (!automatic) return ['card'];
  const inside = readParams(automatic, ['enabled', 'allow_redirects']);
  inside.oneOf('allow_redirects', ['always', 'never']);
  return inside.flag('enabled') ? AUTOMATIC_TYPES : ['card'];
}

/** Those that were sent, under our names. */
function texts<Name extends string>(
  read: ParamReader,
  names: Readonly<Record<Name, string>>,
): Readonly<Partial<Record<Name, string>>> {
  const sent = Object.entries<string>(names).flatMap(([name, param]) => {
    const value = read.text(param);
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(sent) as Partial<Record<Name, string>>;
}
