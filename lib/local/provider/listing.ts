import type { Books } from './books.ts';
import type { Params } from './form.ts';
import { type ParamReader, readParams } from './params.ts';
import type { Charge, ProviderEvent, Refund, Versioned } from './records.ts';
import { invalidRequest, noSuch } from './refusal.ts';
import type { PageWanted, Shelf } from './shelf.ts';
import { wireCharge, wireEvent, wireIntent, wireRefund } from './wire.ts';

/** Answers a GET, from the books as they are. */
export type Read = (params: Params, books: Books, at: number) => object;

export const listIntents: Read = (params, { intents }) =>
  listed('/v1/payment_intents', 'payment_intent', intents, params, wireIntent);

export const listCharges: Read = (params, { charges }) =>
  listed('/v1/charges', 'charge', charges, params, wireCharge, {
    names: ['payment_intent'],
    where(read) {
      const intent = read.text('payment_intent');
      return (charge: Charge) => intent === undefined || charge.intent === intent;
    },
  });

export const listRefunds: Read = (params, { refunds }) =>
  listed('/v1/refunds', 'refund', refunds, params, wireRefund, {
    names: ['payment_intent', 'charge'],
    where(read) {
      const [intent, charge] = [read.text('payment_intent'), read.text('charge')];
      return (refund: Refund) =>
        (intent === undefined || refund.intent === intent) &&
        (charge === undefined || refund.charge === charge);
    },
  });

export const listEvents: Read = (params, books) =>
  listed('/v1/events', 'event', books.events, params, (event) => wireEvent(event, books), {
    names: ['type', 'types'],
    where(read) {
      const [type, types] = [read.text('type'), read.list('types')];
      return (event: ProviderEvent) =>
        (type === undefined || event.type === type) && (types?.includes(event.type) ?? true);
    },
  });

interface Filter<T> {
  readonly names: readonly string[];
  readonly where: (read: ParamReader) => (item: T) => boolean;
}

const PAGING = ['created', 'limit', 'starting_after', 'ending_before'];
const NOT_COVERED = ['expand', 'customer', 'customer_account', 'transfer_group', 'delivery_success'];

const LIMIT = 10;
const LIMIT_MAX = 100;

function listed<T extends Versioned>(
  url: string,
  what: string,
  items: Shelf<T>,
  params: Params,
  wire: (item: T) => object,
  filter?: Filter<T>,
) {
  const read = readParams(params, [...PAGING, ...(filter?.names ?? [])], NOT_COVERED);
  const [startingAfter, endingBefore] = [read.text('starting_after'), read.text('ending_before')];
  if (startingAfter !== undefined && endingBefore !== undefined) {
    throw invalidRequest('You may only specify one of these parameters: ending_before, starting_after.', {
      code: 'parameters_exclusive',
    });
  }
  const wanted: PageWanted<T> = {
    ...{ startingAfter, endingBefore, limit: readLimit(read), ...readCreated(read, params) },
    ...(filter && { where: filter.where(read) }),
  };
  const page = items.page(wanted);
  if (!page) {
    const param = startingAfter === undefined ? 'ending_before' : 'starting_after';
    throw noSuch(what, startingAfter ?? endingBefore ?? '', param, 400);
  }
  return { object: 'list', data: page.items.map(wire), has_more: page.hasMore, url };
}

export function readLimit(read: ParamReader): number {
  const limit = read.whole('limit') ?? LIMIT;
  if (limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw invalidRequest(
    limit < 1
      ? 'This value must be greater than or equal to 1.'
      : `This value must be less than or equal to ${LIMIT_MAX} (the limit param).`,
    { code: 'parameter_invalid_integer', param: 'limit' },
  );
}

/** Either the second itself, or from when to when. */
function readCreated(read: ParamReader, params: Params): { readonly from?: number; readonly to?: number } {
  if (typeof params.get('created') === 'string') {
    const at = read.requireWhole('created');
    return { from: at, to: at };
  }
  const inside = readParams(read.object('created') ?? new Map(), ['gt', 'gte', 'lt', 'lte']);
  const [gt, lt] = [inside.whole('gt'), inside.whole('lt')];
  const froms = [inside.whole('gte') ?? 0, gt === undefined ? 0 : gt + 1];
  const tos = [inside.whole('lte'), lt === undefined ? undefined : lt - 1].filter((to) => to !== undefined);
  return { from: Math.max(...froms), ...(tos.length > 0 && { to: Math.min(...tos) }) };
}
