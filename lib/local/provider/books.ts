import type { Charge, Entry, Intent, ProviderEvent, Refund, Remembered, Shown } from './records.ts';
import { type Shelf, shelf } from './shelf.ts';

/** Everything that has happened, as the entries tell it. */
export interface Books {
  readonly intents: Shelf<Intent>;
  readonly charges: Shelf<Charge>;
  readonly refunds: Shelf<Refund>;
  readonly events: Shelf<ProviderEvent>;
  /** The number of the next entry. */
  next(): number;
  /** Throws where the entry does not follow from those before. */
  enter(entry: Entry): void;
  /** The object as it was when it was shown. */
  shown(shown: Shown): Intent | Charge | Refund;
  remembered(key: string, at: number): Remembered | undefined;
  /** Events that nobody has taken yet. */
  untold(): readonly ProviderEvent[];
  isUntold(event: string): boolean;
}

/** "You can remove keys from the system automatically after they're at least 24 hours old." */
const KEYS_KEPT_MS = 24 * 3_600_000;

export function emptyBooks(): Books {
  const intents = shelf<Intent>();
  const charges = shelf<Charge>();
  const refunds = shelf<Refund>();
  const events = shelf<ProviderEvent>();
  const untold = new Map<string, ProviderEvent>();
  /** In the order in which they came, so that those that expire are at the front. */
  const keys = new Map<string, Remembered>();
  let next = 1;

  function remember(remembered: Remembered): void {
    for (const { key, at } of keys.values()) {
      if (at + KEYS_KEPT_MS > remembered.at) break;
      keys.delete(key);
    }
    keys.delete(remembered.key);
    keys.set(remembered.key, remembered);
  }

  function find({ kind, id, version }: Shown): Intent | Charge | Refund | undefined {
    switch (kind) {
      case 'intent':
        return intents.get(id, version);
      case 'charge':
        return charges.get(id, version);
      case 'refund':
        return refunds.get(id, version);
      default:
        return kind satisfies never;
    }
  }

  return {
    ...{ intents, charges, refunds, events },
    next: () => next,
    enter(entry) {
      if (entry.n !== next) throw new TypeError(`It is number ${entry.n}, and ${next} is the next.`);
      next += 1;
      if (entry.intent) intents.put(entry.intent);
      if (entry.charge) charges.put(entry.charge);
      if (entry.refund) refunds.put(entry.refund);
      if (entry.event) {
        events.put(entry.event);
        if (entry.event.isSent) untold.set(entry.event.id, entry.event);
      }
      if (entry.told !== undefined) untold.delete(entry.told);
      if (entry.remembered) remember(entry.remembered);
    },
    shown(wanted) {
      const found = find(wanted);
      if (found) return found;
      throw new TypeError(`There is no version ${wanted.version} of ${wanted.id} in the books.`);
    },
    remembered(key, at) {
      const found = keys.get(key);
      return found && found.at + KEYS_KEPT_MS > at ? found : undefined;
    },
    untold: () => [...untold.values()],
    isUntold: (event) => untold.has(event),
  };
}
