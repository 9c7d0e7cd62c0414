/** A small seeded generator (mulberry32): the same seed gives the same run on every machine. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface Dice {
  /** From 0 up to, and not including, `end`. */
  below(end: number): number;
  chance(probability: number): boolean;
  pick<T>(options: readonly T[]): T;
}

export function dice(seed: number): Dice {
  const random = seededRandom(seed);
  const below = (end: number) => Math.floor(random() * end);
  return {
    below,
    chance: (probability) => random() < probability,
    pick(options) {
      if (options.length === 0) throw new RangeError('there is nothing to pick from');
      return options[below(options.length)] as (typeof options)[number]; // It may be an option called undefined.
    },
  };
}
