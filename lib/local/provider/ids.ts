const LETTERS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

export function randomLetters(random: () => number, length: number): string {
  return Array.from({ length }, () => LETTERS[Math.floor(random() * LETTERS.length)]).join('');
}

/** Makes `pi_3…`, `ch_3…` and the like. */
export type NewId = (prefix: 'pi' | 'ch' | 'pm' | 're' | 'evt') => string;

/**
 * Ids that one entry of the journal needs. They carry its number: a random source that is seeded anew after a restart
 * would otherwise make the ids again that are already there.
 */
export function idsOfEntry(entry: number, random: () => number): NewId {
  let made = 0;
  return (prefix) => {
    made += 1;
    const ordinal = (entry * 8 + made).toString(36).padStart(8, '0');
    return `${prefix}_3${randomLetters(random, 15)}${ordinal}`;
  };
}
