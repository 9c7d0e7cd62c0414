import { noSuch } from './refusal.ts';

/** The payment methods of Stripe's test mode that need no setting up, and what becomes of a charge to each. */
export interface TestCard {
  readonly brand: string;
  readonly last4: string;
  readonly funding: 'credit' | 'debit' | 'prepaid';
  readonly country: string;
  readonly fate: Fate;
}

export type Fate =
  | { readonly kind: 'succeeds' }
  | {
      readonly kind: 'declined';
      readonly code: string;
      readonly declineCode: string;
      readonly message: string;
    }
  /** Its owner is asked to confirm it; where nobody can be asked, it is declined. */
  | { readonly kind: 'asks' };

const SUCCEEDS: Fate = { kind: 'succeeds' };
const ASKS: Fate = { kind: 'asks' };

export const DECLINED: Fate = declined('card_declined', 'generic_decline');

function declined(code: string, declineCode = code, message = 'Your card was declined.'): Fate {
  return { kind: 'declined', code, declineCode, message };
}

function card(
  brand: string,
  last4: string,
  fate: Fate = SUCCEEDS,
  rest: Partial<Pick<TestCard, 'funding' | 'country'>> = {},
): TestCard {
  return { brand, last4, fate, funding: 'credit', country: 'US', ...rest };
}

const LACKS_FUNDS = declined('card_declined', 'insufficient_funds', 'Your card has insufficient funds.');
const TOO_OFTEN =
  'Your card was declined for making repeated attempts too frequently or exceeding its amount limit.';

/** Those that decline are also known without the brand. */
const CARDS: Readonly<Record<string, TestCard>> = {
  pm_card_visa: card('visa', '4242'),
  pm_card_visa_debit: card('visa', '5556', SUCCEEDS, { funding: 'debit' }),
  pm_card_mastercard: card('mastercard', '4444'),
  pm_card_mastercard_debit: card('mastercard', '8210', SUCCEEDS, { funding: 'debit' }),
  pm_card_mastercard_prepaid: card('mastercard', '5100', SUCCEEDS, { funding: 'prepaid' }),
  pm_card_amex: card('amex', '8431'),
  pm_card_discover: card('discover', '1117'),
  pm_card_diners: card('diners', '3237'),
  pm_card_jcb: card('jcb', '0505', SUCCEEDS, { country: 'JP' }),
  pm_card_unionpay: card('unionpay', '0005', SUCCEEDS, { country: 'CN' }),
  pm_card_de: card('visa', '0016', SUCCEEDS, { country: 'DE' }),
  pm_card_gb: card('visa', '0000', SUCCEEDS, { country: 'GB' }),
  pm_card_us: card('visa', '4242'),
  pm_card_visa_chargeDeclined: card('visa', '0002', DECLINED),
  pm_card_visa_chargeDeclinedInsufficientFunds: card('visa', '9995', LACKS_FUNDS),
  pm_card_visa_chargeDeclinedLostCard: card('visa', '9987', declined('card_declined', 'lost_card')),
  pm_card_visa_chargeDeclinedStolenCard: card('visa', '9979', declined('card_declined', 'stolen_card')),
  pm_card_visa_chargeDeclinedFraudulent: card('visa', '0019', declined('card_declined', 'fraudulent')),
  pm_card_visa_chargeDeclinedVelocityLimitExceeded: card(
    'visa',
    '6975',
    declined('card_declined', 'card_velocity_exceeded', TOO_OFTEN),
  ),
  pm_card_visa_chargeDeclinedExpiredCard: card(
    'visa',
    '0069',
    declined('expired_card', 'expired_card', 'Your card has expired.'),
  ),
  pm_card_visa_chargeDeclinedIncorrectCvc: card(
    'visa',
    '0127',
    declined('incorrect_cvc', 'incorrect_cvc', "Your card's security code is incorrect."),
  ),
  pm_card_visa_chargeDeclinedProcessingError: card(
    'visa',
    '0119',
    declined(
      'processing_error',
      'processing_error',
      'An error occurred while processing your card. Try again in a little bit.',
    ),
  ),
  pm_card_chargeCustomerFail: card('visa', '0341', DECLINED),
  pm_card_radarBlock: card('visa', '0019', declined('card_declined', 'fraudulent')),
  pm_card_authenticationRequired: card('visa', '3184', ASKS),
  pm_card_threeDSecure2Required: card('visa', '3220', ASKS),
  pm_card_threeDSecureRequired: card('visa', '3063', ASKS),
};

export function testCard(name: string): TestCard | undefined {
  const known = Object.hasOwn(CARDS, name)
    ? name
    : name.replace(/^pm_card_(?=chargeDeclined)/, 'pm_card_visa_');
  return Object.hasOwn(CARDS, known) ? CARDS[known] : undefined;
}

export function requireCard(name: string): TestCard {
  const found = testCard(name);
  if (found) return found;
  throw noSuch('PaymentMethod', name, 'payment_method', 400);
}
