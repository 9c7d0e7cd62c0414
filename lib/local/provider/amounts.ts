import { invalidRequest } from './refusal.ts';

/** What Stripe takes, in the order of the alphabet. */
const CURRENCIES: readonly string[] =
  `aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf clp cny cop crc
  cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk jmd jod jpy kes kgs
  khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn nio nok npr nzd omr
  pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp sle sos srd std szl thb tjs tnd top try ttd twd tzs
  uah ugx usd uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw`.split(/\s+/);

/** In the smallest unit. Of the others Stripe asks for the worth of half a dollar, which changes by the day: here for anything. */
const LEAST: Readonly<Record<string, number>> = {
  ...{ usd: 50, aed: 200, aud: 50, bgn: 100, brl: 50, cad: 50, chf: 50, czk: 1_500, dkk: 250, eur: 50 },
  ...{ gbp: 30, hkd: 400, huf: 17_500, inr: 50, jpy: 50, mxn: 1_000, myr: 200, nok: 300, nzd: 50 },
  ...{ pln: 200, ron: 200, sek: 300, sgd: 50, thb: 1_000 },
};

/** Eight digits. */
const MOST = 99_999_999;

const WITHOUT_DECIMALS = 'bif clp djf gnf jpy kmf krw mga pyg rwf ugx vnd vuv xaf xof xpf'.split(' ');
const WITH_THREE_DECIMALS = 'bhd jod kwd omr tnd'.split(' ');

export function requireCurrency(text: string): string {
  const currency = text.toLowerCase();
  if (CURRENCIES.includes(currency)) return currency;
  throw invalidRequest(
    `Invalid currency: ${currency}. Stripe currently supports these currencies: ${CURRENCIES.join(', ')}`,
    { param: 'currency' },
  );
}

export function requireAmount(amount: number, currency: string): number {
  if (amount < 1) throw notPositive('amount');
  const least = LEAST[currency] ?? 1;
  if (amount < least) {
    throw invalidRequest(`Amount must be at least ${money(least, currency)} ${currency}`, {
      code: 'amount_too_small',
      param: 'amount',
    });
  }
  if (amount > MOST) {
    throw invalidRequest(`Amount must be no more than ${money(MOST, currency)}`, {
      code: 'amount_too_large',
      param: 'amount',
    });
  }
  return amount;
}

export function notPositive(param: string) {
  return invalidRequest('This value must be greater than or equal to 1.', {
    code: 'parameter_invalid_integer',
    param,
  });
}

export function money(amount: number, currency: string): string {
  const decimals = WITHOUT_DECIMALS.includes(currency) ? 0 : WITH_THREE_DECIMALS.includes(currency) ? 3 : 2;
  return new Intl.NumberFormat('en-US', {
    ...{ style: 'currency', currency },
    ...{ minimumFractionDigits: decimals, maximumFractionDigits: decimals },
  }).format(amount / 10 ** decimals);
}
