import type { Versioned } from './records.ts';

/** All objects of one kind with all their versions, in the order in which Stripe lists them. */
export interface Shelf<T extends Versioned> {
  put(item: T): void;
  /** As it is now, or as it was. */
  get(id: string, version?: number): T | undefined;
  versions(id: string): readonly T[];
  /** As they are now. */
  oldestFirst(): readonly T[];
  /** Undefined if there is a cursor that names nothing. */
  page(wanted: PageWanted<T>): Page<T> | undefined;
}

export interface PageWanted<T> {
  readonly limit: number;
  readonly startingAfter?: string | undefined;
  readonly endingBefore?: string | undefined;
  /** In seconds, both included. */
  readonly from?: number;
  readonly to?: number;
  readonly where?: (item: T) => boolean;
}

interface Page<T> {
  /** Newest first. */
  readonly items: readonly T[];
  readonly hasMore: boolean;
}

interface Place {
  readonly id: string;
  readonly created: number;
  readonly arrival: number;
}

export function shelf<T extends Versioned>(): Shelf<T> {
  const all = new Map<string, { readonly place: Place; readonly versions: T[] }>();
  /** Oldest first. A clock that was set back puts newcomers between those that are there. */
  const places: Place[] = [];

  function latest(id: string): T | undefined {
    return all.get(id)?.versions.at(-1);
  }

  function arrive(item: T): void {
    const place = { id: item.id, created: item.created, arrival: all.size };
    all.set(item.id, { place, versions: [item] });
    const newest = places.at(-1);
    if (!newest || newest.created <= item.created) places.push(place);
    else places.splice(firstFrom(item.created + 1), 0, place);
  }

  /** Where those begin that were created then or later. */
  function firstFrom(created: number, arrival = 0): number {
    let [low, high] = [0, places.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const place = places[middle];
      const isBefore =
        place && (place.created < created || (place.created === created && place.arrival < arrival));
      if (isBefore) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function positionOf(id: string): number | undefined {
    const place = all.get(id)?.place;
    return place && firstFrom(place.created, place.arrival);
  }

  function collect(positions: Iterable<number>, { limit, where }: PageWanted<T>): Page<T> {
    const items: T[] = [];
    for (const position of positions) {
      const item = latest(places[position]?.id ?? '');
      if (!item || (where && !where(item))) continue;
      if (items.length === limit) return { items, hasMore: true };
      items.push(item);
    }
    return { items, hasMore: false };
  }

  return {
    put(item) {
      const there = all.get(item.id)?.versions;
      const version = there?.length ?? 0;
      if (item.version !== version) {
        throw new TypeError(
          `${item.id} has version ${item.version}, and version ${version} is the next of it.`,
        );
      }
      if (there) there.push(item);
      else arrive(item);
    },
    get: (id, version) => (version === undefined ? latest(id) : all.get(id)?.versions[version]),
    versions: (id) => all.get(id)?.versions ?? [],
    oldestFirst: () => places.flatMap(({ id }) => latest(id) ?? []),
    page(wanted) {
      const { startingAfter, endingBefore, from = 0, to = Number.MAX_SAFE_INTEGER - 1 } = wanted;
      const after = startingAfter === undefined ? places.length : positionOf(startingAfter);
      const before = endingBefore === undefined ? -1 : positionOf(endingBefore);
      if (after === undefined || before === undefined) return undefined;
      const low = Math.max(firstFrom(from), before + 1);
      const high = Math.min(firstFrom(to + 1), after);
      if (endingBefore === undefined) return collect(downwards(low, high), wanted);
      const { items, hasMore } = collect(upwards(low, high), wanted);
      return { items: items.toReversed(), hasMore };
    },
  };
}

function* upwards(low: number, high: number): Generator<number> {
  for (let position = low; position < high; position += 1) yield position;
}

function* downwards(low: number, high: number): Generator<number> {
  for (let position = high - 1; position >= low; position -= 1) yield position;
}
