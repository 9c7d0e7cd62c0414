import type { StandardSchema } from '../../lib/index.ts';

/** What all three POSTs take. */
export interface ChargeRequest {
  readonly customerId: string;
  /** In the currency's smallest unit: cents, or yen. */
  readonly amount: number;
  /** ISO 4217 in capitals, as the standard writes it; one spelling, so that one request has one body. */
  readonly currency: string;
  readonly description?: string;
  /** The caller's own name for it, such as the number of an invoice. */
  readonly reference?: string;
  readonly paymentMethod?: string;
}

interface Issue {
  readonly message: string;
  readonly path: readonly string[];
}

/** Says what is wrong with a value, or nothing. */
type Rule = (value: unknown) => string | undefined;

/** Stripe takes eight digits at the most. */
const AMOUNT_MAX = 99_999_999;

/** A problem lists so many unknown fields by name; a body of a million of them is answered briefly. */
const UNKNOWN_MAX = 20;

const CURRENCIES: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));

const REQUIRED: Readonly<Record<string, Rule>> = {
  customerId: text(64),
  amount: (value) =>
    Number.isSafeInteger(value) && Number(value) >= 1 && Number(value) <= AMOUNT_MAX
      ? undefined
      : `Expected a whole number from 1 to ${AMOUNT_MAX}, in the currency's smallest unit.`,
  currency: (value) =>
    typeof value === 'string' && CURRENCIES.has(value)
      ? undefined
      : 'Expected a currency of ISO 4217 in capitals, such as "EUR".',
};

const OPTIONAL: Readonly<Record<string, Rule>> = {
  description: text(200),
  reference: text(64),
  paymentMethod: (value) =>
    typeof value === 'string' && /^pm_\w{1,64}$/.test(value)
      ? undefined
      : 'Expected a payment method of the provider, such as "pm_card_visa".',
};

/**
 * A Standard Schema, written by hand: three fields and three more are no reason for a library in every bundle. It tells of
 * all faults at once, so that nobody has to find them one by one.
 */
export const chargeRequest: StandardSchema = {
  '~standard': {
    version: 1,
    validate(value) {
      const issues = issuesOf(value);
      return issues.length === 0 ? { value } : { issues };
    },
  },
};

function issuesOf(value: unknown): readonly Issue[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return [{ path: [], message: 'Expected an object with customerId, amount and currency.' }];
  }
  const fields = new Map<string, unknown>(Object.entries(value));
  const missing = Object.keys(REQUIRED).filter((name) => !fields.has(name));
  const unknown: string[] = [];
  const wrong: Issue[] = [];
  for (const [name, field] of fields) {
    const rule = ruleOf(name);
    if (!rule) unknown.push(name);
    const message = rule?.(field);
    if (message !== undefined) wrong.push({ path: [name], message });
  }
  return [
    ...missing.map((name) => ({ path: [name], message: 'It is required.' })),
    ...wrong,
    ...refused(unknown),
  ];
}

function ruleOf(name: string): Rule | undefined {
  if (Object.hasOwn(REQUIRED, name)) return REQUIRED[name];
  return Object.hasOwn(OPTIONAL, name) ? OPTIONAL[name] : undefined;
}

/** A field that is not known may be a known one misspelt: to pass over it would be to charge something else. */
function refused(names: readonly string[]): Issue[] {
  const known = [...Object.keys(REQUIRED), ...Object.keys(OPTIONAL)].join(', ');
  const listed = names.slice(0, UNKNOWN_MAX).map((name) => ({
    path: [name.slice(0, 64)],
    message: `There is no such field; there are ${known}.`,
  }));
  const more = names.length - listed.length;
  return more > 0 ? [...listed, { path: [], message: `${more} more fields are not known.` }] : listed;
}

/** Without line breaks and other controls, which end up on statements, and without halves of characters. */
function text(most: number): Rule {
  return (value) =>
    typeof value === 'string' &&
    value.trim() !== '' &&
    value.length <= most &&
    value.isWellFormed() &&
    !/\p{Cc}/u.test(value)
      ? undefined
      : `Expected a text of 1 to ${most} characters in one line.`;
}

/** The body of a request that has passed: the middleware has validated it before the handler runs. */
export function requestIn(event: {
  readonly body?: string;
  readonly isBase64Encoded?: boolean;
}): ChargeRequest {
  const encoding = event.isBase64Encoded ? 'base64' : 'utf8';
  return JSON.parse(Buffer.from(event.body ?? '', encoding).toString('utf8')) as ChargeRequest;
}
