import type { Books } from './books.ts';
import type { Params } from './form.ts';
import { readLimit } from './listing.ts';
import { readParams } from './params.ts';
import type { Intent } from './records.ts';
import { invalidRequest } from './refusal.ts';
import { wireIntent } from './wire.ts';

const CLAUSES_MAX = 10;

/** Of the query language: exact matches, all of which must hold. */
const CLAUSE =
  /^\s*(?:metadata\[(?<key>"[^"]*"|'[^']*')\]|(?<field>\w+)):(?<value>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')/;
const AND = /^\s+AND\s+/i;

type Matches = (intent: Intent) => boolean;

/**
 * GET /v1/payment_intents/search, as of `at`: what came or changed later is not seen, or seen as it was before. Stripe's own
 * index lags like that, by up to a minute.
 */
export function searchIntents(params: Params, { intents }: Books, at: number): object {
  const read = readParams(params, ['query', 'limit', 'page'], ['expand']);
  const matches = readQuery(read.requireText('query'));
  const limit = readLimit(read);
  const page = read.text('page');
  const found = intents
    .oldestFirst()
    .toReversed()
    .flatMap(({ id }) => intents.versions(id).findLast(({ changedAt }) => changedAt <= at) ?? [])
    .filter(matches);
  const from = page === undefined ? 0 : positionAfter(found, page);
  const data = found.slice(from, from + limit);
  const hasMore = from + limit < found.length;
  return {
    object: 'search_result',
    data: data.map(wireIntent),
    has_more: hasMore,
    next_page: hasMore ? pageAfter(data) : null,
    url: '/v1/payment_intents/search',
  };
}

/** Opaque to clients, as Stripe's are. */
function pageAfter(data: readonly Intent[]): string {
  return Buffer.from(data.at(-1)?.id ?? '').toString('base64url');
}

function positionAfter(found: readonly Intent[], page: string): number {
  const last = Buffer.from(page, 'base64url').toString('utf8');
  const position = found.findIndex(({ id }) => id === last);
  if (position >= 0) return position + 1;
  throw invalidRequest(`Invalid page: ${page} is the next_page of no search for the same query.`, {
    param: 'page',
  });
}

function readQuery(query: string): Matches {
  const clauses: Matches[] = [];
  for (let rest = query; ; ) {
    const match = CLAUSE.exec(rest);
    if (!match) throw unreadable(query, rest);
    clauses.push(clauseOf(match.groups ?? {}, query));
    rest = rest.slice(match[0].length);
    if (rest.trim() === '') break;
    const and = AND.exec(rest);
    if (!and) throw unreadable(query, rest);
    rest = rest.slice(and[0].length);
  }
  if (clauses.length > CLAUSES_MAX) {
    throw invalidRequest(`A query has up to ${CLAUSES_MAX} clauses; yours has ${clauses.length}.`, {
      param: 'query',
    });
  }
  return (intent) => clauses.every((matches) => matches(intent));
}

function clauseOf({ key, field, value = '' }: Readonly<Record<string, string | undefined>>, query: string) {
  const wanted = unquoted(value).toLowerCase();
  if (key !== undefined) {
    const name = key.slice(1, -1);
    return ({ metadata }: Intent) =>
      Object.hasOwn(metadata, name) && metadata[name]?.toLowerCase() === wanted;
  }
  switch (field) {
    case 'status':
      return ({ status }: Intent) => status === wanted;
    case 'currency':
      return ({ currency }: Intent) => currency === wanted;
    default:
      throw unreadable(query, `${field}:`);
  }
}

function unquoted(text: string): string {
  return text.slice(1, -1).replace(/\\(.)/g, '$1');
}

function unreadable(query: string, rest: string) {
  return invalidRequest(
    `We were unable to parse your search query at ${JSON.stringify(rest.slice(0, 40))}. The local payment provider reads metadata['key']:'value', status:'…' and currency:'…', joined by AND; your query is: ${query}`,
    { param: 'query' },
  );
}
