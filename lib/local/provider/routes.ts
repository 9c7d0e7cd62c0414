import type { Books } from './books.ts';
import type { Command } from './command.ts';
import type { Params } from './form.ts';
import { cancelIntent, confirmIntent, createIntent } from './intents.ts';
import { listCharges, listEvents, listIntents, listRefunds, type Read } from './listing.ts';
import { readParams } from './params.ts';
import { createRefund } from './refunds.ts';
import { noSuch } from './refusal.ts';
import { searchIntents } from './search.ts';
import { wireCharge, wireEvent, wireIntent, wireRefund } from './wire.ts';

export type Route =
  | { readonly kind: 'read'; readonly read: Read; readonly isSearch?: true }
  | { readonly kind: 'command'; readonly understand: (params: Params) => Command };

type RouteOf = (id: string) => Route;

const reading = (read: Read): Route => ({ kind: 'read', read });

function retrieving(what: string, param: string, find: (books: Books, id: string) => object | undefined) {
  return (id: string): Route =>
    reading((params, books) => {
      readParams(params, param === 'intent' ? ['client_secret'] : [], ['expand']);
      const found = find(books, id);
      if (found) return found;
      throw noSuch(what, id, param, 404);
    });
}

/** `{id}` stands for one segment of the path. The first that fits is taken. */
const ROUTES: readonly (readonly [string, RouteOf])[] = [
  ['GET /v1/payment_intents', () => reading(listIntents)],
  ['GET /v1/payment_intents/search', () => ({ kind: 'read', read: searchIntents, isSearch: true })],
  [
    'GET /v1/payment_intents/{id}',
    retrieving('payment_intent', 'intent', ({ intents }, id) => written(intents.get(id), wireIntent)),
  ],
  ['POST /v1/payment_intents', () => ({ kind: 'command', understand: createIntent })],
  [
    'POST /v1/payment_intents/{id}/confirm',
    (id) => ({ kind: 'command', understand: (params) => confirmIntent(params, id) }),
  ],
  [
    'POST /v1/payment_intents/{id}/cancel',
    (id) => ({ kind: 'command', understand: (params) => cancelIntent(params, id) }),
  ],
  ['POST /v1/refunds', () => ({ kind: 'command', understand: createRefund })],
  ['GET /v1/refunds', () => reading(listRefunds)],
  [
    'GET /v1/refunds/{id}',
    retrieving('refund', 'id', ({ refunds }, id) => written(refunds.get(id), wireRefund)),
  ],
  ['GET /v1/charges', () => reading(listCharges)],
  [
    'GET /v1/charges/{id}',
    retrieving('charge', 'id', ({ charges }, id) => written(charges.get(id), wireCharge)),
  ],
  ['GET /v1/events', () => reading(listEvents)],
  [
    'GET /v1/events/{id}',
    retrieving('event', 'id', (books, id) => written(books.events.get(id), (e) => wireEvent(e, books))),
  ],
];

function written<T>(item: T | undefined, wire: (item: T) => object): object | undefined {
  return item && wire(item);
}

const PATTERNS = ROUTES.map(([route, routeOf]) => {
  const pattern = route.replaceAll('{id}', '([^/]+)');
  return { pattern: new RegExp(`^${pattern}$`), routeOf };
});

export function routeOf(method: string, path: string): Route | undefined {
  for (const { pattern, routeOf } of PATTERNS) {
    const match = pattern.exec(`${method} ${path}`);
    if (match) return routeOf(match[1] ?? '');
  }
  return undefined;
}
